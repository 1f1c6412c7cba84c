//! What a server leaves that is killed while something takes the place of something else.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::Instant;

use parking_lot::Mutex;
use svcfs_base::{Caller, Change};
use svcfs_store::{FailPoint, FailPoints};

use super::*;
use crate::replace::with_backup;
use crate::resolved::ResolvedResource;

/// Where the steps of a request begin and end: before anything of one is done, logged, in the tree,
/// in history.
const MOMENTS: [FailPoint; 4] =
    [FailPoint::AcceptLocked, FailPoint::LogFlushed, FailPoint::TreeDone, FailPoint::BranchMoved];

/// What a disk says (errno(3)).
const NO_SPACE: i32 = 28;

/// Which file stands where, and when it was written; none while files go.
fn written(root: &Path) -> Option<BTreeMap<PathBuf, (u64, std::time::SystemTime)>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()? {
            let path = entry.ok()?.path();
            let metadata = path.symlink_metadata().ok()?;
            if metadata.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path, (metadata.len(), metadata.modified().ok()?));
        }
    }
    Some(found)
}

/// A copy of a root as it is at one moment: when something is written meanwhile, it is made again.
fn copied(root: &Path) -> TempDir {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let copy = tempfile::tempdir().unwrap();
        let before = written(root);
        let made = Command::new("cp").arg("-a").arg(root).arg(copy.path()).output().unwrap().status.success();
        if made && before.is_some_and(|before| Some(before) == written(root)) {
            return copy;
        }
    }
    panic!("`{}` does not come to rest", root.display());
}

impl Served {
    /// What a kill would leave at each moment of a request, which succeeds.
    fn images_of(&self, (method, from, to): (&str, &str, &str), headers: &[(&str, &str)]) -> Vec<TempDir> {
        let root = self.folder.path().join("default");
        let points = FailPoints::new(self.server.primary().vfs.root());
        let images = Arc::new(Mutex::new(Vec::new()));
        for moment in MOMENTS {
            let (root, images) = (root.clone(), Arc::clone(&images));
            points.set_callback(moment, move || {
                let mut images = images.lock();
                images.push(copied(&root));
            });
        }
        let headers = [&[("destination", to)], headers].concat();
        let done = self.send(method, from, &headers, "");
        self.server.primary().vfs.wait_committed().unwrap();
        MOMENTS.into_iter().for_each(|moment| points.clear(moment));
        assert_eq!(done.status, 204, "{method}: {}", done.text());
        std::mem::take(&mut *images.lock())
    }

    /// What the next server of this root finds, once it has ended what this one left.
    fn finished(self) -> Self {
        let served = self.again();
        crate::recover_replacements(&served.server, served.server.primary());
        served
    }

    /// Names at the top that a replacing gives, and what is written down of such.
    fn leftovers(&self) -> Vec<String> {
        let root = self.folder.path().join("default");
        let notes = root.join(".svc/state/webdav");
        let folders = [root, notes].into_iter().filter_map(|folder| std::fs::read_dir(folder).ok());
        let names = folders.flatten().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.contains("replaced") || name.ends_with(".json")).collect();
        names.sort();
        names
    }
}

fn told(path: &str, text: &str) -> Vec<(String, String)> {
    vec![(path.to_owned(), text.to_owned())]
}

/// Shows: DAV-4
#[test]
fn a_replacement_is_atomic_when_the_server_is_killed() {
    let folder = |served: &Served, name: &str| {
        served.tree(&[&format!("/{name}"), &format!("/{name}/x")], &[(&format!("/{name}/x/a.md"), "# A\n")]);
    };
    let filled = || told("to/x/a.md", "# A\n");
    let file = || told("to", "two\n");
    for (method, depth, is_over_file) in
        [("MOVE", "infinity", true), ("MOVE", "infinity", false), ("COPY", "infinity", true), ("COPY", "0", true)]
    {
        let served = Served::new();
        if is_over_file {
            folder(&served, "from");
            served.put("/to", "two\n");
        } else {
            served.put("/from", "two\n");
            folder(&served, "to");
        }
        let (mut back, mut taken) = (0, 0);
        for image in served.images_of((method, "/from", "/to"), &[("depth", depth)]) {
            let again = Served::of(Arc::new(image), "");
            let was_begun = !again.leftovers().is_empty();
            crate::recover_replacements(&again.server, again.server.primary());
            let root = again.folder.path().join("default");
            let stands = if root.join("to").is_dir() {
                again.below("to")
            } else {
                told("to", &std::fs::read_to_string(root.join("to")).unwrap())
            };
            let (old, new) = match (is_over_file, depth) {
                (true, "0") => (file(), Vec::new()),
                (true, _) => (file(), filled()),
                (false, _) => (filled(), file()),
            };
            assert!(stands == old || stands == new, "{method} {depth}: {stands:?}");
            let is_there = root.join("from").exists();
            assert_eq!(is_there, method == "COPY" || stands == old, "{method} {depth}: {stands:?}");
            assert_eq!(again.leftovers(), [""; 0], "{method} {depth}");
            assert_eq!(again.text("to").is_some(), root.join("to").is_file(), "what history has is what stands");
            back += usize::from(was_begun && stands == old);
            taken += usize::from(was_begun && stands == new);
        }
        assert!(back > 0 && taken > 0, "{method} {depth}: {back} are put back, {taken} are taken away");
        assert_eq!(served.leftovers(), [""; 0]);
    }
}

