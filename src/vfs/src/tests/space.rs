//! A space to test with.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use svcfs_base::*;
use tempfile::TempDir;

use crate::*;

/// A space in a temporary directory that can be closed and opened again.
pub(crate) struct TestSpace {
    pub(crate) directory: TempDir,
    pub(crate) vfs: Arc<Vfs>,
}

pub(crate) fn options(root: &Path, watch: bool) -> VfsOptions {
    let scratch = ["*~", "*.swp", "4913", "sed??????"].map(str::to_owned).to_vec();
    let gates: Vec<Box<dyn WriteGate>> = vec![Box::new(NoBadWord)];
    VfsOptions {
        root: root.to_owned(),
        clock: Arc::new(SystemClock),
        gates,
        strategy: VersionStrategy::Git,
        scratch_patterns: scratch,
        hidden_files: HiddenFiles::default(),
        commit_policy: CommitPolicy::PerSet,
        watch,
        progress: None,
    }
}

/// Refuses pages that say so, and stamps pages that ask for it.
struct NoBadWord;

impl WriteGate for NoBadWord {
    fn check(&self, _: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        if proposal.content.windows(6).any(|window| window == b"refuse") {
            return Err(Fault::rejected("bad word"));
        }
        if proposal.content.starts_with(b"stamp") {
            proposal.content = Bytes::from_static(b"stamped\n");
        }
        Ok(())
    }
}

impl TestSpace {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let vfs = Vfs::open(options(directory.path(), false)).unwrap();
        Self { directory, vfs }
    }
    pub(crate) fn reopen(&mut self) {
        self.vfs.close().unwrap();
        let commits = self.vfs.core.commit_policy;
        self.vfs = Vfs::open(VfsOptions { commit_policy: commits, ..options(self.directory.path(), false) }).unwrap();
    }
    pub(crate) fn put(&self, path: &str, text: &str) -> ApplyResult {
        // Only file protocols write hidden files.
        let protocol = if at(path).is_hidden() { Protocol::Fuse } else { Protocol::Http };
        self.vfs.apply(&Caller { protocol, ..eve() }, Change::put(at(path), text.to_owned())).unwrap()
    }
    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.vfs.read(Protocol::Internal, &at(path)).unwrap().content.to_vec()).unwrap()
    }
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.vfs.wait_draft_branches();
        let run = || Command::new("git").arg("-C").arg(self.directory.path()).args(arguments).output().unwrap();
        // A pack that git has listed may be merged into another before it is read; and we hold
        // git's lock for a moment when its index is brought up to date, as another git command
        // would: a person tries again.
        let is_overtaken = |stderr: &[u8]| {
            let told = String::from_utf8_lossy(stderr);
            ["packfile ", "objects/pack/", "index.lock': File exists"].iter().any(|reason| told.contains(reason))
        };
        let output = (0..5).map(|_| run()).find(|output| output.status.success() || !is_overtaken(&output.stderr));
        let output = output.unwrap_or_else(run);
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }
    pub(crate) fn log(&self) -> Vec<String> {
        self.git(&["log", "--format=%an|%s"]).lines().map(str::to_owned).collect()
    }
    /// Waits for the checkpoint, after which git's own index agrees.
    pub(crate) fn wait_until(&self, what: &str, mut is_true: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_true(self) {
            assert!(Instant::now() < deadline, "waited 60 s until {what}");
            self.vfs.feed().wait(Seq(u64::MAX), Duration::from_millis(20));
        }
    }
}

pub(crate) fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

pub(crate) fn eve() -> Caller {
    Caller::new(Protocol::Http).with_actor(Actor::new("eve"))
}
