//! An embedder over the API of a service.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use svcfs_net::ServiceRequest;

use super::batches::{self, RequestLimits};
use super::{EmbedderOptions, SETTINGS};
use crate::embedder::{EmbedError, Embedder, TextKind, Vector};
use crate::remote::{ApiClient, ApiError, RetryPolicy};

/// Calls with fewer texts than this would repeat too little work after an error.
const MIN_BATCH: usize = 16;

/// What identifies the model, beside the name of the provider; the API; and its client.
pub(super) type Connected = (String, Box<dyn EmbeddingApi>, ApiClient);

/// How a service is asked for vectors.
pub(super) trait EmbeddingApi: Send + Sync {
    /// What a request may contain.
    fn limits(&self) -> RequestLimits;

    /// The request for the vectors of texts.
    fn request(&self, client: &ApiClient, texts: &[&str], kind: TextKind) -> ServiceRequest;

    /// The vectors in a response, in the order of the texts.
    ///
    /// # Errors
    /// What is wrong with the response.
    fn vectors(&self, body: &[u8]) -> Result<Vec<Vector>, String>;

    /// Adds credentials that are valid for a short time.
    fn sign(&self, _: &mut ServiceRequest) -> Result<(), ApiError> {
        Ok(())
    }

    /// The service refused the credentials that [`Self::sign`] added.
    fn discard_credentials(&self) {}

    /// What to do after an error status, if this service differs from others.
    fn advice(&self, _status: u16) -> Option<String> {
        None
    }
}

pub(super) struct RemoteEmbedder {
    name: String,
    api: Box<dyn EmbeddingApi>,
    client: ApiClient,
    /// The setting.
    dimensions: Option<NonZeroUsize>,
    /// The length of the first vector.
    answered: OnceLock<NonZeroUsize>,
}

impl RemoteEmbedder {
    pub fn new(options: &EmbedderOptions, (identity, api, client): Connected) -> Self {
        let dimensions = options.dimensions.map(|dimensions| format!("@{dimensions}")).unwrap_or_default();
        let name = format!("{}:{identity}{dimensions}", options.provider.name());
        let client = client.with_headers(&options.headers);
        Self { name, api, client, dimensions: options.dimensions, answered: OnceLock::new() }
    }

    fn request_vectors(&self, texts: &[&str], kind: TextKind) -> Result<Vec<Option<Vector>>, EmbedError> {
        let policy = match kind {
            TextKind::Page => RetryPolicy::BACKGROUND,
            TextKind::Question => RetryPolicy::INTERACTIVE,
        };
        let request = self.api.request(&self.client, texts, kind);
        let body = self.client.send_signed(&request, policy, |request| self.api.sign(request));
        let body = body.map_err(|error| self.with_advice(error))?;
        let vectors = self.api.vectors(&body).and_then(|vectors| match vectors.len() {
            count if count == texts.len() => Ok(vectors),
            count => Err(format!("it has {count} vectors for {} texts", texts.len())),
        });
        let vectors = vectors.map_err(|reason| EmbedError::from(self.client.unexpected(&request.url, &reason)))?;
        vectors.into_iter().map(|vector| self.checked(vector)).collect()
    }

    fn with_advice(&self, error: ApiError) -> EmbedError {
        if error.status == Some(401) {
            self.api.discard_credentials();
        }
        let mut advice = error.status.and_then(|status| self.api.advice(status));
        if error.status == Some(400) && self.dimensions.is_some() && advice.is_none() {
            advice = Some(format!("if vectors of this model have one length only, remove `{SETTINGS}.dimensions`"));
        }
        let message = advice.map_or_else(|| error.message.clone(), |advice| format!("{}; {advice}", error.message));
        EmbedError::from(ApiError { message, ..error })
    }

    /// A vector with the right length and finite numbers; none if it has no direction.
    fn checked(&self, vector: Vector) -> Result<Option<Vector>, EmbedError> {
        let name = &self.name;
        let Some(length) = NonZeroUsize::new(vector.len()) else {
            return Err(EmbedError::unusable(format!("`{name}` answers an empty vector; check `{SETTINGS}.model`")));
        };
        if let Some(expected) = self.dimensions.filter(|expected| *expected != length) {
            return Err(EmbedError::unusable(format!(
                "`{SETTINGS}.dimensions` is {expected}, but the vectors of `{name}` have {length} numbers; \
                 set it to {length}, or remove it"
            )));
        }
        let first = *self.answered.get_or_init(|| length);
        if first != length {
            return Err(EmbedError::unusable(format!(
                "`{name}` answered vectors of {first} and now of {length} numbers; its model has changed: \
                 name one model in `{SETTINGS}.model`, and restart svcfs"
            )));
        }
        if !vector.iter().all(|number| number.is_finite()) {
            return Err(EmbedError::unusable(format!("`{name}` answers a vector with a number that is too large")));
        }
        Ok(vector.iter().any(|number| *number != 0.0).then_some(vector))
    }
}

impl Embedder for RemoteEmbedder {
    fn model(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> Option<NonZeroUsize> {
        self.dimensions.or_else(|| self.answered.get().copied())
    }

    fn max_batch(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.api.limits().texts.max(MIN_BATCH)).unwrap_or(NonZeroUsize::MIN)
    }

    fn embed(&self, texts: &[&str], kind: TextKind) -> Result<Vec<Option<Vector>>, EmbedError> {
        let limits = self.api.limits();
        // Services refuse empty texts, and with them the whole request.
        let filled = texts.iter().enumerate().filter(|(_, text)| !text.trim().is_empty());
        let (positions, sent): (Vec<usize>, Vec<&str>) =
            filled.map(|(at, text)| (at, batches::cut(text, limits))).unzip();
        let mut vectors = vec![None; texts.len()];
        let mut positions = positions.into_iter();
        for request in batches::split(&sent, limits) {
            let answered = self.request_vectors(request, kind)?;
            positions.by_ref().zip(answered).for_each(|(at, vector)| vectors[at] = vector);
        }
        Ok(vectors)
    }
}

impl From<ApiError> for EmbedError {
    fn from(error: ApiError) -> Self {
        let ApiError { message, status, is_transient, retry_after, .. } = error;
        match is_transient {
            true => Self::Unavailable { message, status, retry_after },
            false => Self::Refused { message, status },
        }
    }
}

/// Reads the JSON of a response.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// A vector and the number of its text, as `OpenAI` and Voyage answer them.
#[derive(Deserialize)]
pub(super) struct IndexedVector {
    index: usize,
    embedding: Vector,
}

/// The response of `OpenAI` and Voyage.
#[derive(Deserialize)]
pub(super) struct IndexedVectors {
    data: Vec<IndexedVector>,
}

impl IndexedVectors {
    /// The vectors in the order of the texts.
    pub fn in_order(self) -> Result<Vec<Vector>, String> {
        let mut data = self.data;
        data.sort_by_key(|vector| vector.index);
        match data.iter().enumerate().find(|(at, vector)| vector.index != *at) {
            Some((at, _)) => Err(format!("there is not exactly one vector with the index {at}")),
            None => Ok(data.into_iter().map(|vector| vector.embedding).collect()),
        }
    }
}
