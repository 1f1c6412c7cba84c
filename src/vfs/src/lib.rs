#![allow(unused_variables, clippy::unimplemented, missing_docs)]
//! The virtual filesystem: the one write path, the reading faces, nodes and handles, adoption of outside edits.
//!
//! One rule: nothing else in the workspace changes the tree. Doors and operations hand a `ChangeSet` to [`Vfs::apply`]; edits
//! made behind us come in through adoption, which records and never refuses.
#![warn(missing_docs)]

mod feed;
mod gate;
mod nodes;
mod view;

pub use feed::{Event, EventChange, Feed};
pub use gate::{Gate, Proposal};
pub use nodes::{DiskSpace, HandleId, NodeId, OpenMode, SetAttributes};
pub use view::{Attributes, BlameLine, ChangeRecord, Changes, DirectoryEntry, EntryKind, File, Version};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use svcfs_base::{Applied, Caller, ChangeSet, Clock, Door, Fault, Seq, TreePath};

/// What a space is opened with.
pub struct Options {
    /// The knowledge root on the server's disk.
    pub root: PathBuf,
    /// Where the present moment comes from.
    pub clock: Arc<dyn Clock>,
    /// What every written page must pass, in order.
    pub gates: Vec<Box<dyn Gate>>,
    /// Names that are stored but never versioned (gaps.md D8), as globs on the last component.
    pub scratch: Vec<String>,
    /// Whether edits made behind the server are looked for.
    pub watch: bool,
}

/// One space's tree: read it by path or by node, change it through [`Vfs::apply`].
pub struct Vfs {
    _p: (),
}

impl Vfs {
    /// Opens a space: takes its lock, replays what was logged and not settled, adopts what changed behind us.
    pub fn open(options: Options) -> Result<Arc<Self>, Fault> {
        unimplemented!()
    }
    /// Finishes every accepted write, flushes and lets go of the root.
    pub fn close(&self) -> Result<(), Fault> {
        unimplemented!()
    }
    /// The knowledge root on the server's disk.
    pub fn root(&self) -> &Path {
        unimplemented!()
    }
    /// Applies a set of changes: all of them or none.
    pub fn apply(&self, caller: &Caller, set: impl Into<ChangeSet>) -> Result<Applied, Fault> {
        unimplemented!()
    }
    /// What stands at a path; links are not followed.
    pub fn stat(&self, door: Door, path: &TreePath) -> Result<Attributes, Fault> {
        unimplemented!()
    }
    /// The entries of a directory in name order, as the door may see them.
    pub fn list(&self, door: Door, path: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        unimplemented!()
    }
    /// The content of a file (links inside the root are followed).
    pub fn read(&self, door: Door, path: &TreePath) -> Result<File, Fault> {
        unimplemented!()
    }
    /// The target of a symbolic link. NotFound when missing, Invalid when it is no link.
    pub fn read_link(&self, door: Door, path: &TreePath) -> Result<String, Fault> {
        unimplemented!()
    }
    /// Every file below a directory that is versioned and visible to `door` (no scratch files), in path order.
    pub fn walk(&self, door: Door, below: &TreePath) -> Result<Vec<DirectoryEntry>, Fault> {
        unimplemented!()
    }
    /// The change feed.
    pub fn feed(&self) -> &Feed {
        unimplemented!()
    }
    /// Versions of a path, newest first.
    pub fn versions(&self, path: &TreePath) -> Result<Vec<Version>, Fault> {
        unimplemented!()
    }
    /// The content of a path at a commit (full or abbreviated hash).
    pub fn version(&self, path: &TreePath, commit: &str) -> Result<bytes::Bytes, Fault> {
        unimplemented!()
    }
    /// Unified diff of a path between two commits.
    pub fn diff(&self, path: &TreePath, from: &str, to: &str) -> Result<String, Fault> {
        unimplemented!()
    }
    /// Who last wrote each line.
    pub fn blame(&self, path: &TreePath) -> Result<Vec<BlameLine>, Fault> {
        unimplemented!()
    }
    /// The change feed of the contract (D10).
    pub fn changes(&self, since: Option<&str>, limit: usize) -> Result<Changes, Fault> {
        unimplemented!()
    }
    /// Compares the tree on disk with history and records what differs (actor `fswatch`); how many paths differed.
    pub fn rescan(&self) -> Result<usize, Fault> {
        unimplemented!()
    }
    /// Whether writes can be accepted: the fault a writer would get now.
    pub fn health(&self) -> Result<(), Fault> {
        unimplemented!()
    }
    /// The position of the newest accepted change set.
    pub fn last_seq(&self) -> Seq {
        unimplemented!()
    }
}
