//! Syntax of the query language.

mod ast;
mod atoms;
mod expression;
mod problem;
mod query;
mod source;
mod tokens;

pub use ast::QueryType;
pub(crate) use ast::{Command, Expression, ExpressionKind, Lambda, NamedExpression, Operator, ParsedQuery, Source};
pub(crate) use atoms::FILE_FIELDS;
pub(crate) use query::parse;

/// Limit of a query in bytes.
pub(crate) const MAX_BYTES: usize = 64 << 10;

/// Limit of nested parentheses, lists, calls and lambdas.
pub(crate) const MAX_DEPTH: usize = 48;
