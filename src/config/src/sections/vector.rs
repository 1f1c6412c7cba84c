//! `[search.vector]`

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::auth::SecretText;

const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// Search by meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct VectorConfig {
    /// Compute a vector of each part of a page, so that pages are found by meaning. The vectors are
    /// in `.svc/state/vectors.db`, which can be deleted at any time. `svcfs init` writes `true`.
    pub enabled: bool,
    /// Maximum number of concurrent requests to the embedder; for `static`, of threads.
    #[schemars(range(min = 1, max = 64))]
    pub worker_count: usize,
    /// What computes the vectors.
    pub embedder: EmbedderConfig,
    /// What finds the nearest of all vectors.
    pub store: StoreConfig,
    /// The parts of a page that get a vector each.
    pub chunk: ChunkConfig,
}

impl Default for VectorConfig {
    fn default() -> Self {
        let (embedder, store, chunk) = Default::default();
        Self { enabled: false, worker_count: 5, embedder, store, chunk }
    }
}

/// What computes the vectors of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EmbedderConfig {
    /// Kind of the embedder.
    pub provider: EmbedderProvider,
    /// Name of the model. Empty: a common one of the provider.
    pub model: String,
    /// Key of the provider, such as `${OPENAI_API_KEY}`.
    #[schemars(with = "String")]
    pub api_key: SecretText,
    /// Length of the vectors. 0: that of the model.
    #[schemars(range(min = 0, max = 16_384))]
    pub dimensions: usize,
    /// Time limit of a request, such as `30s`; at most 10 minutes.
    pub timeout: String,
    /// Address of the provider, where it is not the usual one.
    pub base_url: String,
    /// For `http`: the address that gets the texts. For `static`: another model file, such as
    /// `file:/srv/models/static-256.bin`.
    #[schemars(with = "String")]
    pub url: SecretText,
    /// Region of `bedrock`, such as `eu-central-1`.
    pub region: String,
    /// Project of `vertex`. Empty: that of the credentials file.
    pub project: String,
    /// Location of `vertex`, such as `europe-west4`. Empty: `us-central1`.
    pub location: String,
    /// For `http`: headers of each request, such as `Authorization`.
    #[schemars(with = "BTreeMap<String, String>")]
    pub headers: BTreeMap<String, SecretText>,
    /// File with the credentials of `bedrock` (as the command line of AWS writes it) or `vertex`
    /// (the key of a service account).
    pub credentials_file: String,
}

impl Default for EmbedderConfig {
    fn default() -> Self {
        let (provider, model, api_key, dimensions, base_url, url, region) = Default::default();
        let (project, location, headers, credentials_file) = Default::default();
        Self {
            provider,
            model,
            api_key,
            dimensions,
            timeout: "30s".to_owned(),
            base_url,
            url,
            region,
            project,
            location,
            headers,
            credentials_file,
        }
    }
}

/// Kind of an embedder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EmbedderProvider {
    /// A model inside svcfs, for English; it needs neither network nor key.
    #[default]
    Static,
    /// `OpenAI`, or a server with the same API at `base_url`.
    #[serde(rename = "openai")]
    OpenAi,
    /// `OpenAI` on Azure; `base_url` is the address of the deployment.
    #[serde(rename = "azure-openai")]
    AzureOpenAi,
    /// Ollama.
    Ollama,
    /// Cohere.
    Cohere,
    /// Voyage.
    Voyage,
    /// Any server: `POST url` with `{texts}`, answered by `{vectors}`.
    Http,
    /// Bedrock of AWS.
    Bedrock,
    /// Vertex AI of Google.
    Vertex,
}

/// What finds the nearest of all vectors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StoreConfig {
    /// Kind of the store.
    pub provider: StoreProvider,
    /// Address of the database.
    pub url: String,
    /// Key of the database, such as `${QDRANT_API_KEY}`.
    #[schemars(with = "String")]
    pub api_key: SecretText,
    /// Collection of `qdrant`, class of `weaviate`; the name of the space is appended. Empty:
    /// `svcfs`, `SvcChunk`.
    pub collection: String,
    /// Namespace of `pinecone`; the name of the space is appended. Empty: `svcfs`.
    pub namespace: String,
    /// Address of PostgreSQL, such as `postgres://svcfs:${PASSWORD}@db.example.org/svcfs`.
    #[schemars(with = "String")]
    pub dsn: SecretText,
    /// Table of `pgvector`; the name of the space is appended. Empty: `svcfs_vectors`.
    pub table: String,
}

