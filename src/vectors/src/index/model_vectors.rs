//! The vectors of one model, in memory, and the embedder of the questions about them.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use rusqlite::Connection;

use super::VectorIndexError;
use crate::{Embedder, NearVector, QuantizedVector, VectorSet};

/// Bits of a chunk id that count the chunks of a page.
const ORD_BITS: u32 = 16;

/// The id of a chunk in sets and remote stores.
pub(super) const fn chunk_id(page: i64, ord: u32) -> i64 {
    page << ORD_BITS | ord as i64
}

pub(super) const fn page_of(id: i64) -> i64 {
    id >> ORD_BITS
}

pub(super) const fn ord_of(id: i64) -> i64 {
    id & ((1 << ORD_BITS) - 1)
}

/// A model with its vectors.
pub(super) struct ModelVectors {
    /// Its row in `models`.
    pub(super) id: i64,
    pub(super) embedder: Arc<dyn Embedder>,
    /// None until it is loaded, which the first search or update does.
    set: RwLock<Option<VectorSet>>,
    /// Length of the vectors; 0 before the first.
    dimensions: AtomicUsize,
}

impl ModelVectors {
    pub(super) fn new(id: i64, embedder: Arc<dyn Embedder>) -> Self {
        let dimensions = AtomicUsize::new(embedder.dimensions().map_or(0, NonZeroUsize::get));
        Self { id, embedder, set: RwLock::new(None), dimensions }
    }

    pub(super) fn dimensions(&self) -> Option<usize> {
        Some(self.dimensions.load(Ordering::Relaxed)).filter(|dimensions| *dimensions > 0)
    }

    /// Sets the length of the vectors that are stored.
    pub(super) fn set_dimensions(&self, dimensions: Option<usize>) {
        if let Some(dimensions) = dimensions {
            self.dimensions.store(dimensions, Ordering::Relaxed);
        }
    }

    /// Checks the length of a new vector; the error is the length of the others.
    pub(super) fn check_dimensions(&self, dimensions: usize) -> Result<(), usize> {
        match self.dimensions.compare_exchange(0, dimensions, Ordering::Relaxed, Ordering::Relaxed) {
            Err(expected) if expected != dimensions => Err(expected),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Reads all vectors of the model, unless that was done.
    pub(super) fn load(&self, connection: &Connection) -> Result<(), VectorIndexError> {
        let mut set = self.set.write();
        if set.is_some() {
            return Ok(());
        }
        let mut statement = connection.prepare(
            "SELECT chunks.page, chunks.ord, vectors.scale, vectors.numbers FROM pages
             JOIN chunks ON chunks.page = pages.id JOIN vectors ON vectors.id = chunks.vector WHERE pages.model = ?1",
        )?;
        let mut rows = statement.query([self.id])?;
        let mut loaded = None;
        while let Some(row) = rows.next()? {
            let vector = read_vector(row, 2)?;
            let id = chunk_id(row.get(0)?, row.get(1)?);
            if let Some(dimensions) = NonZeroUsize::new(vector.numbers.len()) {
                loaded.get_or_insert_with(|| VectorSet::new(dimensions)).insert(id, &vector);
            }
        }
        let dimensions = self.embedder.dimensions().unwrap_or(NonZeroUsize::MIN);
        *set = Some(loaded.unwrap_or_else(|| VectorSet::new(dimensions)));
        Ok(())
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.set.read().is_some()
    }

    /// Replaces the vectors of pages, if the set is loaded.
    pub(super) fn replace(&self, pages: &rustc_hash::FxHashSet<i64>, vectors: &[(i64, Arc<QuantizedVector>)]) {
        let mut set = self.set.write();
        let Some(set) = set.as_mut() else { return };
        set.remove_where(|id| pages.contains(&page_of(id)));
        let dimensions = vectors.first().and_then(|(_, vector)| NonZeroUsize::new(vector.numbers.len()));
        if let Some(dimensions) = dimensions.filter(|_| set.is_empty()) {
            *set = VectorSet::new(dimensions);
        }
        vectors.iter().for_each(|(id, vector)| set.insert(*id, vector));
    }

    pub(super) fn search(
        &self,
        question: &[f32],
        limit: usize,
        is_wanted: impl Fn(i64) -> bool + Sync,
    ) -> Vec<NearVector> {
        self.set.read().as_ref().map_or_else(Vec::new, |set| set.search(question, limit, is_wanted))
    }
}

/// Reads a vector from two columns: scale and numbers.
pub(super) fn read_vector(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<QuantizedVector> {
    let scale: f64 = row.get(at)?;
    let numbers = row.get_ref(at + 1)?.as_blob()?.iter().map(|byte| byte.cast_signed()).collect();
    Ok(QuantizedVector { numbers, scale: scale as f32 })
}
