//! `index.db`: the search index of one space (full text, frontmatter and links of its pages).
//!
//! Invariant: the index is a cache. Callers hand it pages; it never reads the tree. The file can be
//! deleted at any time, a damaged or outdated file is replaced when it is opened, and
//! [`Index::rebuild`] rebuilds everything while queries still read the old rows.
//!
//! Why one SQLite file and no separate search engine? Text, frontmatter, links and the position in
//! the change log change in one transaction. A caller that reads "indexed up to 17" finds exactly
//! what change 17 wrote.
//!
//! A change to the schema, or to what `svcfs-text` reads from a page, raises the schema number in
//! `schema.rs`.
#![warn(missing_docs)]

mod assets;
mod bulk;
mod canvases;
mod change_log;
mod connections;
mod dataview;
mod dates;
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
mod outline;
mod pages;
mod pipeline;
mod rebuild;
mod recent_pages;
mod schema;
mod search;
mod segments;
mod similar_paths;
mod tasks;
#[cfg(test)]
mod tests;
mod value;
mod visible;
mod words;
mod workflows;
mod writer;

use std::error::Error;
use std::path::Path;

use parking_lot::Mutex;
use svcfs_base::{ETag, HiddenFiles, Seq, Timestamp, TreePath};
use svcfs_text::links::LinkResolution;

pub use dataview::{DataviewAnswer, DataviewLimits};
pub use dates::parse_day;
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
pub use outline::{TopCounts, TreeOutline};
pub use pages::{PageHeading, PageRow};
pub use search::{
    MAX_QUERY_BYTES, MAX_QUERY_WORDS, PageProperties, QuestionWords, RankedPage, SearchAnswer, SearchHit, SearchQuery,
    SpellingSuggestion, TrustBoost, WordRanking,
};
pub use segments::MergeStep;
pub use visible::VisiblePages;
pub use workflows::WorkflowPage;

use connections::ReaderPool;
use segments::WriterLock;
use words::Dictionary;
use writer::{ContentRules, IndexWriter, WriteBatch};

/// Number of results of a query: 50 by default, 200 at most.
pub type AnswerLimit = svcfs_base::Limit<50, 200>;

/// One file of the tree, as input of the index.
#[derive(Debug, Clone)]
pub enum IndexEntry {
    /// The page exists. Other files, and hidden pages, are ignored.
    Page {
        /// Path of the file.
        path: TreePath,
        /// Hash of `text`. A page whose hash is indexed already is not read again.
        etag: ETag,
        /// The full content, frontmatter included.
        text: String,
        /// Time of the last change.
        modified: Timestamp,
    },
    /// The canvas exists: its links count. Hidden files are ignored.
    Canvas {
        /// Path of the file.
        path: TreePath,
        /// Hash of `text`.
        etag: ETag,
        /// The full content.
        text: String,
    },
    /// Another file exists: links may mean it. Hidden files are ignored.
    Asset(TreePath),
    /// No file exists at this path any more.
    Deleted(TreePath),
}

impl IndexEntry {
    /// Path of the file.
    pub const fn path(&self) -> &TreePath {
        match self {
            Self::Page { path, .. } | Self::Canvas { path, .. } | Self::Asset(path) | Self::Deleted(path) => path,
        }
    }

    /// Bytes of text, to limit the size of a batch.
    fn text_bytes(&self) -> usize {
        match self {
            Self::Page { text, .. } | Self::Canvas { text, .. } => text.len(),
            Self::Asset(_) | Self::Deleted(_) => 0,
        }
    }
}

/// The index of one space. Every method blocks. Queries run concurrently with each other, with a
/// write and with a rebuild.
pub struct Index {
    writer: WriterLock,
    readers: ReaderPool,
    /// Locked by the running rebuild.
    rebuild: Mutex<()>,
    /// The link graph, loaded when it is first read.
    graph: graph::GraphCache,
    rules: ContentRules,
    link_resolution: LinkResolution,
    /// How often queries use each field.
    field_usage: fields::FieldUsage,
    /// Selects the fields that are indexed when their first page is written.
    early_fields: fields::EarlyFields,
    backlinks: links::BacklinkCache,
    answers: search::AnswerCache,
    changes: change_log::ChangeLog,
}

impl Index {
    /// Opens the index. Creates a new one (cursor 0) when the file is absent, damaged or of another
    /// version.
    ///
    /// # Errors
    /// [`IndexError::Database`] or [`IndexError::Disk`] when the file cannot be created or
    /// replaced.
    pub fn open(file: &Path) -> Result<Self, IndexError> {
        let connection = schema::open_writer(file)?;
        let rules = schema::content_rules(&connection)?;
        Ok(Self {
            writer: WriterLock::new(IndexWriter { connection, touched_pages: None }),
            readers: ReaderPool::new(file.to_owned()),
            rebuild: Mutex::new(()),
            graph: graph::GraphCache::default(),
            rules,
            link_resolution: LinkResolution::default(),
            field_usage: fields::FieldUsage::default(),
            early_fields: fields::EarlyFields::default(),
            backlinks: links::BacklinkCache::default(),
            answers: search::AnswerCache::default(),
            changes: change_log::ChangeLog::default(),
        })
    }

