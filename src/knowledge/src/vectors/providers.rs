//! Opens the embedder and the store that the settings name.

use std::sync::Arc;

use svcfs_base::Fault;
use svcfs_config::{EmbedderProvider, EmbedderSettings, StoreProvider, StoreSettings};
use svcfs_vectors::{EmbeddedModel, Embedder, RemoteStore, StaticModel};

/// The embedder of the settings.
///
/// # Errors
/// `Invalid`, with the key, for settings that cannot be used.
pub(super) fn open_embedder(settings: &EmbedderSettings) -> Result<Arc<dyn Embedder>, Fault> {
    match settings.provider {
        EmbedderProvider::Static => match settings.url.strip_prefix("file:") {
            None => Ok(Arc::new(EmbeddedModel)),
            Some(file) => Ok(Arc::new(read_model(file)?)),
        },
        other => Err(not_built("search.vector.embedder.provider", other.name(), "static")),
    }
}

/// The remote store of the settings; none if vectors are searched in memory. The vectors of several
/// spaces in one store are separated by the name of the space.
///
/// # Errors
/// `Invalid`, with the key, for settings that cannot be used.
pub(super) fn open_store(settings: &StoreSettings, _space: &str) -> Result<Option<RemoteStore>, Fault> {
    match settings.provider {
        StoreProvider::SqliteVec | StoreProvider::Sqlite => Ok(None),
        other => Err(not_built("search.vector.store.provider", other.name(), "sqlite-vec")),
    }
}

fn not_built(key: &str, provider: &str, built: &str) -> Fault {
    Fault::invalid(key, format_args!("`{provider}` is not supported in this version; use `{built}`"))
}

/// Reads a model file; `//` after `file:` is the empty host of an address.
fn read_model(file: &str) -> Result<StaticModel, Fault> {
    const KEY: &str = "search.vector.embedder.url";
    let file = file.strip_prefix("//").unwrap_or(file);
    let bytes =
        std::fs::read(file).map_err(|error| Fault::invalid(KEY, format_args!("cannot read `{file}`: {error}")))?;
    StaticModel::from_file(bytes).map_err(|error| Fault::invalid(KEY, format_args!("`{file}`: {error}")))
}
