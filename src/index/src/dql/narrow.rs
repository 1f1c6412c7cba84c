//! Selects the candidate pages of a query with SQL.
//!
//! Invariant: never selects less than the query means; `evaluate` decides the conditions. Why not
//! all of it in SQL? SQL has no booleans, dates or lists inside JSON: values would lose their type,
//! and each function would need a second implementation. No client input becomes part of the
//! statement; paths, fields and values are bound.

use rusqlite::types::Value as Bound;
use rusqlite::{Connection, params_from_iter};
use svcfs_text::metadata::is_in_tag;

use super::ast::PageSource;
use super::row::ImplicitField;
use crate::IndexError;
use crate::schema::FIELDS;

/// A statement under construction, with its parameters.
#[derive(Debug, Default)]
pub(crate) struct NarrowingSql {
    pub(crate) text: String,
    pub(crate) values: Vec<Bound>,
}

impl NarrowingSql {
    pub(crate) fn bind(&mut self, value: impl Into<Bound>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    /// Number of rows of a query with these parameters, counted up to `limit`.
    pub(crate) fn count(mut self, connection: &Connection, query: &str, limit: usize) -> Result<usize, IndexError> {
        let limit = self.bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let count: i64 = connection
            .prepare_cached(&format!("SELECT count(*) FROM (SELECT 1 FROM ({query}) LIMIT {limit})"))?
            .query_row(params_from_iter(&self.values), |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or_default())
    }

    /// The pages of [`is_within`]. One range of paths, so that SQLite can walk it in order: `.`
    /// comes before `/`, and `0` follows it.
    pub(crate) fn folder_or_page(&mut self, source: &str) -> String {
        let (name, is_folder) = split_source(source);
        if name.is_empty() {
            return "1".to_owned();
        }
        let (folder, end) = (self.bind(format!("{name}/")), self.bind(format!("{name}0")));
        if is_folder {
            return format!("(pages.path >= {folder} AND pages.path < {end})");
        }
        let (page, with_extension) = (self.bind(name.to_owned()), self.bind(format!("{name}.md")));
        format!(
            "(pages.path >= {page} AND pages.path < {end} \
             AND (pages.path >= {folder} OR pages.path IN ({page}, {with_extension})))"
        )
    }

    /// A condition that every page of a source matches; `None` where only the page's tags can
    /// decide.
    pub(crate) fn source(&mut self, source: &PageSource) -> Option<String> {
        match source {
            PageSource::Visible(pages) => {
                let list = self.bind(pages.list().to_owned());
                Some(format!("pages.path IN (SELECT value FROM json_each({list}))"))
            }
            PageSource::Prefix(prefix) => Some(self.folder_or_page(prefix)),
            PageSource::Tag(_) => None,
            PageSource::Not(inner) => {
                // Negation turns "never less" into "never more"; only path conditions are exact.
                if has_tags(inner) { None } else { self.source(inner).map(|inner| format!("NOT {inner}")) }
            }
            PageSource::All(sources) => {
                let all: Vec<String> = sources.iter().filter_map(|source| self.source(source)).collect();
                (!all.is_empty()).then(|| format!("({})", all.join(" AND ")))
            }
            PageSource::Any(sources) => {
                let bound = self.values.len();
                let any: Option<Vec<String>> = sources.iter().map(|source| self.source(source)).collect();
                if any.is_none() {
                    // SQLite refuses parameters that the statement does not use.
                    self.values.truncate(bound);
                }
                any.map(|any| format!("({})", any.join(" OR ")))
            }
        }
    }

    /// The full statement: the pages that match all conditions, followed by the columns of the
    /// facts.
    pub(crate) fn select(&mut self, facts: &[ImplicitField], conditions: &[String]) {
        let columns: String =
            facts.iter().filter_map(|fact| fact.column()).map(|column| format!(", {column}")).collect();
        let filter = if conditions.is_empty() { "1".to_owned() } else { conditions.join(" AND ") };
        let join = if columns.is_empty() { "" } else { " JOIN facts ON facts.page = pages.id" };
        self.text = format!("SELECT pages.id, pages.path, {FIELDS}{columns} FROM pages{join} WHERE {filter}");
    }
}

pub(crate) fn has_tags(source: &PageSource) -> bool {
    match source {
        PageSource::Visible(_) | PageSource::Prefix(_) => false,
        PageSource::Tag(_) => true,
        PageSource::Not(inner) => has_tags(inner),
        PageSource::All(sources) | PageSource::Any(sources) => sources.iter().any(has_tags),
    }
}

pub(crate) fn includes(source: &PageSource, path: &str, tags: &[String]) -> bool {
    match source {
        PageSource::Visible(pages) => pages.contains(path),
        PageSource::Prefix(prefix) => is_within(path, prefix),
        PageSource::Tag(tag) => tags.iter().any(|other| is_in_tag(other, tag)),
        PageSource::Not(inner) => !includes(inner, path, tags),
        PageSource::All(sources) => sources.iter().all(|source| includes(source, path, tags)),
        PageSource::Any(sources) => sources.iter().any(|source| includes(source, path, tags)),
    }
}

/// Whether a path is the folder or the page that FROM names: `sub` means `sub/…`, `sub.md` and
/// `sub`, but not `submarine.md`; `sub/` means the folder only.
pub(crate) fn is_within(path: &str, source: &str) -> bool {
    let (name, is_folder) = split_source(source);
    match path.strip_prefix(name) {
        Some(_) if name.is_empty() => true,
        Some(rest) => rest.starts_with('/') || !is_folder && matches!(rest, "" | ".md"),
        None => false,
    }
}

/// The path without slashes at its ends, and whether it ends with one.
fn split_source(source: &str) -> (&str, bool) {
    let source = source.trim_start_matches('/');
    (source.trim_end_matches('/'), source.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_ends_at_the_boundary_of_a_folder() {
        let paths =
            ["su.md", "su", "sub.md", "sub/a.md", "sub/deep/b.md", "sub-x/c.md", "sub x.md", "sub0.md", "Sub/d.md"];
        for (source, expected) in [
            ("su", &["su.md", "su"][..]),
            ("su/", &[]),
            ("sub", &["sub.md", "sub/a.md", "sub/deep/b.md"]),
            ("sub/", &["sub/a.md", "sub/deep/b.md"]),
            ("/sub//", &["sub/a.md", "sub/deep/b.md"]),
            ("sub.md", &["sub.md"]),
            ("sub/a", &["sub/a.md"]),
            ("sub/a.md", &["sub/a.md"]),
            ("sub/de", &[]),
            ("sub/deep", &["sub/deep/b.md"]),
            ("", &paths),
            ("/", &paths),
        ] {
            let matching: Vec<&str> = paths.into_iter().filter(|path| is_within(path, source)).collect();
            assert_eq!(matching, expected, "{source}");
        }
    }
}
