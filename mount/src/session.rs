//! A mount from its start to its end.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use fuser::{BackgroundSession, Config, Filesystem, MountOption, Notifier, Session, SessionACL};
use svcfs_base::{Clock, Durability};
use svcfs_vfs::{PastState, Vfs};

use crate::actors::AttributionPolicy;
use crate::callbacks::LocalCallbacks;
use crate::follower::{FeedFollower, FollowerProgress};
use crate::fuse_server::FuseServer;
use crate::mountpoint::{FILESYSTEM_NAME, MountError, check_mountpoint, connection, detach};
use crate::namespace::MountNamespace;
use crate::reply::OnAnswer;
use crate::views::KnowledgeSource;

/// How a space is mounted.
#[derive(Clone)]
pub struct MountOptions {
    /// Where the present moment comes from, for `touch` and its like.
    pub clock: Arc<dyn Clock>,
    /// How many requests are served at the same time, at least 1. A save that waits for its commit holds one of them.
    pub threads: usize,
    /// Whether nothing can be changed through the mount (`EROFS`).
    pub is_read_only: bool,
    /// The tree as it was then is shown, read-only, instead of the tree as it is.
    pub past_state: Option<PastState>,
    /// Whether no program on the mount can be started (`EACCES`).
    pub is_noexec: bool,
    /// Whether every user may use the mount, under the permissions of the files. Always so when root mounts; for others
    /// `/etc/fuse.conf` must allow it.
    pub allow_other: bool,
    /// Whose name a change gets.
    pub attribution: AttributionPolicy,
    /// Where the mount is made.
    pub namespace: MountNamespace,
    /// Called when the mount is over, however it came to its end; from a thread that ends with it.
    pub on_end: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Told of each request of the kernel that was answered.
    pub on_answer: Option<OnAnswer>,
    /// Who knows what is in the pages; without, what only knowledge can show is not there.
    pub knowledge: Option<Arc<dyn KnowledgeSource>>,
}

impl MountOptions {
    /// Everything but these two as most mounts want it.
    pub fn new(clock: Arc<dyn Clock>, threads: usize) -> Self {
        Self {
            clock,
            threads,
            is_read_only: false,
            past_state: None,
            is_noexec: false,
            allow_other: false,
            attribution: AttributionPolicy::default(),
            namespace: MountNamespace::default(),
            on_end: None,
            on_answer: None,
            knowledge: None,
        }
    }
}

/// A session of the kernel with a filesystem of ours, from its start to its end.
pub(crate) struct FuseSession {
    pub(crate) mountpoint: PathBuf,
    /// What the kernel calls it; another mount may be at the same path by the time this one is over.
    connection: Option<u32>,
    outside: MountNamespace,
    /// Disconnected when the session has answered its last request.
    ended: Receiver<Infallible>,
    /// Never dropped: fuser 0.18 would unmount the path once more, and by then it may be somebody else's mountpoint. Costs one
    /// file descriptor until the process ends.
    session: ManuallyDrop<BackgroundSession>,
}

impl FuseSession {
    /// Mounts what `filesystem` makes at a mountpoint that was found to serve; `source` is what the mount table shows.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn start<F: Filesystem + Send + 'static>(
        filesystem: impl FnOnce(SessionSentinel) -> F,
        (source, mountpoint): (&str, PathBuf),
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let failed = |source| MountError::Mount { mountpoint: mountpoint.clone(), source };
        let (alive, ended) = channel();
        let filesystem = filesystem(SessionSentinel { open: Some(alive), on_end: options.on_end.clone() });
        let config = config(options, source);
        let (session, connection) =
            options.namespace.visit(|| match Session::new(filesystem, &mountpoint, &config) {
                // fusermount's only refusal of this kind; those of the system have a number.
                Err(error) if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() => {
                    Err(MountError::AllowOtherDenied(mountpoint.clone()))
                }
                mounted => Ok((mounted.map_err(failed)?, connection(&mountpoint)?)),
            })?;
        // Not out there: its threads read and write the root.
        let session = ManuallyDrop::new(session.spawn().map_err(failed)?);
        tracing::info!(mountpoint = %mountpoint.display(), "mounted");
        Ok(Self { mountpoint, connection, outside: options.namespace.clone(), ended, session })
    }

    /// Tells the kernel what it must forget.
    pub(crate) fn notifier(&self) -> Notifier {
        self.session.notifier()
    }

    /// Whether somebody took the mount away and nothing is open on it any more.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.ended.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits until nothing is open on it any more, but at most `limit`; whether something still is.
    pub(crate) fn is_used_after(&self, limit: Duration) -> bool {
        // Nothing is ever sent: only the end of the session ends the wait before its time.
        matches!(self.ended.recv_timeout(limit), Err(RecvTimeoutError::Timeout))
    }

    /// Takes the mount away. Somebody else may have unmounted it already, and even have mounted another at the same place.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn detach(&self) -> Result<(), MountError> {
        let (at, known) = (&self.mountpoint, self.connection);
        if self.is_over() {
            return Ok(());
        }
        self.outside.visit(|| match connection(at).and_then(|found| if found == known { detach(at) } else { Ok(()) }) {
            Ok(()) | Err(MountError::NotMounted(_) | MountError::Missing(_)) => Ok(()),
            Err(error) => Err(error),
        })
    }
}

