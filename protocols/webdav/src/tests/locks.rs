//! Locks, among clients and before other doors.

use dav_server::davpath::DavPath;
use dav_server::fs::{DavProp, GuardedFileSystem};
use dav_server::ls::DavLockSystem;
use svcfs_base::{Actor, Caller, Change, Kind};

use super::*;
use crate::file_system::WebdavFileSystem;
use crate::locks::WebdavLocks;
use crate::proppatch::{PropertyUpdate, WindowsProperties};

const EXCLUSIVE: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype>\
                         <owner><href>mailto:ann@example.org</href></owner></lockinfo>";

impl Served {
    /// Locks something; the token, between angle brackets.
    #[track_caller]
    fn lock(&self, target: &str, headers: &[(&str, &str)]) -> String {
        let reply = self.send("LOCK", target, headers, EXCLUSIVE);
        assert!(matches!(reply.status, 200 | 201), "{} {}", reply.status, reply.text());
        reply.header("lock-token").to_owned()
    }

    /// What HTTP is told that puts a page.
    fn put_over_http(&self, path: &str) -> Result<(), Kind> {
        let caller = Caller::new(Protocol::Http).with_actor(Actor::new("eve"));
        let change = Change::put(TreePath::parse(path).unwrap(), "# http\n");
        self.server.primary().vfs.apply(&caller, change).map(drop).map_err(|fault| fault.kind())
    }
}

/// Shows: LOCK-1
#[test]
fn a_lock_keeps_others_out_until_it_is_given_back() {
    let served = Served::new();
    let lock = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    let reply = served.send("LOCK", "/new.md", &[("timeout", "Second-60")], lock);
    assert_eq!((reply.status, served.text("new.md").unwrap().as_str()), (201, ""));
    let token = reply.header("lock-token").to_owned();
    assert_eq!(served.send("PUT", "/new.md", &[], "# other\n").status, 423);
    let held = format!("({token})");
    assert_eq!(served.send("PUT", "/new.md", &[("if", &held)], "# mine\n").status, 204);
    assert_eq!(served.send("UNLOCK", "/new.md", &[("lock-token", &token)], "").status, 204);
    served.put("/new.md", "# other\n");
}

