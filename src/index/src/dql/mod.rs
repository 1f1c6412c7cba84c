//! The query language over pages (contract 4.6, GET /query; gaps.md D15 and "4.6 DQL grammar").
//!
//! A query is read into a tree (`grammar`, `expression`), SQLite is asked for the pages that can be among the answers (`narrow`), and
//! each of them is looked at (`evaluate`). A field that is asked for often gets rows by which its pages are found (`lookup`, `crate::fields`). What
//! SQL decides exactly (`exact`) is counted in the index, and pages are read only to be shown. A scan that reaches `max_scan_rows` answers with
//! what it found and says so; one that takes longer than allowed is refused.

mod absent;
mod aggregate;
mod arithmetic;
mod ast;
mod calls;
mod checks;
mod counted;
mod evaluate;
mod exact;
mod expression;
mod functions;
mod grammar;
mod lexemes;
mod lines;
mod links;
mod lookup;
mod narrow;
mod problem;
mod refine;
pub(crate) mod row;
mod run;
mod shape;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value as Json;
use svcfs_base::{Timestamp, TreePath};

use crate::{Index, IndexError};
use ast::{Expression, ExpressionNode, ParsedQuery};
use row::ImplicitField;

pub use ast::QueryMode;
pub(crate) use lexemes::ValueStep;
pub use refine::{ColumnSummary, QueryRefinement, RowFilter, ViewColumn};

/// Longest query, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Rows of an answer: 50 when neither the caller nor the query says, 200 at most (gaps.md 8).
const ROWS: usize = 50;
const MAX_ROWS: usize = 200;

/// A query that was read and makes sense.
#[derive(Debug, Clone)]
pub struct DqlQuery {
    parsed: ParsedQuery,
}

/// Fields that every page has because the configuration says how they are made (`dataview.custom_fields`).
#[derive(Debug, Clone, Default)]
pub struct CustomFields(BTreeMap<String, ExpressionNode>);

impl CustomFields {
    /// Reads the expressions.
    ///
    /// # Errors
    /// The name of the first field that would be of no use, and why: its expression cannot be read or names the field itself, or the
    /// server has a field of that name.
    pub fn parse<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> Result<Self, (String, String)> {
        let read = |(name, text): (&str, &str)| {
            let node = grammar::lone_expression(text).map_err(|why| (name.to_owned(), why))?;
            if node.has_aggregate() {
                return Err((name.to_owned(), "makes one value of many pages, and a field is of one page".to_owned()));
            }
            if ImplicitField::named(name).is_some() {
                return Err((
                    name.to_owned(),
                    "is a field that every page has already; choose another name".to_owned(),
                ));
            }
            Ok((name.to_owned(), node))
        };
        let fields = Self(fields.into_iter().map(read).collect::<Result<_, _>>()?);
        match fields.0.keys().find(|name| fields.needs(name).contains(*name)) {
            Some(name) => Err((name.clone(), "is made of itself, so that it never has a value".to_owned())),
            None => Ok(fields),
        }
    }

    /// The fields that one is made of, and those that they are made of, and so on.
    fn needs(&self, name: &str) -> BTreeSet<String> {
        let (mut found, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
        while let Some(node) = next.pop().and_then(|name| self.0.get(&name)) {
            node.visit(&mut |node| {
                let Expression::Field(steps) = &node.kind else { return };
                let Some(ValueStep::Key(key)) = steps.first() else { return };
                if found.insert(key.clone()) && self.0.contains_key(key) {
                    next.push(key.clone());
                }
            });
        }
        found
    }
}

/// How far a query may go, and what it is asked with.
#[derive(Debug, Clone)]
pub struct QueryLimits<'a> {
    /// The present moment, for `now()`.
    pub now: Timestamp,
    /// Pages that may be looked at one by one (`dataview.max_scan_rows`).
    pub max_scan_rows: usize,
    /// Time it may take (`dataview.query_timeout`).
    pub timeout: Duration,
    /// Fields that may have an index of their own (`dataview.max_auto_indexes`).
    pub max_auto_indexes: usize,
    /// Whether `_word_count` and its like are known (`dataview.computed_fields`).
    pub computed_fields: bool,
    /// `dataview.custom_fields`.
    pub custom_fields: &'a CustomFields,
    /// Below which directory pages lie that the answer may tell of or depend on, whichever way links lead; none for the whole tree.
    pub folder: Option<&'a TreePath>,
    /// Rows of the answer; beats the query's LIMIT.
    pub limit: Option<usize>,
    /// Rows to leave out; beats the query's OFFSET when above 0.
    pub offset: usize,
}

