//! DQL, the query language over pages (GET /query).
//!
//! A query is parsed into a tree (`grammar`, `expression`). SQLite selects candidate pages
//! (`narrow`), and each of them is evaluated (`evaluate`). A field that is queried often gets an
//! index (`lookup`, `crate::fields`). What SQL can decide exactly (`exact`) is counted in the
//! index, and pages are read only to be shown. A scan that reaches `max_scan_rows` returns what it
//! found and says so; a query that exceeds the timeout fails.

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
mod unknown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value as Json;
use svcfs_base::{Timestamp, TreePath};

use crate::visible::PageScope;
use crate::{Index, IndexError, VisiblePages};
use ast::{Expression, ExpressionNode, ParsedQuery};
use row::ImplicitField;

pub use ast::QueryMode;
pub(crate) use lexemes::ValueStep;
pub use refine::{ColumnSummary, QueryRefinement, RowFilter, ViewColumn};

/// Limit of a query in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Rows of a result: default and limit.
const DEFAULT_ROWS: usize = 50;
const MAX_ROWS: usize = 200;

/// A parsed and checked query.
#[derive(Debug, Clone)]
pub struct DqlQuery {
    parsed: ParsedQuery,
}

/// Computed fields from the configuration (`dataview.custom_fields`), which every page has.
#[derive(Debug, Clone, Default)]
pub struct CustomFields(BTreeMap<String, ExpressionNode>);

impl CustomFields {
    /// Parses the expressions.
    ///
    /// # Errors
    /// The name of the first invalid field, and the reason: its expression is invalid or refers to
    /// the field itself, or the name is built in.
    pub fn parse<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> Result<Self, (String, String)> {
        let read = |(name, text): (&str, &str)| {
            let node = grammar::single_expression(text).map_err(|why| (name.to_owned(), why))?;
            if node.has_aggregate() {
                return Err((name.to_owned(), "aggregates pages, but a field belongs to one page".to_owned()));
            }
            if ImplicitField::named(name).is_some() {
                return Err((name.to_owned(), "is a built-in field; choose another name".to_owned()));
            }
            Ok((name.to_owned(), node))
        };
        let fields = Self(fields.into_iter().map(read).collect::<Result<_, _>>()?);
        match fields.0.keys().find(|name| fields.dependencies(name).contains(*name)) {
            Some(name) => Err((name.clone(), "depends on itself, so it never has a value".to_owned())),
            None => Ok(fields),
        }
    }

    /// The fields that a field depends on, directly or indirectly.
    fn dependencies(&self, name: &str) -> BTreeSet<String> {
        let (mut names, mut next) = (BTreeSet::new(), vec![name.to_owned()]);
        while let Some(node) = next.pop().and_then(|name| self.0.get(&name)) {
            node.visit(&mut |node| {
                let Expression::Field(steps) = &node.kind else { return };
                let Some(ValueStep::Key(key)) = steps.first() else { return };
                if names.insert(key.clone()) && self.0.contains_key(key) {
                    next.push(key.clone());
                }
            });
        }
        names
    }
}

/// Limits and environment of a query.
#[derive(Debug, Clone)]
pub struct QueryLimits<'a> {
    /// The current time, for `now()`.
    pub now: Timestamp,
    /// Limit of pages that are read one by one (`dataview.max_scan_rows`).
    pub max_scan_rows: usize,
    /// Time limit (`dataview.query_timeout`).
    pub timeout: Duration,
    /// Limit of automatic field indexes (`dataview.max_auto_indexes`).
    pub max_auto_indexes: usize,
    /// Whether `_word_count` and similar fields are enabled (`dataview.computed_fields`).
    pub computed_fields: bool,
    /// `dataview.custom_fields`.
    pub custom_fields: &'a CustomFields,
    /// Restricts the query to pages below this directory, link sources and targets included; `None`
    /// for the full tree.
    pub folder: Option<&'a TreePath>,
    /// Restricts the query to these pages in the same way.
    pub visible: Option<&'a Arc<VisiblePages>>,
    /// Number of rows; overrides the query's LIMIT.
    pub limit: Option<usize>,
    /// Rows to skip; overrides the query's OFFSET when above 0.
    pub offset: usize,
}

