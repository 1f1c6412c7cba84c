//! Bytes on their way to the disk before anybody asks for it.
//!
//! One rule: nothing hangs on it. It is neither waited for nor looked at: what the disk refuses is told by the flush that somebody waits for
//! (`SYNC_FILE_RANGE_WRITE` takes no error away from it).

use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use svcfs_work::SerialExecutor;

/// The disk is asked to begin once so many bytes are written since the last time.
const STEP: usize = 8 << 20;

/// Has the disk begin with what is written to a file, a step at a time, by another thread: to find room for it takes as long as to copy it.
pub(super) struct WritebackHint {
    helper: Arc<SerialExecutor>,
    /// Bytes since the last time.
    written: usize,
    is_under_way: Arc<AtomicBool>,
}

impl fmt::Debug for WritebackHint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WritingBack").field("written", &self.written).finish_non_exhaustive()
    }
}

impl WritebackHint {
    /// By a helper, of a file that has nothing yet.
    pub(super) fn by(helper: &Arc<SerialExecutor>) -> Self {
        Self { helper: Arc::clone(helper), written: 0, is_under_way: Arc::default() }
    }

    /// So many more bytes are written.
    pub(super) fn wrote(&mut self, file: &File, bytes: usize) {
        self.written += bytes;
        // One that is under way takes what comes meanwhile, or the next does.
        if self.written < STEP || self.is_under_way.load(Ordering::Acquire) {
            return;
        }
        let Ok(file) = file.try_clone() else { return };
        self.written = 0;
        self.is_under_way.store(true, Ordering::Release);
        let is_under_way = Arc::clone(&self.is_under_way);
        self.helper.submit(move || {
            begin(&file);
            is_under_way.store(false, Ordering::Release);
        });
    }
}

/// Begins with everything that is written and not on the disk.
#[expect(unsafe_code, reason = "no crate wraps sync_file_range(2)")]
fn begin(file: &File) {
    // SAFETY: a call without pointers on a descriptor that is open. Its outcome is the flush's affair.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
