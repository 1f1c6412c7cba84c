//! Secrets for callers who sign what they send instead of sending a key: S3's way (AWS Signature Version 4).
//!
//! Whoever checks a signature must know the secret, and of a key only the digest is known. The secret is therefore worked out, from the name of the
//! key and a number that this root alone has: none is written down, and a key that is revoked takes its secret along.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use svcfs_base::Fault;

/// Where the number is kept, below the root; no door shows it.
const FILE: &str = ".svc/state/s3.key";
/// Its length in bytes.
const LENGTH: usize = 32;
/// Bytes of a secret, two hexadecimal digits each: 40 characters, as clients expect.
const SECRET_BYTES: usize = 20;

/// What secrets are worked out from.
pub struct SigningKey([u8; LENGTH]);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("***")
    }
}

impl SigningKey {
    /// That of a root, made when it has none. Only the owner of the file can read it.
    ///
    /// # Errors
    /// Those of the disk; `Internal` for a file that is not what it should be.
    pub fn load_or_create(root: &Path) -> Result<Self, Fault> {
        let path = root.join(FILE);
        let read = || match std::fs::read(&path) {
            Ok(bytes) => <[u8; LENGTH]>::try_from(bytes).map(|key| Some(Self(key))).map_err(|_| {
                let told = format!("`{}` is damaged; remove it, and every S3 secret is a new one", path.display());
                Fault::internal(told)
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Fault::internal(error).with_context(format!("cannot read `{}`", path.display()))),
        };
        if let Some(there) = read()? {
            return Ok(there);
        }
        make(&path)
            .map_err(|error| Fault::internal(error).with_context(format!("cannot write `{}`", path.display())))?;
        read()?.ok_or_else(|| Fault::internal(format!("`{}` is gone again", path.display())))
    }

    /// The secret of the key with this name.
    pub fn derive_secret(&self, id: &str) -> String {
        // Keys of any length are good for HMAC (RFC 2104 2): there is nothing that could fail.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(b"svcfs s3 ");
        mac.update(id.as_bytes());
        mac.finalize().into_bytes().iter().take(SECRET_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Writes a new number, unless somebody else does at the same time: then theirs holds.
#[expect(clippy::disallowed_methods, reason = "the server's own state, which no door shows")]
fn make(path: &Path) -> std::io::Result<()> {
    let mut key = [0; LENGTH];
    getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    if let Some(state) = path.parent() {
        std::fs::create_dir_all(state)?;
    }
    let fresh = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(&key)?;
    file.sync_all()?;
    let named = match std::fs::hard_link(&fresh, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        outcome => outcome,
    };
    std::fs::remove_file(&fresh)?;
    named
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_hangs_on_the_root_and_on_the_key_and_on_nothing_else() {
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
    fn a_damaged_file_is_told_and_not_taken() {
        let root = tempfile::tempdir().unwrap();
        SigningKey::load_or_create(root.path()).unwrap();
        File::options().append(true).open(root.path().join(FILE)).unwrap().write_all(b"x").unwrap();
        assert!(SigningKey::load_or_create(root.path()).is_err());
    }
}
