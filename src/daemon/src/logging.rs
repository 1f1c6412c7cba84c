//! Destination and filter of the log.

use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;

use anyhow::Context;
use svcfs_config::LogOutput;
use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::failure::{CommandFailure, ExitStatus};
use crate::{output, progress};

/// `SVC_LOG` overrides `RUST_LOG`; both have the form `info,svcfs_vfs=debug`.
const VARIABLES: [&str; 2] = ["SVC_LOG", "RUST_LOG"];

/// Filter for dependencies whose logs do not help an operator.
const DEPENDENCY_FILTER: &str = "hyper=warn,hyper_util=warn,warp=warn,rmcp=warn,fuser=warn,notify=warn,mio=warn,rustls_platform_verifier=off,s3s=off";

/// Keeps the log open; dropping it writes buffered lines.
#[must_use = "a log ends when this is dropped"]
pub struct LogGuard(#[expect(dead_code, reason = "held for its drop")] Option<WorkerGuard>);

/// Starts the log. Without a filter in the environment it has entries of at least `default_level`.
///
/// # Errors
/// `Usage` for an invalid filter; `Failed` when the log file cannot be opened.
pub fn start(to: &LogOutput, default_level: LevelFilter) -> Result<LogGuard, CommandFailure> {
    let filter = filter(default_level)?;
    let log = tracing_subscriber::registry().with(filter);
    let guard = match to {
        LogOutput::Off => tracing_subscriber::registry().with(LevelFilter::OFF).try_init().map(|()| None),
        LogOutput::Stderr if let Some(journal) = journal() => log.with(journal).try_init().map(|()| None),
        LogOutput::Stderr => {
            let colours = std::io::stderr().is_terminal();
            log.with(layer().with_writer(progress::stderr).with_ansi(colours)).try_init().map(|()| None)
        }
        LogOutput::File(path) => {
            let (writer, guard) = tracing_appender::non_blocking(opened(path)?);
            log.with(layer().with_writer(writer).with_ansi(false)).try_init().map(|()| Some(guard))
        }
    };
    Ok(LogGuard(guard.map_err(anyhow::Error::new)?))
}

/// The systemd journal, if standard error is connected to it: entries then have fields, level and
/// source location. None when it cannot be reached; lines of text go to it all the same.
fn journal() -> Option<tracing_journald::Layer> {
    let stream = std::env::var("JOURNAL_STREAM").ok()?;
    if !is_stream(&stream, &rustix::fs::fstat(std::io::stderr()).ok()?) {
        return None;
    }
    let layer = tracing_journald::layer().ok()?;
    // The default mapping makes INFO a notice.
    let mut levels = PriorityMappings::new();
    (levels.info, levels.debug, levels.trace) = (Priority::Informational, Priority::Debug, Priority::Debug);
    let layer = layer.with_priority_mappings(levels);
    Some(layer.with_field_prefix(Some("SVCFS".to_owned())).with_syslog_identifier("svcfs".to_owned()))
}

/// Whether a file is the one that `JOURNAL_STREAM` names, as `device:inode` (systemd.exec(5)): a
/// child of a service may have another standard error.
fn is_stream(stream: &str, file: &rustix::fs::Stat) -> bool {
    stream == format!("{}:{}", file.st_dev, file.st_ino)
}

fn opened(path: &Path) -> Result<File, CommandFailure> {
    let file = File::options().append(true).create(true).open(path);
    let message = || format!("cannot open the log file `{}` (`tracing.file`)", path.display());
    file.with_context(message).map_err(CommandFailure::from)
}

fn filter(default_level: LevelFilter) -> Result<EnvFilter, CommandFailure> {
    let given =
        VARIABLES.iter().find_map(|name| Some((name, std::env::var(name).ok().filter(|text| !text.is_empty())?)));
    let Some((name, text)) = given else {
        return Ok(EnvFilter::new(format!("{default_level},{DEPENDENCY_FILTER}")));
    };
    EnvFilter::try_new(&text).map_err(|error| {
        let message =
            format!("`{name}` is `{text}`, which is not a log filter ({error}); use the form `info,svcfs_vfs=debug`");
        CommandFailure::saying(ExitStatus::Usage, message)
    })
}

/// Logs panics from here on, or prints them when there is no log.
pub fn report_panics() {
    std::panic::set_hook(Box::new(panicked));
}

fn panicked(panic: &std::panic::PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("no message");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed").to_owned();
    if tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(panic.place = place, panic.thread = thread, "panicked: {message}");
    } else {
        output::complain(&format!("svcfs: a defect in svcfs: `{thread}` panicked at {place}: {message}"));
    }
}

#[cfg(test)]
mod tests {
    use super::is_stream;

    #[test]
    fn only_the_stream_that_systemd_names_is_the_journal() {
        let file = rustix::fs::stat("/dev/null").unwrap();
        assert!(is_stream(&format!("{}:{}", file.st_dev, file.st_ino), &file));
        for stream in ["", "1:2", "8:", &format!("{}:{}", file.st_dev, file.st_ino + 1)] {
            assert!(!is_stream(stream, &file), "{stream}");
        }
    }
}
