//! Answers of operations as text for people.
//!
//! Invariant: what comes from pages or servers cannot move the cursor or change colours: it passes
//! [`one_line`](crate::output::one_line). Only `read` prints bytes as they are.

pub mod changes;
pub mod dry_run;
pub mod history;
pub mod links;
pub mod search;
pub mod tree;
pub mod undo;

use serde_json::Value;

use super::tree_paths::TreePaths;
use crate::failure::CommandFailure;
use crate::output;

/// Renders an answer.
pub type View = fn(&Value, &ViewContext<'_>) -> Result<Rendered, CommandFailure>;

/// What a view needs beside the answer.
pub struct ViewContext<'a> {
    pub paths: &'a TreePaths,
    pub style: Style,
    /// Whether a flag of the verb is given.
    pub has_flag: &'a dyn Fn(&str) -> bool,
}

impl ViewContext<'_> {
    /// A path of an answer as it can be typed here.
    fn path(&self, value: &Value) -> String {
        output::one_line(&self.paths.shown(value.as_str().unwrap_or_default()))
    }
}

/// Output of a verb.
#[derive(Debug, Default)]
pub struct Rendered {
    /// For standard output.
    pub text: Vec<u8>,
    /// Lines for standard error.
    pub notes: Vec<String>,
}

impl Rendered {
    fn of_text(text: String) -> Self {
        Self { text: text.into_bytes(), notes: Vec::new() }
    }
    fn of_note(note: impl Into<String>) -> Self {
        Self { text: Vec::new(), notes: vec![note.into()] }
    }
}

/// A list of an answer; empty if it is absent.
fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A text of an answer on one line.
fn line_of(value: &Value) -> String {
    output::one_line(value.as_str().unwrap_or_default())
}

/// A time as `2026-11-28 21:02`, in UTC as all times of svcfs.
fn minute(value: &Value) -> String {
    output::minute(&line_of(value))
}

/// An abbreviated commit hash; a timestamp, where git keeps no history, stays as it is.
fn short_hash(value: &Value) -> String {
    let text = line_of(value);
    let is_hash = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { text[..10].to_owned() } else { text }
}

/// Colours of a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    has_colours: bool,
}

impl Style {
    /// For standard output.
    pub fn of_stdout() -> Self {
        Self { has_colours: output::has_colours(&std::io::stdout()) }
    }
    fn painted(self, code: &str, text: &str) -> String {
        match self.has_colours && !text.is_empty() {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }
    fn bold(self, text: &str) -> String {
        self.painted("1", text)
    }
    fn dim(self, text: &str) -> String {
        self.painted("2", text)
    }
    fn red(self, text: &str) -> String {
        self.painted("31", text)
    }
    fn green(self, text: &str) -> String {
        self.painted("32", text)
    }
    fn yellow(self, text: &str) -> String {
        self.painted("33", text)
    }
    fn blue(self, text: &str) -> String {
        self.painted("34", text)
    }
    fn cyan(self, text: &str) -> String {
        self.painted("36", text)
    }
}

#[cfg(test)]
mod tests;
