//! Lifecycle of a mount.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use fuser::{BackgroundSession, Config, Filesystem, INodeNo, MountOption, Notifier, Session, SessionACL};
use svcfs_base::{Clock, DraftId, Durability};
use svcfs_vfs::{PastState, Vfs};

use crate::actors::AttributionPolicy;
use crate::callbacks::LocalCallbacks;
use crate::drafts::is_draft_id;
use crate::follower::{FeedFollower, FollowerProgress};
use crate::fuse_server::FuseServer;
use crate::mountpoint::{FILESYSTEM_NAME, MountError, check_mountpoint, connection, detach};
use crate::namespace::MountNamespace;
use crate::reply::OnAnswer;
use crate::views::KnowledgeSource;

/// How to mount a space.
#[derive(Clone)]
pub struct MountOptions {
    /// Source of the current time, for `touch` and the like.
    pub clock: Arc<dyn Clock>,
    /// Number of concurrent requests, at least 1. A save that waits for its commit occupies one.
    pub threads: usize,
    /// Mount read-only (`EROFS`).
    pub is_read_only: bool,
    /// Show the tree as it was in this state, read-only, instead of the current one.
    pub past_state: Option<PastState>,
    /// Show the tree as this draft does, instead of the current one.
    pub draft: Option<DraftId>,
    /// Mount with noexec (`EACCES`).
    pub is_noexec: bool,
    /// Let every user use the mount, under the permissions of the files. Always set when root
    /// mounts; other users need `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// Chooses the author of a change.
    pub attribution: AttributionPolicy,
    /// The namespace in which the mount is made.
    pub namespace: MountNamespace,
    /// Called when the mount ends, for whatever reason, from a thread that ends with it.
    pub on_end: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Called for each answered kernel request.
    pub on_answer: Option<OnAnswer>,
    /// Source of search results, tags, links and lint findings; without it, views that need them do
    /// not exist.
    pub knowledge: Option<Arc<dyn KnowledgeSource>>,
}

