//! Standard output of commands.
//!
//! Invariant: standard output has only the output itself; progress, logs and errors go to standard
//! error.

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use crate::failure::{CommandFailure, ExitStatus};

/// Writes `text` with a final newline.
///
/// A reader that closes early (`svcfs … | head`) is not an error.
///
/// # Errors
/// When standard output cannot be written (a full disk).
pub fn say(text: &str) -> Result<(), CommandFailure> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    written(&[text.as_bytes(), end.as_bytes()].concat())
}

/// Writes bytes unchanged.
///
/// # Errors
/// As [`say`].
pub fn written(bytes: &[u8]) -> Result<(), CommandFailure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let message = format!("standard output cannot be written: {error}");
            Err(CommandFailure::saying(ExitStatus::Failed, message))
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

/// Text for one line of a terminal, without control characters from pages, file names or servers.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A time of an answer as `2026-11-28 21:02`, in UTC as all times of svcfs.
pub fn minute(time: &str) -> String {
    time.get(..16).map_or(time.to_owned(), |minute| minute.replace('T', " "))
}

/// Whether colours are wanted on a stream: at a terminal, unless `NO_COLOR` is set
/// (<https://no-color.org>).
pub fn has_colours(stream: &impl IsTerminal) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    stream.is_terminal() && !is_set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// Writes a line on standard error; a failure is ignored.
pub fn complain(text: &str) {
    let _nobody_to_tell = writeln!(io::stderr().lock(), "{text}");
}

/// Whether a person can be asked.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks the person at the terminal. If the question cannot be shown, the answer is no.
pub fn confirm(question: &str) -> bool {
    let mut stderr = io::stderr().lock();
    let shown = stderr.write_all(question.as_bytes()).and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = shown.and_then(|()| io::stdin().lock().read_line(&mut answer));
    read.is_ok() && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