/// Shows: LOCK-1
#[test]
fn a_lock_binds_other_protocols_survives_restart_and_is_listed() {
    let served = Served::new();
    served.put("/odd%20n%C3%A4me.md", "# one\n");
    let token = served.lock("/odd%20n%C3%A4me.md", &[("authorization", "Basic YW5uOg==")]);
    assert_eq!(served.put_over_http("odd näme.md"), Err(Kind::Locked));
    let served = served.again();
    assert_eq!(served.put_over_http("odd näme.md"), Err(Kind::Locked));
    let told = served.send("PROPFIND", "/~default/odd%20n%C3%A4me.md", &[("depth", "0")], "").text();
    let bare = token.trim_matches(['<', '>']);
    for part in [bare, "mailto:ann@example.org", "/~default/odd%20n%C3%A4me.md</D:href></D:lockroot>", "Second-"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let ann = ("authorization", "Basic YW5uOg==");
    let held = format!("({token})");
    assert_eq!(served.send("PUT", "/odd%20n%C3%A4me.md", &[("if", &held)], "# eve\n").status, 423, "it is not theirs");
    assert_eq!(served.send("PUT", "/odd%20n%C3%A4me.md", &[ann, ("if", &held)], "# two\n").status, 204);
    let renewed = served.send("LOCK", "/odd%20n%C3%A4me.md", &[ann, ("if", &held), ("timeout", "Infinite")], "");
    assert!(renewed.status == 200 && renewed.text().contains("Second-"), "no lock is for ever: {}", renewed.text());
    let unlock = |headers: &[(&str, &str)]| served.send("UNLOCK", "/odd%20n%C3%A4me.md", headers, "").status;
    assert_eq!(unlock(&[ann, ("lock-token", &token)]), 204);
    assert_eq!(served.put_over_http("odd näme.md"), Ok(()));
}

#[test]
fn a_lock_of_a_folder_is_for_all_in_it_and_goes_with_it() {
    let served = Served::new();
    served.send("MKCOL", "/folder", &[], "");
    served.put("/folder/a.md", "# one\n");
    let token = served.lock("/folder/", &[("depth", "infinity")]);
    assert_eq!(served.send("PUT", "/folder/a.md", &[], "# other\n").status, 423);
    assert_eq!(served.put_over_http("folder/new.md"), Err(Kind::Locked));
    let held = format!("<http://{}/folder/> ({token})", served.address);
    assert_eq!(served.send("PUT", "/folder/a.md", &[("if", &held)], "# mine\n").status, 204);
    assert_eq!(served.send("LOCK", "/folder/a.md", &[], EXCLUSIVE).status, 423);
    let target = format!("http://{}/moved/", served.address);
    assert_eq!(served.send("MOVE", "/folder/", &[("if", &held), ("destination", &target)], "").status, 201);
    assert_eq!(served.put_over_http("moved/a.md"), Ok(()), "a lock stays with an address (RFC 4918 7.6)");
}

/// Shows: LOCK-1
#[test]
fn what_was_locked_is_not_written_under_a_lock_that_has_ended() {
    let served = Served::new();
    served.put("/a.md", "# one\n");
    let token = served.lock("/a.md", &[]);
    assert_eq!(served.send("UNLOCK", "/a.md", &[("lock-token", &token)], "").status, 204);
    assert_eq!(served.send("UNLOCK", "/a.md", &[("lock-token", &token)], "").status, 409);
    served.put("/a.md", "# somebody else\n");
    let held = format!("({token})");
    assert_eq!(served.send("PUT", "/a.md", &[("if", &held)], "# mine\n").status, 412);
    let long = EXCLUSIVE.replace("mailto:", &"x".repeat(5000));
    assert_eq!(served.send("LOCK", "/a.md", &[], long).status, 413);
}

#[test]
fn a_lock_is_released_and_refreshed_only_by_its_owner() {
    let served = Served::new();
    served.put("/a.md", "# one\n");
    let (ann, eve) = (("authorization", "Basic YW5uOg=="), ("authorization", "Basic ZXZlOg=="));
    let token = served.lock("/a.md", &[ann]);
    let held = format!("({token})");
    assert_eq!(served.send("UNLOCK", "/a.md", &[eve, ("lock-token", &token)], "").status, 403);
    assert_eq!(served.send("UNLOCK", "/a.md", &[("lock-token", &token)], "").status, 403);
    assert_eq!(served.send("LOCK", "/a.md", &[eve, ("if", &held), ("timeout", "Second-1")], "").status, 412);
    assert_eq!(served.put_over_http("a.md"), Err(Kind::Locked));
    assert_eq!(served.send("LOCK", "/a.md", &[ann, ("if", &held)], "").status, 200);
    assert_eq!(served.send("UNLOCK", "/a.md", &[ann, ("lock-token", &token)], "").status, 204);
    assert_eq!(served.put_over_http("a.md"), Ok(()));
}

#[test]
fn a_depth_zero_folder_lock_binds_names_and_not_file_contents() {
    let served = Served::new();
    served.send("MKCOL", "/docs", &[], "");
    served.put("/docs/a.md", "# A\n");
    served.put("/b.md", "# B\n");
    let ann = ("authorization", "Basic YW5uOg==");
    let token = served.lock("/docs", &[ann, ("depth", "0")]);
    let to = ("destination", "/docs/c.md");
    let away = ("destination", "/c.md");
    for (method, target, headers) in [
        ("PUT", "/docs/new.md", &[][..]),
        ("MKCOL", "/docs/new", &[]),
        ("DELETE", "/docs/a.md", &[]),
        ("LOCK", "/docs/new.md", &[]),
        ("MOVE", "/docs/a.md", &[away]),
        ("MOVE", "/b.md", &[to]),
        ("COPY", "/b.md", &[to]),
    ] {
        let body = if method == "LOCK" { EXCLUSIVE } else { "" };
        assert_eq!(served.send(method, target, headers, body).status, 423, "{method} {target}");
    }
    assert_eq!(served.put_over_http("docs/new.md"), Err(Kind::Locked), "as at every other door");
    assert_eq!(served.send("PUT", "/docs/a.md", &[], "# other\n").status, 204, "its content is nobody's");
    assert_eq!(served.send("COPY", "/docs/a.md", &[away], "").status, 201);
    let held = format!("</docs/> ({token})");
    assert_eq!(served.send("PUT", "/docs/new.md", &[ann, ("if", &held)], "# mine\n").status, 201);
    assert_eq!(served.send("DELETE", "/docs/new.md", &[ann, ("if", &held)], "").status, 204);
}

#[test]
fn a_lock_conflict_names_the_lock_and_its_owner() {
    let served = Served::new();
    served.send("MKCOL", "/a%20b", &[], "");
    served.put("/a%20b/c.md", "# C\n");
    served.put("/d.md", "# D\n");
    let ann = ("authorization", "Basic YW5uOg==");
    served.lock("/~default/a%20b/", &[ann, ("depth", "infinity")]);
    served.lock("/d.md", &[ann]);
    let to = |to: &'static str| ("destination", to);
    let set = "<propertyupdate xmlns='DAV:'><set><prop><x xmlns='urn:x'/></prop></set></propertyupdate>";
    for (method, target, headers, body, condition, href) in [
        ("PUT", "/a%20b/c.md", vec![], "# other\n", "lock-token-submitted", "/a%20b"),
        ("PUT", "/~default/a%20b/c.md", vec![], "# other\n", "lock-token-submitted", "/~default/a%20b"),
        ("DELETE", "/a%20b/c.md", vec![], "", "lock-token-submitted", "/a%20b"),
        ("DELETE", "/a%20b/", vec![], "", "lock-token-submitted", "/a%20b"),
        ("MKCOL", "/a%20b/e", vec![], "", "lock-token-submitted", "/a%20b"),
        ("PROPPATCH", "/d.md", vec![], set, "lock-token-submitted", "/d.md"),
        ("MOVE", "/d.md", vec![to("/e.md")], "", "lock-token-submitted", "/d.md"),
        ("COPY", "/a%20b/c.md", vec![to("/d.md")], "", "lock-token-submitted", "/d.md"),
        ("LOCK", "/a%20b/c.md", vec![], EXCLUSIVE, "no-conflicting-lock", "/a%20b"),
        ("LOCK", "/", vec![("depth", "infinity")], EXCLUSIVE, "no-conflicting-lock", "/"),
    ] {
        let told = served.send(method, target, &headers, body);
        let is_xml = told.header("content-type").starts_with("application/xml");
        assert_eq!((told.status, is_xml), (423, true), "{method} {target}: {}", told.text());
        let error = xmltree::Element::parse(&told.body[..]).unwrap();
        assert_eq!((error.name.as_str(), error.namespace.as_deref()), ("error", Some("DAV:")));
        let named = error.get_child(condition).and_then(|condition| condition.get_child("href"));
        let named = named.and_then(|named| named.get_text()).unwrap_or_default().into_owned();
        let is_there = if href == "/" { named == "/a%20b" || named == "/d.md" } else { named == href };
        assert!(is_there, "{method} {target}: {}", told.text());
        assert!(told.text().contains("is locked by `ann` until"), "{}", told.text());
    }
    assert_eq!(served.text("a b/c.md").unwrap(), "# C\n");
}

/// Shows: LOCK-4
#[test]
fn a_lock_taken_during_an_upload_blocks_that_upload() {
    let served = Served::new();
    served.put("/a.md", "# one\n");
    let ann = ("authorization", "Basic YW5uOg==");
    let put = |target: &str, headers: &str, meanwhile: &dyn Fn()| {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let head = "Host: localhost\r\nContent-Length: 6\r\nExpect: 100-continue\r\nConnection: close";
        write!(stream, "PUT {target} HTTP/1.1\r\n{head}\r\n{headers}\r\n").unwrap();
        // Whoever is told to go on has met no lock.
        let mut told = [0; 25];
        stream.read_exact(&mut told).unwrap();
        assert!(told.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&told));
        meanwhile();
        stream.write_all(b"# two\n").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    };
    let lock = || drop(served.lock("/a.md", &[ann]));
    let told = put("/a.md", "", &lock);
    assert!(told.starts_with("HTTP/1.1 423") && told.contains("is locked by `ann`"), "{told}");
    assert_eq!(served.text("a.md").unwrap(), "# one\n");
    // Whose lock it is goes on, and so does whoever makes what nobody has locked.
    served.put("/b.md", "# one\n");
    let token = served.lock("/b.md", &[ann]);
    let own = format!("Authorization: Basic YW5uOg==\r\nIf: ({token})\r\n");
    assert!(put("/b.md", &own, &|| {}).starts_with("HTTP/1.1 204"));
    assert!(put("/c.md", "", &lock_of(&served, "/d.md")).starts_with("HTTP/1.1 201"));
    served.send("MKCOL", "/docs", &[], "");
    let told = put("/docs/new.md", "", &|| drop(served.lock("/docs", &[ann, ("depth", "0")])));
    assert!(told.starts_with("HTTP/1.1 423"), "{told}");
    assert_eq!(served.text("docs/new.md"), None);
}