impl<'a> QueryLimits<'a> {
    const fn scope(&self) -> PageScope<'a> {
        PageScope { folder: self.folder, visible: self.visible }
    }
}

/// The result of a query, in one shape for all modes.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryAnswer {
    /// The mode of the query.
    pub mode: QueryMode,
    /// The names of the columns.
    pub headers: Vec<String>,
    /// The rows; cells are JSON values.
    pub rows: Vec<Vec<Json>>,
    /// Total number of rows; with `scanned_rows`, among the scanned pages.
    pub total: usize,
    /// Number of pages, items or tasks that were scanned, if the scan stopped at its limit. Then
    /// the result covers only those.
    pub scanned_rows: Option<usize>,
    /// Whether there are more rows.
    pub has_more: bool,
    /// The result of COUNT.
    pub count: Option<usize>,
    /// With GROUP BY: the groups of these rows.
    pub groups: Option<Vec<RowGroup>>,
    /// The column summaries of a view, with column names.
    pub summaries: Option<Vec<(String, Json)>>,
    /// Names in the query that no page has, each with the nearest known name.
    pub notes: Vec<String>,
}

/// A group of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RowGroup {
    /// The value that they share.
    pub key: Json,
    /// Total number of rows in the group.
    pub count: usize,
    /// Its rows in this result.
    pub rows: Vec<Vec<Json>>,
}

impl DqlQuery {
    /// Parses a query.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `q`: line and column, what was expected there, and a hint.
    pub fn parse(text: &str) -> Result<Self, IndexError> {
        if text.len() > MAX_BYTES {
            let why = format!("the query is {} bytes long; the limit is {MAX_BYTES} bytes", text.len());
            return Err(IndexError::invalid("q", why));
        }
        let read = |text: &str| grammar::query(text).and_then(|parsed| checks::check(parsed, text));
        let parsed = match lines::convert(text) {
            Ok(None) => read(text),
            Ok(Some(converted)) => read(&converted)
                .map_err(|why| format!("{why}; the lines were read as `{}`", converted.replace('\n', " "))),
            Err(why) => Err(why),
        };
        Ok(Self { parsed: parsed.map_err(|why| IndexError::invalid("q", why))? })
    }

    /// Whether the query has a LIMIT of its own.
    #[must_use]
    pub fn has_limit(&self) -> bool {
        self.parsed.limit.is_some()
    }

    #[cfg(test)]
    pub(crate) fn plan(&self, index: &Index, limits: &QueryLimits<'_>) -> Vec<String> {
        run::plan(index, &self.parsed, limits).unwrap_or_default()
    }

    /// The path prefix of all pages that can change the result; `None` when any page can.
    #[must_use]
    pub fn path_prefix(&self) -> Option<&str> {
        checks::path_prefix(&self.parsed)
    }

    /// The query over these sources only.
    fn restricted_to(&self, sources: Vec<ast::PageSource>) -> Self {
        let mut narrowed = self.clone();
        let own = narrowed.parsed.source.take();
        narrowed.parsed.source = Some(ast::PageSource::All(sources.into_iter().chain(own).collect()));
        narrowed
    }

    /// The mode of the query.
    #[must_use]
    pub fn mode(&self) -> QueryMode {
        self.parsed.mode
    }
}

impl Index {
    /// Runs a query.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `q` when it exceeds the timeout, or uses a computed field while
    /// those are disabled; [`IndexError::Database`].
    pub fn query(&self, query: &DqlQuery, limits: &QueryLimits<'_>) -> Result<QueryAnswer, IndexError> {
        let folder = limits.folder.filter(|folder| !folder.is_root());
        let below = folder.map(|folder| ast::PageSource::Prefix(format!("{folder}/")));
        let visible = limits.visible.map(|pages| ast::PageSource::Visible(Arc::clone(pages)));
        let sources: Vec<_> = below.into_iter().chain(visible).collect();
        if sources.is_empty() {
            return run::answer(self, &query.parsed, limits);
        }
        run::answer(self, &query.restricted_to(sources).parsed, limits)
    }
}
