//! Weaviate, by its REST and GraphQL APIs.

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use svcfs_net::ServiceMethod::{Delete, Get, Post};

use super::{DELETE_BATCH, SETTINGS, StoreOptions, UPSERT_BATCH, batches, folders_of};
use crate::NearVector;
use crate::remote::{ApiClient, ApiError, OptionError, RetryPolicy, if_exists, option_error};
use crate::store::{StoreError, StoredVector, VectorFilter, VectorStore};

const LOCAL_URL: &str = "http://localhost:8080";
const DEFAULT_CLASS: &str = "SvcChunk";

pub(super) struct WeaviateStore {
    client: ApiClient,
    url: String,
    class: String,
    /// Whether the class is known to exist.
    is_prepared: Mutex<bool>,
}

#[derive(Deserialize)]
struct GraphQlResponse {
    data: Option<Value>,
    errors: Option<Vec<GraphQlError>>,
}

#[derive(Deserialize)]
struct GraphQlError {
    message: String,
}

#[derive(Deserialize)]
struct FoundChunk {
    chunk: i64,
    #[serde(rename = "_additional")]
    additional: FoundDistance,
}

#[derive(Deserialize)]
struct FoundDistance {
    distance: f32,
}

impl WeaviateStore {
    pub fn new(options: &StoreOptions) -> Result<Self, OptionError> {
        let name = options.collection.as_deref().unwrap_or(DEFAULT_CLASS);
        if !name.starts_with(|first: char| first.is_ascii_uppercase()) {
            return Err(option_error(
                SETTINGS,
                "collection",
                "must begin with a capital letter, as classes of Weaviate do",
            ));
        }
        let class = options.name_of_space("collection", name, '_')?;
        let client = options.client("Weaviate").with_key("Authorization", "Bearer ", options.api_key.as_ref());
        Ok(Self { client, url: options.url_or(LOCAL_URL)?, class, is_prepared: Mutex::new(false) })
    }

    /// Where the vectors are, without secrets: another place is filled from the start.
    pub fn place(&self) -> String {
        self.class_url()
    }

    fn class_url(&self) -> String {
        format!("{}/v1/schema/{}", self.url, self.class)
    }

    fn has_class(&self, policy: RetryPolicy) -> Result<bool, ApiError> {
        let class = self.client.send(&self.client.empty_request(Get, &self.class_url()), policy);
        Ok(if_exists(class)?.is_some())
    }

    /// Makes the class if it does not exist.
    fn prepare(&self) -> Result<(), ApiError> {
        let mut is_prepared = self.is_prepared.lock();
        if !*is_prepared && !self.has_class(RetryPolicy::BACKGROUND)? {
            let folders = json!({"name": "folders", "dataType": ["text[]"], "tokenization": "field"});
            let path = json!({"name": "path", "dataType": ["text"], "tokenization": "field"});
            let body = json!({
                "class": self.class,
                "vectorizer": "none",
                "vectorIndexConfig": {"distance": "cosine"},
                "properties": [{"name": "chunk", "dataType": ["int"]}, path, folders],
            });
            let request = self.client.request(Post, &format!("{}/v1/schema", self.url), &body);
            self.client.send(&request, RetryPolicy::BACKGROUND)?;
        }
        *is_prepared = true;
        Ok(())
    }

    /// Weaviate answers 200 for a batch and lists the objects that it refused.
    fn check_batch(&self, url: &str, results: &[Value]) -> Result<(), ApiError> {
        let refusal = results.iter().find_map(|object| object.pointer("/result/errors/error/0/message")?.as_str());
        let Some(message) = refusal else { return Ok(()) };
        let mut error = self.client.unexpected(url, message);
        if message.contains("vector") && message.contains("length") {
            error.message = format!(
                "Weaviate refuses vectors for the class `{}`: {message}; it was filled by another model: write another \
                 name as `{SETTINGS}.collection`, or remove the class there: svcfs makes and fills it again",
                self.class
            );
        }
        Err(error)
    }
}

