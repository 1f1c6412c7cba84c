//! What clients do to files in quick succession has the outcome that it has on a plain disk:
//! content, mode and time.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nfs3_types::nfs3::{Nfs3Option, createhow3, nfs_fh3, nfstime3, sattr3, sattrguard3, set_mtime, stable_how};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::Served;

const NAMES: [&str; 5] = ["a.md", "b.md", "s.tmp", "d", "e"];
const MODES: [u32; 5] = [0o600, 0o640, 0o644, 0o755, 0o700];
const TEXTS: [&str; 4] = ["", "one\n", "two\n", "three, which is longer\n"];
/// Times that a client sets are older than this, all others are newer.
const RECENT: i64 = 1_500_000_000;

#[derive(Debug, Clone)]
enum Step {
    Save {
        name: usize,
        mode: usize,
        text: usize,
        is_committed: bool,
    },
    Chmod {
        name: usize,
        mode: usize,
    },
    SetTime {
        name: usize,
        seconds: u32,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Remove {
        name: usize,
    },
    MakeDirectory {
        name: usize,
    },
    RemoveDirectory {
        name: usize,
    },
    /// In the directory `d`.
    SaveInside {
        mode: usize,
        text: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (name, mode, text) = (|| 0..NAMES.len(), || 0..MODES.len(), || 0..TEXTS.len());
    let step = prop_oneof![
        6 => (name(), mode(), text(), any::<bool>())
            .prop_map(|(name, mode, text, is_committed)| Step::Save { name, mode, text, is_committed }),
        2 => (name(), mode()).prop_map(|(name, mode)| Step::Chmod { name, mode }),
        2 => (name(), 1_000_000_000..1_000_001_000_u32).prop_map(|(name, seconds)| Step::SetTime { name, seconds }),
        6 => (name(), name()).prop_map(|(from, to)| Step::Rename { from, to }),
        2 => name().prop_map(|name| Step::Remove { name }),
        2 => name().prop_map(|name| Step::MakeDirectory { name }),
        1 => name().prop_map(|name| Step::RemoveDirectory { name }),
        2 => (mode(), text()).prop_map(|(mode, text)| Step::SaveInside { mode, text }),
    ];
    prop::collection::vec(step, 2..15)
}

fn with_mode(mode: usize) -> sattr3 {
    sattr3 { mode: Nfs3Option::Some(MODES[mode]), ..sattr3::default() }
}

/// Whether it was done.
#[expect(clippy::disallowed_methods, reason = "a plain disk, beside the tree of a server")]
fn on_disk(root: &Path, step: &Step) -> bool {
    let at = |name: usize| root.join(NAMES[name]);
    let save = |path: &Path, mode: usize, text: usize| {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(MODES[mode]).open(path);
        file.and_then(|mut file| file.write_all(TEXTS[text].as_bytes())).is_ok()
    };
    match *step {
        Step::Save { name, mode, text, .. } => save(&at(name), mode, text),
        Step::SaveInside { mode, text } => save(&root.join("d/x.md"), mode, text),
        Step::Chmod { name, mode } => {
            at(name).is_file() && fs::set_permissions(at(name), Permissions::from_mode(MODES[mode])).is_ok()
        }
        Step::SetTime { name, seconds } => {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.into());
            at(name).is_file() && fs::File::open(at(name)).and_then(|file| file.set_modified(time)).is_ok()
        }
        Step::Rename { from, to } => fs::rename(at(from), at(to)).is_ok(),
        Step::Remove { name } => fs::remove_file(at(name)).is_ok(),
        Step::MakeDirectory { name } => fs::create_dir(at(name)).is_ok(),
        Step::RemoveDirectory { name } => fs::remove_dir(at(name)).is_ok(),
    }
}

fn through_nfs(served: &Served, root: &nfs_fh3, step: &Step) -> bool {
    let save = |directory: &nfs_fh3, name: &str, (mode, text): (usize, usize), is_committed: bool| {
        let emptied = sattr3 { size: Nfs3Option::Some(0), ..with_mode(mode) };
        let Ok(file) = served.create_as(directory, name, createhow3::UNCHECKED(emptied)) else { return false };
        served.write(&file, 0, TEXTS[text].as_bytes(), stable_how::UNSTABLE).unwrap();
        !is_committed || served.commit(&file).is_ok()
    };
    let is_file = |name: usize| {
        let file = served.lookup(root, NAMES[name]).ok();
        file.filter(|file| served.getattr(file).unwrap().type_ == nfs3_types::nfs3::ftype3::NF3REG)
    };
    match *step {
        Step::Save { name, mode, text, is_committed } => save(root, NAMES[name], (mode, text), is_committed),
        Step::SaveInside { mode, text } => {
            served.lookup(root, "d").is_ok_and(|directory| save(&directory, "x.md", (mode, text), false))
        }
        Step::Chmod { name, mode } => {
            is_file(name).is_some_and(|file| served.set(&file, with_mode(mode), sattrguard3::None).is_ok())
        }
        Step::SetTime { name, seconds } => is_file(name).is_some_and(|file| {
            let mtime = set_mtime::SET_TO_CLIENT_TIME(nfstime3 { seconds, nseconds: 0 });
            served.set(&file, sattr3 { mtime, ..sattr3::default() }, sattrguard3::None).is_ok()
        }),
        Step::Rename { from, to } => served.rename((root, NAMES[from]), (root, NAMES[to])).is_ok(),
        Step::Remove { name } => served.remove(root, NAMES[name]).is_ok(),
        Step::MakeDirectory { name } => served.mkdir(root, NAMES[name]).is_ok(),
        Step::RemoveDirectory { name } => served.rmdir(root, NAMES[name]).is_ok(),
    }
}

/// Content, mode, and the time where a client set it, by name.
type Seen = BTreeMap<String, (String, u32, Option<i64>)>;

fn of(mode: u32, mtime: i64, content: Vec<u8>) -> (String, u32, Option<i64>) {
    (String::from_utf8(content).unwrap(), mode & 0o777, (mtime < RECENT).then_some(mtime))
}

fn seen_on_disk(root: &Path) -> Seen {
    let mut seen = Seen::new();
    for name in NAMES.iter().copied().chain(["d/x.md", "e/x.md"]) {
        let Ok(metadata) = fs::metadata(root.join(name)) else { continue };
        let content = if metadata.is_file() { fs::read(root.join(name)).unwrap() } else { b"directory".to_vec() };
        let mode = if metadata.is_file() { metadata.mode() } else { 0 };
        seen.insert(name.to_owned(), of(mode, metadata.mtime(), content));
    }
    seen
}

fn seen_through_nfs(served: &Served, root: &nfs_fh3) -> Seen {
    let mut seen = Seen::new();
    for name in NAMES.iter().copied().chain(["d/x.md", "e/x.md"]) {
        let found = name.split('/').try_fold(root.clone(), |directory, part| served.lookup(&directory, part));
        let Ok(file) = found else { continue };
        let told = served.getattr(&file).unwrap();
        let is_file = told.type_ == nfs3_types::nfs3::ftype3::NF3REG;
        let content = if is_file { served.read(&file, 0, 4096).unwrap().0 } else { b"directory".to_vec() };
        seen.insert(name.to_owned(), of(if is_file { told.mode } else { 0 }, told.mtime.seconds.into(), content));
    }
    seen
}

fn is_as_on_disk(served: &Served, number: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let plain = tempfile::tempdir().unwrap();
    let name = format!("case {number}");
    let root = served.mkdir(&served.root(), &name).unwrap();
    for (at, step) in steps.iter().enumerate() {
        let is_scratch_directory = |name: usize| NAMES[name] == "s.tmp";
        match *step {
            // A scratch directory cannot become another one.
            Step::MakeDirectory { name } if is_scratch_directory(name) => continue,
            Step::Rename { from, to } if is_scratch_directory(to) && plain.path().join(NAMES[from]).is_dir() => {
                continue;
            }
            _ => {}
        }
        let expected = on_disk(plain.path(), step);
        prop_assert_eq!(
            through_nfs(served, &root, step),
            expected,
            "right is a plain disk: step {} of {:?}",
            at,
            steps
        );
    }
    let expected = seen_on_disk(plain.path());
    prop_assert_eq!(seen_through_nfs(served, &root), expected.clone(), "right is a plain disk");
    served.server.primary().vfs.wait_committed().unwrap();
    served.server.primary().vfs.wait_applied().unwrap();
    let behind = served.folder.path().join("root").join(&name);
    prop_assert_eq!(seen_on_disk(&behind), expected, "right is a plain disk, left the disk behind the server");
    Ok(())
}

#[test]
fn attributes_of_nfs_files_match_those_of_a_plain_disk() {
    let served = Served::new();
    let mut runner = TestRunner::new(Config { cases: 40, failure_persistence: None, ..Config::default() });
    let numbers = std::cell::Cell::new(0);
    let outcome = runner.run(&steps(), |steps| {
        numbers.set(numbers.get() + 1);
        is_as_on_disk(&served, numbers.get(), &steps)
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
