//! `[tracing]`

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Server log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TracingConfig {
    /// Write a log.
    pub enabled: bool,
    /// Destination of the log.
    pub output: OutputSetting,
    /// Absolute path of the log file; required if `output` is `file`, invalid otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub file: Option<String>,
}

impl Default for TracingConfig {
    fn default() -> Self {
        Self { enabled: true, output: OutputSetting::Stderr, file: None }
    }
}

/// Destination of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OutputSetting {
    /// Standard error, as systemd and terminals expect.
    Stderr,
    /// Append to `file`.
    File,
}

/// Validated destination of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOutput {
    /// No log.
    Off,
    /// Standard error.
    Stderr,
    /// Append to this file (absolute path).
    File(PathBuf),
}

impl TracingConfig {
    /// The destination, or the error in `tracing.file`.
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
                return Err("is missing; `tracing.output = \"file\"` requires the path of the log file");
            }
            // A relative path would depend on the working directory, and inside the root each line
            // would become a version.
            (OutputSetting::File, Some(file)) if !Path::new(&file).is_absolute() => {
                return Err("is a relative path; give the absolute path of the log file");
            }
            (OutputSetting::File, Some(file)) => LogOutput::File(PathBuf::from(file)),
        };
        Ok(if enabled { output } else { LogOutput::Off })
    }
}
