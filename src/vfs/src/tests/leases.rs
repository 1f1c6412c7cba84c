//! What clients of one door have for themselves.

use super::*;

const LONG: Duration = Duration::from_secs(600);

fn lease(space: &TestSpace, path: &str) -> Lease {
    Lease {
        token: format!("token of {path}"),
        path: at(path),
        is_deep: true,
        is_shared: false,
        protocol: Protocol::WebDav,
        holder: "ann".to_owned(),
        note: String::new(),
        expires_at: space.vfs.lease_expiry(LONG),
    }
}

fn dav() -> Caller {
    Caller { protocol: Protocol::WebDav, ..eve() }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Fault>) -> String {
    let fault = outcome.unwrap_err();
    assert_eq!(fault.kind(), Kind::Locked, "{fault}");
    fault.message().to_owned()
}

/// Shows: LOCK-1
#[test]
fn a_path_leased_by_one_protocol_is_protected_from_all_others() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    space.vfs.acquire_lease(lease(&space, "a.md")).unwrap().unwrap();
    for protocol in [Protocol::Http, Protocol::Mcp, Protocol::Fuse, Protocol::Nfs, Protocol::S3, Protocol::Cli] {
        let caller = Caller { protocol, ..eve() };
        let told = refused(space.vfs.apply(&caller, Change::put(at("a.md"), "two\n")));
        assert!(told.starts_with("`a.md` is locked by `ann` over webdav until 20"), "{told}");
        refused(space.vfs.apply(&caller, Change::remove(at("a.md"))));
        refused(space.vfs.apply(&caller, Change::rename(at("a.md"), at("b.md"))));
        refused(space.vfs.save(&caller, at("a.md"), "two\n".into(), Precondition::Any));
    }
    space.put("b.md", "one\n");
    refused(space.vfs.apply(&eve(), Change::rename(at("b.md"), at("a.md"))));
    space.vfs.apply(&dav(), Change::put(at("a.md"), "two\n")).unwrap();
    assert_eq!(space.text("a.md"), "two\n");
    assert!(space.vfs.end_lease(&at("a.md"), "token of a.md").unwrap());
    space.put("a.md", "three\n");
}

/// Shows: LOCK-5
#[test]
fn a_leased_file_is_read_only_through_a_mount() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let caller = Caller { protocol: Protocol::Fuse, ..eve() };
    let (node, _) = space.vfs.lookup_path(&caller, &at("a.md")).unwrap();
    let before = space.vfs.open_node(&caller, node, OpenMode { write: true, truncate: false }).unwrap();
    space.vfs.write_node(&caller, before, WriteAt::Offset(0), b"mine").unwrap();
    space.vfs.acquire_lease(lease(&space, "a.md")).unwrap().unwrap();
    refused(space.vfs.open_node(&caller, node, OpenMode { write: true, truncate: true }));
    refused(space.vfs.set_attributes(&caller, node, SetAttributes { size: Some(0), ..SetAttributes::default() }));
    // Whoever had begun to write is refused when it is saved, and finds the text again.
    refused(space.vfs.publish(&caller, node, Durability::Now));
    space.vfs.release(&caller, before).unwrap();
    assert_eq!(space.text("a.md"), "one\n");
    assert_eq!(space.text(".svc/rejected/a.md"), "mine");
}

#[test]
fn a_large_file_that_was_open_before_is_not_written_where_it_is() {
    let space = TestSpace::new();
    let caller = Caller { protocol: Protocol::Fuse, ..eve() };
    let name = svcfs_base::PathComponent::parse("a.bin").unwrap();
    let (node, _, handle) = space.vfs.create(&caller, NodeId::ROOT, &name, 0o644).unwrap();
    let end = svcfs_base::MAX_FILE_BYTES as u64;
    space.vfs.write_node(&caller, handle, WriteAt::Offset(end), b"end").unwrap();
    space.vfs.publish(&caller, node, Durability::Now).unwrap();
    space.vfs.write_node(&caller, handle, WriteAt::Offset(0), b"mine").unwrap();
    space.vfs.acquire_lease(lease(&space, "a.bin")).unwrap().unwrap();
    refused(space.vfs.write_node(&caller, handle, WriteAt::Offset(0), b"more"));
    let part = Allocation { offset: 0, length: 4, is_zeroed: true, grows: false };
    refused(space.vfs.allocate(&caller, handle, part));
    assert_eq!(space.vfs.read_node(node, 0, 4).unwrap(), "mine");
    assert!(space.vfs.end_lease(&at("a.bin"), "token of a.bin").unwrap());
    space.vfs.write_node(&caller, handle, WriteAt::Offset(0), b"more").unwrap();
    space.vfs.release(&caller, handle).unwrap();
    assert_eq!(space.vfs.read_node(node, 0, 4).unwrap(), "more");
}

