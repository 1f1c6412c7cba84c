//! Which entries are logged: the form of `--log-level`, `SVC_LOG` and `RUST_LOG`.
//!
//! Invariant: a level without a target is for the entries of svcfs only. Dependencies log warnings
//! and errors unless the filter names them, because at `debug` they print every frame and every
//! file event, and operators look for what svcfs does.

use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Prefix of the targets of all svcfs crates, and the target of the lines per request.
const OWN_TARGETS: [&str; 2] = ["svcfs", "access"];

/// Dependencies that log errors which are none of svcfs.
const SILENT_TARGETS: &str = "rustls_platform_verifier=off,s3s=off";

/// What a filter looks like, for error messages.
pub const FILTER_FORMS: &str =
    "use error, warn, info, debug, trace or off, or a filter with targets such as `info,svcfs_vfs=debug`";

/// How a word that is neither a level nor an svcfs target is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BareWords {
    /// As a mistyped level.
    Refused,
    /// As a target, which is what other Rust programs do.
    AreTargets,
}

/// The filter for entries of at least `level`.
pub fn of_level(level: LevelFilter) -> EnvFilter {
    EnvFilter::new(directives_of(level))
}

/// Parses a filter.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str, bare_words: BareWords) -> Result<EnvFilter, String> {
    let mut level = None;
    let mut directives = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        match LevelFilter::from_str(part) {
            Ok(given) => level = Some(given),
            Err(_) if is_mistyped(part, bare_words) => return Err(format!("`{part}` is not a level; {FILTER_FORMS}")),
            Err(_) => directives.push(part.to_owned()),
        }
    }
    if let Some(level) = level {
        directives.insert(0, directives_of(level));
    }
    if directives.is_empty() {
        return Err(format!("it is empty; {FILTER_FORMS}"));
    }
    EnvFilter::try_new(directives.join(",")).map_err(|error| format!("{error}; {FILTER_FORMS}"))
}

fn directives_of(level: LevelFilter) -> String {
    let own = OWN_TARGETS.map(|target| format!("{target}={level}")).join(",");
    format!("{},{own},{SILENT_TARGETS}", level.min(LevelFilter::WARN))
}

fn is_mistyped(part: &str, bare_words: BareWords) -> bool {
    bare_words == BareWords::Refused
        && !part.contains(['=', '[', ':'])
        && !OWN_TARGETS.iter().any(|target| part.starts_with(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directives of a filter, in alphabetical order.
    fn parsed(text: &str) -> String {
        let filter = parse(text, BareWords::Refused).unwrap().to_string();
        let mut directives: Vec<&str> = filter.split(',').collect();
        directives.sort_unstable();
        directives.join(",")
    }

    #[test]
    fn a_level_is_for_svcfs_and_dependencies_log_warnings_at_most() {
        for (text, expected) in [
            ("debug", "access=debug,rustls_platform_verifier=off,s3s=off,svcfs=debug,warn"),
            ("TRACE", "access=trace,rustls_platform_verifier=off,s3s=off,svcfs=trace,warn"),
            ("error", "access=error,error,rustls_platform_verifier=off,s3s=off,svcfs=error"),
            ("off", "access=off,off,rustls_platform_verifier=off,s3s=off,svcfs=off"),
            ("info,access=debug", "access=debug,rustls_platform_verifier=off,s3s=off,svcfs=info,warn"),
            ("debug,h2=debug", "access=debug,h2=debug,rustls_platform_verifier=off,s3s=off,svcfs=debug,warn"),
            ("debug, s3s=info", "access=debug,rustls_platform_verifier=off,s3s=info,svcfs=debug,warn"),
            ("svcfs_vfs=trace", "svcfs_vfs=trace"),
            ("svcfs_vfs", "svcfs_vfs=trace"),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }

    #[test]
    fn a_mistyped_filter_is_refused_with_the_forms() {
        for text in ["debgu", "info,verbose", "svcfs_vfs=loud", "", ",", "svcfs[=", "5x"] {
            let message = parse(text, BareWords::Refused).unwrap_err();
            assert!(message.contains(FILTER_FORMS), "{text}: {message}");
        }
    }

    #[test]
    fn a_filter_for_other_programs_is_accepted() {
        assert_eq!(parse("hyper", BareWords::AreTargets).unwrap().to_string(), "hyper=trace");
    }
}
