//! The pages of the index as a vault of Dataview queries.
//!
//! A query reads each page once. Bodies are read and scanned only if the query can see something
//! of them: list items, links, tags, inline fields.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use rusqlite::{Connection, OptionalExtension, Row, params};
use svcfs_base::{Timestamp, TreePath};
use svcfs_dataview::{
    DataviewError, DataviewQuery, Page, PageText, QueryResult, RunLimits, Vault, VaultError, frontmatter_links,
};
use svcfs_text::Frontmatter;
use svcfs_text::computed_block::find_answer;
use svcfs_text::links::{LinkKind, candidates};

use crate::links::NameLookup;
use crate::pages::{range_below, tree_path};
use crate::{Index, IndexError, LinkGraph, VisiblePages};

/// Limits and environment of a Dataview query.
#[derive(Debug, Clone)]
pub struct DataviewLimits<'a> {
    /// The page that contains the query (`this`).
    pub page: Option<&'a TreePath>,
    /// The current time.
    pub now: Timestamp,
    /// Limit of pages that are read (`dataview.max_scan_rows`).
    pub max_scan_rows: usize,
    /// Time limit (`dataview.query_timeout`).
    pub timeout: Duration,
    /// Restricts the query to pages below this directory.
    pub folder: Option<&'a TreePath>,
    /// Restricts the query to these pages.
    pub visible: Option<&'a Arc<VisiblePages>>,
    /// Times of creation, if the query reads them; other pages have the time of their last change.
    pub created: HashMap<String, Timestamp>,
}

/// The result of a Dataview query.
#[derive(Debug, Clone)]
pub struct DataviewAnswer {
    /// The result.
    pub result: QueryResult,
    /// Number of pages that were read, if the scan stopped at its limit.
    pub scanned_rows: Option<usize>,
}

impl Index {
    /// Runs a Dataview query.
    ///
    /// # Errors
    /// [`IndexError::Invalid`] on `q` when the query cannot be answered or takes too long, on
    /// `page` when its page does not exist; [`IndexError::Database`].
    pub fn query_dataview(
        &self,
        query: &DataviewQuery,
        limits: &DataviewLimits<'_>,
    ) -> Result<DataviewAnswer, IndexError> {
        self.readers.query_within(limits.timeout, "q", |connection| {
            let vault = IndexVault::new(self, connection, query, limits);
            let page = limits.page.map(TreePath::as_str);
            if let Some(path) = page.filter(|path| !matches!(vault.page(path), Ok(Some(_)))) {
                return Err(IndexError::invalid("page", format!("no page at `{path}`")));
            }
            let result = query.run(&vault, &RunLimits { page, timeout: limits.timeout }).map_err(to_index_error)?;
            Ok(DataviewAnswer { result, scanned_rows: vault.scanned_rows.get() })
        })
    }
}

/// An error of a query as one of the index.
pub(crate) fn to_index_error(error: DataviewError) -> IndexError {
    match error {
        DataviewError::Invalid(reason) => IndexError::invalid("q", reason),
        DataviewError::Vault(source) => match source.downcast::<IndexError>() {
            Ok(error) => *error,
            Err(source) => IndexError::Source(source),
        },
    }
}

/// Columns of a page; the body only if the query can see something of it. ?1 to ?3: whether it
/// reads bodies with inline fields, with tags, and all bodies.
const COLUMNS: &str = "
    pages.path, pages.frontmatter, pages.size, pages.modified, bodies.first_line,
    CASE WHEN ?3 OR ?1 AND pages.inline IS NOT NULL OR ?2 AND pages.metadata IS NOT NULL THEN bodies.body END
    FROM pages JOIN bodies ON bodies.page = pages.id";

struct IndexVault<'c> {
    index: &'c Index,
    connection: &'c Connection,
    limits: &'c DataviewLimits<'c>,
    /// Whether bodies with inline fields, with tags, all bodies are read.
    reads: [bool; 3],
    /// The only folder with rows.
    source_folder: Option<&'c str>,
    names: RefCell<NameLookup<'c>>,
    graph: RefCell<Option<Arc<LinkGraph>>>,
    /// For each page, those that link to it in their frontmatter, which the graph does not contain.
    frontmatter_sources: RefCell<Option<HashMap<String, Vec<String>>>>,
    pages: RefCell<HashMap<String, Option<Arc<Page>>>>,
    scanned_rows: Cell<Option<usize>>,
}

