//! The files of svcfs's own state below a knowledge root.

use std::path::{Path, PathBuf};

/// The state directory, relative to the knowledge root. git ignores it and no protocol shows it.
pub const STATE_DIRECTORY: &str = ".svc/state";

/// The directory of the audit log, relative to the knowledge root. git ignores it and no protocol
/// shows it.
pub const AUDIT_DIRECTORY: &str = ".svc/audit";

/// The files below [`STATE_DIRECTORY`] of one root.
#[derive(Debug, Clone)]
pub struct StatePaths {
    root: PathBuf,
    directory: PathBuf,
}

impl StatePaths {
    /// Paths for a knowledge root.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), directory: root.join(STATE_DIRECTORY) }
    }
    /// The knowledge root.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The state directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
    /// The durable log.
    pub fn log(&self) -> PathBuf {
        self.directory.join("log.db")
    }
    /// The two journal files in front of the log's rows.
    pub fn journal(&self) -> [PathBuf; 2] {
        [0, 1].map(|number| self.directory.join(format!("log.journal-{number}")))
    }
    /// Large contents of log records since the last checkpoint.
    pub fn spool(&self) -> PathBuf {
        self.directory.join("spool")
    }
    /// Files that are about to be installed in the tree.
    pub fn temp_directory(&self) -> PathBuf {
        self.directory.join("tmp")
    }
    /// Exists while a flush has failed and later ones cannot be trusted.
    pub fn sync_failed_marker(&self) -> PathBuf {
        self.directory.join("unflushed")
    }
    /// Boot time of the machine when the root was last opened.
    pub fn boot_marker(&self) -> PathBuf {
        self.directory.join("boot")
    }
    /// The search index; it may be deleted at any time.
    pub fn index(&self) -> PathBuf {
        self.directory.join("index.db")
    }
    /// The vectors of pages; they may be deleted at any time.
    pub fn vectors(&self) -> PathBuf {
        self.directory.join("vectors.db")
    }
    /// Counts of reads and searches; they may be deleted at any time.
    pub fn usage(&self) -> PathBuf {
        self.directory.join("usage.db")
    }
    /// Inode numbers for NFS handles, and stable NFS writes that are not in the tree yet.
    pub fn inode_table(&self) -> PathBuf {
        self.directory.join("nfs.db")
    }
    /// Claims: write leases on pages.
    pub fn claims(&self) -> PathBuf {
        self.directory.join("claims.db")
    }
    /// Drafts: pages that wait for a review.
    pub fn drafts(&self) -> PathBuf {
        self.directory.join("drafts.db")
    }
    /// Shares: links to single pages.
    pub fn shares(&self) -> PathBuf {
        self.directory.join("shares.db")
    }
    /// Answers to requests that their clients may send again.
    pub fn request_answers(&self) -> PathBuf {
        self.directory.join("requests.db")
    }
    /// Webhooks, and notifications that are not delivered yet.
    pub fn webhooks(&self) -> PathBuf {
        self.directory.join("webhooks.db")
    }
    /// How often published pages were read; it may be deleted at any time.
    pub fn view_counts(&self) -> PathBuf {
        self.directory.join("views.db")
    }
    /// Leases of protocol clients.
    pub fn leases(&self) -> PathBuf {
        self.directory.join("leases.db")
    }
    /// Files that were left untracked when the root was set up.
    pub fn untracked(&self) -> PathBuf {
        self.directory.join("untracked")
    }
    /// Whether a space of this root was ever opened on this machine, or is about to be with
    /// consent. A clone has other files of svcfs, from git.
    pub fn was_opened(&self) -> bool {
        [self.log(), self.boot_marker(), self.index(), self.untracked()].iter().any(|file| file.exists())
    }
    /// Lock of the one server of this root; it contains the process id.
    pub fn lock(&self) -> PathBuf {
        self.directory.join("server.lock")
    }
}
