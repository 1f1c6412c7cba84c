//! Keys: made, and read from where only their owner can read them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;

use crate::failure::{CommandFailure, ExitStatus};

/// Where a client's key may stand in its environment.
pub const VARIABLE: &str = "SVC_API_KEY";

/// Longest token taken, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// A key nobody can guess: 192 random bits in hexadecimal, behind `lead`.
///
/// # Errors
/// When the operating system has no randomness.
pub fn fresh(lead: &str) -> Result<String, CommandFailure> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|error| {
        CommandFailure::new(
            ExitStatus::Failed,
            anyhow::anyhow!("the operating system gives no random numbers: {error}"),
        )
    })?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{lead}{hex}"))
}

/// The key to ask a server with: that in the file, else that in the environment.
///
/// # Errors
/// Those of [`from_file`].
pub fn given(file: Option<&Path>) -> Result<Option<String>, CommandFailure> {
    match file {
        Some(file) => from_file(file).map(Some),
        None => Ok(std::env::var(VARIABLE).ok().filter(|key| !key.is_empty())),
    }
}

/// The key in the first line of a file that only its owner can read.
///
/// # Errors
/// `Usage` when others can read it, or it has none.
pub fn from_file(file: &Path) -> Result<String, CommandFailure> {
    let shown = file.display();
    let found = fs::metadata(file).with_context(|| format!("cannot read the token file `{shown}`"))?;
    if found.permissions().mode() & 0o077 != 0 {
        let told =
            format!("others may read the token file `{shown}`: `chmod 600 {shown}`, and consider the token known");
        return Err(CommandFailure::saying(ExitStatus::Usage, told));
    }
    if found.len() > MAX_TOKEN_BYTES {
        return Err(CommandFailure::saying(ExitStatus::Usage, format!("`{shown}` is too large for a token file")));
    }
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the token file `{shown}`"))?;
    match text.lines().next().map(str::trim).filter(|token| !token.is_empty()) {
        Some(token) => Ok(token.to_owned()),
        None => Err(CommandFailure::saying(
            ExitStatus::Usage,
            format!("the token file `{shown}` has no token in its first line"),
        )),
    }
}
