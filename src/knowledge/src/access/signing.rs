//! Derived secrets for clients that sign requests instead of sending a key (AWS Signature Version
//! 4, for S3).
//!
//! To verify a signature the server must know the secret, but it stores only the digests of keys.
//! The secret is therefore derived from the key's id and a random number of this root. No secret is
//! stored, and revoking a key revokes its secret.

use std::io::ErrorKind;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use svcfs_base::Fault;

/// The file with the random number, relative to the root; no protocol shows it.
const FILE: &str = ".svc/state/s3.key";
const KEY_BYTES: usize = 32;
/// Bytes of a secret, in hex: 40 characters, as clients expect.
const SECRET_BYTES: usize = 20;

/// The number that secrets are derived from.
pub struct SigningKey([u8; KEY_BYTES]);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("***")
    }
}

impl SigningKey {
    /// Loads the number of a root, or creates it. Only the owner of the file can read it.
    ///
    /// # Errors
    /// I/O errors; `Internal` if the file has the wrong length.
    pub fn load_or_create(root: &Path) -> Result<Self, Fault> {
        let path = root.join(FILE);
        let read = || match std::fs::read(&path) {
            Ok(bytes) => <[u8; KEY_BYTES]>::try_from(bytes).map(|key| Some(Self(key))).map_err(|_| {
                let message = format!("`{}` is damaged; remove it (all S3 secrets change then)", path.display());
                Fault::internal(message)
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::internal(error).with_context(format!("cannot read `{}`", path.display()))),
        };
        if let Some(key) = read()? {
            return Ok(key);
        }
        create(&path)
            .map_err(|error| Fault::internal(error).with_context(format!("cannot write `{}`", path.display())))?;
        read()?.ok_or_else(|| Fault::internal(format!("`{}` was removed while it was created", path.display())))
    }

    /// The secret of the key with this id.
    pub fn derive_secret(&self, id: &str) -> String {
        // HMAC accepts keys of any length (RFC 2104 2): this cannot fail.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(b"svcfs s3 ");
        mac.update(id.as_bytes());
        svcfs_base::to_hex(&mac.finalize().into_bytes()[..SECRET_BYTES])
    }
}

/// Writes a new number. If another process wrote one concurrently, that one is used.
fn create(path: &Path) -> std::io::Result<()> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    if let Some(state) = path.parent() {
        std::fs::create_dir_all(state)?;
    }
    svcfs_store::create_file(path, &key, 0o600)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_depends_only_on_the_root_and_the_key() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = SigningKey::load_or_create(one.path()).unwrap().derive_secret("3f9a1c000000");
        assert_eq!(secret.len(), 40);
        assert_eq!(
            SigningKey::load_or_create(one.path()).unwrap().derive_secret("3f9a1c000000"),
            secret,
            "it outlives the server"
        );
        assert_ne!(SigningKey::load_or_create(one.path()).unwrap().derive_secret("3f9a1c000001"), secret);
        assert_ne!(SigningKey::load_or_create(other.path()).unwrap().derive_secret("3f9a1c000000"), secret);
        let mode = std::fs::metadata(one.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_secret_file_is_reported_and_not_used() {
        let root = tempfile::tempdir().unwrap();
        SigningKey::load_or_create(root.path()).unwrap();
        File::options().append(true).open(root.path().join(FILE)).unwrap().write_all(b"x").unwrap();
        assert!(SigningKey::load_or_create(root.path()).is_err());
    }
}
