//! `svcfs mount`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use sd_notify::NotifyState;
use svcfs_config::{CliOverrides, Settings};
use svcfs_mount::MountNamespace;
use tracing::level_filters::LevelFilter;

use crate::failure::{CommandFailure, ExitStatus};
use crate::mounting::MountFlags;
use crate::presence::{self, RootHolder};
use crate::remote::RemoteFlags;
use crate::root::{OpenRoot, must_be_initialised, settings};
use crate::stop::{self, RunningServer};
use crate::{background, control, logging, output, signals};

const EXAMPLES: &str = "\
Examples:
  mkdir notes.mnt && svcfs mount notes.mnt --root notes
  vim notes.mnt/index.md                   a save is a commit under your name
  SVC_ACTOR=agent:x make -C notes.mnt      what this changes is agent:x's
  svcfs mount bot.mnt --root notes --actor bot=agent:x    and so is all that user bot changes here
  svcfs mount show.mnt --root notes --read-only           as many mounts of a root as you like
  svcfs mount then.mnt --root notes --at 2026-11-01       the tree as it was
  svcfs mount team.mnt --root notes --space team          another space of the server that has this root
  /srv/notes /srv/notes.mnt fuse.svcfs nofail 0 0         in /etc/fstab, once mount(8) finds svcfs:
  ln -s /usr/bin/svcfs /sbin/mount.fuse.svcfs
  svcfs mount --remote https://notes.example.org --token-file ~/.notes.token notes    another machine's
  https://notes.example.org /mnt/notes fuse.svcfs token_file=/etc/notes.token,uid=ann,_netdev,nofail 0 0

When a server has the root, it mounts, and this returns at once. Otherwise this stays until Ctrl-C or
`svcfs unmount` and finishes every accepted write; further mounts are added to it meanwhile.";

/// Mount a knowledge base as a folder
///
/// Asks the server that has the root (`svcfs serve`, `svcfs mount`) to mount it at one more place; without one, serves the folder
/// itself, without HTTP. The mountpoint is an empty directory outside the root. With --remote, mounts what a server on another
/// machine has. Needs /dev/fuse, and either root or `fusermount3` (package fuse3).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MountArgs {
    /// Empty directory to mount at
    mountpoint: PathBuf,
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Settings from this file instead of `.svc/config.toml` in the root; not where a server has the root already
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    elsewhere: RemoteFlags,
    #[command(flatten)]
    manner: MountFlags,
    /// Return when it is mounted, also without a server: a process in the background serves it until it is unmounted
    #[arg(long)]
    background: bool,
    /// Check the command line, and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl MountArgs {
    /// Has a server mount it, or mounts it until a signal asks for the end or somebody unmounts it.
    ///
    /// # Errors
    /// What stands in the way of mounting, or did not end as it should.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { mountpoint, root: path, config, elsewhere, mut manner, background, dry_run } = self;
        // clap takes flags that need another one for good where that other one cannot be.
        elsewhere.check()?;
        if dry_run {
            return Ok(());
        }
        if elsewhere.is_asked_for() {
            return elsewhere.run(&mountpoint, manner, background);
        }
        manner.space = elsewhere.space;
        presence::uncover(&path)?;
        must_be_initialised(&path)?;
        // A process that covers its root stands elsewhere.
        let mountpoint = std::path::absolute(&mountpoint).context("the current directory is gone")?;
        if config.is_some() && control::is_there(&path) {
            let told = format!("`{}` is served already, with settings of its own; leave --config out", path.display());
            return Err(CommandFailure::saying(ExitStatus::Usage, told));
        }
        if let Some(at) = control::ask(&path, &mountpoint, &manner)? {
            return output::say(&told(&path, &at));
        }
        if background {
            return output::say(&background::mount(&path, &mountpoint, config.as_deref(), &manner)?);
        }
        // Before there is any other thread.
        let outside = MountNamespace::for_mount(&path, &mountpoint)?;
        let settings = settings(&path, config.as_deref(), CliOverrides::default())?;
        let _logging = logging::start(&settings.log, LevelFilter::INFO)?;
        let listening = signals::listen(false)?;
        let left = presence::bury(&path)?;
        let mut running = RunningServer::with(open(&path, settings)?, outside);
        let outcome = running.mounts.add(&mountpoint, manner).and_then(|at| {
            running.mounts.take_up(left);
            let root = running.root.space().vfs.root();
            running.control = Some(control::listen(&running.mounts, None, root, &listening.runtime)?);
            running.mounts.announce(None, running.root.key())?;
            say(root, &at)
        });
        if outcome.is_ok() {
            let mounts = Arc::clone(&running.mounts);
            let all_over = async {
                loop {
                    mounts.all_over().await;
                    if mounts.conceal_if_none() {
                        return;
                    }
                }
            };
            listening.runtime.block_on(async {
                tokio::select! {
                    () = listening.end.cancelled() => {}
                    () = all_over => tracing::info!("nothing is mounted any more"),
                }
            });
        }
        stop::after(outcome, running, listening)
    }
}

/// Opens a root that nobody serves; waits for a server that is ending.
fn open(path: &Path, settings: Settings) -> Result<OpenRoot, CommandFailure> {
    let opened = match OpenRoot::open(path, settings.clone(), true) {
        Err(fault) => match presence::holder(path, &fault) {
            // Whoever has it tells nobody how to be reached: any more, or yet.
            Some(RootHolder { pid, served: None }) if presence::is_gone(&pid)? => OpenRoot::open(path, settings, true),
            Some(_) | None => Err(fault),
        },
        opened => opened,
    };
    opened.map_err(|fault| match presence::beside_the_first(path) {
        Some((space, pid)) if presence::holder(path, &fault).is_some() => {
            let told = format!(
                "`{}` is the space `{space}` of the server with process {pid}; mount it with `svcfs mount --root THE-FIRST-ROOT \
                 --space {space} MOUNTPOINT`, or stop that server first",
                path.display()
            );
            CommandFailure::new(ExitStatus::Refused, anyhow::Error::new(fault).context(told))
        }
        _ => presence::taken(path, fault, "it mounts nothing at the moment; try again, or stop it first"),
    })
}

fn say(root: &Path, at: &Path) -> Result<(), CommandFailure> {
    let told = told(root, at);
    output::say(&told)?;
    stop::notify(&[NotifyState::Ready, NotifyState::Status(&told)]);
    Ok(())
}

fn told(root: &Path, at: &Path) -> String {
    format!("svcfs mounts {} at {}", root.display(), at.display())
}
