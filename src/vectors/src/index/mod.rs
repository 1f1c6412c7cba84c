//! `vectors.db`: the vectors of the pages of one space, and the search among them.
//!
//! Invariant: the file is a cache. Callers hand it pages; it never reads the tree. It can be
//! deleted at any time, and a damaged or outdated file is replaced when it is opened.
//!
//! Vectors are addressed by model and text: a page that is renamed, or a paragraph that many pages
//! have, is embedded once. Texts are not stored; callers read them from the page.
//!
//! After a change of the chunk settings each page is replaced when its turn comes, and its old
//! chunks are found until then. After a change of the model, the old one answers until
//! [`VectorIndex::finish`], if it can still embed questions: that is the embedded model. Vectors of
//! other models are removed, because their embedder is not configured any more.

mod embedding;
mod error;
mod model_vectors;
mod remote;
mod rows;
mod schema;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use rustc_hash::FxHashSet;
use svcfs_base::{ETag, TreePath};

use crate::{ChunkRules, EmbedError, EmbeddedModel, Embedder, NearVector, TextKind, VectorFilter, VectorStore};

pub use error::{VectorIndexError, VectorProblem};
use model_vectors::{ModelVectors, chunk_id, ord_of, page_of, read_vector};
pub use status::VectorStatus;

/// What a vector index is opened with.
pub struct VectorIndexOptions {
    /// Path of `vectors.db`.
    pub file: PathBuf,
    /// Computes the vectors.
    pub embedder: Arc<dyn Embedder>,
    /// A remote store; without one, vectors are searched in memory.
    pub store: Option<RemoteStore>,
    /// How pages are split.
    pub rules: ChunkRules,
    /// Limit of concurrent calls of the embedder.
    pub workers: NonZeroUsize,
}

/// A vector database elsewhere.
pub struct RemoteStore {
    /// Identifies the database and the collection: a new one is filled from the start.
    pub name: String,
    /// Its client.
    pub store: Arc<dyn VectorStore>,
}

/// A page to embed.
#[derive(Debug, Clone)]
pub struct PageText {
    /// Its path.
    pub path: TreePath,
    /// Hash of the text.
    pub etag: ETag,
    /// The full content, frontmatter included.
    pub text: String,
}

/// A chunk that is near to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct NearChunk {
    /// Its page.
    pub path: TreePath,
    /// Its position among the chunks of the page, from 0.
    pub ord: u32,
    /// First and last line in the page, from 1.
    pub lines: (u32, u32),
    /// Anchor of the heading above it.
    pub heading: Option<String>,
    /// Cosine of the angle to the question: at most 1.
    pub similarity: f32,
}

/// The chunks of a page, as they were embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct PageChunks {
    /// Hash of the text that was embedded.
    pub etag: ETag,
    /// The chunks that have a vector, in order.
    pub chunks: Vec<EmbeddedChunk>,
}

/// A chunk with its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct EmbeddedChunk {
    /// Its position among the chunks of the page, from 0.
    pub ord: u32,
    /// First and last line in the page, from 1.
    pub lines: (u32, u32),
    /// Anchor of the heading above it.
    pub heading: Option<String>,
    /// Its vector, rounded to 8 bits for each number.
    pub vector: Vec<f32>,
}

/// The vectors of one space. Every method blocks; searches run concurrently with each other and
/// with an update.
pub struct VectorIndex {
    file: PathBuf,
    writer: Mutex<Connection>,
    /// Resolves chunks that were found.
    reader: Mutex<Connection>,
    current: ModelVectors,
    /// The model that answers while pages are embedded again.
    previous: RwLock<Option<Arc<ModelVectors>>>,
    store: Option<RemoteStore>,
    /// Whether the remote store has other vectors than `vectors.db` says.
    is_store_outdated: AtomicBool,
    rules: ChunkRules,
    workers: NonZeroUsize,
    /// Pages and chunks, counted when they are first needed.
    counts: Mutex<Option<(usize, usize)>>,
    pending: AtomicUsize,
    problem: Mutex<Option<VectorProblem>>,
}

