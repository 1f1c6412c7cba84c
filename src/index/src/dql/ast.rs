//! Syntax tree of a query.

use std::ops::Range;
use std::sync::Arc;

use super::functions::Function;
use super::lexemes::ValueStep;
use super::refine::ColumnSummary;
use crate::VisiblePages;
use crate::value::Value;

#[derive(Debug, Clone)]
pub(crate) struct ParsedQuery {
    /// The text, for positions in messages; empty for a query that was built.
    pub(crate) text: String,
    pub(crate) mode: QueryMode,
    pub(crate) without_id: bool,
    pub(crate) columns: Vec<NamedColumn>,
    pub(crate) source: Option<PageSource>,
    pub(crate) conditions: Vec<ExpressionNode>,
    pub(crate) sort: Vec<(ExpressionNode, bool)>,
    pub(crate) group: Option<NamedColumn>,
    pub(crate) flatten: Vec<NamedColumn>,
    pub(crate) limit: Option<u64>,
    pub(crate) offset: Option<u64>,
    /// Return all groups, and put a page into the group of each item of a list.
    pub(crate) is_unpaginated: bool,
    pub(crate) summaries: Vec<(usize, ColumnSummary)>,
}

/// The mode of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryMode {
    /// Fields of pages, one row per page.
    Table,
    /// Pages, one row per page, followed by fields.
    List,
    /// The number of pages.
    Count,
    /// The distinct values of a field.
    Distinct,
    /// The tasks of pages, one row per task.
    Task,
    /// Pages by date.
    Calendar,
    /// Like a table, for programs.
    Json,
}

impl QueryMode {
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("TABLE", Self::Table),
        ("LIST", Self::List),
        ("COUNT", Self::Count),
        ("DISTINCT", Self::Distinct),
        ("TASK", Self::Task),
        ("CALENDAR", Self::Calendar),
        ("JSON", Self::Json),
    ];

    /// Its name in a result.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::List => "list",
            Self::Count => "count",
            Self::Distinct => "distinct",
            Self::Task => "task",
            Self::Calendar => "calendar",
            Self::Json => "json",
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct NamedColumn {
    pub(crate) name: String,
    pub(crate) node: ExpressionNode,
}

#[derive(Debug, Clone)]
pub(crate) enum PageSource {
    /// Those that the readers of the result may see.
    Visible(Arc<VisiblePages>),
    Prefix(String),
    Tag(String),
    Not(Box<PageSource>),
    All(Vec<PageSource>),
    Any(Vec<PageSource>),
}

#[derive(Debug, Clone)]
pub(crate) struct ExpressionNode {
    pub(crate) kind: Expression,
    pub(crate) span: Range<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Literal(Value),
    Field(Vec<ValueStep>),
    Call(Function, Vec<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Negative(Box<ExpressionNode>),
    /// Conjunction. A list instead of a tree, so that a long chain is not deep.
    All(Vec<ExpressionNode>),
    Any(Vec<ExpressionNode>),
    Chain(Box<ExpressionNode>, Vec<(Arithmetic, ExpressionNode)>),
    Compare(Comparison, Box<ExpressionNode>, Box<ExpressionNode>),
    Like(Box<ExpressionNode>, Box<ExpressionNode>, NegationSense),
    In(Box<ExpressionNode>, Vec<ExpressionNode>, NegationSense),
    Between(Box<ExpressionNode>, Box<(ExpressionNode, ExpressionNode)>, NegationSense),
    IsNull(Box<ExpressionNode>, NegationSense),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NegationSense {
    Plain,
    Negated,
}

/// Operators on numbers, dates, spans and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Operators that return a boolean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) const fn swapped(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            Self::Equal | Self::NotEqual => self,
        }
    }
}

impl ExpressionNode {
    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            Expression::Literal(_) | Expression::Field(_) => Vec::new(),
            Expression::Call(_, nodes) | Expression::All(nodes) | Expression::Any(nodes) => nodes.iter().collect(),
            Expression::Not(node) | Expression::Negative(node) | Expression::IsNull(node, _) => vec![node],
            Expression::Chain(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, node)| node)).collect()
            }
            Expression::Compare(_, a, b) | Expression::Like(a, b, _) => vec![a, b],
            Expression::In(node, nodes, _) => std::iter::once(&**node).chain(nodes).collect(),
            Expression::Between(node, ends, _) => vec![node, &ends.0, &ends.1],
        }
    }

    pub(crate) fn visit<'n>(&'n self, visitor: &mut impl FnMut(&'n Self)) {
        visitor(self);
        for child in self.children() {
            child.visit(visitor);
        }
    }

    pub(crate) fn has_aggregate(&self) -> bool {
        let mut is_aggregate = false;
        self.visit(&mut |node| {
            if let Expression::Call(function, arguments) = &node.kind {
                is_aggregate |= function.is_aggregate(arguments.len());
            }
        });
        is_aggregate
    }
}
