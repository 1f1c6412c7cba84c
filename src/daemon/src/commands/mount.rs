//! `svcfs mount`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use sd_notify::NotifyState;
use svcfs_config::{CliOverrides, Settings};
use svcfs_mount::MountNamespace;
use tracing::level_filters::LevelFilter;

use crate::control::ControlRole;
use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;
use crate::remote::RemoteFlags;
use crate::root::{OpenRoot, require_initialised, settings};
use crate::root_flag::RootFlag;
use crate::stop::{self, RunningServer};
use crate::{adoption, background, control, handover, logging, output, presence, signals};

const EXAMPLES: &str = "\
Examples:
  mkdir notes.mnt && svcfs mount notes.mnt --root notes
  vim notes.mnt/index.md                   each save is a commit under your name
  SVC_ACTOR=agent:x make -C notes.mnt      attribute changes to agent:x
  svcfs mount bot.mnt --root notes --actor bot=agent:x    attribute all changes of user bot
  svcfs mount show.mnt --root notes --read-only           a root can have several mounts
  svcfs mount then.mnt --root notes --at 2026-11-01       the tree as it was
  svcfs mount team.mnt --root notes --space team          another space of the server of this root
  /srv/notes /srv/notes.mnt fuse.svcfs nofail 0 0         in /etc/fstab, with this helper for mount(8):
  ln -s /usr/bin/svcfs /sbin/mount.fuse.svcfs
  svcfs mount --remote https://notes.example.org --token-file ~/.notes.token notes    a server on another machine
  https://notes.example.org /mnt/notes fuse.svcfs token_file=/etc/notes.token,uid=ann,_netdev,nofail 0 0

If a server serves the root, the server mounts it, and this command returns. Otherwise this command
runs until Ctrl-C or `svcfs unmount`, then finishes accepted writes; further mounts are added to it.";

/// Mount a knowledge base as a folder
///
/// The server of the root (`svcfs serve` or `svcfs mount`) adds the mount; without a server, this
/// command serves the mount itself, without HTTP. The mountpoint is an empty directory outside the
/// root. With --remote, mounts from a server on another machine. Needs /dev/fuse, and either root
/// or `fusermount3` (package fuse3).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MountArgs {
    /// Empty directory to mount at
    mountpoint: PathBuf,
    #[command(flatten)]
    root: RootFlag,
    /// Settings from this file instead of `.svc/config.toml` in the root; not with a running server
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    remote: RemoteFlags,
    #[command(flatten)]
    flags: MountFlags,
    /// Return when mounted; a background process serves the mount until it is unmounted
    #[arg(long)]
    background: bool,
    /// Only check the command line
    #[arg(long)]
    dry_run: bool,
}

impl MountArgs {
    /// Lets the server mount the root, or mounts it until a signal or an unmount.
    ///
    /// # Errors
    /// When mounting or unmounting fails.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { mountpoint, root, config, remote, mut flags, background, dry_run } = self;
        // clap does not check `requires` across conflicting flags.
        remote.check()?;
        if dry_run {
            return Ok(());
        }
        if remote.is_remote() {
            return remote.run(&mountpoint, flags, background);
        }
        flags.space = remote.space;
        let path = root.find()?;
        presence::unmount_stale(&path)?;
        require_initialised(&path)?;
        // A process whose mount hides its root changes its working directory.
        let mountpoint = std::path::absolute(&mountpoint).context("the current directory does not exist any more")?;
        // The process of an agent hands the root over.
        let is_served = || control::is_served(&path) && control::request_release(&path, handover::TIMEOUT).is_err();
        if config.is_some() && is_served() {
            let mounted_message =
                format!("`{}` is already served with its own settings; omit --config", path.display());
            return Err(CommandFailure::saying(ExitStatus::Usage, mounted_message));
        }
        if let Some(at) = control::request_mount(&path, &mountpoint, &flags)? {
            return output::say(&mounted_message(&path, &at));
        }
        if background {
            return output::say(&background::mount(&path, &mountpoint, config.as_deref(), &flags)?);
        }
        // Before the first thread starts.
        let outside = MountNamespace::for_mount(&path, &mountpoint)?;
        let settings = settings(&path, config.as_deref(), CliOverrides::default())?;
        let _logging = logging::start(&settings.log, LevelFilter::INFO)?;
        let listening = signals::listen(false)?;
        let stale_mounts = presence::abort_hung_server(&path)?;
        let mut running = RunningServer::with(open(&path, settings)?, outside);
        let outcome = running.mounts.add(&mountpoint, flags).and_then(|at| {
            running.mounts.restore(stale_mounts);
            let root = running.root.space().vfs.root();
            running.control = Some(control::listen(&running.mounts, ControlRole::Mount, root, &listening.runtime)?);
            running.mounts.announce(None, running.root.key())?;
            announce(root, &at)
        });
        if outcome.is_ok() {
            let mounts = Arc::clone(&running.mounts);
            let all_unmounted = async {
                loop {
                    mounts.wait_for_unmount().await;
                    if mounts.stop_if_unmounted() {
                        return;
                    }
                }
            };
            listening.runtime.block_on(async {
                tokio::select! {
                    () = listening.end.cancelled() => {}
                    () = all_unmounted => tracing::info!("all mounts were unmounted"),
                }
            });
        }
        stop::after(outcome, running, listening)
    }
}

/// Opens a root without a server; waits for a server that is stopping.
fn open(path: &Path, settings: Settings) -> Result<OpenRoot, CommandFailure> {
    adoption::refuse_uncommitted(path, &settings)?;
    let opened = handover::open(path, || OpenRoot::open(path, settings.clone(), true));
    opened.map_err(|fault| match presence::secondary_space(path) {
        Some((space, pid)) if presence::holder(path, &fault).is_some() => {
            let mounted_message = format!(
                "`{}` is the space `{space}` of the server with process {pid}; mount it with `svcfs mount --root THE-FIRST-ROOT \
                 --space {space} MOUNTPOINT`, or stop that server first",
                path.display()
            );
            CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(fault).context(mounted_message))
        }
        _ => handover::failure(path, fault, "it cannot mount at the moment; retry, or stop it first"),
    })
}

fn announce(root: &Path, at: &Path) -> Result<(), CommandFailure> {
    let mounted_message = mounted_message(root, at);
    output::say(&mounted_message)?;
    stop::notify(&[NotifyState::Ready, NotifyState::Status(&mounted_message)]);
    Ok(())
}

fn mounted_message(root: &Path, at: &Path) -> String {
    format!("svcfs mounts {} at {}", root.display(), at.display())
}
