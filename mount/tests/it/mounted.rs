//! One mounted space for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use svcfs_base::{Caller, Change, Fault, Kind, Protocol, SystemClock, TreePath};
use svcfs_mount::{KnowledgeSource, LintFinding, LocalMount, MountOptions, PageFilter, PageHit, PageHits};
use svcfs_vfs::{ProposedFile, Vfs, WriteGate};
use tempfile::TempDir;

/// Mounting tests run one at a time: a machine under test has two processors, and a mount wants
/// both.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Longest time anything in a test is waited for.
pub const LIMIT: Duration = Duration::from_secs(10);

/// A space, mounted; taken away at the end.
pub struct Mounted {
    pub vfs: Arc<Vfs>,
    mount: Option<LocalMount>,
    folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// Refuses what contains the word FORBIDDEN.
struct NoForbidden;

impl WriteGate for NoForbidden {
    fn check(&self, _caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        match proposal.content.windows(9).any(|word| word == b"FORBIDDEN") {
            true => Err(Fault::rejected("line 1: FORBIDDEN is not allowed")),
            false => Ok(()),
        }
    }
}

/// Knows what it was told: the same of every space.
struct Told;

fn hits(paths: &[(&str, &str)]) -> Vec<PageHit> {
    paths
        .iter()
        .map(|(path, title)| PageHit { path: TreePath::parse(path).unwrap(), title: (*title).to_owned() })
        .collect()
}

impl KnowledgeSource for Told {
    fn search(&self, caller: &Caller, words: &str) -> Result<PageHits, Fault> {
        assert_eq!(caller.protocol, Protocol::Fuse);
        match words {
            "tide OR moon" => Ok(hits(&[("notes/tides.md", "Tides & Moon"), ("a.md", "")]).into()),
            "many" => {
                Ok(PageHits { pages: hits(&[("a.md", "A")]), missing: Some("the rest: ask for it\n".to_owned()) })
            }
            "wrong" => Err(Fault::invalid("q", "cannot be read")),
            "broken" => Err(Fault::internal("the index is damaged")),
            _ => Ok(PageHits::default()),
        }
    }
    fn query(&self, _: &Caller, query: &str) -> Result<PageHits, Fault> {
        match query {
            "LIST FROM \"notes/deep\"" | "open tasks" => Ok(hits(&[("notes/tides.md", "Tides"), ("a.md", "")]).into()),
            _ => Err(Fault::invalid("q", "1:1: this is no query")),
        }
    }
    fn saved_queries(&self, _: &Caller) -> Result<Vec<String>, Fault> {
        Ok(["open tasks", "a/b"].map(str::to_owned).to_vec())
    }
    fn tags(&self, _: &Caller, lets_through: Option<PageFilter<'_>>) -> Result<Vec<String>, Fault> {
        let page = TreePath::parse("notes/tides.md").unwrap();
        let is_told = lets_through.map_or(Ok(true), |lets_through| lets_through(&page))?;
        Ok(if is_told { ["..", "area/work", "sea", "sea/deep"].map(str::to_owned).to_vec() } else { Vec::new() })
    }
    fn pages_by_tag(&self, _: &Caller, tag: &str) -> Result<Vec<PageHit>, Fault> {
        Ok(hits(if tag == "area" { &[] } else { &[("notes/tides.md", "Tides")] }))
    }
    fn backlinks(&self, _: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault> {
        Ok(hits(if page.as_str() == "notes/tides.md" { &[("a.md", "A")] } else { &[] }))
    }
    fn similar(&self, _: &Caller, page: &TreePath) -> Result<Vec<PageHit>, Fault> {
        match page.as_str() {
            "notes/tides.md" => Ok(hits(&[("a.md", "A")])),
            _ => Err(Fault::new(Kind::Conflict, "not embedded yet")),
        }
    }
    fn workflows(&self, _: &Caller) -> Result<Vec<String>, Fault> {
        Ok(vec!["tasks".to_owned()])
    }
    fn board(&self, _: &Caller, _: &str) -> Result<Vec<(String, Vec<TreePath>)>, Fault> {
        let pages = hits(&[("notes/tides.md", ""), ("a.md", "")]).into_iter().map(|hit| hit.path).collect();
        Ok(vec![("todo".to_owned(), pages), ("done".to_owned(), Vec::new()), ("shut".to_owned(), Vec::new())])
    }
    fn advance(&self, _: &Caller, page: &TreePath, state: &str) -> Result<(), Fault> {
        let refused = || Err(Fault::new(Kind::NotAllowed, format!("`{page}` cannot move to `{state}`")));
        if state == "shut" { refused() } else { Ok(()) }
    }
    fn lint(&self, _: &Caller, text: &str) -> Result<Vec<LintFinding>, Fault> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains("FORBIDDEN") || line.contains("odd"));
        let finding = |(line, text): (usize, &str)| LintFinding {
            rule: "words".to_owned(),
            line,
            column: 3,
            severity: if text.contains("odd") { "warning" } else { "error" }.to_owned(),
            message: text.to_owned(),
        };
        Ok(lines.map(finding).collect())
    }
}

