//! Disks that do not know everything that ext4 does.

use std::path::{Path, PathBuf};

use super::*;

/// A directory through bindfs, which knows no flags of renameat2(2); none, with the reason printed, where it cannot be mounted.
struct BindFs {
    directory: TempDir,
}

impl BindFs {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let (disk, root) = (directory.path().join("disk"), directory.path().join("root"));
        fs::create_dir(&disk).unwrap();
        fs::create_dir(&root).unwrap();
        let mounted = Command::new("bindfs").arg(&disk).arg(&root).status();
        if !mounted.as_ref().is_ok_and(|status| status.success()) {
            println!("skipped: bindfs cannot be used here: {mounted:?}");
            return None;
        }
        Some(Self { directory })
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }
}

impl Drop for BindFs {
    fn drop(&mut self) {
        let _ = Command::new("fusermount3").arg("-u").arg(self.root()).status();
    }
}

fn open(root: &Path) -> Arc<Vfs> {
    Vfs::open(options(root, false)).unwrap()
}

#[test]
fn a_disk_without_flags_of_renameat2_takes_every_change() {
    let Some(disk) = BindFs::new() else { return };
    fs::write(disk.root().join("old.md"), "of a person\n").unwrap();
    let vfs = open(&disk.root());
    let apply = |change: Change| vfs.apply(&eve(), change).unwrap();
    apply(Change::put(at("a.md"), "one\n"));
    apply(Change::put(at("a.md"), "two\n"));
    apply(Change::rename(at("a.md"), at("d/b.md")));
    apply(Change::put(at("c.md"), "three\n"));
    apply(Change::rename(at("c.md"), at("d/b.md")));
    apply(Change::rename(at("d"), at("e")));
    apply(Change::remove(at("old.md")));
    let taken = vfs.apply(&eve(), Change::put(at("e/b.md"), "x").with_precondition(Precondition::Absent));
    assert_eq!(taken.unwrap_err().kind(), Kind::PreconditionFailed);
    let name = PathComponent::parse("n.md").unwrap();
    let (node, _, handle) = vfs.create(&eve(), NodeId::ROOT, &name, 0o600).unwrap();
    vfs.write_node(&eve(), handle, WriteAt::End, b"text\n").unwrap();
    vfs.release(&eve(), handle).unwrap();
    assert_eq!(vfs.attributes(node).unwrap().mode, 0o600);
    vfs.close().unwrap();
    drop(vfs);
    let vfs = open(&disk.root());
    let text = |path: &str| vfs.read(Protocol::Http, &at(path)).unwrap().content;
    assert_eq!((&*text("e/b.md"), &*text("n.md")), (&b"three\n"[..], &b"text\n"[..]));
    let names: Vec<_> = vfs.walk(Protocol::Http, &TreePath::root()).unwrap();
    let names: Vec<_> = names.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["e/b.md", "n.md"]);
    let git = Command::new("git").arg("-C").arg(disk.root()).args(["status", "--porcelain"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&git.stdout), "");
    vfs.close().unwrap();
}
