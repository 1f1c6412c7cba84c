//! The mounts of a root that is served.
//!
//! Invariant: `server.json` lists every mount, so that the next start can restore the mounts of a
//! killed server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use svcfs_base::{DraftId, SystemClock};
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
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// All mounts of a root, and their announcement to other commands.
pub struct RootMounts {
    server: Arc<ServerState>,
    outside: MountNamespace,
    /// Notified when a mount has ended.
    unmounted: Arc<Notify>,
    state: Mutex<MountState>,
}

#[derive(Default)]
struct MountState {
    mounts: Vec<(LocalMount, MountFlags)>,
    announced: Option<PresenceFile>,
    is_stopping: bool,
}

impl MountState {
    /// Updates the announced mounts, if the server is announced.
    fn update_presence(&mut self) -> Result<(), CommandFailure> {
        let mounted = self.list();
        self.announced.as_mut().map_or(Ok(()), |announced| announced.set_mounts(mounted))
    }

    /// Refuses new mounts and removes the announcement.
    fn stop_and_withdraw(&mut self) {
        self.is_stopping = true;
        drop(self.announced.take());
    }

    fn list(&self) -> Vec<MountedRoot> {
        let mounted = |(mount, flags): &(LocalMount, MountFlags)| MountedRoot {
            mountpoint: mount.mountpoint().to_owned(),
            flags: flags.clone(),
        };
        self.mounts.iter().map(mounted).collect()
    }
}

impl RootMounts {
    /// For a server without mounts.
    pub fn new(server: &Arc<ServerState>, outside: MountNamespace) -> Arc<Self> {
        let mounts =
            Arc::new(Self { server: Arc::clone(server), outside, unmounted: Arc::default(), state: Mutex::default() });
        let weak_mounts = Arc::downgrade(&mounts);
        server
            .metrics()
            .set_mount_source(move || weak_mounts.upgrade().map(|mounts| mounts.reports()).unwrap_or_default());
        mounts
    }

    /// Mounts the root, or another space of the server; returns the mountpoint with links resolved.
    ///
    /// # Errors
    /// When the mountpoint is unsuitable or mounting fails; `Refused` while the server stops, and
    /// for an unknown space.
    pub fn add(&self, mountpoint: &Path, mut flags: MountFlags) -> Result<PathBuf, CommandFailure> {
        let spaces = self.server.spaces();
        let space = flags.space.as_deref().map_or_else(|| Ok(Arc::clone(spaces.first())), |name| spaces.find(name))?;
        let vfs = Arc::clone(&space.vfs);
        let past = flags.at.as_deref().map(|at| past_state(&vfs, at)).transpose()?;
        let draft = flags.draft.as_deref().map(|id| open_draft(&vfs, id)).transpose()?;
        // A branch may have moved when the mount of a killed server is restored.
        flags.at = past.map(|past| past.commit.to_string());
        let mut state = self.state.lock();
        if state.is_stopping {
            return Err(CommandFailure::saying(ExitStatus::Refused, "the server is stopping"));
        }
        let unmounted = Arc::clone(&self.unmounted);
        let mut options = flags.clone().options(Arc::new(SystemClock));
        options.past_state = past;
        options.draft = draft;
        options.namespace = self.outside.clone();
        options.on_end = Some(Arc::new(move || unmounted.notify_one()));
        let server = Arc::clone(&self.server);
        options.on_answer = Some(Arc::new(move |operation, outcome, took| {
            server.metrics().requests.record_mount_request(operation, outcome, took);
        }));
        options.knowledge = Some(Arc::new(MountOperations { server: Arc::clone(&self.server), space }));
        let mount = LocalMount::start(vfs, mountpoint, &options)?;
        let mountpoint = mount.mountpoint().to_owned();
        state.mounts.push((mount, flags));
        state.update_presence()?;
        Ok(mountpoint)
    }

    /// Restores the mounts of a killed server; failures are logged only.
    pub fn restore(&self, stale_mounts: Vec<MountedRoot>) {
        let present = self.mountpoints();
        let missing = stale_mounts.into_iter().filter(|mount| !present.contains(&mount.mountpoint));
        for MountedRoot { mountpoint, flags } in missing {
            match self.add(&mountpoint, flags) {
                Ok(at) => tracing::info!(mountpoint = %at.display(), "restored the mount of a crashed server"),
                Err(failure) => {
                    let message = failure.message(false);
                    tracing::warn!(mountpoint = %mountpoint.display(), "the mount of a crashed server could not be restored: {message}");
                }
            }
        }
    }

