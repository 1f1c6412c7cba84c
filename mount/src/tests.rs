#![expect(clippy::disallowed_methods, reason = "a person's git holds a lock")]
use std::path::Path;
use std::sync::Arc;

use fuser::{FopenFlags, OpenFlags, WriteFlags};
use rustix::fs::OFlags;
use svcfs_base::{Actor, Caller, Change, ChangeSet, PathComponent, Protocol, Seq, SystemClock, TreePath};
use svcfs_vfs::{FeedEvent, HandleId, NodeId, OpenMode, Vfs, WriteAt};

use crate::actors::{ActorResolver, AttributionPolicy, actor_in};
use crate::convert::{open_mode, write_at};
use crate::follower::{CacheInvalidation, FollowerProgress, invalidations};
use crate::fuse_server::FuseServer;
use crate::mountpoint::parse_mount_line;
use crate::write_handles::WriteHandle;

#[test]
fn the_mount_table_is_read_as_the_kernel_writes_it() {
    let ours = r"42 27 0:39 / /srv/a\040b\134c rw,nosuid,nodev,relatime shared:7 - fuse svcfs rw,user_id=0";
    assert_eq!(parse_mount_line(ours, Path::new(r"/srv/a b\c")), Some(Some(39)));
    assert_eq!(parse_mount_line(&ours.replace("- fuse ", "- fuse.svcfs "), Path::new(r"/srv/a b\c")), Some(Some(39)));
    assert_eq!(
        parse_mount_line(&ours.replace("- fuse svcfs", "- fuse.svcfs /srv/a"), Path::new(r"/srv/a b\c")),
        Some(Some(39))
    );
    assert_eq!(
        parse_mount_line(&ours.replace("- fuse svcfs", "- fuse.sshfs svcfs"), Path::new(r"/srv/a b\c")),
        Some(None)
    );
    assert_eq!(parse_mount_line(&ours.replace("svcfs", "sshfs"), Path::new(r"/srv/a b\c")), Some(None));
    assert_eq!(parse_mount_line(&ours.replace("- fuse", "- ext4"), Path::new(r"/srv/a b\c")), Some(None));
    for (line, path) in [(ours, "/srv"), ("", "/"), ("42 27 - fuse svcfs", "/"), ("- -  - ", "")] {
        assert_eq!(parse_mount_line(line, Path::new(path)), None, "{line:?}");
    }
}

#[test]
fn a_user_without_a_name_is_called_by_number() {
    let actors = ActorResolver::new(AttributionPolicy::default());
    for _ in 0..2 {
        assert_eq!(actors.name(0).as_str(), "root");
        assert_eq!(actors.name(3_999_999_999).as_str(), "uid-3999999999");
    }
}

#[test]
fn the_first_svc_actor_variable_sets_the_author_of_a_process() {
    for (environment, expected) in [
        (&b"HOME=/\0SVC_ACTOR=agent:x\0SVC_ACTOR=agent:y\0"[..], Some("agent:x")),
        (b"SVC_ACTOR=cut in the middle", Some("cut in the middle")),
        (b"SVC_ACTOR=Eve <eve@example.org>\nroot\0", Some("Eve eve@example.orgroot")),
        (b"SVC_ACTOR=\xff\0", Some("\u{fffd}")),
        (b"NOT_SVC_ACTOR=agent:x\0SVC_ACTORS=agent:x\0", None),
        (b"SVC_ACTOR=\0SVC_ACTOR=agent:y\0", None),
        (b"SVC_ACTOR= \t\0", None),
        (b"", None),
    ] {
        let said = actor_in(environment);
        assert_eq!(said.as_ref().map(Actor::as_str), expected, "{}", environment.escape_ascii());
    }
}

#[test]
fn a_program_whose_memory_is_locked_is_not_waited_for() {
    let actors = ActorResolver::new(AttributionPolicy::default());
    let _guard = actors.read_lock.lock();
    assert_eq!(actors.author(3_999_999_999, std::process::id()).as_str(), "uid-3999999999");
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
    assert_eq!(write_at(5, flags(OFlags::RDWR | OFlags::APPEND), mapped), WriteAt::Mapped(5));
}

fn options() -> crate::MountOptions {
    crate::MountOptions::new(Arc::new(SystemClock), 1)
}