impl VectorIndex {
    /// Opens the index. A file that is absent, damaged or of another version is replaced.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`] or [`VectorIndexError::Disk`] when it cannot be.
    pub fn open(options: VectorIndexOptions) -> Result<Self, VectorIndexError> {
        let VectorIndexOptions { file, embedder, store, rules, workers } = options;
        let mut connection = schema::open_writer(&file)?;
        let current = rows::model_id(&connection, embedder.model())?;
        let current = ModelVectors::new(current, embedder);
        current.set_dimensions(rows::dimensions(&connection, current.id)?);
        let previous = previous_model(&mut connection, &current)?;
        let is_store_outdated = match &store {
            Some(store) => rows::stored_in(&connection)?.as_deref() != Some(&*store_name(store, &current)),
            None => false,
        };
        if store.is_none() {
            // A store that is configured later has other vectors by then.
            rows::forget_store(&connection)?;
        }
        let reader = Mutex::new(schema::open_reader(&file)?);
        Ok(Self {
            file,
            writer: Mutex::new(connection),
            reader,
            current,
            previous: RwLock::new(previous.map(Arc::new)),
            store,
            is_store_outdated: AtomicBool::new(is_store_outdated),
            rules,
            workers,
            counts: Mutex::new(None),
            pending: AtomicUsize::new(0),
            problem: Mutex::new(None),
        })
    }

    /// How pages are split.
    #[must_use]
    pub const fn rules(&self) -> ChunkRules {
        self.rules
    }

    /// The embedder of questions and pages.
    #[must_use]
    pub fn embedder(&self) -> &Arc<dyn Embedder> {
        &self.current.embedder
    }

    /// Whether an update may wait for another server.
    #[must_use]
    pub fn uses_network(&self) -> bool {
        self.store.is_some() || matches!(self.rules, ChunkRules::Merged { .. })
    }

    /// Reads the vectors into memory, unless that was done or a remote store has them. The first
    /// search does it otherwise.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`].
    pub fn load(&self) -> Result<(), VectorIndexError> {
        let previous = self.previous.read().clone();
        let model = previous.as_deref().unwrap_or(&self.current);
        self.load_model(model)
    }

    fn load_model(&self, model: &ModelVectors) -> Result<(), VectorIndexError> {
        if model.is_loaded() || self.is_remote(model) {
            return Ok(());
        }
        let loaded = schema::open_reader(&self.file).map_err(Into::into).and_then(|reader| model.load(&reader));
        schema::mark_if_corrupt(&self.file, loaded)
    }

    fn is_remote(&self, model: &ModelVectors) -> bool {
        self.store.is_some() && model.id == self.current.id
    }

    /// The pages whose chunks are those of these settings, with the hashes of their texts.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`]; [`VectorIndexError::Damaged`].
    pub fn etags(&self) -> Result<BTreeMap<TreePath, ETag>, VectorIndexError> {
        self.read(|connection| rows::etags(connection, self.current.id, &self.rules.name()))
    }

    /// All pages with vectors, outdated ones included.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`]; [`VectorIndexError::Damaged`].
    pub fn paths(&self) -> Result<BTreeSet<TreePath>, VectorIndexError> {
        self.read(rows::paths)
    }