/// Kind of a vector store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreProvider {
    /// In memory, stored in `.svc/state/vectors.db`; exact up to 100,000 parts of pages.
    #[default]
    SqliteVec,
    /// The same as `sqlite-vec`.
    Sqlite,
    /// Qdrant.
    Qdrant,
    /// PostgreSQL with pgvector.
    Pgvector,
    /// Pinecone.
    Pinecone,
    /// Weaviate.
    Weaviate,
}

/// The parts of a page that get a vector each; not for `static`, where they are paragraphs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ChunkConfig {
    /// Maximum length of a part in tokens, estimated.
    #[schemars(range(min = 16, max = 32_768))]
    pub size: usize,
    /// How many tokens of a part the next one repeats; less than `size`.
    #[schemars(range(min = 0, max = 16_384))]
    pub overlap: usize,
}

impl Default for ChunkConfig {
    fn default() -> Self {
        Self { size: 512, overlap: 64 }
    }
}

/// Validated settings of the search by meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorSettings {
    /// Maximum number of concurrent requests to the embedder.
    pub worker_count: NonZeroUsize,
    /// What computes the vectors.
    pub embedder: EmbedderSettings,
    /// What finds the nearest of all vectors.
    pub store: StoreSettings,
    /// Maximum length of a chunk in tokens; not for the static model.
    pub chunk_size: usize,
    /// How many tokens of a chunk the next one repeats.
    pub chunk_overlap: usize,
}

/// Validated settings of an embedder. Empty texts are not set.
#[derive(Clone, PartialEq, Eq)]
pub struct EmbedderSettings {
    /// Its kind.
    pub provider: EmbedderProvider,
    /// Name of the model.
    pub model: String,
    /// The key: neither log nor return it.
    pub api_key: String,
    /// Length of the vectors; none for that of the model.
    pub dimensions: Option<NonZeroUsize>,
    /// Time limit of a request.
    pub timeout: Duration,
    /// Address of the provider.
    pub base_url: String,
    /// Address of a server or of a model file: it may contain a password.
    pub url: String,
    /// Region.
    pub region: String,
    /// Project.
    pub project: String,
    /// Location.
    pub location: String,
    /// Headers of each request: they may contain secrets.
    pub headers: Vec<(String, String)>,
    /// File with credentials.
    pub credentials_file: Option<PathBuf>,
}

impl fmt::Debug for EmbedderSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, model, dimensions, timeout, base_url, region, project, location, .. } = self;
        formatter
            .debug_struct("EmbedderSettings")
            .field("provider", provider)
            .field("model", model)
            .field("dimensions", dimensions)
            .field("timeout", timeout)
            .field("base_url", base_url)
            .field("region", region)
            .field("project", project)
            .field("location", location)
            .finish_non_exhaustive()
    }
}

/// Validated settings of a vector store. Empty texts are not set.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreSettings {
    /// Its kind.
    pub provider: StoreProvider,
    /// Address of the database.
    pub url: String,
    /// The key: neither log nor return it.
    pub api_key: String,
    /// Collection or class.
    pub collection: String,
    /// Namespace.
    pub namespace: String,
    /// Address of PostgreSQL: it may contain a password.
    pub dsn: String,
    /// Table.
    pub table: String,
}

impl fmt::Debug for StoreSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, url, collection, namespace, table, .. } = self;
        formatter
            .debug_struct("StoreSettings")
            .field("provider", provider)
            .field("url", url)
            .field("collection", collection)
            .field("namespace", namespace)
            .field("table", table)
            .finish_non_exhaustive()
    }
}

/// Texts of a table, and whether its other keys are set.
type KeyValues<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, bool)]);

