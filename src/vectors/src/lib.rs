//! Vectors of texts, so that texts of similar meaning have near vectors.
//!
//! An [`Embedder`] computes vectors: the embedded model ([`StaticModel`]) or a remote service. A
//! [`VectorStore`] finds the nearest of many: in memory, or a vector database elsewhere.
#![warn(missing_docs)]

mod embedder;
mod embedders;
mod remote;
mod scan;
mod static_model;
mod store;
mod stores;

pub use embedder::{EmbedError, Embedder, TextKind, Vector};
pub use embedders::{EmbedderOptions, EmbedderProvider, connect_embedder};
pub use remote::{OptionError, Secret};
pub use scan::{EXACT_LIMIT, NearVector, QuantizedVector, VectorSet};
pub use static_model::{ModelError, StaticModel};
pub use store::{StoreError, StoredVector, VectorFilter, VectorStore};
pub use stores::{StoreOptions, StoreProvider, connect_store};
