//! Mount of a space of a remote server, over its HTTP API.
//!
//! Invariant: a save never overwrites a version that its author did not know. `tree` combines the
//! cached server state (`cache`, filled by `client`) with unsaved changes (`nodes`,
//! `dirty_buffers`). `writeback` sends changes with the base version as precondition. `follower`
//! receives changes of other clients. `rejected` stores the texts of refused saves.
//!
//! This is no `Vfs`: there is no log, no history and no recovery. Read content is in memory, and a
//! crash of this process loses what no `close` or `fsync` acknowledged.
//!
//! Not supported, because the API does not offer it: modes, owners and times, hard links, pipes and
//! devices, exchanging two names, renaming a directory of the server (`mv` copies it), and the
//! local mount's views below `.svc/`.

mod cache;
mod callbacks;
mod client;
mod connectivity;
mod dirty_buffers;
mod event_stream;
mod first_contact;
mod follower;
mod merged_saves;
mod nodes;
mod read_versions;
mod rejected;
mod replies;
mod request_errors;
mod tree;
mod writeback;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::INodeNo;
use svcfs_base::Fault;

use self::cache::RemoteCache;
use self::callbacks::RemoteCallbacks;
use self::client::{ApiClient, ClientOptions};
use self::dirty_buffers::DirtyBufferPool;
use self::follower::EventFollower;
use self::nodes::RemoteNodes;
use self::read_versions::ReadVersions;
use self::rejected::RejectedSaves;
use self::tree::RemoteTree;
use self::writeback::ChangeAuthor;
use crate::mountpoint::{MountError, check_remote};
use crate::session::{FuseSession, MountOptions};
use crate::write_handles::WriteHandles;

/// Which space to mount.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The server's address, such as `https://notes.example.org`, without a trailing slash.
    pub url: String,
    /// A space of the server; its first if none.
    pub space: Option<String>,
    /// Sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// How long a program waits for an unreachable server before it gets an I/O error.
    pub timeout: Duration,
    /// Owner of the files, as user and group; the mounting user if none. The API has no owners.
    pub owner: Option<(u32, u32)>,
    /// Local directory for the texts of rejected saves; created when needed.
    pub rejected_dir: PathBuf,
}

/// Why a remote mount failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum RemoteError {
    #[error("`{url}` cannot be mounted: {fault}")]
    Server { url: String, fault: Fault },
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// A mounted space of a remote server.
pub struct RemoteMount {
    session: FuseSession,
    tree: Arc<RemoteTree>,
    writers: Arc<WriteHandles>,
    follower: EventFollower,
    is_stopped: bool,
}

impl RemoteMount {
    /// Checks that the server answers, and mounts at an empty directory. Unmounts a stale svcfs
    /// mount there first.
    ///
    /// Mounted by root, every user may read and `owner` may write; else it is open only to the
    /// mounting user, unless `allow_other` is set.
    ///
    /// # Errors
    /// `Server` when it does not respond as an svcfs server; `Mount` when the directory is not
    /// suitable.
    pub fn start(remote: &RemoteOptions, mountpoint: &Path, options: &MountOptions) -> Result<Self, RemoteError> {
        let mountpoint = check_remote(mountpoint)?;
        let RemoteOptions { url, space, token, timeout, owner, rejected_dir } = remote.clone();
        let mounting_user = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let server_error = |fault| RemoteError::Server { url: remote.url.clone(), fault };
        let server = ClientOptions { url, space, token, timeout };
        let tree = Arc::new(RemoteTree {
            client: ApiClient::new(&server).map_err(server_error)?,
            cache: RemoteCache::default(),
            nodes: RemoteNodes::new(),
            dirty_buffers: DirtyBufferPool::in_directory(rejected_dir.clone()),
            rejected: RejectedSaves::in_directory(rejected_dir),
            read_versions: ReadVersions::default(),
            owner: owner.unwrap_or_else(mounting_user),
            mounted_at: SystemTime::now(),
        });
        tree.client.check_server().map_err(server_error)?;
        let writers = Arc::new(WriteHandles::default());
        let (callback_tree, callback_writers) = (Arc::clone(&tree), Arc::clone(&writers));
        let attribution = options.attribution.clone();
        let filesystem = |sentinel| RemoteCallbacks::new(callback_tree, callback_writers, (attribution, sentinel));
        let session = FuseSession::start(filesystem, (&remote.url, mountpoint), options)?;
        let follower = EventFollower::start(&tree, session.notifier())
            .map_err(|source| MountError::Mount { mountpoint: session.mountpoint.clone(), source });
        match follower {
            Ok(follower) => Ok(Self { session, tree, writers, follower, is_stopped: false }),
            Err(error) => {
                session.detach()?;
                Err(error.into())
            }
        }
    }

    /// The canonical mountpoint.
    pub fn mountpoint(&self) -> &Path {
        &self.session.mountpoint
    }

    /// Unmounts, waits up to `timeout` until every open file is closed, then saves the files that
    /// are still open.
    ///
    /// # Errors
    /// `StillOpen` when files were still open for writing at the timeout; their content is saved,
    /// later writes are not. `Unmount` when the system refuses.
    pub fn stop(mut self, timeout: Duration) -> Result<(), MountError> {
        self.session.detach()?;
        self.is_stopped = true;
        let is_in_use = self.session.is_used_after(timeout);
        let writers = self.writers.all();
        for writer in &writers {
            let author = ChangeAuthor { name: writer.author.clone(), process: None };
            // A failure is logged and its text stored.
            drop(self.tree.publish(&author, INodeNo(writer.node.0)));
        }
        tracing::info!(mountpoint = %self.mountpoint().display(), is_in_use, "unmounted");
        if is_in_use && !writers.is_empty() {
            return Err(MountError::StillOpen { mountpoint: self.mountpoint().to_owned(), writers: writers.len() });
        }
        Ok(())
    }
}

impl Drop for RemoteMount {
    /// Unmounts if `stop` was not called (its owner failed), so that no process hangs on the mount.
    fn drop(&mut self) {
        self.follower.stop();
        if !self.is_stopped
            && let Err(error) = self.session.detach()
        {
            tracing::error!(%error, "cannot unmount");
        }
    }
}