/// A mounted space. A space may have several: each kernel is told of what the others change.
pub struct LocalMount {
    vfs: Arc<Vfs>,
    protocol: Arc<FuseServer>,
    mounted: FuseSession,
    follower: Option<FeedFollower>,
    is_stopped: bool,
}

impl LocalMount {
    /// Mounts a space at an empty directory outside its root. A mount of svcfs whose server died is taken away first.
    ///
    /// As root the mount is open to every user, under the permissions of the files; else to the one who mounted, unless asked for.
    ///
    /// # Errors
    /// When the directory does not serve (each variant of [`MountError`] says what to do), or the system refuses.
    pub fn start(vfs: Arc<Vfs>, mountpoint: &Path, options: &MountOptions) -> Result<Self, MountError> {
        let mountpoint = check_mountpoint(mountpoint, vfs.root(), &options.namespace)?;
        let progress = FollowerProgress::at(vfs.feed().last_seq());
        let protocol = FuseServer::new(vfs.clone(), options, progress.clone());
        let source = source(vfs.root());
        let mounted =
            FuseSession::start(|alive| LocalCallbacks::new(protocol.clone(), alive), (source, mountpoint), options)?;
        let mut mount = Self { vfs, protocol, mounted, follower: None, is_stopped: false };
        let follower = FeedFollower::start(
            &mount.vfs,
            (mount.mounted.notifier(), mount.protocol.entrance, Arc::clone(&mount.protocol.passing)),
            progress,
        );
        mount.follower = Some(
            follower.map_err(|source| MountError::Mount { mountpoint: mount.mounted.mountpoint.clone(), source })?,
        );
        Ok(mount)
    }

    /// The directory the space is mounted at, without links.
    pub fn mountpoint(&self) -> &Path {
        &self.mounted.mountpoint
    }

    /// Whether somebody took the mount away and nothing is open on it any more; [`Mount::stop`] then only tidies up.
    pub fn is_unmounted(&self) -> bool {
        self.mounted.is_over()
    }

    /// Takes the mount away, waits until every open file is closed but at most `limit`, then saves what is still open.
    ///
    /// # Errors
    /// `StillOpen` when files were still open for writing at the limit; what they held is saved, what is written to them from
    /// now on may not be. `Unmount` when the system refuses.
    pub fn stop(mut self, limit: Duration) -> Result<(), MountError> {
        self.mounted.detach()?;
        self.is_stopped = true;
        let left_open = self.mounted.is_used_after(limit);
        let writers = self.protocol.still_open();
        for (caller, node) in &writers {
            if let Err(fault) = self.vfs.publish(caller, *node, Durability::Now) {
                tracing::error!(error = ?fault, "an open file could not be saved at unmount");
            }
        }
        if let Some(follower) = self.follower.take() {
            follower.stop();
        }
        tracing::info!(mountpoint = %self.mountpoint().display(), left_open, "unmounted");
        if left_open && !writers.is_empty() {
            return Err(MountError::StillOpen { mountpoint: self.mountpoint().to_owned(), writers: writers.len() });
        }
        Ok(())
    }
}

/// Held by a session: tells [`Mount`], and whoever wants to know, that it is over.
pub(crate) struct SessionSentinel {
    open: Option<Sender<Infallible>>,
    on_end: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Drop for SessionSentinel {
    fn drop(&mut self) {
        // In this order: whoever is told finds it over.
        drop(self.open.take());
        if let Some(on_end) = &self.on_end {
            on_end();
        }
    }
}

impl Drop for LocalMount {
    /// A mount that was not stopped (its owner failed) is taken away, so that no process hangs on it.
    fn drop(&mut self) {
        if !self.is_stopped
            && let Err(error) = self.mounted.detach()
        {
            tracing::error!(%error, "the mount could not be taken away");
        }
        if let Some(follower) = self.follower.take() {
            follower.stop();
        }
    }
}

/// What is mounted, as the mount table shows it: `mount -a` passes over a line of `/etc/fstab` whose source and target it finds there. Roots
/// with a comma, which would begin another option, are not named.
fn source(root: &Path) -> &str {
    root.to_str().unwrap_or(FILESYSTEM_NAME)
}

fn config(options: &MountOptions, source: &str) -> Config {
    let source = if source.contains([',', '\\']) { FILESYSTEM_NAME } else { source };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source.to_owned()),
        // Not `Subtype`, which fuser keeps from the kernel when root mounts.
        MountOption::CUSTOM(format!("subtype={FILESYSTEM_NAME}")),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    if options.is_read_only || options.past_state.is_some() {
        config.mount_options.push(MountOption::RO);
    }
    if options.is_noexec {
        config.mount_options.push(MountOption::NoExec);
    }
    let is_for_everybody = options.allow_other || rustix::process::geteuid().is_root();
    config.acl = if is_for_everybody { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
}