fn lock_of<'a>(served: &'a Served, target: &'a str) -> impl Fn() + 'a {
    move || drop(served.lock(target, &[]))
}

/// Shows: LOCK-4
#[test]
fn no_lock_is_granted_between_the_lock_check_and_the_write() {
    let served = Served::new();
    served.put("/a.md", "# one\n");
    let path = TreePath::parse("a.md").unwrap();
    let vfs = &served.server.primary().vfs;
    let eve = served.asked("PUT", "/a.md");
    let writing = WebdavLocks::recheck(&eve, &[&path]).unwrap();
    let lock = std::thread::scope(|scope| {
        let lock = scope.spawn(|| served.lock("/a.md", &[("authorization", "Basic YW5uOg==")]));
        // Nobody writes there.
        served.lock("/b.md", &[]);
        assert!(vfs.leases_at(&path).is_empty(), "it is written under a lock that was taken since");
        vfs.apply(eve.caller(), Change::put(path.clone(), "# two\n")).unwrap();
        drop(writing);
        lock.join().unwrap()
    });
    assert_eq!(served.text("a.md").unwrap(), "# two\n");
    assert_eq!(vfs.leases_at(&path).len(), 1, "{lock}");
    let refused = WebdavLocks::recheck(&eve, &[&path]).map(drop);
    assert_eq!(refused.unwrap_err().kind(), Kind::Locked);
}

