//! What programs do to files in quick succession has the outcome that it has on a plain disk:
//! content, mode, owner, time and extended attributes, of what is still queued, of what is on the
//! disk, and after a restart.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use rustix::fs::{CWD, RenameFlags, XattrFlags, fgetxattr, getxattr, renameat_with, setxattr};
use rustix::io::Errno;

use crate::mounted::{LIMIT, Mounted, open};

/// How many sequences are tried. `scripts/nightly.sh` sets more.
const CASES: &str = "SVCFS_FIDELITY_CASES";
/// A scratch name, for files: a scratch directory cannot become another one.
const SCRATCH: &str = "s.tmp";
const NAMES: [&str; 8] = ["a.md", "b.md", SCRATCH, "d", "d/a.md", "d/c.txt", "e", "e/a.md"];
/// The owner's execute bit makes a version, and whoever may read such a file may run it
/// (SEMANTICS.md).
const MODES: [u32; 6] = [0o600, 0o640, 0o644, 0o400, 0o755, 0o700];
const TEXTS: [&str; 4] = ["", "one\n", "two\n", "three, which is longer\n"];
const HANDLES: usize = 3;
/// Times that a program sets are older than this, all others are newer.
const RECENT: Duration = Duration::from_secs(1_500_000_000);

#[derive(Debug, Clone)]
enum Step {
    /// Creates or opens a file, keeps it open under a number, and writes.
    Open {
        name: usize,
        mode: usize,
        truncates: bool,
        appends: bool,
        text: usize,
        handle: usize,
    },
    /// Opens, writes and closes.
    Save {
        name: usize,
        mode: usize,
        truncates: bool,
        text: usize,
    },
    Write {
        handle: usize,
        text: usize,
    },
    Close {
        handle: usize,
    },
    Truncate {
        name: usize,
        size: u64,
    },
    Chmod {
        name: usize,
        mode: usize,
    },
    ChmodOpen {
        handle: usize,
        mode: usize,
    },
    Chown {
        name: usize,
        owner: u32,
    },
    SetTime {
        name: usize,
        seconds: u32,
    },
    SetTimeOpen {
        handle: usize,
        seconds: u32,
    },
    SetAttribute {
        name: usize,
        value: u8,
    },
    SetAttributeOpen {
        handle: usize,
        value: u8,
    },
    Rename {
        from: usize,
        to: usize,
        flags: u8,
    },
    Unlink {
        name: usize,
    },
    Symlink {
        name: usize,
        to: usize,
    },
    MakeDirectory {
        name: usize,
    },
    RemoveDirectory {
        name: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (name, mode, text, handle) = (0..NAMES.len(), 0..MODES.len(), 0..TEXTS.len(), 0..HANDLES);
    let (n, m, t, h) = (|| name.clone(), || mode.clone(), || text.clone(), || handle.clone());
    let (flag, seconds) = (any::<bool>, || 1_000_000_000..1_000_001_000_u32);
    let step = prop_oneof![
        3 => (n(), m(), flag(), flag(), t(), h()).prop_map(|(name, mode, truncates, appends, text, handle)| {
            Step::Open { name, mode, truncates, appends, text, handle }
        }),
        6 => (n(), m(), flag(), t())
            .prop_map(|(name, mode, truncates, text)| Step::Save { name, mode, truncates, text }),
        2 => (h(), t()).prop_map(|(handle, text)| Step::Write { handle, text }),
        3 => h().prop_map(|handle| Step::Close { handle }),
        1 => (n(), 0..30_u64).prop_map(|(name, size)| Step::Truncate { name, size }),
        2 => (n(), m()).prop_map(|(name, mode)| Step::Chmod { name, mode }),
        1 => (h(), m()).prop_map(|(handle, mode)| Step::ChmodOpen { handle, mode }),
        1 => (n(), 1000..1003_u32).prop_map(|(name, owner)| Step::Chown { name, owner }),
        2 => (n(), seconds()).prop_map(|(name, seconds)| Step::SetTime { name, seconds }),
        1 => (h(), seconds()).prop_map(|(handle, seconds)| Step::SetTimeOpen { handle, seconds }),
        1 => (n(), any::<u8>()).prop_map(|(name, value)| Step::SetAttribute { name, value }),
        1 => (h(), any::<u8>()).prop_map(|(handle, value)| Step::SetAttributeOpen { handle, value }),
        6 => (n(), n(), 0..6_u8).prop_map(|(from, to, flags)| Step::Rename { from, to, flags }),
        2 => n().prop_map(|name| Step::Unlink { name }),
        1 => (n(), n()).prop_map(|(name, to)| Step::Symlink { name, to }),
        2 => n().prop_map(|name| Step::MakeDirectory { name }),
        1 => n().prop_map(|name| Step::RemoveDirectory { name }),
    ];
    prop::collection::vec(step, 2..25)
}

/// A directory in which steps are done, and the files that are open there.
struct World<'a> {
    root: &'a Path,
    open: [Option<File>; HANDLES],
}

