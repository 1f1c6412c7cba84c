//! Names that differ only in Unicode normalization (NFC and NFD): macOS sends NFD. Names are stored
//! byte for byte, and a request finds the stored name in either form.

use http::Uri;
use percent_encoding::percent_decode_str;
use svcfs_base::{Caller, Fault, PathComponent, TreePath};
use svcfs_vfs::CallerTree;
use unicode_normalization::UnicodeNormalization;

use crate::locks::encode_segment;

/// The stored path for a requested one, each segment as it is stored; a segment without an
/// equivalent is unchanged.
pub(crate) fn stored_path(tree: &CallerTree<'_>, caller: &Caller, path: &TreePath) -> TreePath {
    if path.as_str().is_ascii() {
        return path.clone();
    }
    let mut prefix_path = TreePath::root();
    for name in path.components() {
        let Ok(parsed) = PathComponent::parse(name) else { return path.clone() };
        let given = prefix_path.join(&parsed);
        let is_missing = !name.is_ascii() && tree.stat(caller.protocol, &given).is_err();
        prefix_path = is_missing.then(|| find_equivalent(tree, caller, &prefix_path, name)).flatten().unwrap_or(given);
    }
    prefix_path
}

/// The name in a folder that is equal after normalization.
fn find_equivalent(tree: &CallerTree<'_>, caller: &Caller, folder: &TreePath, name: &str) -> Option<TreePath> {
    let composed: String = name.nfc().collect();
    let folder = tree.resolve_links(caller.protocol, folder).ok()?;
    let entries = tree.list(caller.protocol, &folder).ok()?;
    let mut equivalents =
        entries.into_iter().map(|entry| entry.path).filter(|path| path.name().nfc().eq(composed.chars()));
    equivalents.next().filter(|path| caller.permissions.check_path(path).is_ok())
}

/// The URL path of a path in a space, as clients write it.
pub(crate) fn url_path(prefix: &str, path: &TreePath, is_folder: bool) -> String {
    let parts: Vec<_> = path.components().map(encode_segment).collect();
    format!("{prefix}/{}{}", parts.join("/"), if is_folder && !parts.is_empty() { "/" } else { "" })
}

/// A URL path whose stored form differs: both forms, encoded.
#[derive(Debug, Clone)]
pub(crate) struct StoredName {
    given: String,
    stored: String,
}

impl StoredName {
    /// Looks up a URL path in the space whose URLs start with `prefix`; `None` if it is stored as
    /// given. Errors: `Invalid` for an invalid path.
    pub(crate) fn of(
        (tree, caller): (&CallerTree<'_>, &Caller),
        prefix: &str,
        path: &str,
    ) -> Result<Option<Self>, Fault> {
        let Some(inner) = path.strip_prefix(prefix) else { return Ok(None) };
        let Ok(decoded) = percent_decode_str(inner).decode_utf8() else { return Ok(None) };
        if decoded.is_ascii() {
            return Ok(None);
        }
        let given = TreePath::parse(&decoded)?;
        let actual = stored_path(tree, caller, &given);
        let address = url_path(prefix, &actual, inner.ends_with('/'));
        Ok((actual != given).then(|| Self { given: composed(path), stored: address }))
    }
    /// The stored URL path.
    pub(crate) fn path(&self) -> &str {
        &self.stored
    }
    /// Maps another URL path, which may be an equivalent of one of these.
    pub(crate) fn map_path<'a>(all: &'a [Self], path: &'a str) -> &'a str {
        let composed = composed(path);
        all.iter().find(|renamed| renamed.given == composed).map_or(path, |renamed| &renamed.stored)
    }
    /// The URL with the stored path. Errors: `Invalid`.
    pub(crate) fn to_uri(&self, uri: &Uri) -> Result<Uri, Fault> {
        crate::public_url::with_path(uri, &self.stored)
    }
}

fn composed(path: &str) -> String {
    percent_decode_str(path.trim_end_matches('/')).decode_utf8_lossy().nfc().collect()
}