fn space(root: &Path) -> Arc<Vfs> {
    Vfs::open(svcfs_vfs::VfsOptions {
        root: root.to_owned(),
        clock: Arc::new(SystemClock),
        gates: Vec::new(),
        scratch_patterns: Vec::new(),
        hidden_files: svcfs_base::HiddenFiles::default(),
        commit_policy: svcfs_vfs::CommitPolicy::PerSet,
        strategy: svcfs_vfs::VersionStrategy::Git,
        watch: false,
        progress: None,
    })
    .unwrap()
}

#[test]
fn an_open_while_the_follower_lags_bypasses_the_page_cache() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = space(folder.path());
    let before = FollowerProgress::starting_at(vfs.feed().last_seq());
    let change = Change::put(TreePath::parse("a.md").unwrap(), "text");
    vfs.apply(&Caller::new(Protocol::Http), change).unwrap();
    let after = FollowerProgress::starting_at(vfs.feed().last_seq());
    assert!(before.position() < after.position() && after.position() > Seq(0));
    let flags = |progress: &Arc<FollowerProgress>, writer| {
        let protocol = FuseServer::new(vfs.clone(), &options(), progress.clone());
        protocol.register_open(HandleId(1), writer, FopenFlags::FOPEN_DIRECT_IO).1
    };
    assert_eq!(flags(&before, None), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
    assert_eq!(flags(&after, None), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    assert_eq!(flags(&after, Some(WriteHandle::new(NodeId(2), Actor::new("ann")))), FopenFlags::FOPEN_KEEP_CACHE);
    vfs.close().unwrap();
}

/// Shows: VIS-2
#[test]
fn an_open_with_a_pending_invalidation_bypasses_the_page_cache() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = space(folder.path());
    let caller = Caller::new(Protocol::Http);
    let page = TreePath::parse("a.md").unwrap();
    vfs.apply(&caller, Change::put(page.clone(), "old")).unwrap();
    let flags = || {
        let progress = FollowerProgress::starting_at(vfs.feed().last_seq());
        let protocol = FuseServer::new(vfs.clone(), &options(), progress);
        let (node, _) = vfs.lookup(&caller, NodeId::ROOT, &PathComponent::parse("a.md").unwrap()).unwrap();
        let handle = vfs.open_node(&caller, node, OpenMode::default()).unwrap();
        protocol.register_open(handle, None, FopenFlags::FOPEN_DIRECT_IO).1
    };
    assert_eq!(flags(), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    // Whoever holds the branch keeps the change from being committed and announced.
    let lock = folder.path().join(".git/refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    vfs.apply(&caller, ChangeSet::from(Change::put(page.clone(), "new")).soon()).unwrap();
    assert_eq!(&vfs.read(Protocol::Http, &page).unwrap().content[..], b"new", "other doors show it");
    assert_eq!(flags(), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
    std::fs::remove_file(&lock).unwrap();
    vfs.wait_applied().unwrap();
    assert_eq!(flags(), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
    vfs.close().unwrap();
}

#[test]
fn external_creation_invalidates_a_cached_directory_listing() {
    let folder = tempfile::tempdir().unwrap();
    let vfs = space(folder.path());
    let caller = Caller::new(Protocol::Http);
    let at = |path: &str| TreePath::parse(path).unwrap();
    let traces_of = |change: Change| {
        let before = vfs.feed().last_seq();
        vfs.apply(&caller, change).unwrap();
        // Somebody is faster than we are.
        for path in ["", "d", "d/new"] {
            let _ = vfs.lookup_path(&caller, &at(path));
        }
        let events = vfs.feed().events_after(before, 8).unwrap();
        let of_event = |event: &FeedEvent| {
            event.changes.iter().map(|change| invalidations(&vfs, event.time.into(), change)).collect()
        };
        events.iter().flat_map(|event| -> Vec<Vec<CacheInvalidation>> { of_event(event) }).flatten().collect::<Vec<_>>()
    };
    vfs.apply(&caller, Change::put(at("d/old.md"), "old\n")).unwrap();
    let made = traces_of(Change::put(at("d/new/n.md"), "new\n"));
    assert!(made.contains(&CacheInvalidation::Content(at("d"))), "{made:?}");
    assert!(
        !made.contains(&CacheInvalidation::Name(at(""), "d".to_owned())),
        "it stands, and may be somebody's working directory"
    );
    let moved = traces_of(Change::rename(at("d/new"), at("elsewhere")));
    assert!(moved.contains(&CacheInvalidation::Name(at("d"), "new".to_owned())), "{moved:?}");
    assert!(moved.contains(&CacheInvalidation::Content(at("d"))), "{moved:?}");
    assert!(moved.contains(&CacheInvalidation::Content(at(""))), "{moved:?}");
    vfs.close().unwrap();
}
