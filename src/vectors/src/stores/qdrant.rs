//! Qdrant, by its REST API (version 1.10 or later).

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use svcfs_net::ServiceMethod::{Delete, Get, Post, Put};

use super::{DELETE_BATCH, StoreOptions, UPSERT_BATCH, batches, folders_of, wrong_dimensions};
use crate::NearVector;
use crate::remote::{ApiClient, ApiError, OptionError, RetryPolicy, if_exists};
use crate::store::{StoreError, StoredVector, VectorFilter, VectorStore};

const LOCAL_URL: &str = "http://localhost:6333";
const DEFAULT_COLLECTION: &str = "svcfs";

pub(super) struct QdrantStore {
    client: ApiClient,
    collection: String,
    collection_url: String,
    /// The length of the vectors of the collection, once it was checked or made.
    dimensions: Mutex<Option<usize>>,
}

#[derive(Deserialize)]
struct QdrantResponse<T> {
    result: T,
}

#[derive(Deserialize)]
struct FoundPoints {
    points: Vec<FoundPoint>,
}

#[derive(Deserialize)]
struct FoundPoint {
    id: u64,
    score: f32,
}

impl QdrantStore {
    pub fn new(options: &StoreOptions) -> Result<Self, OptionError> {
        let url = options.url_or(LOCAL_URL)?;
        let name = options.collection.as_deref().unwrap_or(DEFAULT_COLLECTION);
        let collection = options.name_of_space("collection", name, '-')?;
        let collection_url = format!("{url}/collections/{collection}");
        let client = options.client("Qdrant").with_key("api-key", "", options.api_key.as_ref());
        Ok(Self { client, collection, collection_url, dimensions: Mutex::new(None) })
    }

    /// Where the vectors are, without secrets: another place is filled from the start.
    pub fn place(&self) -> String {
        self.collection_url.clone()
    }

    /// Makes the collection, or checks that it fits.
    fn prepare(&self, dimensions: usize) -> Result<(), StoreError> {
        let mut known = self.dimensions.lock();
        if known.is_none() {
            let actual = self.existing_dimensions()?.map_or_else(|| self.create(dimensions), Ok)?;
            // In each process: one that made the collection may have ended before the index.
            self.create_folder_index()?;
            *known = Some(actual);
        }
        match *known {
            Some(actual) if actual != dimensions => {
                // The next call looks again.
                *known = None;
                let place = format!("the Qdrant collection `{}`", self.collection);
                Err(wrong_dimensions(&place, actual, dimensions, "collection"))
            }
            _ => Ok(()),
        }
    }

    fn existing_dimensions(&self) -> Result<Option<usize>, ApiError> {
        let request = self.client.empty_request(Get, &self.collection_url);
        let info: Option<QdrantResponse<Value>> = if_exists(self.client.call(&request, RetryPolicy::BACKGROUND))?;
        let Some(info) = info else { return Ok(None) };
        let size = info.result.pointer("/config/params/vectors/size").and_then(Value::as_u64);
        let size = size.and_then(|size| usize::try_from(size).ok());
        size.map(Some)
            .ok_or_else(|| self.client.unexpected(&self.collection_url, "the collection has no unnamed vectors"))
    }

    fn create(&self, dimensions: usize) -> Result<usize, ApiError> {
        let body = json!({
            "vectors": {"size": dimensions, "distance": "Cosine", "on_disk": true},
            "quantization_config": {"scalar": {"type": "int8", "always_ram": true}},
        });
        self.client.send(&self.client.request(Put, &self.collection_url, &body), RetryPolicy::BACKGROUND)?;
        Ok(dimensions)
    }

    /// Makes the index that searches in folders need; one that exists is no error.
    fn create_folder_index(&self) -> Result<(), ApiError> {
        let index = json!({"field_name": "folders", "field_schema": "keyword"});
        let url = format!("{}/index?wait=true", self.collection_url);
        self.client.send(&self.client.request(Put, &url, &index), RetryPolicy::BACKGROUND).map(drop)
    }
}

impl VectorStore for QdrantStore {
    fn upsert(&self, vectors: &[StoredVector]) -> Result<(), StoreError> {
        let Some(first) = vectors.first() else { return Ok(()) };
        self.prepare(first.vector.len())?;
        for batch in batches(vectors, UPSERT_BATCH) {
            let points: Vec<Value> = batch
                .iter()
                .map(|stored| {
                    let payload = json!({"path": stored.path.as_str(), "folders": folders_of(&stored.path)});
                    json!({"id": stored.id.cast_unsigned(), "vector": stored.vector, "payload": payload})
                })
                .collect();
            let url = format!("{}/points?wait=true", self.collection_url);
            let request = self.client.request(Put, &url, &json!({"points": points}));
            if let Err(error) = self.client.send(&request, RetryPolicy::BACKGROUND) {
                // The collection may have been removed: the next call makes it again.
                *self.dimensions.lock() = None;
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn delete(&self, ids: &[i64]) -> Result<(), StoreError> {
        for batch in ids.chunks(DELETE_BATCH) {
            let points: Vec<u64> = batch.iter().map(|id| id.cast_unsigned()).collect();
            let url = format!("{}/points/delete?wait=true", self.collection_url);
            let request = self.client.request(Post, &url, &json!({"points": points}));
            if if_exists(self.client.send(&request, RetryPolicy::BACKGROUND))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn clear(&self) -> Result<(), StoreError> {
        *self.dimensions.lock() = None;
        let request = self.client.empty_request(Delete, &self.collection_url);
        if_exists(self.client.send(&request, RetryPolicy::BACKGROUND))?;
        Ok(())
    }

    fn search(&self, question: &[f32], limit: usize, filter: &VectorFilter) -> Result<Vec<NearVector>, StoreError> {
        let mut body = json!({"query": question, "limit": limit.max(1), "with_payload": false});
        if let Some(folder) = filter.below() {
            body["filter"] = json!({"must": [{"key": "folders", "match": {"value": folder.as_str()}}]});
        }
        let request = self.client.request(Post, &format!("{}/points/query", self.collection_url), &body);
        let found: Option<QdrantResponse<FoundPoints>> =
            if_exists(self.client.call(&request, RetryPolicy::INTERACTIVE))?;
        // Without a collection, nothing was stored yet.
        let near = found.into_iter().flat_map(|found| found.result.points);
        Ok(near.map(|point| NearVector { id: point.id.cast_signed(), similarity: point.score }).take(limit).collect())
    }
}
