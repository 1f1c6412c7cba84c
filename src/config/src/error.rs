//! Errors in a configuration, with advice for the reader.

use std::fmt;
use std::path::PathBuf;

/// One error: its location and how to correct it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// Line in the file, counted from 1; none for a flag.
    pub line: Option<usize>,
    /// Key path such as `server.port`, a flag such as `--host`, or empty where the file is not
    /// TOML.
    pub key: String,
    /// Description of the error; continues a sentence that begins with the key.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(formatter, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(formatter, "`{}` ", self.key)?;
        }
        formatter.write_str(&self.message)
    }
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file exists but cannot be read. Defaults are not used instead: without its `[auth]` the
    /// server would start without authentication.
    #[error("cannot read the configuration `{}`: {source}", path.display())]
    Unreadable {
        /// Path of the file, as specified.
        path: PathBuf,
        /// The error of the operating system or the UTF-8 check.
        source: std::io::Error,
    },
    /// The file or a flag is invalid.
    #[error("{}", error_text(path.as_ref(), problems))]
    Invalid {
        /// The file; none when no file was read.
        path: Option<PathBuf>,
        /// All errors, flags first, then in the order of the file; never empty.
        problems: Vec<ConfigProblem>,
    },
}

fn error_text(path: Option<&PathBuf>, problems: &[ConfigProblem]) -> String {
    let mut text = match path {
        Some(path) => format!("invalid configuration `{}`:", path.display()),
        None => "invalid configuration:".to_owned(),
    };
    for problem in problems {
        text.push_str(&format!("\n  {problem}"));
    }
    text
}
