//! Errors in queries, with their position.

use winnow::Parser as _;
use winnow::error::{ErrMode, ParserError};
use winnow::stream::Location;

use super::lexemes::LexerInput;

/// Minimum similarity (Jaro-Winkler) of a suggested name.
const LIKENESS: f64 = 0.8;

/// Limit of excerpts in messages, in characters.
const SHOWN: usize = 40;

/// An error at a position of the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QueryProblem {
    /// Byte offset.
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl QueryProblem {
    pub(crate) fn at(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// The message, with line and column (in characters, from 1).
    pub(crate) fn told(&self, text: &str) -> String {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let what = if self.what.is_empty() { "this cannot be read" } else { &self.what };
        format!("line {line}, column {column}: {what}")
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

/// Result of a grammar rule.
pub(crate) type Outcome<T> = winnow::ModalResult<T, QueryProblem>;

/// Fails at the current position.
pub(crate) fn refuse<T>(input: &LexerInput<'_>, what: impl Into<String>) -> Outcome<T> {
    Err(ErrMode::Cut(QueryProblem::at(input.current_token_start(), what)))
}

/// Fails at the current position because something else was expected.
pub(crate) fn expected<T>(input: &LexerInput<'_>, wanted: &str) -> Outcome<T> {
    refuse(input, format!("expected {wanted}, found {}", found(input)))
}

/// The next word, for messages.
pub(crate) fn found(input: &LexerInput<'_>) -> String {
    let mut rest = *input;
    let whole: Outcome<&str> = winnow::token::rest.parse_next(&mut rest);
    let text = whole.unwrap_or("");
    match text.split_whitespace().next() {
        None => "the end of the query".to_owned(),
        Some(word) => format!("`{}`", shown(word)),
    }
}

/// An excerpt of a query for messages, without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = svcfs_base::escape_unprintable(&text.chars().take(SHOWN).collect::<String>());
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// `; did you mean …?`, if one of the names is similar.
pub(crate) fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let given: String = given.chars().take(SHOWN).collect::<String>().to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let near = names.into_iter().map(|name| (likeness(name), name)).filter(|(likeness, _)| *likeness >= LIKENESS);
    let nearest = near.max_by(|(one, _), (two, _)| one.total_cmp(two));
    nearest.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default()
}
