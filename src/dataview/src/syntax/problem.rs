//! Errors in queries, with their position.

pub(super) use svcfs_base::excerpt;
use svcfs_base::message_at;
use winnow::error::{ErrMode, ParserError};
use winnow::stream::{LocatingSlice, Location};

pub(super) type Input<'i> = LocatingSlice<&'i str>;

/// Minimum similarity (Jaro-Winkler) of a suggested name.
const MIN_SIMILARITY: f64 = 0.75;

/// An error at a position of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueryProblem {
    at: usize,
    message: String,
}

impl QueryProblem {
    /// The message, with line and column (in characters, from 1).
    pub(super) fn to_message(&self, text: &str) -> String {
        message_at(text, self.at, &self.message)
    }
}

impl<'i> ParserError<Input<'i>> for QueryProblem {
    type Inner = Self;
    fn from_input(input: &Input<'i>) -> Self {
        Self { at: input.current_token_start(), message: String::new() }
    }
    fn or(self, other: Self) -> Self {
        if other.at >= self.at { other } else { self }
    }
    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

pub(super) type Parsed<T> = winnow::ModalResult<T, QueryProblem>;

pub(super) fn refuse_at<T>(at: usize, message: impl Into<String>) -> Parsed<T> {
    Err(ErrMode::Cut(QueryProblem { at, message: message.into() }))
}

pub(super) fn refuse<T>(input: &Input<'_>, message: impl Into<String>) -> Parsed<T> {
    refuse_at(input.current_token_start(), message)
}

/// Fails at the current position because something else was expected.
pub(super) fn expected<T>(input: &Input<'_>, wanted: &str) -> Parsed<T> {
    let rest: &str = input;
    let next = match rest.split_whitespace().next() {
        None => "the end of the query".to_owned(),
        Some(word) => format!("`{}`", excerpt(word)),
    };
    refuse(input, format!("expected {wanted}, not {next}"))
}

/// `; did you mean …?`, if one of the names is similar.
pub(super) fn hint<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> String {
    let nearest = svcfs_base::nearest_name(given, names, MIN_SIMILARITY);
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}