    /// Also treats the values of these frontmatter keys as links (`links.typed_fields`). An index
    /// that was filled with other keys is emptied (cursor 0).
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn with_typed_links(self, keys: Vec<String>) -> Result<Self, IndexError> {
        let rules = ContentRules { typed_links: keys, ..self.rules.clone() };
        self.with_rules(rules)
    }

    /// Also indexes these hidden files (`files.serve_hidden`). An index that was filled with other
    /// exceptions is emptied (cursor 0).
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn with_hidden_files(self, hidden_files: HiddenFiles) -> Result<Self, IndexError> {
        let rules = ContentRules { hidden_files, ..self.rules.clone() };
        self.with_rules(rules)
    }

    fn with_rules(self, rules: ContentRules) -> Result<Self, IndexError> {
        if rules != self.rules {
            schema::reset_with_rules(&mut self.writer.lock().connection, &rules)?;
        }
        Ok(Self { rules, ..self })
    }

    /// Sets which of several files of one name a link means (`links.resolution`). No row depends on
    /// it.
    #[must_use]
    pub fn with_link_resolution(self, resolution: LinkResolution) -> Self {
        Self { link_resolution: resolution, ..self }
    }

    /// Which of several files of one name a link means.
    pub const fn link_resolution(&self) -> LinkResolution {
        self.link_resolution
    }

    /// Sets how many fields may be indexed when their first page is written
    /// (`dataview.max_auto_indexes`).
    #[must_use]
    pub fn with_auto_indexes(self, max_fields: usize) -> Self {
        Self { early_fields: fields::EarlyFields::with_limit(max_fields), ..self }
    }

    /// Indexes these fields ([`IndexFingerprint::hot_fields`]). The index must be empty.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn with_hot_fields(self, names: &[String]) -> Result<Self, IndexError> {
        names.iter().try_for_each(|name| fields::add(&self.writer.lock().connection, name))?;
        Ok(self)
    }

    /// Position in the change log up to which the index reflects the tree; 0 for a new index.
    ///
    /// # Errors
    /// [`IndexError::Database`].
    pub fn cursor(&self) -> Result<Seq, IndexError> {
        self.readers.peek(|connection| Ok(writer::cursor(connection)?))
    }

    /// Releases memory: the caches of the writer and of idle connections and, when no query ran
    /// recently, the cached results. Returns true in that case.
    pub fn release_memory(&self) -> bool {
        let _ = self.writer.lock().connection.release_memory();
        let is_idle = self.readers.release_idle();
        if is_idle {
            self.answers.clear();
            self.backlinks.clear();
        }
        is_idle
    }

    /// Indexes changes and moves the cursor, in one transaction. Idempotent.
    ///
    /// # Errors
    /// [`IndexError::Database`]; then neither rows nor cursor changed.
    pub fn ingest(&self, entries: &[IndexEntry], cursor: Seq) -> Result<(), IndexError> {
        // Most of the work is done before the lock is taken.
        let mut dictionary = Dictionary::default();
        let batch = WriteBatch::read(entries, &self.rules, &mut dictionary)?;
        schema::mark_if_corrupt(self.readers.file(), self.apply_batch(&batch, cursor))
    }

    /// Indexes many files, each batch in its own transaction, which also moves the cursor. Meant
    /// for a full tree: takes half as long as [`Index::ingest`]. Two batches are in memory at the
    /// same time.
    ///
    /// # Errors
    /// [`IndexError::Source`] when `batches` yields an error; [`IndexError::Database`]. Batches
    /// that were written before stay.
    pub fn ingest_all<E: Into<Box<dyn Error + Send + Sync>>>(
        &self,
        batches: impl Iterator<Item = Result<Vec<IndexEntry>, E>>,
        cursor: Seq,
    ) -> Result<(), IndexError> {
        let outcome = self
            .with_bulk_load(|| pipeline::run((batches, &self.rules), |batch| self.apply_batch(batch, cursor), |_| ()));
        schema::mark_if_corrupt(self.readers.file(), outcome)
    }

    fn apply_batch(&self, batch: &WriteBatch, cursor: Seq) -> Result<(), IndexError> {
        let writer = &mut *self.writer.lock();
        let transaction = writer.connection.transaction()?;
        let mut changes = self.graph.start_recording();
        if writer.touched_pages.is_none() {
            self.early_fields.register(&transaction, batch.documents())?;
        }
        let rows = fields::FieldWriter::for_hot_fields(&transaction)?;
        for step in &batch.steps {
            changes.record_step(&transaction, step)?;
            step.apply(&transaction, schema::TableSet::Live, &rows)?;
            if writer.touched_pages.is_some() {
                step.apply(&transaction, schema::TableSet::Next, &rows)?;
            }
        }
        batch.insert_spellings(&transaction, schema::TableSet::Live)?;
        if writer.touched_pages.is_some() {
            batch.insert_spellings(&transaction, schema::TableSet::Next)?;
        }
        writer::set_cursor(&transaction, cursor)?;
        let commit = self.graph.lock_for_commit();
        transaction.commit()?;
        commit.record(changes);
        self.answers.clear();
        self.backlinks.clear();
        self.changes.record(batch.steps.iter().map(writer::WriteStep::path));
        if let Some(touched_pages) = &mut writer.touched_pages {
            touched_pages.extend(batch.steps.iter().map(|step| step.path().clone()));
        }
        Ok(())
    }
}
