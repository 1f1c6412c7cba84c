//! `svcfs mount`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use sd_notify::NotifyState;
use svcfs_base::SystemClock;
use svcfs_config::Overrides;
use tracing::level_filters::LevelFilter;

use crate::failure::Failure;
use crate::mounting::Manner;
use crate::root::{Root, must_be_initialised, settings};
use crate::stop::{self, Running};
use crate::{logging, output, presence, signals};

const EXAMPLES: &str = "\
Examples:
  mkdir notes.mnt && svcfs mount notes.mnt --root notes
  vim notes.mnt/index.md        a save is a commit under your name
  SVC_ACTOR=agent:x make -C notes.mnt      what this changes is agent:x's
  svcfs mount notes.mnt --root notes --actor bot=agent:x     and so is what user bot changes

Ctrl-C takes the mount away once every accepted write is finished. `svcfs serve --mount` does the
same beside HTTP.";

/// Mount a knowledge base as a folder, without HTTP
///
/// Stays in the foreground. The mountpoint is an empty directory outside the root. Needs /dev/fuse, and either root or
/// `fusermount3` (package fuse3).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Mount {
    /// Empty directory to mount at
    mountpoint: PathBuf,
    /// Directory of the knowledge base
    #[arg(short, long, value_name = "DIR", default_value = "./knowledge")]
    root: PathBuf,
    /// Settings from this file instead of `.svc/config.toml` in the root
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    manner: Manner,
}

impl Mount {
    /// Mounts until a signal asks for the end.
    ///
    /// # Errors
    /// What stands in the way of mounting, or did not end as it should.
    pub fn run(self) -> Result<(), Failure> {
        let Self { mountpoint, root: path, config, manner } = self;
        must_be_initialised(&path)?;
        let settings = settings(&path, config.as_deref(), Overrides::default())?;
        let _logging = logging::start(&settings.log, LevelFilter::INFO)?;
        let listening = signals::listen(false)?;
        presence::bury(&path)?;
        let advice = "give its `svcfs serve` the flag --mount instead, or stop it first";
        let root = Root::open(&path, settings, true).map_err(|fault| presence::taken(&path, fault, advice))?;
        let mut running = Running { root, mount: None, http: None, announced: None };
        let outcome = open_door(&mut running, &mountpoint, manner);
        if outcome.is_ok() {
            listening.runtime.block_on(listening.end.cancelled());
        }
        stop::after(outcome, running, listening)
    }
}

fn open_door(running: &mut Running, mountpoint: &Path, manner: Manner) -> Result<(), Failure> {
    let vfs = Arc::clone(&running.root.space().vfs);
    let mounted = svcfs_mount::Mount::start(Arc::clone(&vfs), mountpoint, &manner.options(Arc::new(SystemClock)))?;
    let told = format!("svcfs mounts {} at {}", vfs.root().display(), mounted.mountpoint().display());
    let mounted = running.mount.insert(mounted);
    running.announced = Some(presence::announce(vfs.root(), None, Some(mounted.mountpoint()))?);
    output::say(&told)?;
    stop::notify(&[NotifyState::Ready, NotifyState::Status(&told)]);
    Ok(())
}
