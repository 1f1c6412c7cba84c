//! Pinecone, by the REST API of an index.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use svcfs_net::ServiceMethod::Post;

use super::{DELETE_BATCH, SETTINGS, StoreOptions, batches, folders_of};
use crate::NearVector;
use crate::remote::{ApiClient, ApiError, OptionError, RetryPolicy, if_exists, option_error};
use crate::store::{StoreError, StoredVector, VectorFilter, VectorStore};

const DEFAULT_NAMESPACE: &str = "svcfs";
/// The version of the API that this file speaks.
const API_VERSION: &str = "2025-04";
/// Numbers in one request, so that its 2 MB are not reached.
const MAX_REQUEST_NUMBERS: usize = 100_000;

pub(super) struct PineconeStore {
    client: ApiClient,
    url: String,
    namespace: String,
    /// The length of the vectors of the index, once it was asked.
    dimensions: Mutex<Option<usize>>,
}

#[derive(Deserialize)]
struct IndexStatistics {
    dimension: Option<usize>,
    metric: Option<String>,
}

#[derive(Deserialize)]
struct QueryResponse {
    #[serde(default)]
    matches: Vec<QueryMatch>,
}

#[derive(Deserialize)]
struct QueryMatch {
    id: String,
    score: f32,
}

impl PineconeStore {
    pub fn new(options: &StoreOptions) -> Result<Self, OptionError> {
        if options.url.is_none() {
            let reason = "is missing; write the host of the index: \"https://NAME-ID.svc.REGION.pinecone.io\"";
            return Err(option_error(SETTINGS, "url", reason));
        }
        let key = options.api_key.as_ref().ok_or_else(|| {
            option_error(SETTINGS, "api_key", "is missing; write for example \"${PINECONE_API_KEY}\"")
        })?;
        let name = options.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let client = options.client("Pinecone").with_key("Api-Key", "", Some(key));
        Ok(Self {
            client: client.with_header("X-Pinecone-Api-Version", API_VERSION),
            url: options.url_or("")?,
            namespace: options.name_of_space("namespace", name, '-')?,
            dimensions: Mutex::new(None),
        })
    }

    /// Where the vectors are, without secrets: another place is filled from the start.
    pub fn place(&self) -> String {
        format!("{} {}", self.url, self.namespace)
    }

    fn post(&self, path: &str, body: &Value, policy: RetryPolicy) -> Result<Vec<u8>, ApiError> {
        self.client.send(&self.client.request(Post, &format!("{}{path}", self.url), body), policy)
    }

    /// Checks that the index fits.
    fn prepare(&self, dimensions: usize) -> Result<(), StoreError> {
        let mut known = self.dimensions.lock();
        if known.is_none() {
            let request = self.client.request(Post, &format!("{}/describe_index_stats", self.url), &json!({}));
            let statistics: IndexStatistics = self.client.call(&request, RetryPolicy::BACKGROUND)?;
            if statistics.metric.as_deref().is_some_and(|metric| metric != "cosine") {
                let metric = statistics.metric.unwrap_or_default();
                return Err(StoreError(format!(
                    "the Pinecone index at `{}` compares by `{metric}`; make an index with the metric `cosine`",
                    self.url
                )));
            }
            *known = Some(statistics.dimension.unwrap_or(dimensions));
        }
        match *known {
            Some(actual) if actual != dimensions => {
                *known = None;
                Err(StoreError(format!(
                    "the Pinecone index at `{}` has vectors of {actual} numbers, and the embedder computes {dimensions}; \
                     make an index with {dimensions} dimensions and set `{SETTINGS}.url`, or set \
                     `search.vector.embedder.dimensions`",
                    self.url
                )))
            }
            _ => Ok(()),
        }
    }
}

impl VectorStore for PineconeStore {
    fn upsert(&self, vectors: &[StoredVector]) -> Result<(), StoreError> {
        let Some(first) = vectors.first() else { return Ok(()) };
        self.prepare(first.vector.len())?;
        for batch in batches(vectors, (MAX_REQUEST_NUMBERS / first.vector.len().max(1)).clamp(1, 500)) {
            let records: Vec<Value> = batch
                .iter()
                .map(|stored| {
                    let metadata = json!({"path": stored.path.as_str(), "folders": folders_of(&stored.path)});
                    json!({"id": stored.id.to_string(), "values": stored.vector, "metadata": metadata})
                })
                .collect();
            let body = json!({"vectors": records, "namespace": self.namespace});
            self.post("/vectors/upsert", &body, RetryPolicy::BACKGROUND)?;
        }
        Ok(())
    }

    fn delete(&self, ids: &[i64]) -> Result<(), StoreError> {
        for batch in ids.chunks(DELETE_BATCH) {
            let ids: Vec<String> = batch.iter().map(i64::to_string).collect();
            let body = json!({"ids": ids, "namespace": self.namespace});
            // A namespace exists from its first vector on.
            if if_exists(self.post("/vectors/delete", &body, RetryPolicy::BACKGROUND))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn clear(&self) -> Result<(), StoreError> {
        *self.dimensions.lock() = None;
        let body = json!({"deleteAll": true, "namespace": self.namespace});
        if_exists(self.post("/vectors/delete", &body, RetryPolicy::BACKGROUND))?;
        Ok(())
    }

    fn search(&self, question: &[f32], limit: usize, filter: &VectorFilter) -> Result<Vec<NearVector>, StoreError> {
        let mut body = json!({
            "namespace": self.namespace,
            "vector": question,
            "topK": limit.clamp(1, 1_000),
            "includeValues": false,
            "includeMetadata": false,
        });
        if let Some(folder) = filter.below() {
            body["filter"] = json!({"folders": {"$in": [folder.as_str()]}});
        }
        let request = self.client.request(Post, &format!("{}/query", self.url), &body);
        let response: QueryResponse = self.client.call(&request, RetryPolicy::INTERACTIVE)?;
        // Only svcfs writes into this namespace; records of others have no number.
        let near = response
            .matches
            .into_iter()
            .filter_map(|found| Some(NearVector { id: found.id.parse().ok()?, similarity: found.score }));
        Ok(near.take(limit).collect())
    }
}