fn outcome<T>(outcome: std::io::Result<T>) -> Result<(), i32> {
    outcome.map(drop).map_err(|error| error.raw_os_error().unwrap_or(0))
}

fn errno<T>(outcome: rustix::io::Result<T>) -> Result<(), i32> {
    outcome.map(drop).map_err(Errno::raw_os_error)
}

fn time(seconds: u32) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into())
}

const ATTRIBUTE: &str = "user.note";

impl<'a> World<'a> {
    fn new(root: &'a Path) -> Self {
        Self { root, open: Default::default() }
    }

    fn go(&mut self, step: &Step) -> Result<(), i32> {
        let at = |name: usize| self.root.join(NAMES[name]);
        let opened = |(name, mode): (usize, usize), truncates, appends| {
            let mut options = OpenOptions::new();
            options.write(true).read(true).create(true).truncate(truncates).append(appends).mode(MODES[mode]);
            options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(at(name))
        };
        let nothing = Err(0);
        match *step {
            Step::Open { name, mode, truncates, appends, text, handle } => {
                // Append and truncate: std refuses the two together.
                let file = opened((name, mode), truncates && !appends, appends);
                let mut file = file.map_err(|error| error.raw_os_error().unwrap_or(0))?;
                file.write_all(TEXTS[text].as_bytes()).unwrap();
                self.open[handle] = Some(file);
                Ok(())
            }
            Step::Save { name, mode, truncates, text } => outcome(
                opened((name, mode), truncates, false).and_then(|mut file| file.write_all(TEXTS[text].as_bytes())),
            ),
            Step::Write { handle, text } => match &mut self.open[handle] {
                Some(file) => outcome(file.write_all(TEXTS[text].as_bytes())),
                None => nothing,
            },
            Step::Close { handle } => {
                self.open[handle] = None;
                Ok(())
            }
            Step::Truncate { name, size } => errno(
                rustix::fs::open(at(name), rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NOFOLLOW, 0.into())
                    .and_then(|file| rustix::fs::ftruncate(file, size)),
            ),
            Step::Chmod { name, mode } => {
                self.of_file(name, |path| outcome(fs::set_permissions(path, Permissions::from_mode(MODES[mode]))))
            }
            Step::ChmodOpen { handle, mode } => match &self.open[handle] {
                Some(file) => outcome(file.set_permissions(Permissions::from_mode(MODES[mode]))),
                None => nothing,
            },
            Step::Chown { name, owner } => self.of_file(name, |path| outcome(chown(path, Some(owner), Some(owner)))),
            Step::SetTime { name, seconds } => {
                self.of_file(name, |path| outcome(File::open(path).and_then(|file| file.set_modified(time(seconds)))))
            }
            Step::SetTimeOpen { handle, seconds } => match &self.open[handle] {
                Some(file) => outcome(file.set_modified(time(seconds))),
                None => nothing,
            },
            Step::SetAttribute { name, value } => {
                self.of_file(name, |path| errno(setxattr(path, ATTRIBUTE, &[value], XattrFlags::empty())))
            }
            Step::SetAttributeOpen { handle, value } => match &self.open[handle] {
                Some(file) => errno(rustix::fs::fsetxattr(file.as_fd(), ATTRIBUTE, &[value], XattrFlags::empty())),
                None => nothing,
            },
            Step::Rename { from, to, flags } => {
                let is_directory = |name| fs::symlink_metadata(at(name)).is_ok_and(|there| there.is_dir());
                if is_directory(from) && NAMES[to] == SCRATCH {
                    return nothing;
                }
                let flags = match flags {
                    0 => RenameFlags::NOREPLACE,
                    // Only files are exchanged.
                    1 if !is_directory(from) && !is_directory(to) => RenameFlags::EXCHANGE,
                    _ => RenameFlags::empty(),
                };
                errno(renameat_with(CWD, at(from), CWD, at(to), flags))
            }
            Step::Unlink { name } => outcome(fs::remove_file(at(name))),
            Step::Symlink { name, to } => outcome(symlink(NAMES[to], at(name))),
            Step::MakeDirectory { name } if NAMES[name] == SCRATCH => nothing,
            Step::MakeDirectory { name } => outcome(fs::create_dir(at(name))),
            Step::RemoveDirectory { name } => outcome(fs::remove_dir(at(name))),
        }
    }

    /// Does something to a file that is no link, which would lead to another one.
    fn of_file(&self, name: usize, change: impl FnOnce(&Path) -> Result<(), i32>) -> Result<(), i32> {
        let path = self.root.join(NAMES[name]);
        match fs::symlink_metadata(&path) {
            Ok(there) if there.is_file() => change(&path),
            Ok(_) => Ok(()),
            Err(error) => outcome(Err::<(), _>(error)),
        }
    }

