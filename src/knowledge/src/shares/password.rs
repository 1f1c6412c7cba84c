//! Passwords of shares: argon2id with its recommended parameters.

use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, PasswordHash};
use svcfs_base::Fault;

/// The hash of a password as a PHC string, with a new salt.
pub(super) fn hash(password: &str) -> Result<String, Fault> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash: PasswordHash| hash.to_string()).map_err(|error| Fault::internal(error.to_string()))
}

/// Whether it is the password of a hash, compared in constant time.
pub(super) fn is_password(password: &str, hash: &str) -> bool {
    PasswordVerifier::<str>::verify_password(&Argon2::default(), password.as_bytes(), hash).is_ok()
}
