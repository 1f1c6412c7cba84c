//! Vector databases elsewhere. Each space has its own collection, namespace, class or table, so
//! that spaces never mix and one can be cleared without the others.

mod pgvector;
mod pinecone;
mod qdrant;
#[cfg(test)]
mod tests;
mod weaviate;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};
use svcfs_base::TreePath;

use crate::RemoteStore;
use crate::remote::{ApiClient, ApiError, OptionError, Secret, checked_headers, checked_url, option_error};
use crate::store::{StoreError, StoredVector, VectorStore};

/// The table of the store in the settings, for messages.
const SETTINGS: &str = "search.vector.store";
/// Vectors in one request: 4 MB of JSON with 1,536 numbers each.
const UPSERT_BATCH: usize = 100;
/// Ids in one request that removes.
const DELETE_BATCH: usize = 500;
/// Timeout of a request.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

/// A vector database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreProvider {
    /// `PostgreSQL` with the extension pgvector.
    PgVector,
    /// Qdrant.
    Qdrant,
    /// Pinecone.
    Pinecone,
    /// Weaviate.
    Weaviate,
}

impl StoreProvider {
    /// All providers and their names in the settings.
    pub const ALL: [(Self, &str); 4] = [
        (Self::PgVector, "pgvector"),
        (Self::Qdrant, "qdrant"),
        (Self::Pinecone, "pinecone"),
        (Self::Weaviate, "weaviate"),
    ];

    /// The provider with a name of the settings.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(provider, _)| *provider)
    }

    /// Its name in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(provider, _)| *provider == self).map_or("", |(_, name)| name)
    }
}

/// The settings `search.vector.store.*`. Keys that the provider does not use must be absent.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The database.
    pub provider: StoreProvider,
    /// Identifies the space among all that use this database.
    pub space: String,
    /// Where Qdrant, Pinecone or Weaviate is.
    pub url: Option<String>,
    /// The key of Qdrant, Pinecone or Weaviate.
    pub api_key: Option<Secret>,
    /// The collection of Qdrant or the class of Weaviate.
    pub collection: Option<String>,
    /// The namespace of Pinecone.
    pub namespace: Option<String>,
    /// Where `PostgreSQL` is: `postgresql://user:password@host/database`.
    pub dsn: Option<Secret>,
    /// The table of `PostgreSQL`, with a schema if needed.
    pub table: Option<String>,
    /// Timeout of a request.
    pub timeout: Duration,
}

impl StoreOptions {
    /// Options with the defaults of a provider.
    #[must_use]
    pub fn new(provider: StoreProvider, space: impl Into<String>) -> Self {
        Self {
            provider,
            space: space.into(),
            url: None,
            api_key: None,
            collection: None,
            namespace: None,
            dsn: None,
            table: None,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    fn url_or(&self, default: &str) -> Result<String, OptionError> {
        self.url.as_deref().map_or_else(|| Ok(default.to_owned()), |url| checked_url(SETTINGS, "url", url))
    }

    fn client(&self, service: &'static str) -> ApiClient {
        ApiClient::new(service, SETTINGS, self.timeout)
    }

    /// The name of a collection, class or namespace of this space.
    fn name_of_space(&self, key: &str, name: &str, separator: char) -> Result<String, OptionError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == separator as u8;
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_allowed) {
            let reason = "may have up to 64 letters, digits and `_`";
            return Err(option_error(SETTINGS, key, reason));
        }
        Ok(format!("{name}{separator}{}", self.space_suffix()))
    }

    /// The space as a part of a name. Spaces with different names have different suffixes.
    fn space_suffix(&self) -> String {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if (1..=20).contains(&self.space.len()) && self.space.bytes().all(is_plain) {
            return self.space.clone();
        }
        // Longer than plain names, so that none of them is equal.
        svcfs_base::to_hex(&Sha256::digest(self.space.as_bytes())[..12])
    }

    /// Refuses what is malformed or without effect.
    fn check(&self) -> Result<(), OptionError> {
        use StoreProvider::{PgVector, Pinecone, Qdrant, Weaviate};
        let uses: [(&str, bool, &[StoreProvider]); 6] = [
            ("url", self.url.is_some(), &[Qdrant, Pinecone, Weaviate]),
            ("api_key", self.api_key.is_some(), &[Qdrant, Pinecone, Weaviate]),
            ("collection", self.collection.is_some(), &[Qdrant, Weaviate]),
            ("namespace", self.namespace.is_some(), &[Pinecone]),
            ("dsn", self.dsn.is_some(), &[PgVector]),
            ("table", self.table.is_some(), &[PgVector]),
        ];
        for (key, is_set, providers) in uses {
            if is_set && !providers.contains(&self.provider) {
                let reason = format!("has no effect with the provider `{}`; remove it", self.provider.name());
                return Err(option_error(SETTINGS, key, reason));
            }
        }
        match &self.api_key {
            Some(key) if key.expose().is_empty() => {
                Err(option_error(SETTINGS, "api_key", "is empty; set the environment variable that it names"))
            }
            Some(key) => checked_headers(SETTINGS, "api_key", &[("Authorization".to_owned(), key.clone())]),
            None => Ok(()),
        }
    }
}

/// The store that settings describe. Nothing is sent before its first use.
///
/// # Errors
/// [`OptionError`], which names the key.
pub fn connect_store(options: &StoreOptions) -> Result<RemoteStore, OptionError> {
    options.check()?;
    let (place, store): (String, Arc<dyn VectorStore>) = match options.provider {
        StoreProvider::PgVector => {
            let store = pgvector::PgVectorStore::new(options)?;
            (store.place(), Arc::new(store))
        }
        StoreProvider::Qdrant => {
            let store = qdrant::QdrantStore::new(options)?;
            (store.place(), Arc::new(store))
        }
        StoreProvider::Pinecone => {
            let store = pinecone::PineconeStore::new(options)?;
            (store.place(), Arc::new(store))
        }
        StoreProvider::Weaviate => {
            let store = weaviate::WeaviateStore::new(options)?;
            (store.place(), Arc::new(store))
        }
    };
    Ok(RemoteStore { name: format!("{} {place}", options.provider.name()), store })
}

impl From<ApiError> for StoreError {
    fn from(error: ApiError) -> Self {
        Self(error.message)
    }
}

/// The page and the folders above it: what a search in a folder compares with.
fn folders_of(path: &TreePath) -> Vec<String> {
    let own = std::iter::once(path.clone());
    own.chain(path.ancestors()).filter(|folder| !folder.is_root()).map(|folder| folder.as_str().to_owned()).collect()
}

/// Vectors in batches. Of several with one id, only the last: databases refuse two in one request.
fn batches(vectors: &[StoredVector], size: usize) -> Vec<Vec<&StoredVector>> {
    let mut last = FxHashMap::default();
    vectors.iter().enumerate().for_each(|(at, vector)| {
        last.insert(vector.id, at);
    });
    let latest: Vec<&StoredVector> = vectors
        .iter()
        .enumerate()
        .filter(|(at, vector)| last.get(&vector.id) == Some(at))
        .map(|(_, vector)| vector)
        .collect();
    latest.chunks(size).map(<[&StoredVector]>::to_vec).collect()
}

/// The error for a collection that was made for another model.
fn wrong_dimensions(place: &str, actual: usize, expected: usize, key: &str) -> StoreError {
    StoreError(format!(
        "{place} has vectors of {actual} numbers, and the embedder computes {expected}; write another name as \
         `{SETTINGS}.{key}`, or remove it there: svcfs makes and fills it again"
    ))
}