impl<'c> IndexVault<'c> {
    fn new(
        index: &'c Index,
        connection: &'c Connection,
        query: &'c DataviewQuery,
        limits: &'c DataviewLimits<'c>,
    ) -> Self {
        Self {
            index,
            connection,
            limits,
            reads: [query.reads_fields(), query.reads_tags(), query.reads_items() || query.reads_links()],
            source_folder: query.folder(),
            names: RefCell::new(NameLookup::new(connection, index.link_resolution)),
            graph: RefCell::default(),
            frontmatter_sources: RefCell::default(),
            pages: RefCell::default(),
            scanned_rows: Cell::default(),
        }
    }

    fn is_visible(&self, path: &str) -> bool {
        let folder = self.limits.folder.filter(|folder| !folder.is_root());
        folder.is_none_or(|folder| TreePath::parse(path).is_ok_and(|path| path.is_under(folder)))
            && self.limits.visible.is_none_or(|visible| visible.contains(path))
    }

    fn resolve_link(&self, target: &str, kind: LinkKind, from: &str) -> Result<Option<String>, IndexError> {
        let wanted = candidates(from, kind, target);
        let mut names = self.names.borrow_mut();
        Ok(names.resolve(from, &wanted)?.filter(|path| self.is_visible(path)).map(str::to_owned))
    }