/// A server that was killed in the middle of a replacing, when so much of it was done.
fn killed(method: &str, work: impl FnOnce(&Served)) -> Served {
    let served = Served::new();
    served.tree(&["/from", "/from/in"], &[("/from/a.md", "# A\n"), ("/from/in/b.md", "# B\n"), ("/to", "two\n")]);
    let asked = served.asked(method, "/from");
    let there = ResolvedResource::at_no_follow(&asked, &TreePath::parse("to").unwrap()).unwrap();
    let killed = || -> Result<(), Fault> {
        work(&served);
        panic!("killed, so that nothing of what follows is done");
    };
    assert!(catch_unwind(AssertUnwindSafe(|| with_backup(&asked, &there, killed, || {}))).is_err());
    drop(there);
    drop(asked);
    // The rename is in the tree by then.
    served.server.primary().vfs.wait_applied().unwrap();
    assert_eq!(served.leftovers().len(), 2);
    served
}

fn apply(served: &Served, changes: Vec<Change>) {
    let vfs = &served.server.primary().vfs;
    changes.into_iter().for_each(|change| drop(vfs.apply(&Caller::new(Protocol::Http), change).unwrap()));
}

fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

/// Shows: DAV-4
#[test]
fn a_copy_interrupted_by_a_crash_is_rolled_back() {
    let served = killed("COPY", |served| {
        apply(served, vec![Change::put(at("to/a.md"), "# A\n"), Change::MakeDir { path: at("to/in") }]);
    });
    let served = served.finished();
    assert_eq!(served.text("to").as_deref(), Some("two\n"));
    assert_eq!(served.leftovers(), [""; 0]);
    assert_eq!(served.below("from").len(), 2);
    let mut seen = 0;
    assert!(served.commits(&mut seen).last().unwrap().starts_with("webdav: "), "in the name of who asked for it");
}

/// Shows: DAV-4
#[test]
fn crash_rollback_preserves_foreign_files_and_replaced_content() {
    for method in ["COPY", "MOVE"] {
        let served = killed(method, |served| {
            apply(served, vec![Change::put(at("to/a.md"), "# A\n"), Change::put(at("to/theirs.md"), "# T\n")]);
        });
        let served = served.finished();
        let stands: Vec<_> = served.below("to").into_iter().map(|(path, _)| path).collect();
        let left = served.leftovers();
        assert!(stands.contains(&"to/theirs.md".to_owned()), "{method}: {stands:?}");
        assert_eq!(left.len(), 1, "{method}: nobody tries again: {left:?}");
        assert_eq!(served.text(&left[0]).as_deref(), Some("two\n"), "{method}");
    }
}

/// Shows: DAV-4
#[test]
fn a_rollback_delayed_past_startup_removes_no_later_user_work() {
    let served = killed("COPY", |served| apply(served, vec![Change::put(at("to/a.md"), "# A\n")]));
    let served = served.again();
    let points = FailPoints::new(served.server.primary().vfs.root());
    points.inject_error(FailPoint::LogWrite, NO_SPACE);
    crate::recover_replacements(&served.server, served.server.primary());
    points.clear(FailPoint::LogWrite);
    assert_eq!(served.send("COPY", "/from", &[("destination", "/to"), ("overwrite", "T")], "").status, 204);
    let served = served.finished();
    let stands: Vec<_> = served.below("to").into_iter().map(|(path, _)| path).collect();
    assert_eq!(stands, ["to/a.md", "to/in/b.md"]);
    let left = served.leftovers();
    assert_eq!((left.len(), served.text(&left[0]).as_deref()), (1, Some("two\n")), "{left:?}");
}

/// Shows: DAV-4
#[test]
fn a_crashed_copy_of_unversioned_files_removes_nothing() {
    let served = killed("COPY", |served| apply(served, vec![Change::put(at("to/a.md"), "# A\n")]));
    let large = served.folder.path().join("default/to/large.bin");
    std::fs::File::create(&large).unwrap().set_len(MAX_FILE_BYTES as u64 + 1).unwrap();
    let served = served.finished();
    assert!(large.exists() && served.text("to/a.md").is_some());
    let left = served.leftovers();
    assert_eq!((left.len(), served.text(&left[0]).as_deref()), (1, Some("two\n")), "{left:?}");
}

#[test]
fn an_unreadable_replace_record_stays_and_blocks_no_other() {
    let served = killed("COPY", |_| {});
    let notes = served.folder.path().join("default/.svc/state/webdav");
    // Of another version, or empty.
    std::fs::File::create(notes.join("0.json")).unwrap();
    std::fs::create_dir(notes.join("1.json")).unwrap();
    let served = served.finished();
    assert_eq!(served.text("to").as_deref(), Some("two\n"));
    assert_eq!(served.leftovers(), ["0.json", "1.json"]);
}

#[test]
fn a_move_is_complete_when_its_source_is_missing() {
    let served = killed("MOVE", |served| apply(served, vec![Change::rename(at("from"), at("to"))]));
    let served = served.finished();
    assert_eq!(served.below("to").len(), 2);
    assert_eq!(served.leftovers(), [""; 0]);
    // One that is half written is of what had not begun.
    let note = served.folder.path().join("default/.svc/state/webdav/odd.new");
    std::fs::File::create(&note).unwrap();
    crate::recover_replacements(&served.server, served.server.primary());
    assert!(!note.exists() && served.below("to").len() == 2);
}
