//! The mounts of a root that is served.
//!
//! One rule: what is mounted stands in `server.json`, so that the next start can detach what a killed server left behind and take it
//! up again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use svcfs_base::SystemClock;
use svcfs_knowledge::kernel::ServerState;
use svcfs_knowledge::metrics::MountReport;
use svcfs_mount::{LocalMount, MountError, MountNamespace};
use svcfs_vfs::{PastState, Vfs};
use tokio::sync::Notify;

use crate::failure::{CommandFailure, ExitStatus};
use crate::knowledge::MountOperations;
use crate::mounting::MountFlags;
use crate::presence::{self, MountedRoot, PresenceFile};

/// How long programs that use a mount may take to close their files.
const PATIENCE: Duration = Duration::from_secs(5);

/// Every mount of one root, and what others are told of them.
pub struct RootMounts {
    server: Arc<ServerState>,
    outside: MountNamespace,
    /// Rung when a mount is over.
    over: Arc<Notify>,
    held: Mutex<HeldMount>,
}

#[derive(Default)]
struct HeldMount {
    mounts: Vec<(LocalMount, MountFlags)>,
    announced: Option<PresenceFile>,
    is_stopping: bool,
}

impl HeldMount {
    /// Writes down what is mounted now, once that is told at all.
    fn tell(&mut self) -> Result<(), CommandFailure> {
        let mounted = self.mounted();
        self.announced.as_mut().map_or(Ok(()), |announced| announced.mounted(mounted))
    }

    /// Takes no mounts any more, and the announcement back.
    fn conceal(&mut self) {
        self.is_stopping = true;
        drop(self.announced.take());
    }

    fn mounted(&self) -> Vec<MountedRoot> {
        let mounted = |(mount, manner): &(LocalMount, MountFlags)| MountedRoot {
            mountpoint: mount.mountpoint().to_owned(),
            manner: manner.clone(),
        };
        self.mounts.iter().map(mounted).collect()
    }
}

impl RootMounts {
    /// Of a server whose first space is not mounted yet.
    pub fn of(server: &Arc<ServerState>, outside: MountNamespace) -> Arc<Self> {
        let mounts =
            Arc::new(Self { server: Arc::clone(server), outside, over: Arc::default(), held: Mutex::default() });
        let known = Arc::downgrade(&mounts);
        server.metrics().set_mount_source(move || known.upgrade().map(|mounts| mounts.reports()).unwrap_or_default());
        mounts
    }

    /// Mounts the root, or another space of the server, at one more place, and answers with the place's name without links.
    ///
    /// # Errors
    /// When the place does not serve, or the system refuses; `Refused` while everything stops, and for a space that is not there.
    pub fn add(&self, mountpoint: &Path, mut manner: MountFlags) -> Result<PathBuf, CommandFailure> {
        let spaces = self.server.spaces();
        let space = manner.space.as_deref().map_or_else(|| Ok(Arc::clone(spaces.first())), |name| spaces.find(name))?;
        let vfs = Arc::clone(&space.vfs);
        let state = manner.at.as_deref().map(|at| past_state(&vfs, at)).transpose()?;
        // A name may be another state's when a killed server's mount is taken up again.
        manner.at = state.map(|state| state.commit.to_string());
        let mut held = self.held.lock();
        if held.is_stopping {
            return Err(CommandFailure::saying(ExitStatus::Refused, "the server is stopping"));
        }
        let over = Arc::clone(&self.over);
        let mut options = manner.clone().options(Arc::new(SystemClock));
        options.past_state = state;
        options.namespace = self.outside.clone();
        options.on_end = Some(Arc::new(move || over.notify_one()));
        let counting = Arc::clone(&self.server);
        options.on_answer = Some(Arc::new(move |operation, outcome, took| {
            counting.metrics().requests.record_mount_request(operation, outcome, took);
        }));
        options.knowledge = Some(Arc::new(MountOperations { server: Arc::clone(&self.server), space }));
        let mount = LocalMount::start(vfs, mountpoint, &options)?;
        let place = mount.mountpoint().to_owned();
        held.mounts.push((mount, manner));
        held.tell()?;
        Ok(place)
    }

