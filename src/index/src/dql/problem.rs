//! Errors in queries, with their position.

use winnow::Parser as _;
use winnow::error::{ErrMode, ParserError};
use winnow::stream::Location;

use super::lexemes::LexerInput;

/// Minimum similarity (Jaro-Winkler) of a suggested name.
const MIN_SIMILARITY: f64 = 0.8;

const EXCERPT_CHARS: usize = 40;

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
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let message = if self.message.is_empty() { "syntax error" } else { &self.message };
        format!("line {line}, column {column}: {message}")
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

/// An excerpt of a query for messages, without control characters.
pub(crate) fn excerpt(source: &str) -> String {
    let mut text: String = svcfs_base::escape_unprintable(&source.chars().take(EXCERPT_CHARS).collect::<String>());
    if source.chars().nth(EXCERPT_CHARS).is_some() {
        text.push('…');
    }
    text
}

/// `; did you mean …?`, if one of the names is similar.
pub(crate) fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    nearest(given, names).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// The most similar name, if one is similar.
pub(crate) fn nearest<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let given: String = given.chars().take(EXCERPT_CHARS).collect::<String>().to_lowercase();
    let similarity = |name: &str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let near =
        names.into_iter().map(|name| (similarity(name), name)).filter(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    near.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, name)| name)
}
