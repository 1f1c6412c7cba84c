//! Keys: generated, and read from files that only their owner can read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::{fs, io};

use crate::failure::{CommandFailure, ExitStatus};

/// Environment variable with the key of a client.
pub const VARIABLE: &str = "SVC_API_KEY";

/// Maximum size of a token in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// A random key: 192 bits in hexadecimal after `prefix`.
///
/// # Errors
/// When the operating system has no randomness.
pub fn generate_key(prefix: &str) -> Result<String, CommandFailure> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| {
        CommandFailure::new(
            ExitStatus::Failed,
            anyhow::anyhow!("the operating system gives no random numbers: {error}"),
        )
    })?;
    Ok(format!("{prefix}{}", svcfs_base::to_hex(&bytes)))
}

/// The key for requests: from the file, else from the environment.
///
/// # Errors
/// Those of [`from_file`].
pub fn load(file: Option<&Path>) -> Result<Option<String>, CommandFailure> {
    match file {
        Some(file) => from_file(file).map(Some),
        None => Ok(std::env::var(VARIABLE).ok().filter(|key| !key.is_empty())),
    }
}

/// The key in the first line of a file that only its owner can read.
///
/// # Errors
/// `Usage` when other users can read it, or it is empty.
pub fn from_file(file: &Path) -> Result<String, CommandFailure> {
    let shown = file.display();
    let unreadable = |error: io::Error| {
        CommandFailure::saying(ExitStatus::Failed, format!("cannot read the token file `{shown}`: {error}"))
    };
    let metadata = fs::metadata(file).map_err(unreadable)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        let message =
            format!("other users can read the token file `{shown}`: run `chmod 600 {shown}`, and replace the token");
        return Err(CommandFailure::saying(ExitStatus::Usage, message));
    }
    if metadata.len() > MAX_TOKEN_BYTES {
        return Err(CommandFailure::saying(ExitStatus::Usage, format!("`{shown}` is too large for a token file")));
    }
    let text = fs::read_to_string(file).map_err(unreadable)?;
    match text.lines().next().map(str::trim).filter(|token| !token.is_empty()) {
        Some(token) => Ok(token.to_owned()),
        None => Err(CommandFailure::saying(
            ExitStatus::Usage,
            format!("the token file `{shown}` has no token in its first line"),
        )),
    }
}
