//! Fingerprint of an index: equal for two indexes only if they give the same answers.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};
use serde::Serialize;
use svcfs_base::{ETag, HiddenFiles, TreePath};

use crate::pages::{count, tree_path};
use crate::writer::ContentRules;
use crate::{Index, IndexError, assets, fields, schema};

const LINKS: &str = "SELECT position, is_wiki, target, heading, context FROM links WHERE page = ?1 ORDER BY position";
const LINK_KEYS: &str = "SELECT position, folded FROM link_keys WHERE page = ?1 ORDER BY position, folded";

/// A hash over all rows that affect answers, in canonical order.
///
/// Row ids and modification times are left out: they may differ between an incrementally updated
/// index and a rebuilt one.
#[derive(Debug, Clone, Serialize)]
pub struct IndexFingerprint {
    /// Hash over all pages and postings.
    pub digest: ETag,
    /// Number of pages.
    pub pages: usize,
    /// Number of links.
    pub links: usize,
    /// Number of distinct terms of the full-text index.
    pub words: usize,
    /// Hash of the full-text index: every term with its number of pages and positions.
    pub postings: ETag,
    /// The problem that SQLite's integrity check of the full-text index reports; `None` when it is
    /// intact.
    pub damage: Option<String>,
    /// The fields whose values were indexed as links.
    #[serde(skip)]
    pub typed_links: Vec<String>,
    /// The hidden files that were indexed.
    #[serde(skip)]
    pub hidden_files: HiddenFiles,
    /// The fields with an index. They depend on queries and on the order of writes, so a rebuilt
    /// index gets the same fields before the two are compared.
    #[serde(skip)]
    pub hot_fields: Vec<String>,
    /// The hash of each page's rows.
    #[serde(skip)]
    pub page_digests: BTreeMap<TreePath, ETag>,
    /// The files that are not pages, with the hash of the links of each.
    #[serde(skip)]
    pub assets: BTreeMap<TreePath, ETag>,
    /// The words for suggestions. Words that no page has any more stay and are not suggested.
    #[serde(skip)]
    pub spellings: BTreeSet<String>,
}

/// A page or another file for which two fingerprints differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageDifference {
    /// Path of the page.
    pub path: TreePath,
    /// The kind of difference.
    pub divergence: IndexDivergence,
}

/// How a page differs between two indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexDivergence {
    /// Only the first has the page.
    Missing,
    /// Only the second has the page.
    Added,
    /// Both have the page, with different rows.
    Changed,
}

/// Ignores `spellings`: an index may have words that no page has any more, which are not suggested.
impl PartialEq for IndexFingerprint {
    fn eq(&self, other: &Self) -> bool {
        let rows = |of: &Self| (of.digest, of.pages, of.links, of.words, of.postings);
        (rows(self), &self.damage, &self.typed_links) == (rows(other), &other.damage, &other.typed_links)
    }
}

impl Eq for IndexFingerprint {}

impl IndexFingerprint {
    /// Whether the index gives the same answers as a rebuilt one.
    pub fn is_equivalent_to(&self, rebuilt: &Self) -> bool {
        self == rebuilt && self.spellings.is_superset(&rebuilt.spellings)
    }
    /// The files for which `other` differs, in path order. Empty with unequal fingerprints means
    /// that only the full-text index differs (`postings`).
    pub fn differences(&self, other: &Self) -> Vec<PageDifference> {
        let mut differences = differences(&self.page_digests, &other.page_digests);
        differences.extend(self::differences(&self.assets, &other.assets));
        differences.sort_by(|a, b| a.path.cmp(&b.path));
        differences
    }
}

fn differences(old: &BTreeMap<TreePath, ETag>, new: &BTreeMap<TreePath, ETag>) -> Vec<PageDifference> {
    let before = old.iter().filter_map(|(path, digest)| match new.get(path) {
        None => Some((path, IndexDivergence::Missing)),
        Some(other) if other != digest => Some((path, IndexDivergence::Changed)),
        Some(_) => None,
    });
    let added = new.keys().filter(|path| !old.contains_key(*path)).map(|path| (path, IndexDivergence::Added));
    before.chain(added).map(|(path, divergence)| PageDifference { path: path.clone(), divergence }).collect()
}

impl Index {
    /// Reads and hashes the full index; takes about as long as reading the file.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn fingerprint(&self) -> Result<IndexFingerprint, IndexError> {
        self.readers.read(|connection| fingerprint(connection))
    }
}