    fn read_page(&self, row: &Row<'_>) -> Result<Arc<Page>, IndexError> {
        let path: String = row.get(0)?;
        if let Some(Some(page)) = self.pages.borrow().get(&path) {
            return Ok(Arc::clone(page));
        }
        let damaged = |why: &dyn std::fmt::Display| IndexError::Damaged(format!("page `{path}`: {why}"));
        let map = serde_json::from_str(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?);
        let frontmatter = Frontmatter { map: map.map_err(|error| damaged(&error))?, error: None };
        let modified = Timestamp::from_microsecond(row.get(3)?).map_err(|error| damaged(&error))?;
        let body = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)?.unwrap_or_default();
        let body = if self.limits.visible.is_some() { without_answer(body) } else { Cow::Borrowed(body) };
        let mut failure = None;
        let mut resolve = |target: &str, kind: LinkKind| {
            self.resolve_link(target, kind, &path).unwrap_or_else(|error| {
                failure = Some(error);
                None
            })
        };
        let page = Page::read(
            PageText {
                path: path.clone(),
                size: u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default(),
                created: self.limits.created.get(&path).copied().map_or(modified, |created| created.min(modified)),
                modified,
                tags: svcfs_text::tags(&frontmatter),
                aliases: svcfs_text::page::aliases(&frontmatter),
                frontmatter: frontmatter.map,
                body: &body,
                first_body_line: usize::try_from(row.get::<_, i64>(4)?).unwrap_or(1),
            },
            &mut resolve,
        );
        if let Some(error) = failure {
            return Err(error);
        }
        let page = Arc::new(page);
        self.pages.borrow_mut().insert(path, Some(Arc::clone(&page)));
        Ok(page)
    }

    fn read_pages(&self) -> Result<Vec<Arc<Page>>, IndexError> {
        let [fields, tags, all] = self.reads;
        let parse = |path: &str| TreePath::parse(path).ok();
        let source = self.source_folder.and_then(parse);
        let limit = self.limits.max_scan_rows;
        let mut pages = Vec::new();
        // A source that is one folder may also be one page.
        let names = source.as_ref().map(|path| format!("{path}.md")).unwrap_or_default();
        let (from, to) = source.as_ref().map_or((String::new(), "\u{10ffff}".to_owned()), range_below);
        let (above, beyond) = match self.limits.folder.filter(|folder| !folder.is_root()) {
            Some(folder) => range_below(folder),
            None => (String::new(), "\u{10ffff}".to_owned()),
        };
        let sql = format!(
            "SELECT {COLUMNS} WHERE (pages.path >= ?4 AND pages.path < ?5 OR pages.path = ?6 OR pages.path = ?7)
             AND pages.path >= ?8 AND pages.path < ?9
             AND (?11 IS NULL OR pages.path IN (SELECT value FROM json_each(?11))) ORDER BY pages.path LIMIT ?10"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let name = source.as_ref().map(TreePath::as_str).unwrap_or_default();
        let visible = self.limits.visible.map(|visible| visible.list());
        let max = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut rows =
            statement.query(params![fields, tags, all, from, to, name, names, above, beyond, max, visible])?;
        while let Some(row) = rows.next()? {
            if pages.len() == limit {
                self.scanned_rows.set(Some(limit));
                break;
            }
            pages.push(self.read_page(row)?);
        }
        Ok(pages)
    }

    fn find_page(&self, path: &str) -> Result<Option<Arc<Page>>, IndexError> {
        if let Some(page) = self.pages.borrow().get(path) {
            return Ok(page.clone());
        }
        let mut page = None;
        if self.is_visible(path) {
            let [fields, tags, all] = self.reads;
            // FROM outgoing([[page]]) reads the links of this page only.
            let sql = format!("SELECT {COLUMNS} WHERE pages.path = ?4");
            let mut statement = self.connection.prepare_cached(&sql)?;
            let read =
                statement.query_row(params![fields, tags, all, path], |row| Ok(self.read_page(row))).optional()?;
            page = read.transpose()?;
        }
        self.pages.borrow_mut().insert(path.to_owned(), page.clone());
        Ok(page)
    }

    fn sources_of(&self, path: &str) -> Result<Vec<String>, IndexError> {
        let mut graph = self.graph.borrow_mut();
        let graph = match graph.take() {
            Some(known) => graph.insert(known),
            None => graph.insert(self.index.graph()?),
        };
        let page = tree_path(path)?;
        let mut sources: BTreeSet<String> = graph.linking_pages(&page).map(ToString::to_string).collect();
        if self.frontmatter_sources.borrow().is_none() {
            let read = self.read_frontmatter_sources()?;
            self.frontmatter_sources.replace(Some(read));
        }
        let known = self.frontmatter_sources.borrow();
        sources.extend(known.iter().filter_map(|known| known.get(path)).flatten().cloned());
        sources.retain(|source| self.is_visible(source));
        Ok(sources.into_iter().collect())
    }

    fn read_frontmatter_sources(&self) -> Result<HashMap<String, Vec<String>>, IndexError> {
        let mut sources: HashMap<String, Vec<String>> = HashMap::new();
        let mut statement =
            self.connection.prepare_cached("SELECT path, frontmatter FROM pages WHERE instr(frontmatter, '[[') > 0")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let path: String = row.get(0)?;
            let frontmatter = crate::pages::json(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?, &path)?;
            let mut links = Vec::new();
            frontmatter_links(&frontmatter, &mut links);
            for link in links {
                let target = self.resolve_link(&link.path, LinkKind::Wiki, &path)?.filter(|target| *target != path);
                if let Some(target) = target {
                    sources.entry(target).or_default().push(path.clone());
                }
            }
        }
        Ok(sources)
    }
}

impl Vault for IndexVault<'_> {
    fn now(&self) -> Timestamp {
        self.limits.now
    }
    fn time_zone(&self) -> TimeZone {
        TimeZone::UTC
    }
    fn pages(&self) -> Result<Vec<Arc<Page>>, VaultError> {
        Ok(self.read_pages()?)
    }
    fn page(&self, path: &str) -> Result<Option<Arc<Page>>, VaultError> {
        Ok(self.find_page(path)?)
    }
    fn resolve(&self, target: &str, from: &str) -> Result<Option<String>, VaultError> {
        Ok(self.resolve_link(target, LinkKind::Wiki, from)?)
    }
    fn inlinks(&self, path: &str) -> Result<Vec<String>, VaultError> {
        Ok(self.sources_of(path)?)
    }
}

/// A body whose stored result is blank, because it names pages that limited readers may not see.
/// Lines keep their numbers.
fn without_answer(body: &str) -> Cow<'_, str> {
    let Some(range) = find_answer(body).range_in(body) else { return Cow::Borrowed(body) };
    let lines = "\n".repeat(body[range.clone()].matches('\n').count());
    Cow::Owned([&body[..range.start], &lines, &body[range.end..]].concat())
}
