//! Errors in queries, with their position.

use winnow::Parser as _;
use winnow::error::{ErrMode, ParserError};
use winnow::stream::Location;

use super::lexemes::LexerInput;

pub(crate) use svcfs_base::excerpt;
use svcfs_base::message_at;

/// Minimum similarity (Jaro-Winkler) of a suggested name.
const MIN_SIMILARITY: f64 = 0.8;

/// An error at a position of the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryProblem {
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl QueryProblem {
    pub(crate) fn at(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }

    /// The message, with line and column (in characters, from 1).
    pub(crate) fn to_message(&self, text: &str) -> String {
        message_at(text, self.at, &self.message)
    }
}

impl<'i> ParserError<LexerInput<'i>> for QueryProblem {
    type Inner = Self;
    fn from_input(input: &LexerInput<'i>) -> Self {
        Self::at(input.current_token_start(), "")
    }
    fn or(self, other: Self) -> Self {
        if other.at >= self.at { other } else { self }
    }
    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

pub(crate) type Outcome<T> = winnow::ModalResult<T, QueryProblem>;

pub(crate) fn refuse<T>(input: &LexerInput<'_>, message: impl Into<String>) -> Outcome<T> {
    Err(ErrMode::Cut(QueryProblem::at(input.current_token_start(), message)))
}

/// Fails at the current position because something else was expected.
pub(crate) fn expected<T>(input: &LexerInput<'_>, wanted: &str) -> Outcome<T> {
    refuse(input, format!("expected {wanted}, found {}", next_token(input)))
}

pub(crate) fn next_token(input: &LexerInput<'_>) -> String {
    let mut rest = *input;
    let remaining: Outcome<&str> = winnow::token::rest.parse_next(&mut rest);
    let text = remaining.unwrap_or("");
    match text.split_whitespace().next() {
        None => "the end of the query".to_owned(),
        Some(word) => format!("`{}`", excerpt(word)),
    }
}

/// `; did you mean …?`, if one of the names is similar.
pub(crate) fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(given, names).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The most similar name, if one is similar.
pub(crate) fn nearest<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    svcfs_base::nearest_name(given, names, MIN_SIMILARITY)
}
