//! One value that two indexes share only when they would give the same answers.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};
use serde::Serialize;
use svcfs_base::{ETag, TreePath};

use crate::pages::{count, tree_path};
use crate::{Index, IndexError, fields, schema};

/// A hash over every row that answers are made of, in an order that does not depend on how the rows came about.
///
/// Left out are row numbers and the time of the last change: both may differ between an index that grew and one that was
/// made at once.
#[derive(Debug, Clone, Serialize)]
pub struct IndexFingerprint {
    /// The hash of all the rest.
    pub digest: ETag,
    /// How many pages there are.
    pub pages: usize,
    /// How many links they have.
    pub links: usize,
    /// How many different words, as the full-text index knows them.
    pub words: usize,
    /// The hash of the full-text index itself: every word with the number of pages and places it is found in.
    pub postings: ETag,
    /// What SQLite finds wrong when it compares the full-text index with the texts it was made from; none when it is right.
    pub damage: Option<String>,
    /// The fields whose values are links, by which it was filled.
    #[serde(skip)]
    pub typed_links: Vec<String>,
    /// The fields that have an index of their own. They come from questions and from the order in which pages were written, so that an index
    /// that is made anew is given the same ones before it is compared.
    #[serde(skip)]
    pub hot_fields: Vec<String>,
    /// The hash of the rows of each page.
    #[serde(skip)]
    pub page_digests: BTreeMap<TreePath, ETag>,
    /// The words that may be suggested. Those that left their last page stay, and are not offered.
    #[serde(skip)]
    pub spellings: BTreeSet<String>,
}

/// A page for which two fingerprints disagree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PageDifference {
    /// Which page.
    pub path: TreePath,
    /// In what way.
    pub divergence: IndexDivergence,
}

/// How one index differs from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexDivergence {
    /// Only the first has the page.
    Missing,
    /// Only the second has the page.
    Added,
    /// Both have it, with other rows.
    Changed,
}

/// Words to suggest are left out: one index may have some that left their last page, which are not offered.
impl PartialEq for IndexFingerprint {
    fn eq(&self, other: &Self) -> bool {
        let rows = |of: &Self| (of.digest, of.pages, of.links, of.words, of.postings);
        (rows(self), &self.damage, &self.typed_links) == (rows(other), &other.damage, &other.typed_links)
    }
}

impl Eq for IndexFingerprint {}

impl IndexFingerprint {
    /// Whether an index gives the answers of one that was made anew.
    pub fn is_equivalent_to(&self, fresh: &Self) -> bool {
        self == fresh && self.spellings.is_superset(&fresh.spellings)
    }
    /// The pages for which `later` differs from this one, in path order. Empty with unequal fingerprints means that only the
    /// full-text index itself differs (`postings`).
    pub fn differences(&self, later: &Self) -> Vec<PageDifference> {
        let before = self.page_digests.iter().filter_map(|(path, digest)| match later.page_digests.get(path) {
            None => Some((path, IndexDivergence::Missing)),
            Some(other) if other != digest => Some((path, IndexDivergence::Changed)),
            Some(_) => None,
        });
        let added = later.page_digests.keys().filter(|path| !self.page_digests.contains_key(*path));
        let mut all: Vec<PageDifference> = before
            .chain(added.map(|path| (path, IndexDivergence::Added)))
            .map(|(path, divergence)| PageDifference { path: path.clone(), divergence })
            .collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }
}

impl Index {
    /// Reads everything and hashes it; takes about as long as reading the file.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn fingerprint(&self) -> Result<IndexFingerprint, IndexError> {
        self.readers.read(|connection| fingerprint(connection))
    }
}

pub(crate) fn fingerprint(connection: &Connection) -> Result<IndexFingerprint, IndexError> {
    let by_page = by_page(connection)?;
    let (postings, words) = postings(connection)?;
    let mut all = postings.as_bytes().to_vec();
    for (path, digest) in &by_page {
        all.extend_from_slice(path.as_str().as_bytes());
        all.extend_from_slice(digest.as_bytes());
    }
    Ok(IndexFingerprint {
        digest: ETag::from_content(&all),
        pages: by_page.len(),
        links: count(connection, "links")?,
        words,
        postings,
        damage: damage(connection)?,
        typed_links: schema::typed_links(connection)?,
        hot_fields: fields::hot(connection)?.into_iter().map(|(_, name)| name).collect(),
        page_digests: by_page,
        spellings: spellings(connection)?,
    })
}

fn spellings(connection: &Connection) -> Result<BTreeSet<String>, IndexError> {
    let mut statement = connection.prepare_cached("SELECT word FROM spellings")?;
    let words = statement.query_map([], |row| row.get(0))?;
    Ok(words.collect::<rusqlite::Result<_>>()?)
}

/// Asks FTS5 to compare its postings with the texts it keeps.
fn damage(connection: &Connection) -> Result<Option<String>, IndexError> {
    let verdict: String = connection.query_row("PRAGMA integrity_check('texts')", [], |row| row.get(0))?;
    Ok((verdict != "ok").then_some(verdict))
}

fn by_page(connection: &Connection) -> Result<BTreeMap<TreePath, ETag>, IndexError> {
    let mut statement = connection.prepare_cached(
        "SELECT pages.id, pages.path, pages.etag, pages.title, pages.excerpt, pages.word_count, pages.frontmatter,
                pages.headings, pages.size, pages.tasks, bodies.frontmatter, bodies.body, forwards.path,
                forwards.soft, forwards.hard, forwards.words
         FROM pages LEFT JOIN bodies ON bodies.page = pages.id LEFT JOIN forwards ON forwards.page = pages.id
         ORDER BY pages.path",
    )?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    let mut digests = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let mut canon = CanonicalHasher::default();
        for column in 1..columns {
            canon.add(row.get_ref(column)?);
        }
        let id: i64 = row.get(0)?;
        canon.rows(connection, "SELECT kind, text, folded FROM page_keys WHERE page = ?1 ORDER BY kind, text", id)?;
        canon.rows(
            connection,
            "SELECT hot_fields.field, kind, value FROM field_values JOIN hot_fields ON hot_fields.id = field_values.field
             WHERE page = ?1 ORDER BY hot_fields.field, kind, value",
            id,
        )?;
        canon.rows(
            connection,
            "SELECT position, is_wiki, target, heading, context FROM links WHERE page = ?1 ORDER BY position",
            id,
        )?;
        canon.rows(
            connection,
            "SELECT position, folded FROM link_keys WHERE page = ?1 ORDER BY position, folded",
            id,
        )?;
        digests.insert(tree_path(&row.get::<_, String>(1)?)?, ETag::from_content(&canon.bytes));
    }
    Ok(digests)
}

/// The hash of all vocabularies, and the number of words in the first.
fn postings(connection: &Connection) -> Result<(ETag, usize), IndexError> {
    let mut canon = CanonicalHasher::default();
    let mut words = 0;
    for vocabulary in ["terms", "name_terms", "anchor_terms"] {
        let mut statement = connection.prepare_cached(&format!("SELECT term, doc, cnt FROM {vocabulary}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            words += usize::from(vocabulary == "terms");
            for column in 0..3 {
                canon.add(row.get_ref(column)?);
            }
        }
        canon.bytes.push(b'.');
    }
    Ok((ETag::from_content(&canon.bytes), words))
}

/// Values one after the other, each with its kind and length before it, so that no two lists give the same bytes.
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
