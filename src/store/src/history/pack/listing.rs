//! git's multi-pack-index (`git multi-pack-index`), if it exists: git relies on the packs that it
//! lists.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use tracing::warn;

use super::HistoryResult;

const FILE_NAME: &str = "multi-pack-index";
/// `pack-<40 digits>.idx`.
const PACK_NAME_BYTES: usize = 49;

/// The bytes of a multi-pack-index.
pub(super) struct PackListing(Vec<u8>);

impl PackListing {
    /// Reads that of a pack directory, if it exists.
    pub(super) fn read(directory: &Path) -> HistoryResult<Option<Self>> {
        match fs::read(directory.join(FILE_NAME)) {
            Ok(bytes) => Ok(Some(Self(bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it lists a pack.
    pub(super) fn contains(&self, pack: &Path) -> bool {
        let index = pack.with_extension("idx");
        let name = index.file_name().unwrap_or_default().as_encoded_bytes();
        self.0.windows(name.len().max(1)).any(|window| window == name)
    }
}

/// Removes a multi-pack-index that lists a removed pack: it was created concurrently, and git would
/// not find the objects elsewhere. Without it git reads every pack.
pub(super) fn remove_stale(directory: &Path) -> HistoryResult<()> {
    let Some(PackListing(bytes)) = PackListing::read(directory)? else { return Ok(()) };
    let names = bytes.windows(PACK_NAME_BYTES).filter(|name| name.starts_with(b"pack-") && name.ends_with(b".idx"));
    let is_missing = |name: &[u8]| std::str::from_utf8(name).is_ok_and(|name| !directory.join(name).exists());
    if names.into_iter().any(is_missing) {
        warn!("removed a multi-pack-index that lists a merged pack");
        match fs::remove_file(directory.join(FILE_NAME)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
