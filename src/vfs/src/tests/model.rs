//! Random days of work against a model (habit H13): the tree, history, the versions of each path
//! with who made them, and the change feed agree with what was asked, whatever was closed, killed
//! or edited behind the server in between. What the index makes of such days is judged where there
//! is one (`svcfs-knowledge`).

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::Strategy;
use svcfs_store::FailPoint;

use super::gathered::NEVER;
use super::*;
use crate::recovery::tests::crashed;

mod regressions;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Leaf {
    File(String),
    Link(String),
}

/// One thing that happens. Numbers pick a path, or one of those that are there, modulo how many
/// there are.
#[derive(Debug, Clone)]
enum Step {
    Write { path: usize, text: u8, is_soon: bool },
    Link { path: usize, to: usize },
    Remove { which: usize, is_soon: bool },
    Rename { which: usize, to: usize, is_soon: bool },
    RenameDirectory { which: usize, to: usize },
    MakeDirectory { path: usize },
    RemoveDirectory { which: usize },
    Many { writes: Vec<(usize, u8)>, removed: usize, renamed: (usize, usize) },
    EditBehind { path: usize, text: u8 },
    RemoveBehind { which: usize },
    CommitBehind { path: usize, text: u8 },
    Reopen,
    Crash,
}

const DIRECTORIES: [&str; 5] = ["", "d/", "d/x/", "e/", "e-e/"];
const NAMES: [&str; 6] = ["a.md", "b.md", "d", "e", "x", "c~"];

fn path_of(number: usize) -> TreePath {
    let directory = DIRECTORIES[number / NAMES.len() % DIRECTORIES.len()];
    at(&format!("{directory}{}", NAMES[number % NAMES.len()]))
}

fn text_of(number: u8) -> String {
    format!("text {}\n", number % 6)
}

fn is_versioned(path: &TreePath) -> bool {
    path.components().all(|part| !part.ends_with('~'))
}

/// One version of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    /// None for a removal.
    state: Option<ETag>,
    /// As [`signature`] has it.
    by: String,
}

/// What should be there.
#[derive(Debug, Clone, Default)]
struct Model {
    leaves: BTreeMap<TreePath, Leaf>,
    /// The versions each path should have, oldest first.
    versions: BTreeMap<TreePath, Vec<Version>>,
}

/// Who made a commit and why, and what it changed.
type Commit = (String, BTreeMap<String, Option<ETag>>);

impl Model {
    fn pick(&self, number: usize) -> Option<TreePath> {
        self.leaves.keys().nth(number.checked_rem(self.leaves.len())?).cloned()
    }
    fn pick_directory(&self, number: usize) -> Option<TreePath> {
        let all: BTreeSet<_> =
            self.leaves.keys().flat_map(TreePath::ancestors).filter(|directory| !directory.is_root()).collect();
        all.iter().nth(number.checked_rem(all.len())?).cloned()
    }
    fn below(&self, directory: &TreePath) -> Vec<TreePath> {
        self.leaves.keys().filter(|path| path.is_under(directory)).cloned().collect()
    }
    fn state(&self, path: &TreePath) -> Option<ETag> {
        self.leaves.get(path).filter(|_| is_versioned(path)).map(|leaf| match leaf {
            Leaf::File(text) | Leaf::Link(text) => ETag::from_content(text.as_bytes()),
        })
    }
    /// Does something, and notes a version of each path that stands differently after it.
    fn commit(&mut self, by: &str, change: impl FnOnce(&mut BTreeMap<TreePath, Leaf>)) {
        let before = self.clone();
        change(&mut self.leaves);
        let paths: BTreeSet<_> = before.leaves.keys().chain(self.leaves.keys()).cloned().collect();
        for path in paths {
            let is_same_kind = before.leaves.get(&path).map(std::mem::discriminant)
                == self.leaves.get(&path).map(std::mem::discriminant);
            if before.state(&path) != self.state(&path) || (is_versioned(&path) && !is_same_kind) {
                let version = Version { state: self.state(&path), by: by.to_owned() };
                self.versions.entry(path).or_default().push(version);
            }
        }
    }
}

