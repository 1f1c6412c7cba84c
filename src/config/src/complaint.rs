//! What is wrong with a configuration, said so that the reader can mend it.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong: where, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// Line in the file, counted from 1; `None` for a flag.
    pub line: Option<usize>,
    /// Key path such as `server.port`, a flag such as `--host`, or empty where the file is not TOML at that place.
    pub key: String,
    /// What is wrong, without the key; reads on after it.
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
    /// The file is there but cannot be read. Never answered with defaults: a server must not start open because its
    /// `[auth]` could not be read.
    #[error("cannot read the configuration `{}`: {source}", path.display())]
    Unreadable {
        /// The file as it was named.
        path: PathBuf,
        /// What the operating system, or the UTF-8 check, said.
        source: std::io::Error,
    },
    /// The file, or a flag, says something that cannot be followed.
    #[error("{}", refusal(path.as_ref(), problems))]
    Invalid {
        /// The file the complaints are about; `None` when no file was read.
        path: Option<PathBuf>,
        /// All of them, in the order of the file, flags first; never empty.
        problems: Vec<ConfigProblem>,
    },
}

fn refusal(path: Option<&PathBuf>, complaints: &[ConfigProblem]) -> String {
    let mut text = match path {
        Some(path) => format!("the configuration `{}` is refused:", path.display()),
        None => "the configuration is refused:".to_owned(),
    };
    for complaint in complaints {
        text.push_str(&format!("\n  {complaint}"));
    }
    text
}
