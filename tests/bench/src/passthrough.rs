//! The mount that svcfs is measured beside: `bindfs`, which only passes everything on.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use svcfs_measure::machine;
use svcfs_measure::run::BenchRun;

/// How long a mount may take to be there.
const MOUNTING: Duration = Duration::from_secs(10);

/// A mount that only passes everything on.
pub struct Passthrough {
    child: Child,
    /// Where it is.
    pub mountpoint: PathBuf,
}

impl Passthrough {
    /// Mounts a folder once more; none where the program for it is missing.
    ///
    /// # Errors
    /// When it does not mount, or when the run is to end.
    pub fn start(run: &BenchRun, folder: &Path) -> Result<Option<Self>> {
        if !machine::is_installed("bindfs") {
            return Ok(None);
        }
        let mountpoint = run.path("passed-on");
        std::fs::create_dir(&mountpoint)?;
        let mut command = Command::new("bindfs");
        command.args(["-f", "--no-allow-other"]).arg(folder).arg(&mountpoint).process_group(0);
        let child = command.stdin(Stdio::null()).spawn().context("cannot start bindfs")?;
        // From here on a failure takes the mount away, too.
        let passthrough = Self { child, mountpoint };
        let outside = run.scratch().metadata()?.dev();
        run.wait_until("bindfs mounts", MOUNTING, || Ok(passthrough.mountpoint.metadata()?.dev() != outside))?;
        Ok(Some(passthrough))
    }
}

impl Drop for Passthrough {
    fn drop(&mut self) {
        // What is not unmounted is told by the removal of the directory; the process ends with its
        // mount.
        if machine::run(Command::new("fusermount3").args(["-u", "-z"]).arg(&self.mountpoint)).is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