/// Shows: LOCK-4
#[test]
fn a_lock_taken_after_the_first_check_blocks_remove_and_rename() {
    let served = Served::new();
    served.send("MKCOL", "/docs", &[], "");
    served.put("/docs/a.md", "# one\n");
    let [docs, page, new, other] =
        ["/docs", "/docs/a.md", "/docs/new", "/other.md"].map(|path| DavPath::new(path).unwrap());
    let [delete, folder, rename, make] =
        [("DELETE", "/docs/a.md"), ("DELETE", "/docs"), ("MOVE", "/docs/a.md"), ("MKCOL", "/docs/new")]
            .map(|(method, target)| served.asked(method, target));
    served.lock("/docs/a.md", &[]);
    served.lock("/docs", &[("depth", "0")]);
    let run = |outcome| served.runtime.block_on(outcome);
    assert!(run(WebdavFileSystem.remove_file(&page, &delete)).is_err());
    assert!(run(WebdavFileSystem.remove_dir(&docs, &folder)).is_err());
    assert!(run(WebdavFileSystem.rename(&page, &other, &rename)).is_err());
    assert!(run(WebdavFileSystem.create_dir(&new, &make)).is_err());
    for asked in [delete, folder, rename, make] {
        assert_eq!(asked.take_fault().unwrap().kind(), Kind::Locked);
    }
    assert_eq!(served.text("docs/a.md").unwrap(), "# one\n");
}