    /// Embeds pages and replaces their chunks, in one transaction. Only texts without a vector are
    /// embedded.
    ///
    /// # Errors
    /// [`VectorIndexError::Embedder`], [`VectorIndexError::Database`]; then nothing changed.
    pub fn update(&self, pages: &[PageText]) -> Result<(), VectorIndexError> {
        if pages.is_empty() {
            return Ok(());
        }
        let mut connection = self.writer.lock();
        // The previous model first: its answers are those that readers get.
        let previous = self.previous.read().clone();
        for model in previous.as_deref().into_iter().chain([&self.current]) {
            let (rules, mut chunks) = (self.rules_of(model), Vec::with_capacity(pages.len()));
            for page in pages {
                if model.id == self.current.id || !rows::has_text(&connection, model.id, page)? {
                    chunks.push((page, crate::chunks(page.path.as_str(), &page.text, rules)));
                }
            }
            let embedded = embedding::embed_chunks(&connection, model, &chunks, self.workers);
            let embedded = schema::mark_if_corrupt(&self.file, embedded)?;
            let (rules, is_remote) = (rules.name(), self.is_remote(model));
            let target = rows::UpdateTarget { model: model.id, rules: &rules, is_remote };
            // A count between the commit and its change would be wrong.
            let mut counts = self.counts.lock();
            let outcome = rows::replace_pages(&mut connection, &target, &chunks, &embedded);
            let replaced = schema::mark_if_corrupt(&self.file, outcome)?;
            if model.id == self.current.id {
                count(&mut counts, &replaced);
            }
            drop(counts);
            if !self.is_remote(model) {
                model.replace(&replaced.pages, &replaced.vectors);
            }
        }
        Ok(())
    }

    /// Removes pages. Unknown paths are no error.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`].
    pub fn remove(&self, paths: &[TreePath]) -> Result<(), VectorIndexError> {
        if paths.is_empty() {
            return Ok(());
        }
        let mut connection = self.writer.lock();
        let mut counts = self.counts.lock();
        let outcome = rows::remove_pages(&mut connection, paths, (self.current.id, self.store.is_some()));
        let removed = schema::mark_if_corrupt(&self.file, outcome)?;
        count(&mut counts, &removed);
        drop(counts);
        self.current.replace(&removed.pages, &[]);
        if let Some(previous) = &*self.previous.read() {
            previous.replace(&removed.pages, &[]);
        }
        Ok(())
    }

    /// Every page is embedded: removes the vectors of the previous model.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`].
    pub fn finish(&self) -> Result<(), VectorIndexError> {
        if self.previous.read().is_none() {
            return Ok(());
        }
        self.load_model(&self.current)?;
        let mut connection = self.writer.lock();
        // Readers use the new model before the rows of the old one are removed.
        *self.previous.write() = None;
        let removed = rows::remove_other_models(&mut connection, &[self.current.id]);
        schema::mark_if_corrupt(&self.file, removed)
    }

    /// The chunks that are nearest to a question, the nearest first; several may be of one page.
    ///
    /// # Errors
    /// [`VectorIndexError::Embedder`]; [`VectorIndexError::Store`] of a remote store;
    /// [`VectorIndexError::Database`].
    pub fn search(
        &self,
        question: &str,
        limit: usize,
        filter: &VectorFilter,
    ) -> Result<Vec<NearChunk>, VectorIndexError> {
        let previous = self.previous.read().clone();
        let model = previous.as_deref().unwrap_or(&self.current);
        let vectors = model.embedder.embed(&[question], TextKind::Question)?;
        let vector = vectors.into_iter().next().flatten().and_then(embedding::normalized);
        vector.map_or_else(|| Ok(Vec::new()), |vector| self.search_model(model, &vector, limit, filter))
    }

    /// The chunks that are nearest to a vector of [`VectorIndex::page_chunks`].
    ///
    /// # Errors
    /// As [`VectorIndex::search`].
    pub fn search_vector(
        &self,
        vector: &[f32],
        limit: usize,
        filter: &VectorFilter,
    ) -> Result<Vec<NearChunk>, VectorIndexError> {
        let previous = self.previous.read().clone();
        self.search_model(previous.as_deref().unwrap_or(&self.current), vector, limit, filter)
    }

