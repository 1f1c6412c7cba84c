//! The index over many packs (`git multi-pack-index`), if somebody made one: git looks for the packs it names where it says.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use tracing::warn;

use super::HistoryResult;

const LISTING: &str = "multi-pack-index";
/// `pack-<40 digits>.idx`.
const PACK_NAME_BYTES: usize = 49;

/// The bytes of a listing.
pub(super) struct PackListing(Vec<u8>);

impl PackListing {
    /// That of a directory of packs, if there is one.
    pub(super) fn of(directory: &Path) -> HistoryResult<Option<Self>> {
        match fs::read(directory.join(LISTING)) {
            Ok(bytes) => Ok(Some(Self(bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it names a pack.
    pub(super) fn names(&self, pack: &Path) -> bool {
        let index = pack.with_extension("idx");
        let name = index.file_name().unwrap_or_default().as_encoded_bytes();
        self.0.windows(name.len().max(1)).any(|window| window == name)
    }
}

/// Takes away a listing that names a pack which is gone: it was being made while we removed that, and git would look for its
/// objects nowhere else. Without it git looks into every pack.
pub(super) fn drop_broken(directory: &Path) -> HistoryResult<()> {
    let Some(PackListing(bytes)) = PackListing::of(directory)? else { return Ok(()) };
    let names = bytes.windows(PACK_NAME_BYTES).filter(|name| name.starts_with(b"pack-") && name.ends_with(b".idx"));
    let is_gone = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| !directory.join(name).exists());
    if names.into_iter().any(is_gone) {
        warn!("`git multi-pack-index` listed a pack while it was merged into another; the list is removed");
        match fs::remove_file(directory.join(LISTING)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