pub(crate) fn fingerprint(connection: &Connection) -> Result<IndexFingerprint, IndexError> {
    let digests = page_digests(connection)?;
    let (postings, words) = postings(connection)?;
    let mut bytes = postings.as_bytes().to_vec();
    for (path, digest) in &digests {
        bytes.extend_from_slice(path.as_str().as_bytes());
        bytes.extend_from_slice(digest.as_bytes());
    }
    let ContentRules { typed_links, hidden_files } = schema::content_rules(connection)?;
    let assets = asset_digests(connection)?;
    for (path, digest) in &assets {
        bytes.extend_from_slice(path.as_str().as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(digest.as_bytes());
    }
    Ok(IndexFingerprint {
        digest: ETag::from_content(&bytes),
        pages: digests.len(),
        links: count(connection, "links")?,
        words,
        postings,
        damage: damage(connection)?,
        typed_links,
        hidden_files,
        hot_fields: fields::hot_fields(connection)?.into_iter().map(|(_, name)| name).collect(),
        page_digests: digests,
        assets,
        spellings: spellings(connection)?,
    })
}

fn spellings(connection: &Connection) -> Result<BTreeSet<String>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT word FROM spellings")?;
    let words = statement.query_map([], |row| row.get(0))?;
    Ok(words.collect::<rusqlite::Result<_>>()?)
}

/// Runs the integrity check of FTS5.
fn damage(connection: &Connection) -> Result<Option<String>, IndexError> {
    let verdict: String = connection.query_row("PRAGMA integrity_check('texts')", [], |row| row.get(0))?;
    Ok((verdict != "ok").then_some(verdict))
}

fn page_digests(connection: &Connection) -> Result<BTreeMap<TreePath, ETag>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT pages.id, pages.path, pages.etag, pages.title, pages.excerpt, pages.word_count, pages.frontmatter,
                pages.headings, pages.size, pages.tasks, pages.metadata, pages.inline, bodies.frontmatter, bodies.body,
                bodies.first_line, forwards.path,
                forwards.soft, forwards.hard, forwards.words
         FROM pages LEFT JOIN bodies ON bodies.page = pages.id LEFT JOIN forwards ON forwards.page = pages.id
         ORDER BY pages.path",
    )?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut digests = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let mut hasher = CanonicalHasher::default();
        for column in 1..columns {
            hasher.add(row.get_ref(column)?);
        }
        let id: i64 = row.get(0)?;
        hasher.rows(connection, "SELECT kind, text, folded FROM page_keys WHERE page = ?1 ORDER BY kind, text", id)?;
        hasher.rows(
            connection,
            "SELECT hot_fields.field, kind, value FROM field_values JOIN hot_fields ON hot_fields.id = field_values.field
             WHERE page = ?1 ORDER BY hot_fields.field, kind, value",
            id,
        )?;
        hasher.rows(connection, LINKS, id)?;
        hasher.rows(connection, LINK_KEYS, id)?;
        hasher.rows(connection, "SELECT message FROM lint_errors WHERE page = ?1", id)?;
        digests.insert(tree_path(&row.get::<_, String>(1)?)?, ETag::from_content(&hasher.bytes));
    }
    Ok(digests)
}

/// The files that are not pages, with the hash of the links of each.
fn asset_digests(connection: &Connection) -> Result<BTreeMap<TreePath, ETag>, IndexError> {
    let mut digests = BTreeMap::new();
    for (id, path) in assets::all(connection)? {
        let mut hasher = CanonicalHasher::default();
        hasher.rows(connection, LINKS, id)?;
        hasher.rows(connection, LINK_KEYS, id)?;
        digests.insert(tree_path(&path)?, ETag::from_content(&hasher.bytes));
    }
    Ok(digests)
}

/// The hash of all vocabularies, and the number of terms in the first.
fn postings(connection: &Connection) -> Result<(ETag, usize), IndexError> {
    let mut hasher = CanonicalHasher::default();
    let mut words = 0;
    for vocabulary in ["terms", "name_terms", "anchor_terms"] {
        let mut statement = connection.prepare_cached(&format!("SELECT term, doc, cnt FROM {vocabulary}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            words += usize::from(vocabulary == "terms");
            for column in 0..3 {
                hasher.add(row.get_ref(column)?);
            }
        }
        hasher.bytes.push(b'.');
    }
    Ok((ETag::from_content(&hasher.bytes), words))
}

/// Collects values, each after its type and length, so that different rows never give the same
/// bytes.
#[derive(Default)]
struct CanonicalHasher {
    bytes: Vec<u8>,
}

impl CanonicalHasher {
    fn add(&mut self, value: rusqlite::types::ValueRef<'_>) {
        use rusqlite::types::ValueRef;
        let number: [u8; 8];
        let (kind, bytes): (u8, &[u8]) = match value {
            ValueRef::Null => (0, &[]),
            ValueRef::Integer(integer) => {
                number = integer.to_le_bytes();
                (1, &number)
            }
            ValueRef::Real(real) => {
                number = real.to_le_bytes();
                (2, &number)
            }
            ValueRef::Text(text) => (3, text),
            ValueRef::Blob(blob) => (4, blob),
        };
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
    }

    fn rows(&mut self, connection: &Connection, sql: &str, id: i64) -> rusqlite::Result<()> {
        let mut statement = connection.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query(params![id])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                self.add(row.get_ref(column)?);
            }
            self.bytes.push(b';');
        }
        self.bytes.push(b'.');
        Ok(())
    }
}
