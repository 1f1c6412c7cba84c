//! How a command ends: an exit code and a message on standard error.

use std::error::Error;
use std::fmt::{Debug, Display};

use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind};
use svcfs_config::ConfigError;
use svcfs_mount::MountError;

/// Exit code of the process. Scripts and `systemd/*.service` rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// A failure; a retry may help.
    Failed = 1,
    /// The command line or the configuration is invalid; a retry cannot help.
    Usage = 2,
    /// Refused: not found, conflict, lint error, uncommitted changes without consent, or another
    /// process uses the root.
    Refused = 3,
    /// Ended by a signal before all work was complete.
    Interrupted = 130,
}

/// Part of the help of the program.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed, for example: port in use, disk full
  2    the command line or the configuration is invalid
  3    refused: not found, conflict, lint error, uncommitted changes, or another server has the root
  130  ended by Ctrl-C before all work was complete (no acknowledged write is lost)";

/// Why a command failed.
#[derive(Debug)]
pub struct CommandFailure {
    exit: ExitStatus,
    error: anyhow::Error,
    /// What a refusal says beside its message, such as `conflicts`.
    detail: Map<String, Value>,
}

impl CommandFailure {
    /// A failure with an exit code; `error` says what failed and what to do.
    pub fn new(exit: ExitStatus, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into(), detail: Map::new() }
    }
    /// A failure with a message.
    pub fn saying(exit: ExitStatus, message: impl Into<String>) -> Self {
        Self::new(exit, anyhow::Error::msg(message.into()))
    }
    /// The failure with what a refusal says beside its message.
    pub fn with_detail(self, detail: Map<String, Value>) -> Self {
        Self { detail, ..self }
    }
    /// The message and the details as JSON; none without details.
    pub fn to_json(&self) -> Option<Value> {
        let mut body = Some(self.detail.clone()).filter(|detail| !detail.is_empty())?;
        body.insert("error".to_owned(), self.error.to_string().into());
        Some(body.into())
    }
    /// The failure with what it prevented before its message.
    pub fn preceded_by(self, text: &str) -> Self {
        let message = format!("{text}: {}", self.error);
        Self { error: self.error.context(message), ..self }
    }
    /// The exit code.
    pub const fn exit(&self) -> ExitStatus {
        self.exit
    }
    /// Whether an error of this type is in the chain.
    pub fn has_cause<E: Display + Debug + Send + Sync + 'static>(&self) -> bool {
        self.error.downcast_ref::<E>().is_some()
    }
    /// The message for the user; with `causes`, the full error chain.
    pub fn message(&self, causes: bool) -> String {
        let mut text = format!("svcfs: {}", self.error);
        if causes {
            for cause in self.error.chain() {
                let Some(fault) = cause.downcast_ref::<Fault>() else {
                    add(&mut text, &cause.to_string());
                    continue;
                };
                // The debug form of a fault has its own causes and the text for the log.
                let short = format!("{}: {}", fault.kind().name(), fault.message());
                let full = format!("{fault:?}");
                add(&mut text, if full == short { fault.message() } else { &full });
                break;
            }
        }
        text
    }
}

/// Adds a cause, unless the text contains it already.
fn add(text: &mut String, cause: &str) {
    if !text.contains(cause) {
        text.push_str("\n  because: ");
        text.push_str(cause);
    }
}

impl From<Fault> for CommandFailure {
    fn from(fault: Fault) -> Self {
        let exit = exit_of(fault.kind());
        if fault.kind() != Kind::Internal {
            let detail = fault.detail().clone();
            return Self::new(exit, fault).with_detail(detail);
        }
        // The message for callers points to the log of a server; a command has none, so show the
        // cause.
        let message = match fault.source() {
            Some(source) => format!("internal error: {source}"),
            None => fault.message().to_owned(),
        };
        Self::new(exit, anyhow::Error::new(fault).context(message))
    }
}

impl From<ConfigError> for CommandFailure {
    fn from(error: ConfigError) -> Self {
        Self::new(ExitStatus::Usage, error)
    }
}

impl From<MountError> for CommandFailure {
    fn from(error: MountError) -> Self {
        Self::new(ExitStatus::Failed, error)
    }
}

impl From<anyhow::Error> for CommandFailure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(ExitStatus::Failed, error)
    }
}

/// Distinguishes refusals, after which a script may continue, from failures, at which it should
/// stop.
fn exit_of(kind: Kind) -> ExitStatus {
    match kind {
        Kind::NotFound
        | Kind::Exists
        | Kind::Conflict
        | Kind::Locked
        | Kind::PreconditionFailed
        | Kind::Invalid
        | Kind::Rejected
        | Kind::NotAllowed
        | Kind::Unauthenticated
        | Kind::Forbidden
        | Kind::ReadOnly
        | Kind::NotDirectory
        | Kind::IsDirectory
        | Kind::NotEmpty
        | Kind::NameTooLong
        | Kind::TooLarge
        | Kind::UnsupportedType
        | Kind::Stale
        | Kind::Disabled
        | Kind::NotEnabled => ExitStatus::Refused,
        Kind::RateLimited
        | Kind::Unavailable
        | Kind::Upstream
        | Kind::FetchFailed
        | Kind::NoSpace
        | Kind::DiskFailed
        | Kind::Internal => ExitStatus::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_fault_shows_its_cause_without_a_server_log() {
        let fault = Fault::internal(std::io::Error::other("log.db is damaged"));
        let failure = CommandFailure::from(fault);
        assert_eq!(failure.message(false), "svcfs: internal error: log.db is damaged");
        assert_eq!(failure.exit(), ExitStatus::Failed);
    }

    #[test]
    fn text_for_logs_is_shown_with_verbose_only() {
        let failure = CommandFailure::from(Fault::unavailable("the index is busy").with_context("writer lock held"));
        assert_eq!(failure.message(false), "svcfs: the index is busy");
        let message = "svcfs: the index is busy\n  because: Unavailable: the index is busy (writer lock held)";
        assert_eq!(failure.message(true), message);
    }

    #[test]
    fn causes_are_shown_with_verbose_and_never_twice() {
        let failure = CommandFailure::from(Fault::not_found("file not found: a.md"));
        assert_eq!(failure.message(true), "svcfs: file not found: a.md");
        let error = anyhow::Error::new(std::io::Error::other("disk is on fire")).context("cannot open `a`");
        let failure = CommandFailure::new(ExitStatus::Failed, error);
        assert_eq!(failure.message(false), "svcfs: cannot open `a`");
        assert_eq!(failure.message(true), "svcfs: cannot open `a`\n  because: disk is on fire");
    }
}
