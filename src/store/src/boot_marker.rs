//! Whether the machine has rebooted since a space was last opened. Only then can written but
//! unflushed data be lost.

use std::fs;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::StatePaths;

/// Two readings of the boot time may differ by this much.
const TOLERANCE: Duration = Duration::from_millis(500);

/// Whether a space was completely opened since the machine booted at `boot_time`; false when
/// unknown.
pub fn opened_since_boot(paths: &StatePaths, boot_time: SystemTime) -> bool {
    let recorded = fs::read_to_string(paths.boot_marker()).ok().and_then(|text| text.trim().parse().ok());
    let recorded = recorded.and_then(|nanoseconds| UNIX_EPOCH.checked_add(Duration::from_nanos(nanoseconds)));
    recorded.is_some_and(|recorded| {
        let difference = boot_time.duration_since(recorded).or_else(|_| recorded.duration_since(boot_time));
        difference.is_ok_and(|difference| difference < TOLERANCE)
    })
}

/// Records that a space is completely open, on a machine that booted at `boot_time`. Not flushed:
/// after a power failure the record is not valid anyway.
///
/// # Errors
/// The error of the write.
pub fn write_marker(paths: &StatePaths, boot_time: SystemTime) -> io::Result<()> {
    if opened_since_boot(paths, boot_time) {
        return Ok(());
    }
    let since_epoch = boot_time.duration_since(UNIX_EPOCH).unwrap_or_default();
    fs::write(paths.boot_marker(), format!("{}\n", since_epoch.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_counts_as_opened_since_boot_by_its_boot_marker() {
        let directory = tempfile::tempdir().unwrap();
        let paths = StatePaths::new(directory.path());
        fs::create_dir_all(paths.directory()).unwrap();
        let boot_time = SystemTime::now();
        assert!(!opened_since_boot(&paths, boot_time));
        write_marker(&paths, boot_time).unwrap();
        assert!(opened_since_boot(&paths, boot_time + Duration::from_millis(3)));
        assert!(opened_since_boot(&paths, boot_time - Duration::from_millis(3)));
        assert!(!opened_since_boot(&paths, boot_time + Duration::from_secs(1)));
        for torn in ["", "17", "\0\0\0", "99999999999999999999999"] {
            fs::write(paths.boot_marker(), torn).unwrap();
            assert!(!opened_since_boot(&paths, boot_time), "{torn:?}");
        }
    }
}
