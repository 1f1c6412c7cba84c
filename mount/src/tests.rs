use std::path::Path;
use std::sync::Arc;

use fuser::{FopenFlags, OpenFlags, WriteFlags};
use rustix::fs::OFlags;
use svcfs_base::{Caller, Change, Door, Seq, SystemClock, TreePath};
use svcfs_vfs::{HandleId, NodeId, Vfs, WriteAt};

use crate::actors::Actors;
use crate::convert::{open_mode, write_at};
use crate::door::KernelDoor;
use crate::follower::Progress;
use crate::mountpoint::mounted;
use crate::writers::Writer;

#[test]
fn the_mount_table_is_read_as_the_kernel_writes_it() {
    let ours = r"42 27 0:39 / /srv/a\040b\134c rw,nosuid,nodev,relatime shared:7 - fuse svcfs rw,user_id=0";
    assert_eq!(mounted(ours, Path::new(r"/srv/a b\c")), Some(Some(39)));
    assert_eq!(mounted(&ours.replace("- fuse ", "- fuse.svcfs "), Path::new(r"/srv/a b\c")), Some(Some(39)));
    assert_eq!(mounted(&ours.replace("svcfs", "sshfs"), Path::new(r"/srv/a b\c")), Some(None));
    assert_eq!(mounted(&ours.replace("- fuse", "- ext4"), Path::new(r"/srv/a b\c")), Some(None));
    for (line, path) in [(ours, "/srv"), ("", "/"), ("42 27 - fuse svcfs", "/"), ("- -  - ", "")] {
        assert_eq!(mounted(line, Path::new(path)), None, "{line:?}");
    }
}

#[test]
fn a_user_without_a_name_is_called_by_number() {
    let actors = Actors::default();
    for _ in 0..2 {
        assert_eq!(actors.name(0).as_str(), "root");
        assert_eq!(actors.name(3_999_999_999).as_str(), "uid-3999999999");
    }
}

#[test]
fn open_and_write_flags_become_what_the_caller_may_do() {
    let flags = |flags: OFlags| OpenFlags(flags.bits().cast_signed());
    let mode = |asked| open_mode(flags(asked));
    let asked = mode(OFlags::WRONLY | OFlags::APPEND | OFlags::TRUNC | OFlags::NONBLOCK);
    assert!(asked.write && asked.truncate);
    let asked = mode(OFlags::RDONLY | OFlags::CLOEXEC);
    assert!(!asked.write && !asked.truncate && mode(OFlags::RDWR).write);
    let plain = WriteFlags::empty();
    assert_eq!(write_at(5, flags(OFlags::WRONLY), plain), WriteAt::Offset(5));
    assert_eq!(write_at(5, flags(OFlags::WRONLY | OFlags::APPEND), plain), WriteAt::End);
    let mapped = WriteFlags::FUSE_WRITE_CACHE;
    assert_eq!(write_at(5, flags(OFlags::RDWR | OFlags::APPEND), mapped), WriteAt::Offset(5));
}

#[test]
fn a_file_opened_while_the_follower_is_behind_is_read_past_the_page_cache() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = Vfs::open(svcfs_vfs::Options {
        root: folder.path().to_owned(),
        clock: Arc::new(SystemClock),
        gates: Vec::new(),
        scratch: Vec::new(),
        watch: false,
        progress: None,
    })
    .unwrap();
    let before = Progress::at(vfs.feed().last());
    let change = Change::put(TreePath::parse("a.md").unwrap(), "text");
    vfs.apply(&Caller::new(Door::Http), change).unwrap();
    let after = Progress::at(vfs.feed().last());
    assert!(before.done() < after.done() && after.done() > Seq(0));
    let flags = |progress: &Arc<Progress>, writer| {
        let door = KernelDoor::new(vfs.clone(), Arc::new(SystemClock), progress.clone());
        door.opened(HandleId(1), writer, FopenFlags::FOPEN_DIRECT_IO).1
    };
    assert_eq!(flags(&before, None), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
    assert_eq!(flags(&after, None), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    assert_eq!(flags(&after, Some(Writer { node: NodeId(2), uid: 0, thread: None })), FopenFlags::FOPEN_KEEP_CACHE);
    vfs.close().unwrap();
}