/// The program under test beside its model.
struct World {
    space: TestSpace,
    model: Model,
    /// How many sets were asked for. Two writers take turns.
    asked: usize,
}

impl World {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Write { path, text, is_soon } => {
                let (path, text) = (path_of(*path), text_of(*text));
                self.apply(vec![Change::put(path.clone(), text.clone())], *is_soon, |leaves| {
                    leaves.insert(path, Leaf::File(text));
                });
            }
            Step::Link { path, to } => {
                let (path, target) = (path_of(*path), path_of(*to).as_str().to_owned());
                if is_versioned(&path) {
                    self.apply(vec![Change::symlink(path.clone(), &target)], true, |leaves| {
                        leaves.insert(path, Leaf::Link(target));
                    });
                }
            }
            Step::Remove { which, is_soon } => {
                let Some(path) = self.model.pick(*which) else { return };
                self.apply(vec![Change::remove(path.clone())], *is_soon, |leaves| {
                    leaves.remove(&path);
                });
            }
            Step::Rename { which, to, is_soon } => {
                let (Some(from), to) = (self.model.pick(*which), path_of(*to)) else { return };
                // A page that leaves under a scratch name is another story: see DEPARTURE.
                if is_versioned(&from) && !is_versioned(&to) {
                    return;
                }
                self.apply(vec![Change::rename(from.clone(), to.clone())], *is_soon, |leaves| {
                    rename(leaves, &from, &to)
                });
            }
            Step::RenameDirectory { which, to } => {
                let (Some(from), to) = (self.model.pick_directory(*which), path_of(*to)) else { return };
                if !is_versioned(&to) {
                    return;
                }
                self.apply(vec![Change::rename(from.clone(), to.clone())], false, |leaves| rename(leaves, &from, &to));
            }
            Step::MakeDirectory { path } => {
                let change = Change::MakeDir { path: path_of(*path) };
                self.apply(vec![change], false, |_| {});
            }
            Step::RemoveDirectory { which } => self.remove_directory(&path_of(*which)),
            Step::Many { writes, removed, renamed } => self.many(writes, *removed, *renamed),
            Step::EditBehind { path, text } => self.edit_behind(&path_of(*path), *text),
            Step::RemoveBehind { which } => {
                let Some(path) = self.model.pick(*which) else { return };
                self.space.vfs.wait_committed().unwrap();
                fs::remove_file(self.on_disk(&path)).unwrap();
                let by = signature("fswatch", &format!("delete: {path}"));
                self.model.commit(&by, |leaves| {
                    leaves.remove(&path);
                });
                self.space.vfs.rescan().unwrap();
            }
            Step::CommitBehind { path, text } => self.commit_behind(&path_of(*path), *text),
            Step::Reopen => self.space.reopen(),
            Step::Crash => {
                self.space.vfs.wait_applied().unwrap();
                self.space = self.crashed();
            }
        }
    }

    /// Applies a set; the model follows if it was taken.
    fn apply(
        &mut self,
        changes: Vec<Change>,
        is_soon: bool,
        model: impl FnOnce(&mut BTreeMap<TreePath, Leaf>),
    ) -> bool {
        self.asked += 1;
        let (actor, message) = (["eve", "adam"][self.asked % 2], format!("step {}", self.asked));
        let set = ChangeSet::new(changes).with_message(message.as_str());
        let set = if is_soon { set.soon() } else { set };
        let outcome = self.space.vfs.apply(&Caller::new(Protocol::Fuse).with_actor(Actor::new(actor)), set);
        if let Err(fault) = &outcome {
            assert!(
                !matches!(fault.kind(), Kind::Internal | Kind::Unavailable | Kind::NoSpace | Kind::ReadOnly),
                "{fault:?}"
            );
        } else {
            let by = signature(actor, &message);
            self.model.commit(&by, model);
        }
        outcome.is_ok()
    }

    fn many(&mut self, writes: &[(usize, u8)], removed: usize, renamed: (usize, usize)) {
        let mut ahead = self.model.leaves.clone();
        let mut changes = Vec::new();
        if let Some(path) = self.model.pick(removed) {
            ahead.remove(&path);
            changes.push(Change::remove(path));
        }
        for (path, text) in writes {
            let (path, text) = (path_of(*path), text_of(*text));
            ahead.insert(path.clone(), Leaf::File(text.clone()));
            changes.push(Change::put(path, text));
        }
        // A path of its own making.
        let from = writes.get(renamed.0.checked_rem(writes.len()).unwrap_or(0)).map(|(path, _)| path_of(*path));
        if let Some(from) = from {
            let to = path_of(renamed.1);
            if is_versioned(&from) && is_versioned(&to) {
                rename(&mut ahead, &from, &to);
                changes.push(Change::rename(from, to));
            }
        }
        if !changes.is_empty() {
            self.apply(changes, false, |leaves| *leaves = ahead);
        }
    }

    fn remove_directory(&mut self, path: &TreePath) {
        let is_removed = self.apply(vec![Change::RemoveDir { path: path.clone() }], false, |_| {});
        assert!(!is_removed || self.model.below(path).is_empty(), "`{path}` was removed with files in it");
    }

    fn edit_behind(&mut self, path: &TreePath, text: u8) {
        self.space.vfs.wait_committed().unwrap();
        let file = self.on_disk(path);
        if file.is_dir() || file.is_symlink() || fs::create_dir_all(file.parent().unwrap()).is_err() {
            return;
        }
        let is_written = self.is_real(path) && fs::write(&file, text_of(text)).is_ok();
        if is_written {
            let by = signature("fswatch", &format!("fswatch: {path}"));
            self.model.commit(&by, |leaves| {
                leaves.insert(path.clone(), Leaf::File(text_of(text)));
            });
            self.space.vfs.rescan().unwrap();
        }
    }

    /// True when no directory above a path is a link.
    fn is_real(&self, path: &TreePath) -> bool {
        path.ancestors().all(|above| !self.on_disk(&above).is_symlink() || above.is_root())
    }

    fn commit_behind(&mut self, path: &TreePath, text: u8) {
        if !is_versioned(path) || matches!(self.model.leaves.get(path), Some(Leaf::Link(_))) {
            return;
        }
        self.space.vfs.wait_committed().unwrap();
        let file = self.on_disk(path);
        let before = self.model.state(path);
        if file.is_dir()
            || !self.is_real(path)
            || before == Some(ETag::from_content(text_of(text).as_bytes()))
            || fs::create_dir_all(file.parent().unwrap()).is_err()
            || fs::write(&file, text_of(text)).is_err()
        {
            return;
        }
        self.space.git(&["add", "--", path.as_str()]);
        self.space.git(&[
            "-c",
            "user.name=Ann",
            "-c",
            "user.email=a@x",
            "commit",
            "-q",
            "-m",
            "by hand",
            "--",
            path.as_str(),
        ]);
        let by = signature("Ann", "by hand");
        self.model.commit(&by, |leaves| {
            leaves.insert(path.clone(), Leaf::File(text_of(text)));
        });
        // Something of ours, so that theirs is followed.
        let stamp = ETag::from_content(format!("{:?}", self.model.versions).as_bytes()).to_string();
        self.apply(vec![Change::put(at("last.md"), stamp.clone())], false, |leaves| {
            leaves.insert(at("last.md"), Leaf::File(stamp));
        });
    }

    fn on_disk(&self, path: &TreePath) -> std::path::PathBuf {
        self.space.directory.path().join(path.as_str())
    }

    /// What every reader sees at this moment.
    fn agrees_at_once(&self) {
        for number in 0..DIRECTORIES.len() * NAMES.len() {
            let path = path_of(number);
            let seen = match self.space.vfs.stat(Protocol::Fuse, &path) {
                Ok(there) if there.kind == EntryKind::Directory => None,
                Ok(there) if there.kind == EntryKind::Symlink && self.is_real(&path) => {
                    Some(Leaf::Link(self.space.vfs.read_link(Protocol::Fuse, &path).unwrap()))
                }
                Ok(_) if self.is_real(&path) => Some(Leaf::File(self.space.text(path.as_str()))),
                Ok(_) | Err(_) => None,
            };
            assert_eq!(seen.as_ref(), self.model.leaves.get(&path).filter(|_| self.is_real(&path)), "`{path}`");
        }
    }

    /// Tree, newest commit, versions and feed.
    fn agrees_when_settled(&self) {
        self.space.vfs.wait_committed().unwrap();
        let listed = self.space.vfs.walk(Protocol::Fuse, &TreePath::root()).unwrap();
        let listed: Vec<_> = listed.into_iter().map(|entry| entry.path).collect();
        let versioned: Vec<_> = self.model.leaves.keys().filter(|path| is_versioned(path)).cloned().collect();
        assert_eq!(listed, versioned, "the tree");
        let head = self.space.vfs.core.versions.head().unwrap();
        let leaves = head.map(|head| self.space.git(&["ls-tree", "-r", &head.to_string()])).unwrap_or_default();
        let wanted: String = self.model.leaves.iter().filter(|(path, _)| is_versioned(path)).map(in_head).collect();
        assert_eq!(leaves, wanted, "the newest commit");
        let events = self.space.vfs.feed().events_after(Seq(0), usize::MAX).unwrap();
        let mut told: BTreeMap<TreePath, Vec<Version>> = BTreeMap::new();
        for event in &events {
            for change in &event.changes {
                let by = signature(event.actor.as_str(), &event.message);
                told.entry(change.path.clone()).or_default().push(Version { state: change.new, by });
            }
        }
        assert_eq!(told, self.model.versions, "the feed");
        if head.is_some() && !self.is_gathering() {
            assert_eq!(
                self.history(),
                events.iter().map(|event| Self::commit_of(event)).collect::<Vec<_>>(),
                "history"
            );
        }
        let mut total = 0;
        for (path, versions) in &self.model.versions {
            let kept = self.space.vfs.core.log.versions(path, Seq(u64::MAX), 10_000).unwrap();
            let kept: Vec<_> = kept.into_iter().rev().map(|version| version.new).collect();
            total += kept.len();
            if self.is_gathering() {
                let mut all = versions.iter();
                let is_in_order = kept.iter().all(|version| all.any(|known| known.state == *version));
                assert!(is_in_order, "versions of `{path}`: {kept:?} of {versions:?}");
            } else {
                let versions: Vec<_> = versions.iter().map(|version| version.state).collect();
                assert_eq!(kept, versions, "versions of `{path}`");
            }
        }
        assert_eq!(self.space.vfs.changes(None, 10_000).unwrap().changes.len(), total, "`changes`");
    }

    /// What stock git says of each commit, oldest first.
    fn history(&self) -> Vec<Commit> {
        let log = ["log", "--reverse", "--raw", "--no-abbrev", "--no-renames", "--format=commit %an|%s"];
        let mut commits: Vec<Commit> = Vec::new();
        for line in self.space.git(&log).lines().filter(|line| !line.is_empty()) {
            if let Some(by) = line.strip_prefix("commit ") {
                commits.push((by.to_owned(), BTreeMap::new()));
            } else {
                let (what, path) = line.split_once('\t').unwrap();
                let blob = what.split(' ').nth(3).filter(|blob| blob.contains(|digit| digit != '0'));
                let changed = &mut commits.last_mut().unwrap().1;
                changed.insert(path.to_owned(), blob.map(|blob| ETag::from_hex(blob).unwrap()));
            }
        }
        commits
    }

    /// The commit that an event tells of.
    fn commit_of(event: &FeedEvent) -> Commit {
        let changes = event.changes.iter().map(|change| (change.path.as_str().to_owned(), change.new));
        (signature(event.actor.as_str(), &event.message), changes.collect())
    }

    fn is_gathering(&self) -> bool {
        self.space.vfs.core.commit_policy != CommitPolicy::PerSet
    }

    /// What is there after a crash in this moment.
    fn crashed(&self) -> TestSpace {
        TestSpace::open(crashed(&self.space), self.space.vfs.core.commit_policy)
    }
}

