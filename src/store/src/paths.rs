//! Where svcfs keeps its own state below a knowledge root.

use std::path::{Path, PathBuf};

/// The state directory, relative to the knowledge root; ignored by git and invisible through every door (gaps.md D4).
pub const STATE_DIRECTORY: &str = ".svc/state";

/// Where the audit log lies, relative to the knowledge root; ignored by git and invisible through every door.
pub const AUDIT_DIRECTORY: &str = ".svc/audit";

/// The files below [`STATE_DIRECTORY`] of one root.
#[derive(Debug, Clone)]
pub struct StatePaths {
    root: PathBuf,
    directory: PathBuf,
}

impl StatePaths {
    /// Of a knowledge root.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), directory: root.join(STATE_DIRECTORY) }
    }
    /// The knowledge root.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// The directory itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
    /// The durable log.
    pub fn log(&self) -> PathBuf {
        self.directory.join("log.db")
    }
    /// What is in front of the log's rows, in two files.
    pub fn journal(&self) -> [PathBuf; 2] {
        [0, 1].map(|number| self.directory.join(format!("log.journal-{number}")))
    }
    /// Large contents of unsettled log records.
    pub fn spool(&self) -> PathBuf {
        self.directory.join("spool")
    }
    /// Files on their way into the tree.
    pub fn temp_directory(&self) -> PathBuf {
        self.directory.join("tmp")
    }
    /// There while a flush has failed and no later one is to be trusted.
    pub fn sync_failed_marker(&self) -> PathBuf {
        self.directory.join("unflushed")
    }
    /// When the machine was started on which the root was opened last.
    pub fn boot_marker(&self) -> PathBuf {
        self.directory.join("boot")
    }
    /// The search index, which may be deleted at any time.
    pub fn index(&self) -> PathBuf {
        self.directory.join("index.db")
    }
    /// What was read and searched for, which may be deleted at any time.
    pub fn usage(&self) -> PathBuf {
        self.directory.join("usage.db")
    }
    /// Numbers of files for NFS handles, and what was promised over NFS of files before they are in the tree.
    pub fn inode_table(&self) -> PathBuf {
        self.directory.join("nfs.db")
    }
    /// What clients of one door have for themselves, and until when.
    pub fn leases(&self) -> PathBuf {
        self.directory.join("leases.db")
    }
    /// Held by the one server of this root; its text is that server's process id.
    pub fn lock(&self) -> PathBuf {
        self.directory.join("server.lock")
    }
}