/// What a query answers: one shape for all modes (gaps.md D15).
#[derive(Debug, Clone, PartialEq)]
pub struct QueryAnswer {
    /// The kind of list.
    pub mode: QueryMode,
    /// What the cells of a row are.
    pub headers: Vec<String>,
    /// The rows asked for, cells as real JSON.
    pub rows: Vec<Vec<Json>>,
    /// Rows there are in all; with `looked_at`, among the pages that were looked at.
    pub total: usize,
    /// How many pages, items or tasks were looked at, when there were more than may be: the answer is what was found there.
    pub scanned_rows: Option<usize>,
    /// Whether rows follow behind these.
    pub has_more: bool,
    /// The number that COUNT counts.
    pub count: Option<usize>,
    /// With GROUP BY: the groups of these rows.
    pub groups: Option<Vec<RowGroup>>,
    /// What a view makes of all cells of its columns, with the columns' names.
    pub summaries: Option<Vec<(String, Json)>>,
}

/// The rows of one value.
#[derive(Debug, Clone, PartialEq)]
pub struct RowGroup {
    /// What they have in common.
    pub key: Json,
    /// How many there are in all.
    pub count: usize,
    /// Those that are in the answer.
    pub rows: Vec<Vec<Json>>,
}

impl DqlQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `q`: line and column, what was expected there, and a hint.
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        if text.len() > MAX_BYTES {
            let why = format!("the query is {} bytes long; at most {MAX_BYTES} are read", text.len());
            return Err(IndexError::invalid("q", why));
        }
        let read = |text: &str| grammar::query(text).and_then(|parsed| checks::check(parsed, text));
        let parsed = match lines::put_together(text) {
            Ok(None) => read(text),
            Ok(Some(today)) => {
                read(&today).map_err(|why| format!("{why}; the lines were read as `{}`", today.replace('\n', " ")))
            }
            Err(why) => Err(why),
        };
        Ok(Self { parsed: parsed.map_err(|why| IndexError::invalid("q", why))? })
    }

    /// How SQLite finds the pages it looks at.
    #[cfg(test)]
    pub(crate) fn plan(&self, index: &Index, asking: &QueryLimits<'_>) -> Vec<String> {
        run::plan(index, &self.parsed, asking).unwrap_or_default()
    }

    /// What the path of every page begins with that can change the answer; none when any page can.
    #[must_use]
    pub fn path_prefix(&self) -> Option<&str> {
        checks::prefix(&self.parsed)
    }

    /// The same query about the pages below a folder alone.
    fn below(&self, folder: &TreePath) -> Self {
        let there = ast::PageSource::Prefix(format!("{folder}/"));
        let mut narrowed = self.clone();
        narrowed.parsed.source = Some(match narrowed.parsed.source.take() {
            Some(source) => ast::PageSource::All(vec![there, source]),
            None => there,
        });
        narrowed
    }

    /// The kind of list it makes.
    #[must_use]
    pub fn mode(&self) -> QueryMode {
        self.parsed.mode
    }
}

impl Index {
    /// Answers a query.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `q` when it takes longer than allowed, or asks for a computed field
    /// while those are off; [`IndexError::Database`].
    pub fn query(&self, query: &DqlQuery, asking: &QueryLimits<'_>) -> Result<QueryAnswer, IndexError> {
        match asking.folder.filter(|below| !below.is_root()) {
            Some(below) => run::answer(self, &query.below(below).parsed, asking),
            None => run::answer(self, &query.parsed, asking),
        }
    }
}
