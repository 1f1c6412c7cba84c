//! Names that differ only in how their letters are composed (Unicode NFC and NFD): macOS sends letters and their marks apart. Names are stored byte for
//! byte (gaps.md D29), and a request reaches the name that is there, whichever of the two it has.

use http::Uri;
use percent_encoding::percent_decode_str;
use svcfs_base::{Caller, Fault, PathComponent, TreePath};
use svcfs_vfs::Vfs;
use unicode_normalization::UnicodeNormalization;

use crate::locks::encoded;

/// The path of what is there for a path, each part of it as it is stored; a part that is not there as it was given.
pub(crate) fn stored(vfs: &Vfs, caller: &Caller, path: &TreePath) -> TreePath {
    if path.as_str().is_ascii() {
        return path.clone();
    }
    let mut place = TreePath::root();
    for name in path.components() {
        let Ok(parsed) = PathComponent::parse(name) else { return path.clone() };
        let given = place.join(&parsed);
        let is_other = !name.is_ascii() && vfs.stat(caller.protocol, &given).is_err();
        place = is_other.then(|| same_name(vfs, caller, &place, name)).flatten().unwrap_or(given);
    }
    place
}

/// The name of a folder that has the same letters.
fn same_name(vfs: &Vfs, caller: &Caller, folder: &TreePath, name: &str) -> Option<TreePath> {
    let composed: String = name.nfc().collect();
    let folder = vfs.resolve_links(caller.protocol, folder).ok()?;
    let entries = vfs.list(caller.protocol, &folder).ok()?;
    let mut same = entries.into_iter().map(|entry| entry.path).filter(|path| path.name().nfc().eq(composed.chars()));
    same.next().filter(|path| caller.permissions.check_path(path).is_ok())
}

/// A path of a space in an address, as clients write it.
pub(crate) fn in_address(prefix: &str, path: &TreePath, is_folder: bool) -> String {
    let parts: Vec<_> = path.components().map(encoded).collect();
    format!("{prefix}/{}{}", parts.join("/"), if is_folder && !parts.is_empty() { "/" } else { "" })
}

/// A path of a request, where what is stored has another form: both, as addresses have them.
#[derive(Debug, Clone)]
pub(crate) struct StoredName {
    given: String,
    stored: String,
}

impl StoredName {
    /// Of an address with this path, in the space whose addresses begin with `prefix`; none where it is stored as it is given.
    ///
    /// # Errors
    /// `Invalid` for a path that is none.
    pub(crate) fn of((vfs, caller): (&Vfs, &Caller), prefix: &str, path: &str) -> Result<Option<Self>, Fault> {
        let Some(inner) = path.strip_prefix(prefix) else { return Ok(None) };
        let Ok(decoded) = percent_decode_str(inner).decode_utf8() else { return Ok(None) };
        if decoded.is_ascii() {
            return Ok(None);
        }
        let given = TreePath::parse(&decoded)?;
        let found = stored(vfs, caller, &given);
        let address = in_address(prefix, &found, inner.ends_with('/'));
        Ok((found != given).then(|| Self { given: composed(path), stored: address }))
    }
    /// The path of an address, as it is stored.
    pub(crate) fn path(&self) -> &str {
        &self.stored
    }
    /// The path of another address, which may be the same.
    pub(crate) fn of_same<'a>(all: &'a [Self], path: &'a str) -> &'a str {
        let composed = composed(path);
        all.iter().find(|renamed| renamed.given == composed).map_or(path, |renamed| &renamed.stored)
    }
    /// The address, with the path that is stored.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn in_uri(&self, uri: &Uri) -> Result<Uri, Fault> {
        crate::public_url::with_path(uri, &self.stored)
    }
}

fn composed(path: &str) -> String {
    percent_decode_str(path.trim_end_matches('/')).decode_utf8_lossy().nfc().collect()
}