/// The id of a chunk as Weaviate demands it, a UUID: version 8, and the number in its last 62 bits.
fn object_id(id: i64) -> String {
    let low = 0x8000_0000_0000_0000 | (id.cast_unsigned() & 0x3fff_ffff_ffff_ffff);
    format!("73766366-7300-8000-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
}

impl VectorStore for WeaviateStore {
    fn upsert(&self, vectors: &[StoredVector]) -> Result<(), StoreError> {
        if vectors.is_empty() {
            return Ok(());
        }
        self.prepare()?;
        for batch in batches(vectors, UPSERT_BATCH) {
            let objects: Vec<Value> = batch.iter().map(|stored| {
                let folders = folders_of(&stored.path);
                let properties = json!({"chunk": stored.id, "path": stored.path.as_str(), "folders": folders});
                json!({"class": self.class, "id": object_id(stored.id), "properties": properties, "vector": stored.vector})
            }).collect();
            let url = format!("{}/v1/batch/objects", self.url);
            let request = self.client.request(Post, &url, &json!({"objects": objects}));
            let stored = self.client.call::<Vec<Value>>(&request, RetryPolicy::BACKGROUND);
            if let Err(error) = stored.and_then(|results| self.check_batch(&url, &results)) {
                *self.is_prepared.lock() = false;
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn delete(&self, ids: &[i64]) -> Result<(), StoreError> {
        if ids.is_empty() || !self.has_class(RetryPolicy::BACKGROUND)? {
            return Ok(());
        }
        for batch in ids.chunks(DELETE_BATCH) {
            let condition = json!({"path": ["chunk"], "operator": "ContainsAny", "valueIntArray": batch});
            let body = json!({"match": {"class": self.class, "where": condition}});
            let request = self.client.request(Delete, &format!("{}/v1/batch/objects", self.url), &body);
            self.client.send(&request, RetryPolicy::BACKGROUND)?;
        }
        Ok(())
    }

    fn clear(&self) -> Result<(), StoreError> {
        *self.is_prepared.lock() = false;
        let request = self.client.empty_request(Delete, &self.class_url());
        if_exists(self.client.send(&request, RetryPolicy::BACKGROUND))?;
        Ok(())
    }

    fn search(&self, question: &[f32], limit: usize, filter: &VectorFilter) -> Result<Vec<NearVector>, StoreError> {
        let folder = filter.below().map(|folder| {
            // A text of GraphQL has the escapes of JSON.
            format!(", where: {{path: [\"folders\"], operator: ContainsAny, valueText: [{}]}}", json!(folder.as_str()))
        });
        let query = format!(
            "{{ Get {{ {}(limit: {}, nearVector: {{vector: {}}}{}) {{ chunk _additional {{ distance }} }} }} }}",
            self.class,
            limit.max(1),
            json!(question),
            folder.unwrap_or_default()
        );
        let url = format!("{}/v1/graphql", self.url);
        let request = self.client.request(Post, &url, &json!({"query": query}));
        let response: GraphQlResponse = self.client.call(&request, RetryPolicy::INTERACTIVE)?;
        if let Some(error) = response.errors.unwrap_or_default().first() {
            // Nothing was stored yet: the class is not in the schema.
            return match self.has_class(RetryPolicy::INTERACTIVE)? {
                true => Err(self.client.unexpected(&url, &error.message).into()),
                false => Ok(Vec::new()),
            };
        }
        let found = response.data.as_ref().and_then(|data| data.pointer(&format!("/Get/{}", self.class)));
        let found = Vec::<FoundChunk>::deserialize(found.unwrap_or(&Value::Null));
        let found = found.map_err(|error| self.client.unexpected(&url, &error.to_string()))?;
        let near = found.into_iter();
        Ok(near
            .map(|found| NearVector { id: found.chunk, similarity: 1.0 - found.additional.distance })
            .take(limit)
            .collect())
    }
}