/// Who made a version, and with which words.
/// Who did it, and the subject of the message.
fn signature(actor: &str, message: &str) -> String {
    format!("{actor}|{}", message.lines().next().unwrap_or_default())
}

fn in_head((path, leaf): (&TreePath, &Leaf)) -> String {
    let (mode, text) = match leaf {
        Leaf::File(text) => ("100644", text),
        Leaf::Link(target) => ("120000", target),
    };
    format!("{mode} blob {}\t{path}\n", ETag::from_content(text.as_bytes()))
}

/// A file, or a directory with what is below it.
fn rename(leaves: &mut BTreeMap<TreePath, Leaf>, from: &TreePath, to: &TreePath) {
    let moved: Vec<_> = leaves.keys().filter(|path| path.is_under(from)).cloned().collect();
    let taken: Vec<_> =
        moved.into_iter().filter_map(|path| Some((path.rebase(from, to)?, leaves.remove(&path)?))).collect();
    leaves.extend(taken);
}

/// A door that keeps bytes and follows no links.
fn fuse() -> Caller {
    Caller::new(Protocol::Fuse).with_actor(Actor::new("eve"))
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..DIRECTORIES.len() * NAMES.len();
    let which = 0..64_usize;
    prop_oneof![
        8 => (path.clone(), any::<u8>(), any::<bool>()).prop_map(|(path, text, is_soon)| Step::Write { path, text, is_soon }),
        1 => (path.clone(), path.clone()).prop_map(|(path, to)| Step::Link { path, to }),
        3 => (which.clone(), any::<bool>()).prop_map(|(which, is_soon)| Step::Remove { which, is_soon }),
        3 => (which.clone(), path.clone(), any::<bool>())
            .prop_map(|(which, to, is_soon)| Step::Rename { which, to, is_soon }),
        3 => (which.clone(), path.clone()).prop_map(|(which, to)| Step::RenameDirectory { which, to }),
        1 => path.clone().prop_map(|path| Step::MakeDirectory { path }),
        2 => path.clone().prop_map(|which| Step::RemoveDirectory { which }),
        2 => (prop::collection::vec((path.clone(), any::<u8>()), 0..4), which.clone(), (which.clone(), path.clone()))
            .prop_map(|(writes, removed, renamed)| Step::Many { writes, removed, renamed }),
        2 => (path.clone(), any::<u8>()).prop_map(|(path, text)| Step::EditBehind { path, text }),
        1 => which.prop_map(|which| Step::RemoveBehind { which }),
        1 => (path, any::<u8>()).prop_map(|(path, text)| Step::CommitBehind { path, text }),
        1 => Just(Step::Reopen),
        2 => Just(Step::Crash),
    ]
}

fn run(steps: &[Step]) {
    run_in(TestSpace::new(), steps);
}

fn run_in(space: TestSpace, steps: &[Step]) {
    let mut world = World { space, model: Model::default(), asked: 0 };
    for step in steps {
        world.take(step);
        world.agrees_at_once();
    }
    world.space.vfs.wait_applied().unwrap();
    let before_commits = world.crashed();
    world.agrees_when_settled();
    world.space = world.crashed();
    world.agrees_when_settled();
    let head = |space: &TestSpace| space.vfs.core.versions.head().unwrap();
    assert_eq!(head(&before_commits), head(&world.space), "the same commits, made before a crash and after it");
    world.space.git(&["fsck", "--strict"]);
}

fn cases() -> u32 {
    std::env::var("SVCFS_MODEL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_the_tree_history_and_feed_agree(steps in prop::collection::vec(step(), 1..30)) {
        run(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn tree_history_and_feed_agree_in_gathered_mode(
        steps in prop::collection::vec(step(), 1..30),
        max_paths in 1..5_usize,
    ) {
        run_in(TestSpace::gathering(NEVER, max_paths), &steps);
    }
}
