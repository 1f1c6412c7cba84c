//! `svcfs unmount`

use std::path::PathBuf;

use clap::Args;
use svcfs_mount::MountError;

use crate::failure::{CommandFailure, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  svcfs unmount notes.mnt

A server whose mount is taken away goes on over HTTP.";

/// Take a mount away, also one whose server is gone
///
/// Only mounts of svcfs are touched. Programs that have files open on it keep them until they close them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UnmountArgs {
    /// Where it is mounted
    mountpoint: PathBuf,
}

impl UnmountArgs {
    /// Takes it away.
    ///
    /// # Errors
    /// `Refused` when nothing of svcfs is mounted there.
    pub fn run(self) -> Result<(), CommandFailure> {
        svcfs_mount::unmount(&self.mountpoint).map_err(|error| match error {
            MountError::Missing(at) => CommandFailure::saying(
                ExitStatus::Refused,
                format!("there is no `{}`, so nothing is mounted there", at.display()),
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
