//! A mount of a server that is on another machine, over its HTTP API.
//!
//! One rule: what the server says is true, and nothing is covered that its writer did not know. `tree` shows what is known of the server
//! (`cache`), asks where it is not (`client`), and lays what was not saved yet over it (`nodes`); `saving` brings changes there under the
//! condition that the server still has what they were made from; `drafts` has what was written until then; `follower` hears of what others change; `kept` has the texts that were not
//! taken.
//!
//! Why is this not a door of a `Vfs`? Because there is none here: no log, no history, nothing to recover. A file that was read is in
//! memory, and a crash of this process loses what no `close` or `fsync` returned for.
//!
//! Not offered, because the API has nothing of the kind: modes, owners and times of one's own, hard links, pipes and devices, exchanging two
//! names, renaming a directory of the server (`mv` copies it), and what the local mount shows below `.svc/`.

mod cache;
mod callbacks;
mod client;
mod connectivity;
mod dirty_buffers;
mod event_stream;
mod follower;
mod nodes;
mod read_versions;
mod rejected;
mod replies;
mod tree;
mod writeback;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::INodeNo;
use svcfs_base::{Fault, TreePath};

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

/// Which tree is mounted.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The server's address, such as `https://notes.example.org`, without a slash at the end.
    pub url: String,
    /// One of its spaces; the first when none is named.
    pub space: Option<String>,
    /// What is sent as `Authorization: Bearer`.
    pub token: Option<String>,
    /// How long a program waits for a server that is away before it gets an input/output error.
    pub timeout: Duration,
    /// Whose the files are, as user and group; none for the user who mounts. The API knows no owners.
    pub owner: Option<(u32, u32)>,
    /// Where the texts of saves that the server did not take are kept on this machine; made when it is needed.
    pub rejected_dir: PathBuf,
}

/// Why a tree of a server is not mounted.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each message says it")]
pub enum RemoteError {
    #[error("`{url}` cannot be mounted: {fault}")]
    Server { url: String, fault: Fault },
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// A mounted tree of a server elsewhere.
pub struct RemoteMount {
    mounted: FuseSession,
    tree: Arc<RemoteTree>,
    writers: Arc<WriteHandles>,
    follower: EventFollower,
    is_stopped: bool,
}

impl RemoteMount {
    /// Asks the server for its tree, and mounts it at an empty directory. A mount of svcfs that nobody serves any more is taken away first.
    ///
    /// As root the mount is open to every user, who may then read, and one of whom may own and write it; else to the one who mounted, unless asked for.
    ///
    /// # Errors
    /// `Server` when it does not answer, or not as a server of svcfs does; else why the directory does not serve.
    pub fn start(remote: &RemoteOptions, mountpoint: &Path, options: &MountOptions) -> Result<Self, RemoteError> {
        let mountpoint = check_remote(mountpoint)?;
        let RemoteOptions { url, space, token, timeout: patience, owner, rejected_dir: kept } = remote.clone();
        let mounting = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let failed = |fault| RemoteError::Server { url: remote.url.clone(), fault };
        let server = ClientOptions { url, space, token, patience };
        let tree = Arc::new(RemoteTree {
            client: ApiClient::new(&server).map_err(failed)?,
            cache: RemoteCache::default(),
            nodes: RemoteNodes::new(),
            drafts: DirtyBufferPool::in_directory(kept.clone()),
            kept: RejectedSaves::in_directory(kept),
            readers: ReadVersions::default(),
            owner: owner.unwrap_or_else(mounting),
            mounted: SystemTime::now(),
        });
        tree.client.list(&TreePath::root()).map_err(failed)?;
        let writers = Arc::new(WriteHandles::default());
        let (shown, its) = (Arc::clone(&tree), Arc::clone(&writers));
        let attribution = options.attribution.clone();
        let filesystem = |alive| RemoteCallbacks::new(shown, its, (attribution, alive));
        let mounted = FuseSession::start(filesystem, (&remote.url, mountpoint), options)?;
        let follower = EventFollower::start(&tree, mounted.notifier())
            .map_err(|source| MountError::Mount { mountpoint: mounted.mountpoint.clone(), source });
        match follower {
            Ok(follower) => Ok(Self { mounted, tree, writers, follower, is_stopped: false }),
            Err(error) => {
                mounted.detach()?;
                Err(error.into())
            }
        }
    }

    /// The directory it is mounted at, without links.
    pub fn mountpoint(&self) -> &Path {
        &self.mounted.mountpoint
    }

    /// Takes the mount away, waits until every open file is closed but at most `limit`, then saves what is still open.
    ///
    /// # Errors
    /// `StillOpen` when files were still open for writing at the limit; what they held is saved, what is written to them from
    /// now on is not. `Unmount` when the system refuses.
    pub fn stop(mut self, limit: Duration) -> Result<(), MountError> {
        self.mounted.detach()?;
        self.is_stopped = true;
        let is_used = self.mounted.is_used_after(limit);
        let writers = self.writers.all();
        for writer in &writers {
            let author = ChangeAuthor { name: writer.author.clone(), process: None };
            // What is refused is told in the log, and kept.
            drop(self.tree.publish(&author, INodeNo(writer.node.0)));
        }
        tracing::info!(mountpoint = %self.mountpoint().display(), is_used, "unmounted");
        if is_used && !writers.is_empty() {
            return Err(MountError::StillOpen { mountpoint: self.mountpoint().to_owned(), writers: writers.len() });
        }
        Ok(())
    }
}

impl Drop for RemoteMount {
    /// A mount that was not stopped (its owner failed) is taken away, so that no process hangs on it.
    fn drop(&mut self) {
        self.follower.stop();
        if !self.is_stopped
            && let Err(error) = self.mounted.detach()
        {
            tracing::error!(%error, "the mount could not be taken away");
        }
    }
}