    /// Mounts the root again where a server that was killed had it mounted; what does not work is told in the log only.
    pub fn take_up(&self, left: Vec<MountedRoot>) {
        let places = self.places();
        for MountedRoot { mountpoint, manner } in left.into_iter().filter(|left| !places.contains(&left.mountpoint)) {
            match self.add(&mountpoint, manner) {
                Ok(at) => tracing::info!(mountpoint = %at.display(), "a killed server's mount is taken up again"),
                Err(failure) => {
                    let told = failure.told(false);
                    tracing::warn!(mountpoint = %mountpoint.display(), "a killed server's mount is not taken up again: {told}");
                }
            }
        }
    }

    /// Tells other commands that this process serves the root, at `url` if over HTTP, to whoever has the `key`.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub fn announce(&self, url: Option<String>, key: &str) -> Result<(), CommandFailure> {
        let mut held = self.held.lock();
        held.announced = Some({
            let first = self.server.primary();
            presence::announce(first.vfs.root(), &first.name, (url, key), held.mounted())?
        });
        Ok(())
    }

    /// Whose mounts they are.
    pub fn server(&self) -> &ServerState {
        &self.server
    }

    /// Where mounts are made.
    pub const fn outside(&self) -> &MountNamespace {
        &self.outside
    }

    /// Where and how the root is mounted, for whoever watches over the server.
    fn reports(&self) -> Vec<MountReport> {
        let report = |(mount, manner): &(LocalMount, MountFlags)| MountReport {
            mountpoint: mount.mountpoint().to_owned(),
            flags: manner.flags(),
        };
        self.held.lock().mounts.iter().map(report).collect()
    }

    /// Where the root is mounted.
    pub fn places(&self) -> Vec<PathBuf> {
        self.held.lock().mounted().into_iter().map(|mounted| mounted.mountpoint).collect()
    }

    /// Tidies up after mounts that somebody takes away, until none is left.
    pub async fn all_over(self: &Arc<Self>) {
        loop {
            self.over.notified().await;
            let mounts = Arc::clone(self);
            let left = tokio::task::spawn_blocking(move || mounts.tidy_up()).await;
            if left.is_ok_and(|left| left == 0) {
                return;
            }
        }
    }

    /// Lets go of mounts that are over; how many are left.
    fn tidy_up(&self) -> usize {
        let mut held = self.held.lock();
        for (mount, _) in held.mounts.extract_if(.., |(mount, _)| mount.is_unmounted()) {
            if let Err(error) = mount.stop(Duration::ZERO) {
                tracing::warn!("{error}");
            }
        }
        if let Err(failure) = held.tell() {
            tracing::warn!("{}", failure.told(true));
        }
        held.mounts.len()
    }

    /// Takes no mounts any more, and the announcement back.
    pub fn conceal(&self) {
        self.held.lock().conceal();
    }

    /// The same if nothing is mounted; whether it is so. Somebody may ask for a mount in the moment in which the last one is over.
    pub fn conceal_if_none(&self) -> bool {
        let mut held = self.held.lock();
        let is_none = held.mounts.is_empty();
        if is_none {
            held.conceal();
        }
        is_none
    }

    /// Whether no mounts are taken any more.
    pub fn is_stopping(&self) -> bool {
        self.held.lock().is_stopping
    }

    /// Takes every mount away; what is open is saved.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn stop(&self) -> Result<(), MountError> {
        let mounts = std::mem::take(&mut self.held.lock().mounts);
        thread::scope(|scope| {
            // Each waits for its own programs.
            let stopping: Vec<_> = mounts.into_iter().map(|(mount, _)| scope.spawn(|| stop(mount))).collect();
            stopping.into_iter().filter_map(|stopping| stopping.join().ok()).collect()
        })
    }
}

fn past_state(vfs: &Vfs, at: &str) -> Result<PastState, CommandFailure> {
    vfs.past_state(at)?.ok_or_else(|| {
        let told = format!(
            "no tree is called `{at}`: name a time since the first commit (`2026-11-22T10:00`, `2026-11-22`), a commit, a branch or a tag of the root's git history"
        );
        CommandFailure::saying(ExitStatus::Refused, told)
    })
}

fn stop(mount: LocalMount) -> Result<(), MountError> {
    match mount.stop(PATIENCE) {
        // Programs that keep files open are theirs to mend; what they wrote is saved, and the end is a good one.
        Err(error @ MountError::StillOpen { .. }) => {
            tracing::warn!("{error}");
            Ok(())
        }
        outcome => outcome,
    }
}
