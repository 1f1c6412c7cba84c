//! Destination, format and filter of the log.
//!
//! The filter is that of `--log-level`, else of `SVC_LOG`, else of `RUST_LOG`, else the level that
//! the command passes to [`start`].

mod filter;
mod json_lines;

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::Context;
use clap::{Args, ValueEnum};
use svcfs_config::LogOutput;
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber};
use tracing_appender::non_blocking::WorkerGuard;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::fmt::{MakeWriter, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use self::filter::BareWords;
use self::json_lines::JsonLines;
use crate::failure::{CommandFailure, ExitStatus};
use crate::{output, progress};

/// Variables with a filter; the first one that is set counts.
const VARIABLES: [(&str, BareWords); 2] = [("SVC_LOG", BareWords::Refused), ("RUST_LOG", BareWords::AreTargets)];

/// The flags of this process.
static FLAGS: OnceLock<LogFlags> = OnceLock::new();

/// Flags of the log, for every command.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct LogFlags {
    /// Minimum level of log entries
    ///
    /// error, warn, info, debug, trace or off; or a filter with targets, such as
    /// `info,svcfs_vfs=debug`. Overrides $SVC_LOG and $RUST_LOG.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = checked_filter, hide_short_help = true, display_order = 901)]
    log_level: Option<String>,
    /// Format of log entries [default: text]
    ///
    /// Lines of text, or JSON objects with `timestamp`, `level`, `target`, `message` and `fields`.
    #[arg(long, global = true, value_name = "FORMAT", hide_short_help = true, display_order = 902)]
    log_format: Option<LogFormat>,
}

/// Format of log entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Parses `--log-level`.
fn checked_filter(text: &str) -> Result<String, String> {
    filter::parse(text, BareWords::Refused).map(|_| text.to_owned())
}

/// Sets the flags of this process, before [`start`].
pub fn configure(flags: LogFlags) {
    // The command line is parsed once.
    drop(FLAGS.set(flags));
}

/// The flags as arguments for a child process.
pub fn arguments() -> Vec<OsString> {
    let LogFlags { log_level, log_format } = flags();
    let level = log_level.map(|level| format!("--log-level={level}").into());
    let format = log_format.and_then(|format| format.to_possible_value());
    level.into_iter().chain(format.map(|format| format!("--log-format={}", format.get_name()).into())).collect()
}

/// Writes why the command failed: in the format of the log, so that every line of standard error
/// can be parsed.
pub fn complain(message: &str) {
    match flags().log_format.unwrap_or_default() {
        LogFormat::Text => output::complain(message),
        LogFormat::Json => {
            output::complain(&json_lines::of_message(Level::ERROR, message.trim_start_matches("svcfs: ")));
        }
    }
}

fn flags() -> LogFlags {
    FLAGS.get().cloned().unwrap_or_default()
}

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
    let format = flags().log_format;
    let guard = match to {
        LogOutput::Off => tracing_subscriber::registry().with(LevelFilter::OFF).try_init().map(|()| None),
        // A format on the command line is meant for what reads standard error.
        LogOutput::Stderr
            if format.is_none()
                && let Some(journal) = journal() =>
        {
            log.with(journal).try_init().map(|()| None)
        }
        LogOutput::Stderr => {
            let colours = output::has_colours(&std::io::stderr());
            log.with(formatted(format, progress::stderr, colours)).try_init().map(|()| None)
        }
        LogOutput::File(path) => {
            let (writer, guard) = tracing_appender::non_blocking(opened(path)?);
            log.with(formatted(format, writer, false)).try_init().map(|()| Some(guard))
        }
    };
    Ok(LogGuard(guard.map_err(anyhow::Error::new)?))
}

fn formatted<S, W>(format: Option<LogFormat>, writer: W, colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let layer = layer().with_writer(writer);
    match format.unwrap_or_default() {
        LogFormat::Text => layer.with_ansi(colours).boxed(),
        LogFormat::Json => layer.with_ansi(false).event_format(JsonLines).fmt_fields(JsonFields::new()).boxed(),
    }
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
    let variable = |(name, bare_words)| {
        let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
        Some((name, text, bare_words))
    };
    let given = flags().log_level.map(|text| ("--log-level", text, BareWords::Refused));
    let Some((name, text, bare_words)) = given.or_else(|| VARIABLES.into_iter().find_map(variable)) else {
        return Ok(filter::of_level(default_level));
    };
    filter::parse(&text, bare_words).map_err(|problem| {
        CommandFailure::saying(ExitStatus::Usage, format!("`{name}` is `{text}`, which is not a log filter: {problem}"))
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