/// Shows: LOCK-4
#[test]
fn a_lock_taken_after_the_first_check_blocks_copy_and_proppatch() {
    let served = Served::new();
    served.send("MKCOL", "/docs", &[], "");
    served.put("/docs/a.md", "# one\n");
    served.put("/b.md", "# two\n");
    let [page, other, folder] = ["/docs/a.md", "/b.md", "/docs"].map(|path| DavPath::new(path).unwrap());
    let [over, into, patch, times, above] = [
        ("COPY", "/b.md"),
        ("COPY", "/docs"),
        ("PROPPATCH", "/docs/a.md"),
        ("PROPPATCH", "/docs/a.md"),
        ("PROPPATCH", "/docs"),
    ]
    .map(|(method, target)| served.asked(method, target));
    served.lock("/docs/a.md", &[]);
    let run = |outcome| served.runtime.block_on(outcome);
    assert!(run(WebdavFileSystem.copy(&other, &page, &over)).is_err());
    over.mark_replaced(TreePath::parse("docs").unwrap());
    assert!(
        run(WebdavFileSystem.copy(&other, &folder, &over)).is_err(),
        "what is locked lies in what would be replaced"
    );
    assert_eq!(served.text("docs/a.md").unwrap(), "# one\n");
    run(WebdavFileSystem.copy(&folder, &DavPath::new("/copy").unwrap(), &into)).unwrap();
    let property =
        || DavProp { name: "x".into(), prefix: None, namespace: Some("urn:x".into()), xml: Some("<x/>".into()) };
    let set =
        |path, asked| served.runtime.block_on(WebdavFileSystem.patch_props(path, vec![(true, property())], asked));
    assert!(set(&page, &patch).is_err());
    assert!(set(&folder, &above).is_ok(), "of a folder, which is not what is in it");
    let sent = "<propertyupdate xmlns='DAV:'><set><prop><Win32LastModifiedTime xmlns='urn:schemas-microsoft-com:'>\
                Sun, 06 Nov 1994 08:49:37 GMT</Win32LastModifiedTime></prop></set></propertyupdate>";
    let done = "<multistatus xmlns='DAV:'><response><propstat><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>";
    let said = WindowsProperties::of(&PropertyUpdate::all(sent.as_bytes())).unwrap().unwrap();
    let response = http::Response::builder()
        .status(207)
        .body(Full::from(done).map_err(|never| match never {}).boxed_unsync())
        .unwrap();
    let kept = served.runtime.block_on(said.apply_after((&times, TreePath::parse("docs/a.md").unwrap()), response));
    assert_eq!(kept.unwrap_err().kind(), Kind::Locked);
    for asked in [over, patch] {
        assert_eq!(asked.take_fault().unwrap().kind(), Kind::Locked);
    }
}

#[test]
fn windows_times_are_set_atomically_and_blocked_by_a_new_lock() {
    let served = Served::new();
    served.put("/a.md", "# one\n");
    let (path, asked) = (DavPath::new("/a.md").unwrap(), served.asked("PROPPATCH", "/a.md"));
    let sent = "<propertyupdate xmlns='DAV:'><set><prop><Win32LastModifiedTime xmlns='urn:schemas-microsoft-com:'>\
                Sun, 06 Nov 1994 08:49:37 GMT</Win32LastModifiedTime></prop></set></propertyupdate>";
    asked.set_windows_properties(WindowsProperties::of(&PropertyUpdate::all(sent.as_bytes())).unwrap());
    let property =
        DavProp { name: "x".into(), prefix: None, namespace: Some("urn:x".into()), xml: Some("<x/>".into()) };
    let set = served.runtime.block_on(WebdavFileSystem.patch_props(&path, vec![(true, property)], &asked)).unwrap();
    assert_eq!(set.len(), 1, "what was asked for here");
    served.lock("/a.md", &[]);
    let told = served.send("PROPFIND", "/a.md", &[("depth", "0")], "").text();
    assert!(told.contains("Sun, 06 Nov 1994 08:49:37 GMT") && asked.take_windows_properties().is_none(), "{told}");
}

