//! `index.db`: full text, frontmatter and links of the pages of one space, ready to be asked.
//!
//! One rule: the index is a cache. It is handed pages and never looks for them; the file can be deleted at any time, a
//! damaged or outdated one is replaced when it is opened, and [`Index::rebuild`] makes all of it again while questions
//! are still answered from what was there.
//!
//! Why one file and not a search engine beside SQLite? Because text, frontmatter, links and the position in the change
//! log then move in one transaction, and a caller who was told "indexed up to 17" finds exactly what 17 wrote.
//!
//! A change to the schema, or to what `svcfs-text` reads from a page, raises the schema number in `schema.rs`.
#![warn(missing_docs)]

mod bulk;
mod connections;
mod document;
mod dql;
mod error;
mod field_words;
mod fields;
mod fingerprint;
mod graph;
mod inspection;
mod links;
mod meta;
mod moments;
mod outline;
mod pages;
mod pipeline;
mod rebuild;
mod recent_pages;
mod schema;
mod search;
mod segments;
mod tasks;
#[cfg(test)]
mod tests;
mod value;
mod words;
mod writer;

use std::error::Error;
use std::path::Path;

use parking_lot::Mutex;
use svcfs_base::{ETag, Seq, Timestamp, TreePath};

pub use dql::{
    ColumnSummary, CustomFields, DqlQuery, QueryAnswer, QueryLimits, QueryMode, QueryRefinement, RowFilter, RowGroup,
    ViewColumn,
};
pub use error::IndexError;
pub use fingerprint::{IndexDivergence, IndexFingerprint, PageDifference};
pub use graph::{GraphNode, GraphPage, LinkGraph, PageFacts, ReviewDay, UnresolvedLink};
pub use inspection::IndexInspection;
pub use links::{Backlink, LinkFollower, OutLink, ResolvedLink};
pub use meta::{MetaCondition, MetaQuery, MetaRow, SortKey, SortOrder};
pub use moments::parse_day;
pub use outline::{TopCounts, TreeOutline};
pub use pages::{PageHeading, PageRow};
pub use search::{SearchAnswer, SearchHit, SearchQuery, SpellingSuggestion, TrustBoost};
pub use segments::MergeStep;

use connections::ReaderPool;
use segments::WriterLock;
use words::Dictionary;
use writer::{IndexWriter, WriteBatch};

/// How many answers a question gives: 50 when not said, 200 at most (gaps.md 8).
pub type AnswerLimit = svcfs_base::Limit<50, 200>;

/// One file of the tree, as the index is told of it.
#[derive(Debug, Clone)]
pub enum IndexEntry {
    /// The file is there. Files that are no pages, and pages below a dot name, are left out (gaps.md D4).
    Page {
        /// Where.
        path: TreePath,
        /// The hash of `text`: a page whose hash is known already costs next to nothing.
        etag: ETag,
        /// The whole file, frontmatter included.
        text: String,
        /// When it was last changed.
        modified: Timestamp,
    },
    /// Nothing is at this path any more.
    Deleted(TreePath),
}

impl IndexEntry {
    /// Where.
    pub const fn path(&self) -> &TreePath {
        match self {
            Self::Page { path, .. } | Self::Deleted(path) => path,
        }
    }

    /// The bytes of text it holds, for bounding a batch.
    fn weight(&self) -> usize {
        match self {
            Self::Page { text, .. } => text.len(),
            Self::Deleted(_) => 0,
        }
    }
}

/// The index of one space. Every method blocks; questions run beside each other and beside a write or a rebuild.
pub struct Index {
    writer: WriterLock,
    readers: ReaderPool,
    /// Held by the one rebuild that may run.
    rebuild: Mutex<()>,
    /// The link graph, once somebody asked for it.
    graph: graph::GraphCache,
    /// Keys of the frontmatter whose values are links, too.
    typed_links: Vec<String>,
    /// Which fields queries ask for.
    heat: fields::FieldUsage,
    /// Which fields get rows with the first page that has them.
    early_fields: fields::EarlyFields,
    /// The pages that link to those that were asked about lately.
    backlinks: links::BacklinkCache,
    /// What was found lately.
    answers: search::AnswerCache,
}

