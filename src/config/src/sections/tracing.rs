//! `[tracing]`

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the log goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TracingConfig {
    /// Whether there is a log at all.
    pub enabled: bool,
    /// What the log is written to.
    pub output: OutputSetting,
    /// Absolute path of the log file; needed when `output` is `file`, and only then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub file: Option<String>,
}

impl Default for TracingConfig {
    fn default() -> Self {
        Self { enabled: true, output: OutputSetting::Stderr, file: None }
    }
}

/// What the log is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputSetting {
    /// Standard error, where systemd and terminals pick it up.
    Stderr,
    /// The file named by `file`, appended to.
    File,
}

/// Where the log goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOutput {
    /// Nowhere.
    Off,
    /// Standard error.
    Stderr,
    /// This file, by absolute path, appended to.
    File(PathBuf),
}

impl TracingConfig {
    /// The one place the log goes to, or what `tracing.file` lacks.
    pub(crate) fn resolve(self) -> Result<LogOutput, &'static str> {
        let Self { enabled, output, file } = self;
        let output = match (output, file.filter(|file| !file.is_empty())) {
            (OutputSetting::Stderr, None) => LogOutput::Stderr,
            (OutputSetting::Stderr, Some(_)) => {
                return Err(
                    "has no effect while `tracing.output` is `stderr`; remove it, or set `tracing.output = \"file\"`",
                );
            }
            (OutputSetting::File, None) => {
                return Err("is missing; `tracing.output = \"file\"` needs the path of the log file");
            }
            // Against the working directory it would depend on how the server was started; inside the root it would be
            // a page tree's file, versioned at every line.
            (OutputSetting::File, Some(file)) if !Path::new(&file).is_absolute() => {
                return Err("is a relative path; give the absolute path of the log file");
            }
            (OutputSetting::File, Some(file)) => LogOutput::File(PathBuf::from(file)),
        };
        Ok(if enabled { output } else { LogOutput::Off })
    }
}
