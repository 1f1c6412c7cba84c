//! Random numbers for ids and secrets.

use svcfs_base::{Fault, to_hex};

/// Random bytes of the operating system.
///
/// # Errors
/// `Internal` when it gives none.
pub fn random_bytes<const BYTES: usize>() -> Result<[u8; BYTES], Fault> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Fault::internal(error.to_string()))?;
    Ok(bytes)
}

/// The same as hexadecimal digits.
///
/// # Errors
/// Those of [`random_bytes`].
pub(crate) fn random_hex<const BYTES: usize>() -> Result<String, Fault> {
    random_bytes::<BYTES>().map(|bytes| to_hex(&bytes))
}