/// The keys of a provider: those it needs, and others it uses.
type ProviderKeys = (&'static [&'static str], &'static [&'static str]);

impl EmbedderProvider {
    /// Its name in the settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::OpenAi => "openai",
            Self::AzureOpenAi => "azure-openai",
            Self::Ollama => "ollama",
            Self::Cohere => "cohere",
            Self::Voyage => "voyage",
            Self::Http => "http",
            Self::Bedrock => "bedrock",
            Self::Vertex => "vertex",
        }
    }

    const fn keys(self, has_base_url: bool) -> ProviderKeys {
        match self {
            Self::Static => (&[], &["url"]),
            // A server with the same API may need no key.
            Self::OpenAi if has_base_url => (&[], &["api_key", "base_url", "model", "dimensions", "timeout"]),
            Self::OpenAi | Self::Cohere | Self::Voyage => {
                (&["api_key"], &["base_url", "model", "dimensions", "timeout"])
            }
            Self::AzureOpenAi => (&["api_key", "base_url"], &["model", "dimensions", "timeout"]),
            // A proxy before it may demand a key.
            Self::Ollama => (&[], &["api_key", "base_url", "model", "dimensions", "timeout"]),
            Self::Http => (&["url"], &["headers", "model", "dimensions", "timeout"]),
            Self::Bedrock => {
                (&["region"], &["model", "api_key", "credentials_file", "base_url", "dimensions", "timeout"])
            }
            // The file names a project, too.
            Self::Vertex => {
                (&["credentials_file"], &["project", "location", "model", "base_url", "dimensions", "timeout"])
            }
        }
    }
}

impl StoreProvider {
    /// Its name in the settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SqliteVec => "sqlite-vec",
            Self::Sqlite => "sqlite",
            Self::Qdrant => "qdrant",
            Self::Pgvector => "pgvector",
            Self::Pinecone => "pinecone",
            Self::Weaviate => "weaviate",
        }
    }

    const fn keys(self) -> ProviderKeys {
        match self {
            Self::SqliteVec | Self::Sqlite => (&[], &[]),
            Self::Qdrant | Self::Weaviate => (&[], &["url", "api_key", "collection"]),
            Self::Pgvector => (&["dsn"], &["table"]),
            Self::Pinecone => (&["url", "api_key"], &["namespace"]),
        }
    }
}

impl VectorConfig {
    /// The settings, none if disabled. `has_key` says whether the file has a key, and `report`
    /// takes a key and a message.
    pub(crate) fn resolve(
        self,
        has_key: &impl Fn(&str) -> bool,
        report: &mut impl FnMut(&str, &str),
    ) -> Option<VectorSettings> {
        let Self { enabled, worker_count, embedder, store, chunk } = self;
        let is_static = embedder.provider == EmbedderProvider::Static;
        for name in ["size", "overlap"] {
            let key = format!("search.vector.chunk.{name}");
            if is_static && has_key(&key) {
                report(&key, "has no effect with the embedder `static`, whose chunks are paragraphs; remove it");
            }
        }
        if !is_static && chunk.overlap >= chunk.size {
            report("search.vector.chunk.overlap", "must be less than `search.vector.chunk.size`");
        }
        let (embedder, store) = (embedder.resolve(has_key, report), store.resolve(has_key, report));
        let (chunk_size, chunk_overlap) = (chunk.size, chunk.overlap);
        let worker_count = NonZeroUsize::new(worker_count).unwrap_or(NonZeroUsize::MIN);
        let settings = VectorSettings { worker_count, embedder: embedder?, store, chunk_size, chunk_overlap };
        enabled.then_some(settings)
    }
}

