//! Opens the embedder and the store that the settings name.

use std::sync::Arc;

use svcfs_base::{Fault, Kind};
use svcfs_config::{EmbedderProvider, EmbedderSettings, StoreSettings, VectorSettings};
use svcfs_vectors::{
    EmbeddedModel, Embedder, EmbedderOptions, OptionError, RemoteStore, Secret, StaticModel, StoreOptions,
    connect_embedder, connect_store,
};

/// Checks what only the providers know: files of keys, names of models and tables. Sends nothing.
///
/// # Errors
/// `Invalid`, with the key, for settings that cannot be used.
pub fn check_providers(settings: &VectorSettings) -> Result<(), Fault> {
    open_embedder(&settings.embedder)?;
    open_store(&settings.store, "").map(drop)
}

/// The embedder of the settings.
///
/// # Errors
/// `Invalid`, with the key, for settings that cannot be used.
pub(super) fn open_embedder(settings: &EmbedderSettings) -> Result<Arc<dyn Embedder>, Fault> {
    let EmbedderSettings { provider, model, api_key, dimensions, timeout, base_url, url, .. } = settings;
    let EmbedderSettings { region, project, location, headers, credentials_file, .. } = settings;
    let remote = match svcfs_vectors::EmbedderProvider::from_name(provider.name()) {
        Some(remote) => remote,
        None if *provider == EmbedderProvider::Static => {
            return match url.strip_prefix("file:") {
                None => Ok(Arc::new(EmbeddedModel)),
                Some(file) => Ok(Arc::new(read_model(file)?)),
            };
        }
        None => return Err(unknown("search.vector.embedder.provider", provider.name())),
    };
    let options = EmbedderOptions {
        provider: remote,
        model: text(model),
        api_key: secret(api_key),
        dimensions: *dimensions,
        timeout: *timeout,
        base_url: text(base_url),
        url: text(url),
        region: text(region),
        project: text(project),
        location: text(location),
        headers: headers.iter().map(|(name, value)| (name.clone(), Secret::new(value))).collect(),
        credentials_file: credentials_file.clone(),
    };
    connect_embedder(&options).map_err(|error| to_fault(&error))
}

/// The remote store of the settings; none if vectors are searched in memory. The vectors of several
/// spaces in one store are separated by the name of the space.
///
/// # Errors
/// `Invalid`, with the key, for settings that cannot be used.
pub(super) fn open_store(settings: &StoreSettings, space: &str) -> Result<Option<RemoteStore>, Fault> {
    use svcfs_config::StoreProvider::{Sqlite, SqliteVec};
    let StoreSettings { provider, url, api_key, collection, namespace, dsn, table } = settings;
    if matches!(provider, SqliteVec | Sqlite) {
        return Ok(None);
    }
    let remote = svcfs_vectors::StoreProvider::from_name(provider.name());
    let remote = remote.ok_or_else(|| unknown("search.vector.store.provider", provider.name()))?;
    let options = StoreOptions {
        url: text(url),
        api_key: secret(api_key),
        collection: text(collection),
        namespace: text(namespace),
        dsn: secret(dsn),
        table: text(table),
        ..StoreOptions::new(remote, space)
    };
    connect_store(&options).map(Some).map_err(|error| to_fault(&error))
}

/// A text of the settings; none if it is empty.
fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

fn secret(value: &str) -> Option<Secret> {
    text(value).map(Secret::new)
}

/// The reason continues the key as a sentence.
fn to_fault(error: &OptionError) -> Fault {
    Fault::new(Kind::Invalid, error.to_string())
}

fn unknown(key: &str, provider: &str) -> Fault {
    Fault::invalid(key, format_args!("`{provider}` is not known"))
}

/// Reads a model file; `//` after `file:` is the empty host of an address.
fn read_model(file: &str) -> Result<StaticModel, Fault> {
    const KEY: &str = "search.vector.embedder.url";
    let file = file.strip_prefix("//").unwrap_or(file);
    let bytes =
        std::fs::read(file).map_err(|error| Fault::invalid(KEY, format_args!("cannot read `{file}`: {error}")))?;
    StaticModel::from_file(bytes).map_err(|error| Fault::invalid(KEY, format_args!("`{file}`: {error}")))
}
