//! What a command says on standard output.
//!
//! One rule: standard output carries the answer and nothing else; progress, logs and errors go to standard error.

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::failure::{CommandFailure, ExitStatus};

/// Writes `text` and, when it does not end one, a line break.
///
/// A reader that has seen enough (`svcfs … | head`) is no failure.
///
/// # Errors
/// When standard output takes nothing more (a full disk).
pub fn say(text: &str) -> Result<(), CommandFailure> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    written(&[text.as_bytes(), end.as_bytes()].concat())
}

/// Writes bytes as they are.
///
/// # Errors
/// As [`say`].
pub fn written(bytes: &[u8]) -> Result<(), CommandFailure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(error).context("standard output cannot be written");
            Err(CommandFailure::new(ExitStatus::Failed, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a value as indented JSON.
///
/// # Errors
/// As [`say`].
pub fn json(value: &impl Serialize) -> Result<(), CommandFailure> {
    let text = serde_json::to_string_pretty(value).map_err(anyhow::Error::new)?;
    say(&text)
}

/// A text for a line of a terminal: what pages, names of files and servers say must not reach it as commands.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Writes a line on standard error. Nobody is left to tell when that fails.
pub fn complain(text: &str) {
    let _nobody_to_tell = writeln!(io::stderr().lock(), "{text}");
}