impl EmbedderConfig {
    fn resolve(self, has_key: &impl Fn(&str) -> bool, report: &mut impl FnMut(&str, &str)) -> Option<EmbedderSettings> {
        const TABLE: &str = "search.vector.embedder";
        let Self { provider, base_url, url, .. } = &self;
        let texts = [
            ("model", self.model.as_str()),
            ("api_key", &self.api_key.0),
            ("base_url", base_url),
            ("url", &url.0),
            ("region", &self.region),
            ("project", &self.project),
            ("location", &self.location),
            ("credentials_file", &self.credentials_file),
        ];
        let others = [("dimensions", self.dimensions != 0), ("timeout", false), ("headers", !self.headers.is_empty())];
        check_keys(TABLE, provider.name(), provider.keys(!base_url.is_empty()), (&texts, &others), (has_key, report));
        let is_file = *provider == EmbedderProvider::Static;
        if is_file && !url.0.is_empty() && !url.0.starts_with("file:/") {
            report(
                "search.vector.embedder.url",
                "must be the address of a model file, such as `file:/srv/models/static-256.bin`, for the embedder \
                 `static`; set `search.vector.embedder.provider` to use a server",
            );
        }
        for (key, text) in [("base_url", base_url), ("url", &url.0)] {
            if !(text.is_empty() || is_web_address(text) || is_file && key == "url") {
                report(&format!("{TABLE}.{key}"), "must be an address that begins with `https://` or `http://`");
            }
        }
        let timeout = self.timeout.parse::<SignedDuration>().ok().and_then(|time| Duration::try_from(time).ok());
        let timeout = timeout.filter(|timeout| !timeout.is_zero() && *timeout <= MAX_TIMEOUT);
        if timeout.is_none() {
            report("search.vector.embedder.timeout", "must be a time such as `30s`, above 0 and at most 10 minutes");
        }
        Some(EmbedderSettings {
            provider: self.provider,
            model: self.model,
            api_key: self.api_key.0,
            dimensions: NonZeroUsize::new(self.dimensions),
            timeout: timeout?,
            base_url: self.base_url,
            url: self.url.0,
            region: self.region,
            project: self.project,
            location: self.location,
            headers: self.headers.into_iter().map(|(name, SecretText(value))| (name, value)).collect(),
            credentials_file: (!self.credentials_file.is_empty()).then(|| self.credentials_file.into()),
        })
    }
}

impl StoreConfig {
    fn resolve(self, has_key: &impl Fn(&str) -> bool, report: &mut impl FnMut(&str, &str)) -> StoreSettings {
        const TABLE: &str = "search.vector.store";
        let texts = [
            ("url", self.url.as_str()),
            ("api_key", &self.api_key.0),
            ("collection", &self.collection),
            ("namespace", &self.namespace),
            ("dsn", &self.dsn.0),
            ("table", &self.table),
        ];
        let provider = self.provider;
        check_keys(TABLE, provider.name(), provider.keys(), (&texts, &[]), (has_key, report));
        if !(self.url.is_empty() || is_web_address(&self.url)) {
            report("search.vector.store.url", "must be an address that begins with `https://` or `http://`");
        }
        let is_postgres = self.dsn.0.starts_with("postgres://") || self.dsn.0.starts_with("postgresql://");
        if !(self.dsn.0.is_empty() || is_postgres) {
            report("search.vector.store.dsn", "must be an address that begins with `postgres://`");
        }
        StoreSettings {
            provider,
            url: self.url,
            api_key: self.api_key.0,
            collection: self.collection,
            namespace: self.namespace,
            dsn: self.dsn.0,
            table: self.table,
        }
    }
}

fn is_web_address(text: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()))
}

/// Reports the keys that a provider needs and that are empty, and those that it does not use.
fn check_keys(
    table: &str,
    provider: &str,
    (required, used): ProviderKeys,
    (texts, others): KeyValues<'_>,
    (has_key, report): (&impl Fn(&str) -> bool, &mut impl FnMut(&str, &str)),
) {
    let texts = texts.iter().map(|(name, text)| (*name, !text.is_empty()));
    for (name, is_set) in texts.chain(others.iter().copied()) {
        let key = format!("{table}.{name}");
        if required.contains(&name) {
            if !is_set {
                report(&key, &format!("is required by `{table}.provider = \"{provider}\"`"));
            }
        } else if (is_set || has_key(&key)) && !used.contains(&name) {
            report(&key, &format!("has no effect with `{table}.provider = \"{provider}\"`; remove it"));
        }
    }
}
