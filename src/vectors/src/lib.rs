//! Vectors of texts, so that texts of similar meaning have near vectors.
//!
//! An [`Embedder`] computes vectors: the embedded model ([`StaticModel`]) or a remote service
//! ([`connect_embedder`]). A [`VectorStore`] finds the nearest of many in a vector database
//! elsewhere ([`connect_store`]); without one they are searched in memory ([`VectorSet`]).
//! [`VectorIndex`] is what callers use: it splits pages into chunks, embeds them, and stores the
//! vectors in `vectors.db`.
#![warn(missing_docs)]

mod chunks;
mod embedder;
mod embedders;
mod index;
mod remote;
mod scan;
mod static_model;
mod store;
mod stores;

pub use chunks::{Chunk, ChunkRules, MAX_CHUNKS_PER_PAGE, chunks, estimate_tokens};
pub use embedder::{EmbedError, EmbeddedModel, Embedder, TextKind, Vector};
pub use embedders::{EmbedderOptions, EmbedderProvider, connect_embedder};
pub use index::{
    EmbeddedChunk, NearChunk, PageChunks, PageText, RemoteStore, VectorIndex, VectorIndexError, VectorIndexOptions,
    VectorProblem, VectorStatus,
};
pub use remote::{OptionError, Secret};
pub use scan::{EXACT_LIMIT, NearVector, QuantizedVector, VectorSet};
pub use static_model::{ModelError, StaticModel};
pub use store::{StoreError, StoredVector, VectorFilter, VectorStore};
pub use stores::{StoreOptions, StoreProvider, connect_store};
