//! A violation that a check reports.

use std::fmt;

/// A location, and what to do there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// A file relative to the workspace root.
    pub path: String,
    /// The line, counted from 1; `None` when the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong and what to do, in one sentence without a period.
    pub message: String,
}

impl Finding {
    /// About a whole file.
    pub fn about(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }

    /// About one line of a file, counted from 1.
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.path, self.message),
            None => write!(formatter, "{}: {}", self.path, self.message),
        }
    }
}
