//! Stored data of pages, and lists of pages.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::str::FromStr;

use rusqlite::{Connection, OptionalExtension};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{ETag, Timestamp, TreePath};
use svcfs_text::fold::fold_name;
use svcfs_text::metadata::is_in_tag;

use crate::dql::row::{members, tags_of};
use crate::fields::TAGS as TAG_FIELD;
use crate::schema::FIELDS;
use crate::{Index, IndexError, MetaRow, field_words};

/// The tags of all pages: selected column and source.
const TAGS: &str = "CAST(tag.value AS TEXT)
                    FROM pages, json_each(coalesce(pages.metadata, pages.frontmatter), '$.tags') AS tag
                    WHERE tag.type IN ('text', 'integer', 'real')";

/// One heading of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageHeading {
    /// 1 for `#` to 6 for `######`.
    pub level: u8,
    /// The text of the heading, without markup.
    pub text: String,
    /// The anchor of the heading.
    pub slug: String,
}

/// What the index stores about a page, apart from its words.
#[derive(Debug, Clone, PartialEq)]
pub struct PageRow {
    /// `title` of the frontmatter, else the first level-1 heading, else the file name.
    pub title: String,
    /// The first paragraph without markup, cut at 300 characters.
    pub excerpt: String,
    /// The frontmatter; empty when the page has none or it cannot be parsed.
    pub frontmatter: Map<String, Value>,
    /// Number of words in the body.
    pub word_count: usize,
    /// The headings, in order.
    pub headings: Vec<PageHeading>,
    /// Hash of the text that this row was read from.
    pub etag: ETag,
    /// Time of the last change, to the microsecond.
    pub modified: Timestamp,
    /// The first lint error, as `rule (line N): message`.
    pub lint_error: Option<String>,
}