/// Shows: LOCK-6
#[test]
fn a_lock_survives_a_copy_or_move_onto_the_locked_file() {
    let served = Served::new();
    served.put("/good.txt", "# good\n");
    served.put("/broken.txt", "---\na: [\n---\n");
    let path = TreePath::parse("page.md").unwrap();
    let ann = ("authorization", "Basic YW5uOg==");
    for method in ["COPY", "MOVE"] {
        served.put("/page.md", "# two\n");
        let token = served.lock("/page.md", &[ann]);
        let held = format!("</page.md> ({token})");
        for (from, status) in [("/broken.txt", 422), ("/good.txt", 204)] {
            let reply = served.send(method, from, &[ann, ("destination", "/page.md"), ("if", &held)], "");
            assert_eq!(reply.status, status, "{method} {from}: {}", reply.text());
            assert_eq!(served.server.primary().vfs.leases_at(&path).len(), 1, "{method} {from}");
        }
        assert_eq!(served.send("PUT", "/page.md", &[], "# other\n").status, 423, "{method}");
        assert_eq!(served.put_over_http("page.md"), Err(Kind::Locked), "{method}");
        assert_eq!(served.send("LOCK", "/page.md", &[ann, ("if", &held)], "").status, 200, "{method}: renewed");
        assert_eq!(served.send("PUT", "/page.md", &[ann, ("if", &held)], "# mine\n").status, 204, "{method}");
        let unlocked = served.send("UNLOCK", "/page.md", &[ann, ("lock-token", &token)], "");
        assert_eq!(unlocked.status, 204, "{method}");
    }
}

/// Shows: LOCK-6
#[test]
fn locks_below_a_replaced_folder_survive_on_existing_resources() {
    let served = Served::new();
    let holds = |path: &str| !served.server.primary().vfs.leases_at(&TreePath::parse(path).unwrap()).is_empty();
    for method in ["COPY", "MOVE"] {
        for folder in ["/docs", "/new"] {
            served.send("MKCOL", folder, &[], "");
        }
        for page in ["/docs/both.md", "/docs/old.md", "/new/both.md"] {
            served.put(page, "# page\n");
        }
        let tokens = ["/docs/both.md", "/docs/old.md"].map(|page| served.lock(page, &[]));
        let held = format!("</docs/both.md> ({}) </docs/old.md> ({})", tokens[0], tokens[1]);
        let reply = served.send(method, "/new", &[("destination", "/docs"), ("if", &held)], "");
        assert_eq!(reply.status, 204, "{method}: {}", reply.text());
        assert_eq!((holds("docs/both.md"), holds("docs/old.md")), (true, false), "{method}");
        let deleted = served.send("DELETE", "/docs", &[("if", &format!("</docs/both.md> ({})", tokens[0]))], "");
        assert_eq!(deleted.status, 204, "{method}: {}", deleted.text());
        assert!(!holds("docs/both.md"), "{method}: a lock of what is removed ends");
    }
}

/// Shows: LOCK-6
#[test]
fn a_lock_taken_just_before_a_replacement_survives_it() {
    let served = Served::new();
    served.put("/a.md", "# one\n");
    let path = TreePath::parse("a.md").unwrap();
    let asked = served.asked("COPY", "/b.md");
    served.lock("/a.md", &[("authorization", "Basic YW5uOg==")]);
    let locks = WebdavLocks { context: asked, prefix: String::new() };
    served.runtime.block_on(locks.delete(&DavPath::new("/a.md").unwrap())).unwrap();
    assert_eq!(served.server.primary().vfs.leases_at(&path).len(), 1);
}
