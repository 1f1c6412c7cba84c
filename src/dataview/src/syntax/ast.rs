//! Syntax tree of a query.

use std::sync::Arc;

use crate::functions::Function;
use crate::time::DateWord;
use crate::value::{Link, Value};

#[derive(Debug, Clone)]
pub(crate) struct ParsedQuery {
    pub(crate) kind: QueryType,
    pub(crate) without_id: bool,
    pub(crate) columns: Vec<NamedExpression>,
    pub(crate) source: Option<Source>,
    /// In the order in which they are executed.
    pub(crate) commands: Vec<Command>,
}

/// The type of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryType {
    /// Columns of pages or groups.
    Table,
    /// Pages or groups with one additional value.
    List,
    /// Tasks.
    Task,
    /// Pages by date.
    Calendar,
}

#[derive(Debug, Clone)]
pub(crate) struct NamedExpression {
    pub(crate) name: Arc<str>,
    pub(crate) expression: Expression,
}

#[derive(Debug, Clone)]
pub(crate) enum Command {
    Where(Expression),
    /// Expressions, and whether they sort in descending order.
    Sort(Vec<(Expression, bool)>),
    Group(NamedExpression),
    Flatten(NamedExpression),
    Limit(Expression),
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    Tag(String),
    /// A folder, or a page without or with extension.
    Path(String),
    LinksTo(Link),
    LinksFrom(Link),
    Not(Box<Source>),
    /// Operands with the operator before each but the first, from left to right.
    Chain(Box<Source>, Vec<(bool, Source)>),
}

#[derive(Debug, Clone)]
pub(crate) struct Expression {
    pub(crate) kind: ExpressionKind,
    /// Its first byte in the query.
    pub(crate) start: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum ExpressionKind {
    Literal(Value),
    /// A link; with an empty path to the page of the query.
    Link(Link),
    DateWord(DateWord),
    /// A date without a zone; it is read in the zone of the vault.
    DateText(String),
    Variable(Arc<str>),
    List(Vec<Expression>),
    Object(Vec<(String, Expression)>),
    Index(Box<Expression>, Box<Expression>),
    Call(&'static Function, Vec<Expression>),
    Lambda(Arc<Lambda>),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    /// Operands from left to right. A list instead of a tree, so that a long chain is not deep.
    Chain(Box<Expression>, Vec<(Operator, Expression)>),
}

#[derive(Debug)]
pub(crate) struct Lambda {
    pub(crate) parameters: Vec<Arc<str>>,
    pub(crate) body: Expression,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Operator {
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::And => "and",
            Self::Or => "or",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

impl Source {
    /// Whether tags, or else links of pages, are read to select pages.
    pub(crate) fn reads(&self, tags: bool) -> bool {
        match self {
            Self::Tag(_) => tags,
            Self::LinksFrom(_) => !tags,
            Self::Path(_) | Self::LinksTo(_) => false,
            Self::Not(inner) => inner.reads(tags),
            Self::Chain(first, rest) => first.reads(tags) || rest.iter().any(|(_, source)| source.reads(tags)),
        }
    }
}

impl Expression {
    /// Calls the visitor for this expression and all parts.
    pub(crate) fn visit<'e>(&'e self, visitor: &mut impl FnMut(&'e Self)) {
        visitor(self);
        match &self.kind {
            ExpressionKind::Literal(_)
            | ExpressionKind::Link(_)
            | ExpressionKind::DateWord(_)
            | ExpressionKind::DateText(_)
            | ExpressionKind::Variable(_) => {}
            ExpressionKind::List(items) | ExpressionKind::Call(_, items) => {
                items.iter().for_each(|item| item.visit(visitor));
            }
            ExpressionKind::Object(members) => members.iter().for_each(|(_, item)| item.visit(visitor)),
            ExpressionKind::Index(object, key) => {
                object.visit(visitor);
                key.visit(visitor);
            }
            ExpressionKind::Lambda(lambda) => lambda.body.visit(visitor),
            ExpressionKind::Not(inner) | ExpressionKind::Negative(inner) => inner.visit(visitor),
            ExpressionKind::Chain(first, rest) => {
                first.visit(visitor);
                rest.iter().for_each(|(_, item)| item.visit(visitor));
            }
        }
    }
}

impl ParsedQuery {
    pub(crate) fn visit_expressions<'q>(&'q self, visitor: &mut impl FnMut(&'q Expression)) {
        for column in &self.columns {
            column.expression.visit(visitor);
        }
        for command in &self.commands {
            match command {
                Command::Where(expression) | Command::Limit(expression) => expression.visit(visitor),
                Command::Sort(keys) => keys.iter().for_each(|(expression, _)| expression.visit(visitor)),
                Command::Group(named) | Command::Flatten(named) => named.expression.visit(visitor),
            }
        }
    }
}