    fn search_model(
        &self,
        model: &ModelVectors,
        vector: &[f32],
        limit: usize,
        filter: &VectorFilter,
    ) -> Result<Vec<NearChunk>, VectorIndexError> {
        let near = match &self.store {
            // What is there belongs to another model or another `vectors.db`.
            Some(_) if self.is_remote(model) && self.is_store_outdated.load(Ordering::Acquire) => {
                return Err(VectorIndexError::StoreOutdated);
            }
            Some(remote) if self.is_remote(model) => remote.store.search(vector, limit, filter)?,
            _ => self.search_memory(model, vector, limit, filter)?,
        };
        self.read(|connection| {
            let mut chunks = Vec::with_capacity(near.len());
            for NearVector { id, similarity } in near {
                let chunk = rows::chunk(connection, model.id, (page_of(id), ord_of(id)))?;
                // A remote store may be late: a chunk that was removed or moved is no answer.
                chunks.extend(
                    chunk
                        .filter(|chunk| filter.includes(&chunk.path))
                        .map(|chunk| NearChunk { similarity: similarity.clamp(-1.0, 1.0), ..chunk }),
                );
            }
            Ok(chunks)
        })
    }

    fn search_memory(
        &self,
        model: &ModelVectors,
        vector: &[f32],
        limit: usize,
        filter: &VectorFilter,
    ) -> Result<Vec<NearVector>, VectorIndexError> {
        self.load_model(model)?;
        let Some(folder) = filter.below() else {
            return Ok(model.search(vector, limit, |_| true));
        };
        let pages: FxHashSet<i64> = self.read(|connection| rows::pages_below(connection, model.id, folder))?;
        Ok(model.search(vector, limit, |id| pages.contains(&page_of(id))))
    }

    /// The chunks of a page with their vectors; none if the page is not embedded.
    ///
    /// # Errors
    /// [`VectorIndexError::Database`].
    pub fn page_chunks(&self, path: &TreePath) -> Result<Option<PageChunks>, VectorIndexError> {
        let model = self.previous.read().as_deref().map_or(self.current.id, |previous| previous.id);
        self.read(|connection| rows::page_chunks(connection, model, path))
    }

    /// Name of the model whose vectors are searched and returned.
    #[must_use]
    pub fn answering_model(&self) -> String {
        let previous = self.previous.read();
        previous.as_deref().unwrap_or(&self.current).embedder.model().to_owned()
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, VectorIndexError>) -> Result<T, VectorIndexError> {
        let connection = self.reader.lock();
        // One transaction: a search resolves hundreds of chunks, and each statement alone would
        // lock the file.
        let outcome = connection.unchecked_transaction().map_err(Into::into).and_then(|transaction| read(&transaction));
        schema::mark_if_corrupt(&self.file, outcome)
    }

    /// Path of `vectors.db`.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }
}

fn count(counts: &mut Option<(usize, usize)>, change: &rows::ReplacedPages) {
    if let Some((pages, chunks)) = counts {
        *pages = pages.saturating_add_signed(change.page_change);
        *chunks = chunks.saturating_add_signed(change.chunk_change);
    }
}

/// The model that answers until all pages have vectors of the current one, and the removal of the
/// vectors of all others.
fn previous_model(
    connection: &mut Connection,
    current: &ModelVectors,
) -> Result<Option<ModelVectors>, VectorIndexError> {
    let others = rows::other_models(connection, current.id)?;
    if others.is_empty() {
        return Ok(None);
    }
    let previous = others.iter().find(|(_, name)| name == EmbeddedModel.model()).map(|(id, _)| *id);
    let retained: Vec<i64> = previous.into_iter().chain([current.id]).collect();
    if others.len() >= retained.len() {
        rows::remove_other_models(connection, &retained)?;
    }
    Ok(previous.map(|id| ModelVectors::new(id, Arc::new(EmbeddedModel))))
}

/// The identity of the vectors in a store: another model has other vectors.
fn store_name(remote: &RemoteStore, model: &ModelVectors) -> String {
    format!("{} {}", remote.name, model.embedder.model())
}

fn wrong_dimensions(model: &str, (actual, expected): (usize, usize)) -> EmbedError {
    EmbedError::unusable(format!(
        "the model `{model}` returned vectors of {actual} numbers, and of {expected} before; \
         set `search.vector.embedder.dimensions`, or delete `.svc/state/vectors.db` and restart the server"
    ))
}
