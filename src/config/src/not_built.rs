//! The part of the contract's configuration that no code stands behind yet.

/// Keys and values of the configuration contract that this version refuses, because they would have no effect.
///
/// A key stands for itself and for everything below it; `key=value` for one value of a key that is otherwise known.
/// This list may only shrink: whoever builds a feature deletes its lines and adds the fields to the section's struct.
pub const UNSUPPORTED_KEYS: &[&str] = &[
    "backup.branch",
    "backup.interval",
    "backup.rebase_before_push",
    "backup.remote",
    "drafts.auto_discard",
    "drafts.enabled",
    "drafts.max_active",
    "import.airbyte_api_key",
    "import.airbyte_workspace_id",
    "import.allow_paths",
    "import.docker_host",
    "import.image_prefix",
    "import.prefer_external",
    "import.pull_policy",
    "net.allow",
    "schema.enforce",
    "search.vector.chunk.overlap",
    "search.vector.chunk.size",
    "search.vector.embedder.api_key",
    "search.vector.embedder.base_url",
    "search.vector.embedder.dimensions",
    "search.vector.embedder.location",
    "search.vector.embedder.model",
    "search.vector.embedder.project",
    "search.vector.embedder.provider",
    "search.vector.embedder.region",
    "search.vector.embedder.timeout",
    "search.vector.embedder.url",
    "search.vector.enabled",
    "search.vector.store.provider",
    "search.vector.worker_count",
    "webhooks.enabled",
    "webhooks.max_retries",
    "webhooks.max_workers",
    "workflow.enforce_transitions",
    "workflow.transitions",
];

/// Where a key stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyStatus {
    /// In the table: the contract knows it, this version does nothing with it.
    NotBuilt,
    /// A table with keys of the table below it.
    Above,
    /// Not in the table.
    Unlisted,
}

/// Where the key `path` stands in [`NOT_BUILT`].
pub(crate) fn standing(path: &str) -> KeyStatus {
    if UNSUPPORTED_KEYS.contains(&path) {
        KeyStatus::NotBuilt
    } else if UNSUPPORTED_KEYS.iter().any(|entry| below(entry, path).is_some()) {
        KeyStatus::Above
    } else {
        KeyStatus::Unlisted
    }
}

/// Whether `value` is a value of `path` that the contract knows and this version does not.
pub(crate) fn has_value(path: &str, value: &str) -> bool {
    UNSUPPORTED_KEYS.iter().any(|entry| entry.split_once('=') == Some((path, value)))
}

/// The names that the table knows directly below `table` (the empty path is the top of the file).
pub(crate) fn names_below(table: &str) -> impl Iterator<Item = &str> {
    UNSUPPORTED_KEYS.iter().filter(|entry| !entry.contains('=')).filter_map(move |entry| {
        let rest = if table.is_empty() { entry } else { below(entry, table)? };
        rest.split('.').next()
    })
}

/// What remains of the key `entry` below `table`.
fn below(entry: &'static str, table: &str) -> Option<&'static str> {
    entry.strip_prefix(table)?.strip_prefix('.')
}