    /// Announces to other commands that this process serves the root, at `url` if over HTTP, with
    /// their `key`.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub fn announce(&self, url: Option<String>, key: &str) -> Result<(), CommandFailure> {
        let mut state = self.state.lock();
        state.announced = Some({
            let first = self.server.primary();
            presence::announce(first.vfs.root(), (&first.name, None), (url, key), state.list())?
        });
        Ok(())
    }

    /// The server of the mounts.
    pub const fn server(&self) -> &Arc<ServerState> {
        &self.server
    }

    /// The mount namespace of the mounts.
    pub const fn outside(&self) -> &MountNamespace {
        &self.outside
    }

    /// The mounts for readiness reports.
    fn reports(&self) -> Vec<MountReport> {
        let report = |(mount, flags): &(LocalMount, MountFlags)| MountReport {
            mountpoint: mount.mountpoint().to_owned(),
            flags: flags.flags(),
        };
        self.state.lock().mounts.iter().map(report).collect()
    }

    /// The mountpoints of the root.
    pub fn mountpoints(&self) -> Vec<PathBuf> {
        self.state.lock().list().into_iter().map(|mounted| mounted.mountpoint).collect()
    }

    /// Releases mounts that were unmounted, until none remains.
    pub async fn wait_for_unmount(self: &Arc<Self>) {
        loop {
            self.unmounted.notified().await;
            let mounts = Arc::clone(self);
            let remaining = tokio::task::spawn_blocking(move || mounts.release_ended()).await;
            if remaining.is_ok_and(|remaining| remaining == 0) {
                return;
            }
        }
    }

    /// Releases ended mounts; returns the number of remaining ones.
    fn release_ended(&self) -> usize {
        let mut state = self.state.lock();
        for (mount, _) in state.mounts.extract_if(.., |(mount, _)| mount.is_unmounted()) {
            if let Err(error) = mount.stop(Duration::ZERO) {
                tracing::warn!("{error}");
            }
        }
        if let Err(failure) = state.update_presence() {
            tracing::warn!("{}", failure.message(true));
        }
        state.mounts.len()
    }

    /// Refuses new mounts and removes the announcement.
    pub fn stop_and_withdraw(&self) {
        self.state.lock().stop_and_withdraw();
    }

    /// The same if nothing is mounted; returns whether that is so. A mount may be requested while
    /// the last one ends.
    pub fn stop_if_unmounted(&self) -> bool {
        let mut state = self.state.lock();
        let is_none = state.mounts.is_empty();
        if is_none {
            state.stop_and_withdraw();
        }
        is_none
    }

    /// Whether new mounts are refused.
    pub fn is_stopping(&self) -> bool {
        self.state.lock().is_stopping
    }

    /// Unmounts everything; open files are saved.
    ///
    /// # Errors
    /// When unmounting fails.
    pub fn stop(&self) -> Result<(), MountError> {
        let mounts = std::mem::take(&mut self.state.lock().mounts);
        thread::scope(|scope| {
            // Each mount waits for the programs that use it.
            let stopping: Vec<_> = mounts.into_iter().map(|(mount, _)| scope.spawn(|| stop(mount))).collect();
            stopping.into_iter().filter_map(|stopping| stopping.join().ok()).collect()
        })
    }
}

fn past_state(vfs: &Vfs, at: &str) -> Result<PastState, CommandFailure> {
    vfs.past_state(at)?.ok_or_else(|| {
        let message = format!(
            "`{at}` is not known: give a time since the first commit (`2026-11-22T10:00`, `2026-11-22`), a commit, a branch or a tag of the root's git history"
        );
        CommandFailure::saying(ExitStatus::Refused, message)
    })
}

fn open_draft(vfs: &Vfs, id: &str) -> Result<DraftId, CommandFailure> {
    let draft = DraftId::parse(id).filter(|id| vfs.draft(*id).is_ok());
    draft.ok_or_else(|| {
        let message = format!("there is no open draft `{id}`: `svcfs drafts list` shows them");
        CommandFailure::saying(ExitStatus::Refused, message)
    })
}

fn stop(mount: LocalMount) -> Result<(), MountError> {
    match mount.stop(CLOSE_TIMEOUT) {
        // Programs may have open files; their writes are saved, so this is not a failure.
        Err(error @ MountError::StillOpen { .. }) => {
            tracing::warn!("{error}");
            Ok(())
        }
        outcome => outcome,
    }
}
