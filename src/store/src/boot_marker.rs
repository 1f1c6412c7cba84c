//! Whether the machine was started since a space was opened last: only then may what was written and not flushed be lost.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::StatePaths;

/// How far two answers to when the machine was started may be apart.
const SAME: Duration = Duration::from_millis(500);

/// Whether a space was opened whole since the machine was started at this time. Where nobody can say, it was not.
pub fn opened_since_boot(paths: &StatePaths, started: SystemTime) -> bool {
    let noted = fs::read_to_string(paths.boot_marker()).ok().and_then(|text| text.trim().parse().ok());
    let noted = noted.and_then(|nanoseconds| UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds)));
    noted.is_some_and(|noted| {
        let apart = started.duration_since(noted).or_else(|_| noted.duration_since(started));
        apart.is_ok_and(|apart| apart < SAME)
    })
}

/// Notes that a space is opened whole, on a machine that was started at this time. Not flushed: what is lost with the power is not true any more.
///
/// # Errors
/// What the disk says.
pub fn write_marker(paths: &StatePaths, started: SystemTime) -> io::Result<()> {
    if opened_since_boot(paths, started) {
        return Ok(());
    }
    let since = started.duration_since(UNIX_EPOCH).unwrap_or_default();
    fs::write(paths.boot_marker(), format!("{}\n", since.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_was_opened_since_the_machine_was_started_when_that_was_noted_at_the_same_start() {
        let directory = tempfile::tempdir().unwrap();
        let paths = StatePaths::new(directory.path());
        fs::create_dir_all(paths.directory()).unwrap();
        let started = SystemTime::now();
        assert!(!opened_since_boot(&paths, started));
        write_marker(&paths, started).unwrap();
        assert!(opened_since_boot(&paths, started + Duration::from_millis(3)));
        assert!(opened_since_boot(&paths, started - Duration::from_millis(3)));
        assert!(!opened_since_boot(&paths, started + Duration::from_secs(1)));
        for torn in ["", "17", "\0\0\0", "99999999999999999999999"] {
            fs::write(paths.boot_marker(), torn).unwrap();
            assert!(!opened_since_boot(&paths, started), "{torn:?}");
        }
    }
}
