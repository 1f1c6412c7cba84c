//! Vectors of texts, so that texts of similar meaning have near vectors.
//!
//! An [`Embedder`] computes vectors: the embedded model ([`StaticModel`]) or a remote service. A
//! [`VectorStore`] finds the nearest of many in a vector database elsewhere; without one they are
//! searched in memory ([`VectorSet`]). [`VectorIndex`] is what callers use: it splits pages into
//! chunks, embeds them, and stores the vectors in `vectors.db`.
#![warn(missing_docs)]

mod chunks;
mod embedder;
mod index;
mod scan;
mod static_model;
mod store;

pub use chunks::{Chunk, ChunkRules, MAX_CHUNKS_PER_PAGE, chunks, estimate_tokens};
pub use embedder::{EmbedError, EmbeddedModel, Embedder, TextKind, Vector};
pub use index::{
    EmbeddedChunk, NearChunk, PageChunks, PageText, RemoteStore, VectorIndex, VectorIndexError, VectorIndexOptions,
    VectorStatus,
};
pub use scan::{EXACT_LIMIT, NearVector, QuantizedVector, VectorSet};
pub use static_model::{ModelError, StaticModel};
pub use store::{StoreError, StoredVector, VectorFilter, VectorStore};
