//! Keys of the configuration contract that are not implemented.

/// Keys and values of the configuration contract that this version rejects, because they would have
/// no effect.
///
/// A key stands for itself and everything below it; `key=value` for one value of an implemented
/// key. This list may only shrink: a new feature deletes its lines and adds fields to the struct of
/// the section.
pub const UNSUPPORTED_KEYS: &[&str] = &[
    "import.airbyte_api_key",
    "import.airbyte_workspace_id",
    "import.allow_paths",
    "import.docker_host",
    "import.image_prefix",
    "import.prefer_external",
    "import.pull_policy",
];

/// Relation of a key to [`UNSUPPORTED_KEYS`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyStatus {
    /// Listed: in the contract, not implemented.
    Unsupported,
    /// A table that contains listed keys.
    Parent,
    /// Not listed.
    Unlisted,
}

/// Classifies the key `path` by [`UNSUPPORTED_KEYS`].
pub(crate) fn key_status(path: &str) -> KeyStatus {
    if UNSUPPORTED_KEYS.contains(&path) {
        KeyStatus::Unsupported
    } else if UNSUPPORTED_KEYS.iter().any(|entry| suffix_below(entry, path).is_some()) {
        KeyStatus::Parent
    } else {
        KeyStatus::Unlisted
    }
}

/// Whether the contract allows `value` for `path` but this version does not implement it.
pub(crate) fn is_unsupported_value(path: &str, value: &str) -> bool {
    UNSUPPORTED_KEYS.iter().any(|entry| entry.split_once('=') == Some((path, value)))
}

/// The listed names directly below `table` (an empty path is the top level).
pub(crate) fn names_below(table: &str) -> impl Iterator<Item = &str> {
    UNSUPPORTED_KEYS.iter().filter(|entry| !entry.contains('=')).filter_map(move |entry| {
        let rest = if table.is_empty() { entry } else { suffix_below(entry, table)? };
        rest.split('.').next()
    })
}

/// The part of the key `entry` below `table`.
fn suffix_below(entry: &'static str, table: &str) -> Option<&'static str> {
    entry.strip_prefix(table)?.strip_prefix('.')
}
