//! What is wrong with a query, and where.

use winnow::Parser as _;
use winnow::error::{ErrMode, ParserError};
use winnow::stream::Location;

use super::lexemes::LexerInput;

/// Names closer than this (Jaro-Winkler) are offered as what may have been meant.
const LIKENESS: f64 = 0.8;

/// Characters of a query that are shown in a message.
const SHOWN: usize = 40;

/// A refusal at one place of the text.
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

    /// The message: line and column (in characters, from 1) before what is wrong there.
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

/// What a rule of the grammar gives.
pub(crate) type Outcome<T> = winnow::ModalResult<T, QueryProblem>;

/// Refuses the query at the place reached.
pub(crate) fn refuse<T>(input: &LexerInput<'_>, what: impl Into<String>) -> Outcome<T> {
    Err(ErrMode::Cut(QueryProblem::at(input.current_token_start(), what)))
}

/// Refuses the query at the place reached, because something else had to come.
pub(crate) fn expected<T>(input: &LexerInput<'_>, wanted: &str) -> Outcome<T> {
    refuse(input, format!("expected {wanted}, found {}", found(input)))
}

/// What stands at the place reached, for a message.
pub(crate) fn found(input: &LexerInput<'_>) -> String {
    let mut rest = *input;
    let whole: Outcome<&str> = winnow::token::rest.parse_next(&mut rest);
    let text = whole.unwrap_or("");
    match text.split_whitespace().next() {
        None => "the end of the query".to_owned(),
        Some(word) => format!("`{}`", shown(word)),
    }
}

/// A piece of a query, short enough for a message, without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = svcfs_base::escape_unprintable(&text.chars().take(SHOWN).collect::<String>());
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// `; did you mean …?`, when one of the names is like the one given.
pub(crate) fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let given: String = given.chars().take(SHOWN).collect::<String>().to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let near = names.into_iter().map(|name| (likeness(name), name)).filter(|(likeness, _)| *likeness >= LIKENESS);
    let nearest = near.max_by(|(one, _), (two, _)| one.total_cmp(two));
    nearest.map(|(_, name)| format!("; did you mean `{name}`?")).unwrap_or_default()
}