impl Index {
    /// Opens the index, or makes a new one (cursor 0) when the file is absent, damaged or of another version.
    ///
    /// # Errors
    /// [`IndexError::Database`] or [`IndexError::Disk`] when the file cannot be made or replaced.
    pub fn open(file: &Path) -> Result<Self, IndexError> {
        let connection = schema::open_writer(file)?;
        let typed_links = schema::typed_links(&connection)?;
        Ok(Self {
            writer: WriterLock::new(IndexWriter { connection, touched: None }),
            readers: ReaderPool::new(file.to_owned()),
            rebuild: Mutex::new(()),
            graph: graph::GraphCache::default(),
            typed_links,
            heat: fields::FieldUsage::default(),
            early_fields: fields::EarlyFields::default(),
            backlinks: links::BacklinkCache::default(),
            answers: search::AnswerCache::default(),
        })
    }

    /// The same with links in fields of the frontmatter: the values of these keys name pages (`links.typed_fields`). An index that was
    /// filled by other keys is empty then, at cursor 0.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn with_typed_links(self, keys: Vec<String>) -> Result<Self, IndexError> {
        if keys != self.typed_links {
            schema::begin_with_typed_links(&mut self.writer.lock().connection, &keys)?;
        }
        Ok(Self { typed_links: keys, ..self })
    }

    /// The same with indexes of so many fields at most that appear with the first page that has such a field (`dataview.max_auto_indexes`).
    #[must_use]
    pub fn with_auto_indexes(self, at_most: usize) -> Self {
        Self { early_fields: fields::EarlyFields::at_most(at_most), ..self }
    }

    /// The same, empty, with indexes of these fields ([`Fingerprint::hot_fields`]).
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn with_hot_fields(self, names: &[String]) -> Result<Self, IndexError> {
        names.iter().try_for_each(|name| fields::add(&self.writer.lock().connection, name))?;
        Ok(self)
    }

    /// The position of the change log up to which the index reflects the tree; 0 for a new index.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn cursor(&self) -> Result<Seq, IndexError> {
        self.readers.peek(|connection| Ok(writer::cursor(connection)?))
    }

    /// Gives memory back: what was read for the last pages that were taken in, what connections have read that are idle and, when no
    /// question was asked lately, answers that were retained. True in that case.
    pub fn release_memory(&self) -> bool {
        let _ = self.writer.lock().connection.release_memory();
        let is_idle = self.readers.rest();
        if is_idle {
            self.answers.forget();
            self.backlinks.forget();
        }
        is_idle
    }

    /// Takes in changes and moves the cursor, all in one transaction; doing it again changes nothing.
    ///
    /// # Errors
    /// [`IndexError::Database`]; then neither rows nor cursor moved.
    pub fn ingest(&self, entries: &[IndexEntry], cursor: Seq) -> Result<(), IndexError> {
        // Read before the lock is taken: this is most of the work.
        let mut dictionary = Dictionary::default();
        let batch = WriteBatch::read(entries, &self.typed_links, &mut dictionary)?;
        schema::noticed(self.readers.file(), self.take_in(&batch, cursor))
    }

    /// Takes in many files, each batch in a transaction of its own that moves the cursor, too: for a whole tree, which takes half as
    /// long as with [`Index::ingest`]. Two batches are in memory at once.
    ///
    /// # Errors
    /// [`IndexError::Source`] when `batches` yields an error; [`IndexError::Database`]. What was taken in before stays.
    pub fn ingest_all<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        batches: impl Iterator<Item = Result<Vec<IndexEntry>, E>>,
        cursor: Seq,
    ) -> Result<(), IndexError> {
        let outcome =
            self.filling(|| pipeline::run((batches, &self.typed_links), |batch| self.take_in(batch, cursor), |_| ()));
        schema::noticed(self.readers.file(), outcome)
    }

    fn take_in(&self, batch: &WriteBatch, cursor: Seq) -> Result<(), IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        let mut changed = self.graph.changed();
        if writer.touched.is_none() {
            self.early_fields.register(&transaction, batch.documents())?;
        }
        let rows = fields::FieldWriter::of_hot(&transaction)?;
        for step in &batch.steps {
            changed.note(&transaction, step)?;
            step.take(&transaction, schema::TableSet::Live, &rows)?;
            if writer.touched.is_some() {
                step.take(&transaction, schema::TableSet::Next, &rows)?;
            }
        }
        batch.spell(&transaction, schema::TableSet::Live)?;
        if writer.touched.is_some() {
            batch.spell(&transaction, schema::TableSet::Next)?;
        }
        writer::set_cursor(&transaction, cursor)?;
        let committing = self.graph.committing();
        transaction.commit()?;
        committing.done(changed);
        self.answers.forget();
        self.backlinks.forget();
        if let Some(touched) = &mut writer.touched {
            touched.extend(batch.steps.iter().map(|step| step.path().clone()));
        }
        Ok(())
    }
}
