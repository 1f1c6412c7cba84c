//! Embedding of the chunks that have no vector yet.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use super::{ModelVectors, PageText, VectorIndex, VectorIndexError, read_vector, wrong_dimensions};
use crate::{Chunk, ChunkRules, EmbedError, Embedder, QuantizedVector, TextKind, Vector};

/// Hash of a model and a text.
pub(super) type TextHash = [u8; 16];

/// The vectors of the texts of some pages; none for a text that has no meaning to the model.
pub(super) type VectorsByHash = FxHashMap<TextHash, Option<Arc<QuantizedVector>>>;

impl VectorIndex {
    /// How the pages were split whose chunks are searched.
    #[must_use]
    pub fn answering_rules(&self) -> ChunkRules {
        let previous = self.previous.read();
        self.rules_of(previous.as_deref().unwrap_or(&self.current))
    }

    /// How pages are split for a model. The one that answers until every page has vectors of the
    /// current one is the embedded one.
    pub(super) const fn rules_of(&self, model: &ModelVectors) -> ChunkRules {
        if model.id == self.current.id { self.rules } else { ChunkRules::Passages }
    }
}

impl VectorIndex {
    /// Embeds a short text: after an error, whether the embedder refuses any text.
    ///
    /// # Errors
    /// As [`VectorIndex::update`].
    pub fn check_embedder(&self) -> Result<(), VectorIndexError> {
        let vectors = self.current.embedder.embed(&["text"], TextKind::Question)?;
        let lengths = vectors.into_iter().flatten().map(|vector| vector.len());
        lengths.into_iter().try_for_each(|length| check_length(&self.current, length))
    }
}

fn check_length(model: &ModelVectors, length: usize) -> Result<(), VectorIndexError> {
    let checked = model.check_dimensions(length);
    checked.map_err(|expected| wrong_dimensions(model.embedder.model(), (length, expected)).into())
}

pub(super) fn hash(model: &str, text: &str) -> TextHash {
    let mut hasher = Sha256::new();
    hasher.update(model.as_bytes());
    hasher.update([0]);
    hasher.update(text.as_bytes());
    let mut hash = TextHash::default();
    hash.copy_from_slice(&hasher.finalize()[..size_of::<TextHash>()]);
    hash
}

/// A vector of length 1; none for one without a direction.
pub(super) fn normalized(mut vector: Vector) -> Option<Vector> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
    (length.is_finite() && length > f32::EPSILON).then(|| {
        vector.iter_mut().for_each(|value| *value /= length);
        vector
    })
}

/// The vectors of all chunks, read from the database or computed.
pub(super) fn embed_chunks(
    connection: &Connection,
    model: &ModelVectors,
    pages: &[(&PageText, Vec<Chunk>)],
    workers: NonZeroUsize,
) -> Result<VectorsByHash, VectorIndexError> {
    let mut vectors = VectorsByHash::default();
    let mut missing: Vec<(TextHash, &str)> = Vec::new();
    let mut statement = connection.prepare_cached("SELECT scale, numbers FROM vectors WHERE hash = ?1")?;
    for chunk in pages.iter().flat_map(|(_, chunks)| chunks) {
        let hash = hash(model.embedder.model(), &chunk.text);
        if vectors.contains_key(&hash) {
            continue;
        }
        let stored = statement.query_row([hash], |row| read_vector(row, 0)).optional()?;
        if stored.is_none() {
            missing.push((hash, &chunk.text));
        }
        vectors.insert(hash, stored.map(Arc::new));
    }
    for (hash, vector) in embed_all(&*model.embedder, &missing, workers)? {
        let Some(vector) = vector.and_then(normalized) else { continue };
        check_length(model, vector.len())?;
        vectors.insert(hash, Some(Arc::new(QuantizedVector::of(&vector))));
    }
    Ok(vectors)
}

/// Embeds texts in batches, several at a time; this thread is one of the workers.
fn embed_all(
    embedder: &dyn Embedder,
    texts: &[(TextHash, &str)],
    workers: NonZeroUsize,
) -> Result<Vec<(TextHash, Option<Vector>)>, EmbedError> {
    let batches: Vec<&[(TextHash, &str)]> = texts.chunks(embedder.max_batch().get()).collect();
    let embed = |batch: &[(TextHash, &str)]| {
        let texts: Vec<&str> = batch.iter().map(|(_, text)| *text).collect();
        let vectors = embedder.embed(&texts, TextKind::Page)?;
        if vectors.len() != texts.len() {
            let message = format!(
                "the model `{}` returned {} vectors for {} texts",
                embedder.model(),
                vectors.len(),
                texts.len()
            );
            return Err(EmbedError::unusable(message));
        }
        Ok(batch.iter().map(|(hash, _)| *hash).zip(vectors).collect::<Vec<_>>())
    };
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Ok(Vec::new())));
    let work = || {
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            let embedded = embed(batch);
            let results = &mut *results.lock();
            match (results.as_mut(), embedded) {
                (Ok(all), Ok(embedded)) => all.extend(embedded),
                (Ok(_), Err(error)) => {
                    *results = Err(error);
                    return;
                }
                (Err(_), _) => return,
            }
        }
    };
    std::thread::scope(|scope| {
        (1..workers.get().min(batches.len())).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    results.into_inner()
}