/// Shows: LOCK-3
#[test]
fn a_lease_on_a_folder_is_deep_or_only_on_its_names() {
    let space = TestSpace::new();
    for path in ["deep/in/a.md", "names/a.md", "names/in/a.md"] {
        space.put(path, "one\n");
    }
    space.vfs.acquire_lease(lease(&space, "deep")).unwrap().unwrap();
    let shallow = Lease { is_deep: false, ..lease(&space, "names") };
    space.vfs.acquire_lease(shallow).unwrap().unwrap();
    let put = |path: &str| space.vfs.apply(&eve(), Change::put(at(path), "two\n"));
    for path in ["deep/in/a.md", "deep/in/new.md", "names/new.md"] {
        refused(put(path));
    }
    for path in ["names/a.md", "names/in/a.md", "names/in/new.md"] {
        put(path).unwrap();
    }
    refused(space.vfs.apply(&eve(), Change::MakeDir { path: at("names/folder") }));
    refused(space.vfs.apply(&eve(), Change::remove(at("names/a.md"))));
    refused(space.vfs.apply(&eve(), Change::rename(at("deep"), at("other"))));
    space.vfs.acquire_lease(lease(&space, "names/in/a.md")).unwrap().unwrap();
    refused(space.vfs.apply(&eve(), Change::rename(at("names/in"), at("elsewhere"))));
}

#[test]
fn one_has_it_or_several_who_share_it_until_it_ends() {
    let space = TestSpace::new();
    space.put("f/a.md", "one\n");
    let shared = |token: &str| Lease { is_shared: true, token: token.to_owned(), ..lease(&space, "f") };
    space.vfs.acquire_lease(shared("one")).unwrap().unwrap();
    space.vfs.acquire_lease(shared("two")).unwrap().unwrap();
    let others = space.vfs.acquire_lease(lease(&space, "f/a.md")).unwrap().unwrap_err();
    assert_eq!(others.len(), 2);
    assert_eq!(space.vfs.acquire_lease(lease(&space, "")).unwrap().unwrap_err().len(), 2);
    for token in ["one", "two"] {
        let past = space.vfs.lease_expiry(Duration::ZERO);
        assert!(space.vfs.renew_lease(&at("f/a.md"), token, past).unwrap().is_some());
    }
    space.put("f/a.md", "two\n");
    space.vfs.acquire_lease(lease(&space, "f/a.md")).unwrap().unwrap();
    assert!(space.vfs.renew_lease(&at("f/a.md"), "one", space.vfs.lease_expiry(LONG)).unwrap().is_none());
}

#[test]
fn leases_outlive_the_server() {
    let mut space = TestSpace::new();
    space.put("a.md", "one\n");
    space.vfs.acquire_lease(lease(&space, "a.md")).unwrap().unwrap();
    let over = Lease { expires_at: space.vfs.lease_expiry(Duration::ZERO), ..lease(&space, "b.md") };
    space.vfs.acquire_lease(over).unwrap().unwrap();
    space.reopen();
    refused(space.vfs.apply(&eve(), Change::put(at("a.md"), "two\n")));
    space.put("b.md", "two\n");
    assert!(space.vfs.end_lease(&at("a.md"), "token of a.md").unwrap());
    space.reopen();
    space.put("a.md", "two\n");
}

#[test]
fn no_client_has_everything_for_itself() {
    let space = TestSpace::new();
    for count in 0..4096 {
        space.vfs.acquire_lease(lease(&space, &format!("{count}.md"))).unwrap().unwrap();
    }
    let fault = space.vfs.acquire_lease(lease(&space, "more.md")).unwrap_err();
    assert!(fault.message().starts_with("4096 files are locked"), "{fault}");
    let long = Lease { note: "x".repeat(5000), ..lease(&space, "long.md") };
    assert_eq!(space.vfs.acquire_lease(long).unwrap_err().kind(), Kind::TooLarge);
}

#[test]
fn a_lease_waits_for_writers_of_its_path_and_blocks_no_others() {
    let space = TestSpace::new();
    let (given, all) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let writing = space.vfs.block_new_leases(&[&at("f/a.md"), &at("g/b.md")]);
        let begin = |path: &'static str| {
            let (space, given) = (&space, given.clone());
            scope.spawn(move || {
                space.vfs.acquire_lease(Lease { is_shared: true, ..lease(space, path) }).unwrap().unwrap();
                given.send(path).unwrap();
            });
        };
        begin("f/c.md");
        assert_eq!(all.recv_timeout(Duration::from_secs(20)), Ok("f/c.md"), "nobody writes there");
        ["f/a.md", "g", "g/b.md/c"].into_iter().for_each(begin);
        while space.vfs.core.leases.barrier_dropped.notify_all() < 3 {
            assert!(all.try_recv().is_err(), "it is written there");
            std::thread::yield_now();
        }
        drop(space.vfs.block_new_leases(&[&at("f/a.md"), &at("h.md")]));
        drop(writing);
        let mut given: Vec<_> = (0..3).map(|_| all.recv().unwrap()).collect();
        given.sort_unstable();
        assert_eq!(given, ["f/a.md", "g", "g/b.md/c"]);
    });
}
