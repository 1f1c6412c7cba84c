//! Content from a file on this machine or from standard input.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use svcfs_base::MAX_FILE_BYTES;

use crate::failure::{CommandFailure, ExitStatus};
use crate::output;

/// The content of a file, as an operation takes it.
///
/// # Errors
/// When the file cannot be read, or is too large for a page.
pub fn of_file(path: &str) -> Result<Value, CommandFailure> {
    let unreadable = |error: io::Error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => "; to write a text, pass it to standard input: `echo TEXT | svcfs write PATH`",
            _ => "",
        };
        CommandFailure::saying(ExitStatus::Failed, format!("cannot read the file `{path}`: {error}{advice}"))
    };
    let file = File::open(path).map_err(unreadable)?;
    value(read(file).map_err(unreadable)?, &format!("`{path}`"))
}

/// The content of standard input; says so when a person is expected to type it.
///
/// # Errors
/// When it cannot be read, is empty, or is too large for a page. It is empty when the command
/// before it in a pipe failed.
pub fn standard_input() -> Result<Value, CommandFailure> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        output::complain("svcfs: reading standard input; end with Ctrl-D on an empty line");
    }
    let bytes = read(stdin.lock()).context("standard input cannot be read")?;
    if bytes.is_empty() {
        let message = "standard input is empty, so nothing was changed; to empty a page: `svcfs write PATH /dev/null`";
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    value(bytes, "standard input")
}

fn read(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn value(bytes: Vec<u8>, what: &str) -> Result<Value, CommandFailure> {
    if bytes.len() > MAX_FILE_BYTES {
        let message = format!("{what} is larger than {} MiB; copy it into a mount instead", MAX_FILE_BYTES >> 20);
        return Err(CommandFailure::saying(ExitStatus::Refused, message));
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => json!({ "base64": STANDARD.encode(error.as_bytes()) }),
    })
}