    /// All files, by name, and those that are open.
    fn seen(&mut self) -> BTreeMap<String, Seen> {
        let mut seen = names(self.root);
        for (number, file) in self.open.iter_mut().enumerate() {
            let Some(file) = file else { continue };
            let metadata = file.metadata().unwrap();
            let mut content = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut content).unwrap();
            let mut note = [0; 1];
            // A file without a name starts with none of the attributes that it had under one.
            let note = fgetxattr(file.as_fd(), ATTRIBUTE, &mut note[..]).map(|_| note[0]);
            let note = note.ok().filter(|_| metadata.nlink() > 0);
            seen.insert(format!("open {number}"), Seen::of(&metadata, content, note));
        }
        seen
    }
}

/// What is seen of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    content: String,
    mode: u32,
    owner: (u32, u32),
    /// Where a program set it.
    modified: Option<i64>,
    note: Option<u8>,
}

impl Seen {
    fn of(metadata: &fs::Metadata, content: Vec<u8>, note: Option<u8>) -> Self {
        let is_set = metadata.mtime().cast_unsigned() < RECENT.as_secs();
        Self {
            content: String::from_utf8(content).unwrap(),
            mode: if metadata.is_symlink() { 0o120_777 } else { metadata.mode() },
            owner: (metadata.uid(), metadata.gid()),
            modified: is_set.then_some(metadata.mtime()).filter(|_| metadata.is_file()),
            note,
        }
    }
}

fn names(root: &Path) -> BTreeMap<String, Seen> {
    let mut seen = BTreeMap::new();
    for name in NAMES {
        let path = root.join(name);
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let mut note = [0; 1];
        let (content, note) = if metadata.is_file() {
            (fs::read(&path).unwrap(), getxattr(&path, ATTRIBUTE, &mut note[..]).map(|_| note[0]).ok())
        } else if metadata.is_symlink() {
            (fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(), None)
        } else {
            let mut listed: Vec<_> =
                fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            listed.sort();
            (listed.join(" ").into_bytes(), None)
        };
        seen.insert(name.to_owned(), Seen::of(&metadata, content, note));
    }
    seen
}

fn same(what: &str, on_disk: &BTreeMap<String, Seen>, here: &BTreeMap<String, Seen>) -> Result<(), TestCaseError> {
    for name in on_disk.keys().chain(here.keys()) {
        prop_assert_eq!(here.get(name), on_disk.get(name), "left is the mount, right a plain disk: {}, {}", name, what);
    }
    Ok(())
}

fn is_as_on_disk(space: &Mounted, steps: &[Step]) -> Result<(), TestCaseError> {
    let plain = tempfile::tempdir_in(space.folder()).unwrap();
    let place = tempfile::Builder::new().prefix("case").tempdir_in(space.at("")).unwrap();
    for root in [plain.path(), place.path()] {
        fs::set_permissions(root, Permissions::from_mode(0o755)).unwrap();
    }
    let (mut disk, mut mount) = (World::new(plain.path()), World::new(place.path()));
    for (at, step) in steps.iter().enumerate() {
        let expected = disk.go(step);
        let done = mount.go(step);
        prop_assert_eq!(done, expected, "left is the mount, right a plain disk: step {} of {:?}", at, steps);
    }
    same("at once", &disk.seen(), &mount.seen())?;
    space.vfs.wait_applied().unwrap();
    same("on the disk", &disk.seen(), &mount.seen())?;
    (disk.open, mount.open) = Default::default();
    let expected = names(plain.path());
    let behind = space.folder().join("root").join(place.path().file_name().unwrap());
    // The kernel reports the last close of a file when it suits it.
    let deadline = Instant::now() + LIMIT;
    while names(&behind) != expected && Instant::now() < deadline {
        std::thread::yield_now();
        space.vfs.wait_applied().unwrap();
    }
    same("behind the server", &expected, &names(&behind))?;
    same("after everything is closed", &expected, &names(place.path()))
}

/// Shows: MNT-18
#[test]
fn attributes_of_queued_files_are_those_of_a_plain_disk() {
    let Some(space) = Mounted::new() else { return };
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root gives files away");
        return;
    }
    let cases = std::env::var(CASES).map_or(60, |cases| cases.parse().unwrap());
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner.run(&steps(), |steps| is_as_on_disk(&space, &steps)).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Shows: MNT-18
#[test]
fn a_private_file_stays_private_through_saves_and_restarts() {
    let Some(mut space) = Mounted::new() else { return };
    let modes = space.shell(
        "umask 077
        echo one >a.md; echo two >a.md; stat -c %a a.md
        name=$(mktemp page.XXXXXXXX); echo one >$name; echo two >>$name; mv $name b.md; stat -c %a b.md
        echo one >c.md; mv c.md d.md; echo two >d.md; mv d.md b.md; stat -c %a b.md
        umask 022; echo of all >open.md; umask 077; echo of one >e.md; mv e.md open.md; stat -c %a open.md",
    );
    assert_eq!(modes, "600\n600\n600\n600\n");
    space.stop(LIMIT).unwrap();
    let root = space.folder().join("root");
    space.vfs.close().unwrap();
    space.vfs = open(&root);
    for page in ["a.md", "b.md", "open.md"] {
        assert_eq!(fs::metadata(root.join(page)).unwrap().mode() & 0o777, 0o600, "{page}");
    }
}
