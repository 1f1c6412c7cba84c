//! How a command ends: an exit code, and a sentence on standard error.

use std::error::Error;

use svcfs_base::{Fault, Kind};
use svcfs_config::ConfigError;
use svcfs_mount::MountError;

/// What the exit code of the process says. Scripts, and `systemd/*.service`, rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Something is broken or in the way; trying again later may help.
    Failed = 1,
    /// The command line or the configuration is wrong; trying again cannot help.
    Usage = 2,
    /// The answer is no: not found, changed meanwhile, refused by lint, somebody else has the root.
    Refused = 3,
    /// Ended by a signal, before everything was finished.
    Interrupted = 130,
}

/// Told in the help of the program.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed: something is broken or in the way, such as a port in use or a full disk
  2    the command line or the configuration is wrong
  3    refused: nothing is there, somebody was first, lint says no, another server has the root
  130  ended by Ctrl-C before everything was finished (nothing acknowledged is lost)";

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub struct CommandFailure {
    exit: ExitStatus,
    error: anyhow::Error,
}

impl CommandFailure {
    /// A failure that ends the process with `exit`; `error` reads like help.
    pub fn new(exit: ExitStatus, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }
    /// A failure in these words.
    pub fn saying(exit: ExitStatus, message: impl Into<String>) -> Self {
        Self { exit, error: anyhow::Error::msg(message.into()) }
    }
    /// The code the process ends with.
    pub const fn exit(&self) -> ExitStatus {
        self.exit
    }
    /// What is told: one sentence, and with `causes` everything that led to it.
    pub fn told(&self, causes: bool) -> String {
        let mut text = format!("svcfs: {}", self.error);
        if causes {
            for cause in self.error.chain() {
                let Some(fault) = cause.downcast_ref::<Fault>() else {
                    add(&mut text, &cause.to_string());
                    continue;
                };
                // A fault says more to a log than to a caller, its own causes included.
                let said = format!("{}: {}", fault.kind().name(), fault.message());
                let full = format!("{fault:?}");
                add(&mut text, if full == said { fault.message() } else { &full });
                break;
            }
        }
        text
    }
}

/// Adds a cause, unless it is part of the sentence already.
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
            return Self::new(exit, fault);
        }
        // The message for callers points to a server's log; here is none, so the cause itself is told.
        let told = match fault.source() {
            Some(source) => format!("internal error: {source}"),
            None => fault.message().to_owned(),
        };
        Self::new(exit, anyhow::Error::new(fault).context(told))
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

/// Refusals are told apart from breakdowns: a script may go on after the first, and should stop at the second.
fn exit_of(kind: Kind) -> ExitStatus {
    match kind {
        Kind::NotFound
        | Kind::Exists
        | Kind::Conflict
        | Kind::Locked
        | Kind::PreconditionFailed
        | Kind::Invalid
        | Kind::Rejected
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
        | Kind::Disabled => ExitStatus::Refused,
        Kind::RateLimited | Kind::Unavailable | Kind::Upstream | Kind::NoSpace | Kind::DiskFailed | Kind::Internal => {
            ExitStatus::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_internal_fault_tells_its_cause_because_there_is_no_server_log() {
        let fault = Fault::internal(std::io::Error::other("log.db is damaged"));
        let failure = CommandFailure::from(fault);
        assert_eq!(failure.told(false), "svcfs: internal error: log.db is damaged");
        assert_eq!(failure.exit(), ExitStatus::Failed);
    }

    #[test]
    fn what_a_fault_says_to_logs_only_is_told_when_asked_for() {
        let failure = CommandFailure::from(Fault::unavailable("the index is busy").with_context("writer lock held"));
        assert_eq!(failure.told(false), "svcfs: the index is busy");
        let told = "svcfs: the index is busy\n  because: Unavailable: the index is busy (writer lock held)";
        assert_eq!(failure.told(true), told);
    }

    #[test]
    fn causes_are_told_when_asked_for_and_never_twice() {
        let failure = CommandFailure::from(Fault::not_found("file not found: a.md"));
        assert_eq!(failure.told(true), "svcfs: file not found: a.md");
        let error = anyhow::Error::new(std::io::Error::other("disk is on fire")).context("cannot open `a`");
        let failure = CommandFailure::new(ExitStatus::Failed, error);
        assert_eq!(failure.told(false), "svcfs: cannot open `a`");
        assert_eq!(failure.told(true), "svcfs: cannot open `a`\n  because: disk is on fire");
    }
}