impl MountOptions {
    /// The defaults of most mounts.
    pub fn new(clock: Arc<dyn Clock>, threads: usize) -> Self {
        Self {
            clock,
            threads,
            is_read_only: false,
            past_state: None,
            draft: None,
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

/// A FUSE session, local or remote.
pub(crate) struct FuseSession {
    pub(crate) mountpoint: PathBuf,
    /// FUSE connection number; another mount may be at the same path when this one has ended.
    connection: Option<u32>,
    namespace: MountNamespace,
    /// Disconnected when the session has answered its last request.
    end_signal: Receiver<Infallible>,
    /// Never dropped: fuser 0.18 would unmount the path again, which may be another mount by then.
    /// Costs one file descriptor until the process exits.
    background: ManuallyDrop<BackgroundSession>,
}

impl FuseSession {
    /// Mounts a filesystem at a checked mountpoint; `source` appears in the mount table.
    ///
    /// # Errors
    /// `AllowOtherDenied`; `Mount` when the system refuses.
    pub(crate) fn start<F: Filesystem + Send + 'static>(
        filesystem: impl FnOnce(SessionSentinel) -> F,
        (source, mountpoint): (&str, PathBuf),
        options: &MountOptions,
    ) -> Result<Self, MountError> {
        let mount_error = |source| MountError::Mount { mountpoint: mountpoint.clone(), source };
        let (alive, end_signal) = channel();
        let filesystem = filesystem(SessionSentinel { alive: Some(alive), on_end: options.on_end.clone() });
        let config = config(options, source);
        let (session, connection) =
            options.namespace.run_inside(|| match Session::new(filesystem, &mountpoint, &config) {
                // The only such refusal of fusermount; those of the system have an errno.
                Err(error) if error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none() => {
                    Err(MountError::AllowOtherDenied(mountpoint.clone()))
                }
                outcome => Ok((outcome.map_err(mount_error)?, connection(&mountpoint)?)),
            })?;
        // Outside `visit`, because these threads access the root.
        let background = ManuallyDrop::new(session.spawn().map_err(mount_error)?);
        tracing::info!(mountpoint = %mountpoint.display(), "mounted");
        Ok(Self { mountpoint, connection, namespace: options.namespace.clone(), end_signal, background })
    }

    /// Sends invalidations to the kernel.
    pub(crate) fn notifier(&self) -> Notifier {
        self.background.notifier()
    }

    /// Whether the mount was unmounted and has no open files.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.end_signal.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits until no file is open, up to `timeout`; returns whether some file still is.
    pub(crate) fn is_used_after(&self, timeout: Duration) -> bool {
        // Nothing is ever sent: only the end of the session disconnects the channel.
        matches!(self.end_signal.recv_timeout(timeout), Err(RecvTimeoutError::Timeout))
    }

    /// Unmounts. The mount may be gone already, and another one may be at the same path.
    ///
    /// # Errors
    /// `Unmount` when the system refuses.
    pub(crate) fn detach(&self) -> Result<(), MountError> {
        let (mountpoint, own_connection) = (&self.mountpoint, self.connection);
        if self.has_ended() {
            return Ok(());
        }
        self.namespace.run_inside(|| {
            match connection(mountpoint)
                .and_then(|current| if current == own_connection { detach(mountpoint) } else { Ok(()) })
            {
                Ok(()) | Err(MountError::NotMounted(_) | MountError::Missing(_)) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

/// A mounted space. A space may have several mounts; each kernel is notified of the changes of the
/// others.
pub struct LocalMount {
    vfs: Arc<Vfs>,
    server: Arc<FuseServer>,
    session: FuseSession,
    follower: Option<FeedFollower>,
    is_stopped: bool,
}

impl LocalMount {
    /// Mounts a space at an empty directory outside its root. Unmounts a stale svcfs mount there
    /// first.
    ///
    /// Mounted by root, it is open to every user, under the permissions of the files; else to the
    /// mounting user, unless `allow_other` is set.
    ///
    /// # Errors
    /// When the directory is not suitable (each variant of [`MountError`] says what to do), or the
    /// system refuses.
    pub fn start(vfs: Arc<Vfs>, mountpoint: &Path, options: &MountOptions) -> Result<Self, MountError> {
        let mountpoint = check_mountpoint(mountpoint, vfs.root(), &options.namespace)?;
        let progress = FollowerProgress::starting_at(vfs.feed().last_seq());
        let server = FuseServer::new(vfs.clone(), options, progress.clone());
        let source = source(vfs.root());
        let session = FuseSession::start(
            |sentinel| LocalCallbacks::new(server.clone(), sentinel),
            (source, mountpoint),
            options,
        )?;
        let mut mount = Self { vfs, server, session, follower: None, is_stopped: false };
        let follower = FeedFollower::start(
            &mount.vfs,
            (mount.session.notifier(), mount.server.origin_id, Arc::clone(&mount.server.passthrough)),
            progress,
        );
        mount.follower = Some(
            follower.map_err(|source| MountError::Mount { mountpoint: mount.session.mountpoint.clone(), source })?,
        );
        Ok(mount)
    }

    /// The canonical mountpoint.
    pub fn mountpoint(&self) -> &Path {
        &self.session.mountpoint
    }

    /// Whether the mount was unmounted and has no open files; [`LocalMount::stop`] then only cleans
    /// up.
    pub fn is_unmounted(&self) -> bool {
        self.session.has_ended()
    }

    /// Unmounts, waits up to `timeout` until every open file is closed, then saves the files that
    /// are still open.
    ///
    /// # Errors
    /// `StillOpen` when files were still open for writing at the timeout; their content is saved,
    /// later writes may be lost. `Unmount` when the system refuses.
    pub fn stop(mut self, timeout: Duration) -> Result<(), MountError> {
        self.session.detach()?;
        self.is_stopped = true;
        let is_in_use = self.session.is_used_after(timeout);
        let writers = self.server.open_writers();
        for (caller, node) in &writers {
            if is_draft_id(node.0) {
                self.server.drafts.publish_at_end(caller, INodeNo(node.0));
            } else if let Err(fault) = self.vfs.publish(caller, *node, Durability::Now) {
                let path = self.vfs.path_of(*node).ok();
                tracing::error!(?path, error = ?fault, "cannot save an open file at unmount");
            }
        }
        if let Some(follower) = self.follower.take() {
            follower.stop();
        }
        tracing::info!(mountpoint = %self.mountpoint().display(), is_in_use, "unmounted");
        if is_in_use && !writers.is_empty() {
            return Err(MountError::StillOpen { mountpoint: self.mountpoint().to_owned(), writers: writers.len() });
        }
        Ok(())
    }
}

/// Owned by the session: when dropped, signals that the session has ended.
pub(crate) struct SessionSentinel {
    alive: Option<Sender<Infallible>>,
    on_end: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Drop for SessionSentinel {
    fn drop(&mut self) {
        // In this order: `on_end` sees the session as ended.
        drop(self.alive.take());
        if let Some(on_end) = &self.on_end {
            on_end();
        }
    }
}

impl Drop for LocalMount {
    /// Unmounts if `stop` was not called (its owner failed), so that no process hangs on the mount.
    fn drop(&mut self) {
        if !self.is_stopped
            && let Err(error) = self.session.detach()
        {
            tracing::error!(%error, "cannot unmount");
        }
        if let Some(follower) = self.follower.take() {
            follower.stop();
        }
    }
}

/// The source in the mount table: `mount -a` skips a line of `/etc/fstab` whose source and target
/// are there. A comma would start another option, so such roots are not shown.
fn source(root: &Path) -> &str {
    root.to_str().unwrap_or(FILESYSTEM_NAME)
}

fn config(options: &MountOptions, source: &str) -> Config {
    let source = if source.contains([',', '\\']) { FILESYSTEM_NAME } else { source };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source.to_owned()),
        // Not `Subtype`, which fuser does not pass to the kernel when root mounts.
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
    let is_for_all_users = options.allow_other || rustix::process::geteuid().is_root();
    config.acl = if is_for_all_users { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(1));
    config.clone_fd = true;
    config
}
