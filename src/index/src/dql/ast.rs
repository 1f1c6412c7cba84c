//! What a query is, once it is read.

use std::ops::Range;

use super::functions::Function;
use super::lexemes::ValueStep;
use super::refine::ColumnSummary;
use crate::value::Value;

/// A whole query.
#[derive(Debug, Clone)]
pub(crate) struct ParsedQuery {
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
    /// All groups are told, and a page is in the group of each item of a list.
    pub(crate) is_whole: bool,
    /// What is made of all cells of a column, by its place.
    pub(crate) summaries: Vec<(usize, ColumnSummary)>,
}

/// What kind of list a query makes (gaps.md 4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryMode {
    /// Fields of pages, one page a row.
    Table,
    /// Pages, one a row, with fields behind them.
    List,
    /// How many pages there are.
    Count,
    /// The different values of a field.
    Distinct,
    /// The tasks of pages, one task a row.
    Task,
    /// Pages by a date.
    Calendar,
    /// As a table, meant for programs.
    Json,
}

impl QueryMode {
    /// Every mode with its keyword.
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("TABLE", Self::Table),
        ("LIST", Self::List),
        ("COUNT", Self::Count),
        ("DISTINCT", Self::Distinct),
        ("TASK", Self::Task),
        ("CALENDAR", Self::Calendar),
        ("JSON", Self::Json),
    ];

    /// Its name in an answer.
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

/// An expression with the name it is shown by.
#[derive(Debug, Clone)]
pub(crate) struct NamedColumn {
    pub(crate) name: String,
    pub(crate) node: ExpressionNode,
}

/// Which pages a query looks at.
#[derive(Debug, Clone)]
pub(crate) enum PageSource {
    /// Those whose path begins like this.
    Prefix(String),
    /// Those with this tag.
    Tag(String),
    Not(Box<PageSource>),
    All(Vec<PageSource>),
    Any(Vec<PageSource>),
}

/// An expression and where it stands in the text.
#[derive(Debug, Clone)]
pub(crate) struct ExpressionNode {
    pub(crate) kind: Expression,
    pub(crate) span: Range<usize>,
}

/// What has a value.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Literal(Value),
    Field(Vec<ValueStep>),
    Call(Function, Vec<ExpressionNode>),
    Not(Box<ExpressionNode>),
    Negative(Box<ExpressionNode>),
    /// All are true. A list and no tree, so that a long chain is not deep.
    All(Vec<ExpressionNode>),
    /// One is true.
    Any(Vec<ExpressionNode>),
    /// From left to right.
    Chain(Box<ExpressionNode>, Vec<(Arithmetic, ExpressionNode)>),
    Compare(Comparison, Box<ExpressionNode>, Box<ExpressionNode>),
    Like(Box<ExpressionNode>, Box<ExpressionNode>, NegationSense),
    In(Box<ExpressionNode>, Vec<ExpressionNode>, NegationSense),
    Between(Box<ExpressionNode>, Box<(ExpressionNode, ExpressionNode)>, NegationSense),
    IsNull(Box<ExpressionNode>, NegationSense),
}

/// Whether NOT stands before an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NegationSense {
    Plain,
    Negated,
}

/// Operators between numbers, dates, lengths and texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Operators between values that give true or false.
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
    /// The comparison as it reads from the other side.
    pub(crate) const fn turned(self) -> Self {
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
    /// The nodes directly inside.
    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            Expression::Literal(_) | Expression::Field(_) => Vec::new(),
            Expression::Call(_, nodes) | Expression::All(nodes) | Expression::Any(nodes) => nodes.iter().collect(),
            Expression::Not(node) | Expression::Negative(node) | Expression::IsNull(node, _) => vec![node],
            Expression::Chain(first, rest) => {
                std::iter::once(&**first).chain(rest.iter().map(|(_, node)| node)).collect()
            }
            Expression::Compare(_, one, two) | Expression::Like(one, two, _) => vec![one, two],
            Expression::In(node, nodes, _) => std::iter::once(&**node).chain(nodes).collect(),
            Expression::Between(node, ends, _) => vec![node, &ends.0, &ends.1],
        }
    }

    /// Calls `look` with this node and every one inside.
    pub(crate) fn visit<'n>(&'n self, look: &mut impl FnMut(&'n Self)) {
        look(self);
        for child in self.children() {
            child.visit(look);
        }
    }

    /// Whether a function that makes one value of many rows stands in it.
    pub(crate) fn has_aggregate(&self) -> bool {
        let mut found = false;
        self.visit(&mut |node| {
            if let Expression::Call(function, arguments) = &node.kind {
                found |= function.is_aggregate(arguments.len());
            }
        });
        found
    }
}