/// False, with the reason printed, where nothing can be mounted.
pub fn can_mount() -> bool {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = &device {
        println!("skipped: /dev/fuse cannot be opened: {error}");
    }
    device.is_ok()
}

/// False, with the reason printed, where a program is not installed.
pub fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: `{program}` is not installed");
    }
    found
}

pub fn options() -> MountOptions {
    MountOptions { knowledge: Some(Arc::new(Told)), ..MountOptions::new(Arc::new(SystemClock), 8) }
}

pub fn open(root: &Path) -> Arc<Vfs> {
    let scratch = ["*.swp", "*.swx", "*~", "4913", "*.tmp"].map(str::to_owned).to_vec();
    Vfs::open(svcfs_vfs::VfsOptions {
        root: root.to_owned(),
        clock: Arc::new(SystemClock),
        gates: vec![Box::new(NoForbidden)],
        scratch_patterns: scratch,
        hidden_files: svcfs_base::HiddenFiles::default(),
        commit_policy: svcfs_vfs::CommitPolicy::PerSet,
        strategy: svcfs_vfs::VersionStrategy::Git,
        watch: false,
        progress: None,
    })
    .unwrap()
}

impl Mounted {
    /// A mounted, empty space; none where nothing can be mounted.
    pub fn new() -> Option<Self> {
        Self::with(&options())
    }

    /// The same, mounted in some other way.
    pub fn with(options: &MountOptions) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("root")).unwrap();
        fs::create_dir(folder.path().join("mnt")).unwrap();
        // Other users must reach the mount to be tried on it.
        Command::new("chmod").args(["-R", "a+rwX"]).arg(folder.path()).status().unwrap();
        let vfs = open(&folder.path().join("root"));
        let mount = LocalMount::start(vfs.clone(), &folder.path().join("mnt"), options).unwrap();
        Some(Self { vfs, mount: Some(mount), folder, _turn: turn })
    }

    /// Another mount of the same space, and where it is.
    pub fn another(&self, options: &MountOptions) -> (LocalMount, PathBuf) {
        let at = self.folder.path().join("another");
        fs::create_dir_all(&at).unwrap();
        (LocalMount::start(self.vfs.clone(), &at, options).unwrap(), at)
    }

    /// A path on the mount.
    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("mnt").join(path)
    }

    /// The folder that holds `root` and `mnt`.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a shell command in the mount and answers with what it printed; it must succeed.
    pub fn shell(&self, command: &str) -> String {
        let output = Command::new("sh").args(["-ec", command]).current_dir(self.at("")).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{command}`: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Writes through another door.
    pub fn put(&self, path: &str, text: &str) {
        put(&self.vfs, path, text);
    }

    /// Removes through another door.
    pub fn remove(&self, path: &str) {
        remove(&self.vfs, path);
    }

    /// Authors of a path's versions, newest first, once there are `count` (an ordinary save is
    /// committed a moment later).
    pub fn authors(&self, path: &str, count: usize) -> Vec<String> {
        let path = TreePath::parse(path).unwrap();
        let versions = || self.vfs.versions(&path).unwrap();
        wait_for(|| versions().len() >= count);
        versions().iter().map(|version| version.author.to_string()).collect()
    }

    /// Drops the mount without stopping it.
    pub fn forsake(&mut self) {
        drop(self.mount.take());
    }

    /// Unmounts.
    pub fn stop(&mut self, limit: Duration) -> Result<(), svcfs_mount::MountError> {
        self.mount.take().unwrap().stop(limit)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let stopped = mount.stop(LIMIT);
            if !std::thread::panicking() {
                stopped.unwrap();
                self.vfs.close().unwrap();
            }
        }
    }
}

/// Writes through another door.
pub fn put(vfs: &Vfs, path: &str, text: &str) {
    let change = Change::put(TreePath::parse(path).unwrap(), text.to_owned());
    vfs.apply(&Caller::new(Protocol::Http), change).unwrap();
}

/// Removes through another door.
pub fn remove(vfs: &Vfs, path: &str) {
    vfs.apply(&Caller::new(Protocol::Http), Change::remove(TreePath::parse(path).unwrap())).unwrap();
}

/// Waits until something is true, and fails when it does not become so in time.
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "waited {LIMIT:?} in vain");
        std::thread::yield_now();
    }
}
