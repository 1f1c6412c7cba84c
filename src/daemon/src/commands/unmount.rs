//! `svcfs unmount`

use std::path::PathBuf;

use clap::Args;
use svcfs_mount::MountError;

use crate::failure::{CommandFailure, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  svcfs unmount notes.mnt

The server keeps running and answers over HTTP.";

/// Unmount (stale mounts too)
///
/// Only mounts of svcfs are changed. Programs with open files can use these until they close them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UnmountArgs {
    /// The mountpoint
    mountpoint: PathBuf,
}

impl UnmountArgs {
    /// Unmounts.
    ///
    /// # Errors
    /// `Refused` when nothing of svcfs is mounted there.
    pub fn run(self) -> Result<(), CommandFailure> {
        svcfs_mount::unmount(&self.mountpoint).map_err(|error| match error {
            MountError::Missing(at) => CommandFailure::saying(
                ExitStatus::Refused,
                format!("`{}` does not exist, so nothing is mounted there", at.display()),
            ),
            MountError::NotMounted(_) => CommandFailure::new(ExitStatus::Refused, error),
            MountError::NotADirectory(_)
            | MountError::NotEmpty(_)
            | MountError::OverlapsRoot { .. }
            | MountError::NeedsRoot(_)
            | MountError::AlreadyMounted(_)
            | MountError::DeadMount(_)
            | MountError::Unresponsive(_)
            | MountError::Mount { .. }
            | MountError::AllowOtherDenied(_)
            | MountError::Unmount { .. }
            | MountError::StillOpen { .. }
            | MountError::Unreadable { .. } => error.into(),
        })
    }
}