impl Index {
    /// The stored data of a page; `None` when the index has no page at this path.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn page(&self, path: &TreePath) -> Result<Option<PageRow>, IndexError> {
        type StoredRow = (String, String, String, i64, String, [u8; 20], i64, Option<String>);
        let row: Option<StoredRow> = self.readers.read(|connection| {
            Ok(connection
                .prepare_cached(
                    "SELECT title, excerpt, frontmatter, word_count, headings, etag, modified,
                            (SELECT message FROM lint_errors WHERE page = pages.id)
                     FROM pages WHERE path = ?1",
                )?
                .query_row([path.as_str()], |row| row.try_into())
                .optional()?)
        })?;
        let Some((title, excerpt, frontmatter, word_count, headings, etag, modified, lint_error)) = row else {
            return Ok(None);
        };
        let damaged = |error: &dyn std::fmt::Display| IndexError::Damaged(format!("page `{path}`: {error}"));
        Ok(Some(PageRow {
            title,
            excerpt,
            frontmatter: serde_json::from_str(&frontmatter).map_err(|error| damaged(&error))?,
            word_count: usize::try_from(word_count).map_err(|error| damaged(&error))?,
            headings: serde_json::from_str(&headings).map_err(|error| damaged(&error))?,
            etag: ETag::from_bytes(etag),
            modified: Timestamp::from_microsecond(modified).map_err(|error| damaged(&error))?,
            lint_error,
        }))
    }

    /// The first lint error of each page that has one, as `rule (line N): message`.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn lint_errors(&self) -> Result<BTreeMap<TreePath, String>, IndexError> {
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT pages.path, lint_errors.message FROM lint_errors JOIN pages ON pages.id = lint_errors.page",
            )?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
            rows.map(|row| row.map_err(IndexError::from).and_then(|(path, message)| Ok((tree_path(&path)?, message))))
                .collect()
        })
    }

    /// The pages at or below a path, in path order; the root gives all pages.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn paths(&self, below: &TreePath) -> Result<Vec<TreePath>, IndexError> {
        self.readers.read(|connection| {
            let (from, to) = range_below(below);
            let mut statement = connection
                .prepare_cached("SELECT path FROM pages WHERE path = ?1 OR (path > ?2 AND path < ?3) ORDER BY path")?;
            let rows = statement.query_map((below.as_str(), from, to), |row| row.get::<_, String>(0))?;
            rows.map(|path| tree_path(&path?)).collect()
        })
    }

    /// All pages with the hashes of their texts, in path order.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn etags(&self) -> Result<Vec<(TreePath, ETag)>, IndexError> {
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached("SELECT path, etag FROM pages ORDER BY path")?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
            rows.map(|row| {
                let (path, etag): (String, [u8; 20]) = row?;
                Ok((tree_path(&path)?, ETag::from_bytes(etag)))
            })
            .collect()
        })
    }

    /// The pages whose frontmatter has at least one of these top-level keys, with any value, in
    /// path order. `keys` must not be empty.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn pages_with_keys(&self, keys: &[&str]) -> Result<Vec<MetaRow>, IndexError> {
        // The full-text index selects candidates: few pages have any of these keys. It stores keys
        // in lower case only, so the frontmatter is checked too.
        let words: Option<Vec<String>> = keys.iter().map(|key| field_words::normalize_name(key)).collect();
        let words = words.filter(|_| keys.iter().all(|key| !field_words::EXACT_FIELDS.contains(key)));
        let prefilter = words.map_or_else(String::new, |words| {
            let words: Vec<String> = words.iter().map(|word| format!("\"{}\"", field_words::token(word, ""))).collect();
            format!("id IN (SELECT rowid FROM texts WHERE texts MATCH '{{fields}} : ({})') AND", words.join(" OR "))
        });
        let sql = format!(
            "SELECT path, title, frontmatter FROM pages WHERE {prefilter} EXISTS (
                 SELECT 1 FROM json_each(pages.frontmatter) AS field
                 WHERE field.key IN (SELECT value FROM json_each(?1))
             ) ORDER BY path"
        );
        let list = serde_json::to_string(keys).map_err(|error| IndexError::Source(error.into()))?;
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([&list])?;
            let mut matches = Vec::new();
            while let Some(row) = rows.next()? {
                matches.push(MetaRow::of(row)?);
            }
            Ok(matches)
        })
    }

    /// The pages whose frontmatter has one of these texts as `type`, in path order.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn pages_of_types(&self, types: &[String]) -> Result<Vec<MetaRow>, IndexError> {
        const KEY: &str = "type";
        // As in `pages_with_keys`: the full-text index selects candidates.
        let word = field_words::token(KEY, "");
        let sql = format!(
            "SELECT path, title, frontmatter FROM pages
             WHERE id IN (SELECT rowid FROM texts WHERE texts MATCH '{{fields}} : (\"{word}\")')
               AND json_extract(frontmatter, '$.{KEY}') IN (SELECT value FROM json_each(?1)) ORDER BY path"
        );
        let list = serde_json::to_string(types).map_err(|error| IndexError::Source(error.into()))?;
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let rows = statement.query_and_then([&list], MetaRow::of)?;
            rows.collect()
        })
    }

    /// All distinct tags of the pages, in frontmatter and text, sorted. Of tags that differ only in
    /// case, the first counts.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn tags(&self) -> Result<Vec<String>, IndexError> {
        let mut tags: Vec<String> = self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(&format!("SELECT DISTINCT {TAGS} ORDER BY 1"))?;
            let tags = statement.query_map([], |row| row.get(0))?;
            Ok(tags.collect::<rusqlite::Result<_>>()?)
        })?;
        let mut seen = HashSet::new();
        tags.retain(|tag| seen.insert(fold_name(tag).into_owned()));
        Ok(tags)
    }

    /// The pages with a tag or one nested below it, in any case, with their titles, in path order.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn pages_with_tag(&self, tag: &str) -> Result<Vec<(TreePath, String)>, IndexError> {
        // The full-text index selects candidates; its form of a tag has less detail.
        let word = field_words::token(TAG_FIELD, &field_words::normalize_value(tag)).replace('"', "\"\"");
        let sql = format!(
            "SELECT pages.path, pages.title, {FIELDS} FROM pages
             WHERE id IN (SELECT rowid FROM texts WHERE texts MATCH ?1) ORDER BY path"
        );
        let keys = [TAG_FIELD.to_owned()];
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query([format!("{{fields}} : \"{word}\"")])?;
            let mut matches = Vec::new();
            while let Some(row) = rows.next()? {
                let path: String = row.get(0)?;
                let fields = members(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?, &keys, &path)?;
                if fields.iter().flat_map(|(_, value)| tags_of(value)).any(|other| is_in_tag(&other, tag)) {
                    matches.push((tree_path(&path)?, row.get(1)?));
                }
            }
            Ok(matches)
        })
    }

    /// The tags of each page that has tags, in path order.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn tags_by_page(&self) -> Result<Vec<(TreePath, Vec<String>)>, IndexError> {
        let mut pages: Vec<(String, Vec<String>)> = Vec::new();
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(&format!("SELECT pages.path, {TAGS} ORDER BY 1"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let (path, tag): (String, String) = (row.get(0)?, row.get(1)?);
                match pages.last_mut() {
                    Some((last, tags)) if *last == path => tags.push(tag),
                    Some(_) | None => pages.push((path, vec![tag])),
                }
            }
            Ok(())
        })?;
        pages.into_iter().map(|(path, tags)| Ok((tree_path(&path)?, tags))).collect()
    }

    /// The titles of pages, read in one statement; unknown pages are left out.
    ///
    /// # Errors
    /// [`IndexError::Database`]; [`IndexError::Damaged`].
    pub fn titles(&self, pages: &[TreePath]) -> Result<HashMap<TreePath, String>, IndexError> {
        let list = paths_json(pages)?;
        self.readers.read(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT path, title FROM pages WHERE path IN (SELECT CAST(value AS TEXT) FROM json_each(?1))",
            )?;
            let rows = statement.query_map([list], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
            rows.map(|row| row.map_err(IndexError::from).and_then(|(path, title)| Ok((tree_path(&path)?, title))))
                .collect()
        })
    }

    /// Number of pages.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn page_count(&self) -> Result<usize, IndexError> {
        self.readers.read(|connection| count(connection, "pages"))
    }
}

pub(crate) fn count(connection: &Connection, table: &'static str) -> Result<usize, IndexError> {
    let count: i64 =
        connection.prepare_cached(&format!("SELECT count(*) FROM {table}"))?.query_row([], |row| row.get(0))?;
    usize::try_from(count).map_err(|error| IndexError::Damaged(format!("rows of `{table}`: {error}")))
}

/// The open range of the paths below a directory: from `/` to the character after it.
pub(crate) fn range_below(directory: &TreePath) -> (String, String) {
    if directory.is_root() {
        (String::new(), char::MAX.to_string())
    } else {
        (format!("{directory}/"), format!("{directory}0"))
    }
}

pub(crate) fn tree_path(text: &str) -> Result<TreePath, IndexError> {
    TreePath::parse(text).map_err(|fault| IndexError::Damaged(fault.to_string()))
}

/// A list of paths for `json_each`.
pub(crate) fn paths_json(pages: &[TreePath]) -> Result<String, IndexError> {
    let paths: Vec<&str> = pages.iter().map(TreePath::as_str).collect();
    serde_json::to_string(&paths).map_err(|error| IndexError::Source(error.into()))
}

pub(crate) fn json(text: &str, path: &str) -> Result<Value, IndexError> {
    Value::from_str(text).map_err(|error| IndexError::Damaged(format!("frontmatter of `{path}`: {error}")))
}
