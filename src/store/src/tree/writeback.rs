//! Early writeback.
//!
//! Invariant: nothing depends on it. It is neither waited for nor checked: the later flush reports
//! errors (`SYNC_FILE_RANGE_WRITE` does not consume them).

use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use svcfs_work::SerialExecutor;

/// Writeback starts after this many bytes.
const STEP_BYTES: usize = 8 << 20;

/// Starts writeback of a file in steps, on another thread: block allocation takes as long as the
/// copy.
pub(super) struct WritebackHint {
    helper: Arc<SerialExecutor>,
    /// Bytes since the last step.
    pending_bytes: usize,
    is_running: Arc<AtomicBool>,
}

impl fmt::Debug for WritebackHint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WritebackHint").field("pending_bytes", &self.pending_bytes).finish_non_exhaustive()
    }
}

impl WritebackHint {
    /// For a new file.
    pub(super) fn new(helper: &Arc<SerialExecutor>) -> Self {
        Self { helper: Arc::clone(helper), pending_bytes: 0, is_running: Arc::default() }
    }

    /// Counts written bytes.
    pub(super) fn record(&mut self, file: &File, bytes: usize) {
        self.pending_bytes += bytes;
        // A running step covers these bytes, or the next one does.
        if self.pending_bytes < STEP_BYTES || self.is_running.load(Ordering::Acquire) {
            return;
        }
        let Ok(file) = file.try_clone() else { return };
        self.pending_bytes = 0;
        self.is_running.store(true, Ordering::Release);
        let is_running = Arc::clone(&self.is_running);
        self.helper.submit(move || {
            start_writeback(&file);
            is_running.store(false, Ordering::Release);
        });
    }
}

/// Starts writeback of all dirty pages.
#[expect(unsafe_code, reason = "no crate wraps sync_file_range(2)")]
fn start_writeback(file: &File) {
    // SAFETY: a call without pointers on an open descriptor. The flush reports its errors.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}
