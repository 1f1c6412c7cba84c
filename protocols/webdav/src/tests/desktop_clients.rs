//! What macOS Finder and Windows Explorer ask of a server, in the order in which they do.
//!
//! Written down from what is publicly known of them, not recorded: neither system is here to be
//! asked. What is looked at is that each step is answered as they need it to go on, and what
//! history has of it in the end.

use super::*;

const LOCK: &str = "<?xml version=\"1.0\" encoding=\"utf-8\" ?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
                    <D:locktype><D:write/></D:locktype><D:owner><D:href>DESKTOP\\ann</D:href></D:owner></D:lockinfo>";

impl Served {
    #[track_caller]
    fn step(&self, status: u16, method: &str, target: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        let reply = self.send(method, target, headers, body);
        assert_eq!(reply.status, status, "{method} {target}: {}", reply.text());
        reply
    }
}

#[test]
fn explorer_creates_a_file_sets_its_time_and_locks_it() {
    let served = Served::new();
    let agent = ("user-agent", "Microsoft-WebDAV-MiniRedir/10.0.22631");
    let options = served.step(200, "OPTIONS", "/", &[agent, ("translate", "f")], "");
    let classes: Vec<&str> = options.header("dav").split(',').map(str::trim).collect();
    assert!(["1", "2", "3"].iter().all(|class| classes.contains(class)), "{classes:?}");
    // Without it Explorer takes a server for one of its own kind, and speaks FrontPage.
    assert_eq!(options.header("ms-author-via"), "DAV");
    served.step(207, "PROPFIND", "/", &[agent, ("depth", "0"), ("translate", "f")], "");
    let listed = served.step(207, "PROPFIND", "/", &[agent, ("depth", "1"), ("translate", "f")], "").text();
    assert!(listed.contains("<D:collection"), "{listed}");
    served.step(404, "PROPFIND", "/desktop.ini", &[agent, ("depth", "0")], "");
    served.step(404, "PROPFIND", "/New%20Text%20Document.txt", &[agent, ("depth", "0")], "");
    served.step(201, "PUT", "/New%20Text%20Document.txt", &[agent, ("translate", "f")], "");
    let locked = served.step(200, "LOCK", "/New%20Text%20Document.txt", &[agent, ("timeout", "Second-3600")], LOCK);
    let held = format!("({})", locked.header("lock-token"));
    let times = "<?xml version=\"1.0\" encoding=\"utf-8\" ?><D:propertyupdate xmlns:D=\"DAV:\" \
                 xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop>\
                 <Z:Win32CreationTime>Mon, 23 Nov 2026 03:00:00 GMT</Z:Win32CreationTime>\
                 <Z:Win32LastAccessTime>Mon, 23 Nov 2026 03:00:00 GMT</Z:Win32LastAccessTime>\
                 <Z:Win32LastModifiedTime>Mon, 23 Nov 2026 03:00:00 GMT</Z:Win32LastModifiedTime>\
                 <Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>";
    let told = served.step(207, "PROPPATCH", "/New%20Text%20Document.txt", &[agent, ("if", &held)], times).text();
    assert!(told.contains("200 OK") && !told.contains("403"), "{told}");
    served.step(204, "PUT", "/New%20Text%20Document.txt", &[agent, ("if", &held), ("translate", "f")], "words\r\n");
    let head = served.step(200, "HEAD", "/New%20Text%20Document.txt", &[agent, ("translate", "f")], "");
    assert_eq!(head.header("content-length"), "7");
    let token = locked.header("lock-token").to_owned();
    served.step(204, "UNLOCK", "/New%20Text%20Document.txt", &[agent, ("lock-token", &token)], "");
    let target = format!("http://{}/caf%c3%a9%20%26%20co.txt", served.address);
    let moved = [agent, ("destination", target.as_str()), ("overwrite", "F")];
    served.step(201, "MOVE", "/New%20Text%20Document.txt", &moved, "");
    assert_eq!(served.text("café & co.txt").as_deref(), Some("words\r\n"));
    served.step(412, "MOVE", "/caf%C3%A9%20&%20co.txt", &moved, "");
    served.step(204, "DELETE", "/caf%C3%A9%20&%20co.txt", &[agent], "");
}

#[test]
fn finder_reads_quota_skips_versions_and_uploads_without_length() {
    let served = Served::new();
    let agent = ("user-agent", "WebDAVFS/3.0.0 (03008000) Darwin/23.0.0 (x86_64)");
    let options = served.step(200, "OPTIONS", "/", &[agent], "");
    // With class 1 alone Finder mounts to read only.
    assert!(options.header("dav").contains('2'), "{:?}", options.headers);
    let quota = "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:quota-available-bytes/>\
                 <D:quota-used-bytes/><D:quota/><D:quotaused/></D:prop></D:propfind>";
    let room = served.step(207, "PROPFIND", "/", &[agent, ("depth", "0")], quota).text();
    assert!(room.contains("<D:quota-available-bytes>"), "{room}");
    let mut seen = 0;
    served.step(201, "MKCOL", "/untitled%20folder/", &[agent], "");
    served.step(404, "PROPFIND", "/untitled%20folder/._note.md", &[agent, ("depth", "0")], "");
    for (name, content) in [("._note.md", "resource"), (".DS_Store", "view")] {
        let target = format!("/untitled%20folder/{name}");
        served.step(201, "PUT", &target, &[agent], "");
        let locked = served.step(200, "LOCK", &target, &[agent, ("timeout", "Second-600"), ("depth", "0")], LOCK);
        let (held, token) = (format!("({})", locked.header("lock-token")), locked.header("lock-token").to_owned());
        served.step(204, "PUT", &target, &[agent, ("if", &held)], content);
        served.step(204, "UNLOCK", &target, &[agent, ("lock-token", &token)], "");
        assert_eq!(served.get(&target).text(), content);
    }
    assert_eq!(served.commits(&mut seen), Vec::<String>::new(), "its own files are nobody's versions");
    // Finder names letters with their marks apart, as its disk does, and so they stay.
    let target = "/untitled%20folder/cafe%CC%81.md";
    served.step(201, "PUT", target, &[agent], "");
    let locked = served.step(200, "LOCK", target, &[agent, ("timeout", "Second-600"), ("depth", "0")], LOCK);
    let (held, token) = (format!("({})", locked.header("lock-token")), locked.header("lock-token").to_owned());
    let mut stream = TcpStream::connect(served.address).unwrap();
    write!(
        stream,
        "PUT {target} HTTP/1.1\r\nHost: {}\r\nIf: {held}\r\nX-Expected-Entity-Length: 7\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n3\r\n# c\r\n4\r\naf\u{e9}\r\n0\r\n\r\n",
        served.address
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    served.step(204, "UNLOCK", target, &[agent, ("lock-token", &token)], "");
    assert_eq!(served.text("untitled folder/cafe\u{301}.md").as_deref(), Some("# caf\u{e9}"));
    let part = served.step(206, "GET", target, &[agent, ("range", "bytes=2-")], "");
    assert_eq!(part.text(), "caf\u{e9}");
    served.step(204, "DELETE", "/untitled%20folder/", &[agent], "");
}

/// Office on a drive of Explorer: a temporary file takes the place of the document, which is set
/// aside first.
#[test]
fn office_saves_by_rename_and_the_document_is_always_complete() {
    let served = Served::new();
    served.put("/report.docx", "old");
    let agent = ("user-agent", "Microsoft-WebDAV-MiniRedir/10.0.22631");
    let lock = |target: &str| {
        let status = served.send("HEAD", target, &[agent], "").status;
        let locked = served.send("LOCK", target, &[agent, ("timeout", "Second-3600")], LOCK);
        assert_eq!(locked.status, if status == 404 { 201 } else { 200 }, "{}", locked.text());
        locked.header("lock-token").to_owned()
    };
    let owner = lock("/~$report.docx");
    let held = format!("({owner})");
    served.step(204, "PUT", "/~$report.docx", &[agent, ("if", &held)], "ann");
    served.step(201, "PUT", "/~WRD0001.tmp", &[agent], "");
    let temporary = lock("/~WRD0001.tmp");
    let held = format!("({temporary})");
    let times = "<D:propertyupdate xmlns:D=\"DAV:\" xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop>\
                 <Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>";
    served.step(207, "PROPPATCH", "/~WRD0001.tmp", &[agent, ("if", &held)], times);
    served.step(204, "PUT", "/~WRD0001.tmp", &[agent, ("if", &held)], "new");
    served.step(204, "UNLOCK", "/~WRD0001.tmp", &[agent, ("lock-token", &temporary)], "");
    let target = |path: &str| format!("http://{}{path}", served.address);
    let (aside, place) = (target("/~WRL0002.tmp"), target("/report.docx"));
    served.step(201, "MOVE", "/report.docx", &[agent, ("destination", &aside), ("overwrite", "F")], "");
    served.step(201, "MOVE", "/~WRD0001.tmp", &[agent, ("destination", &place), ("overwrite", "F")], "");
    assert_eq!(served.get("/report.docx").text(), "new");
    served.step(204, "DELETE", "/~WRL0002.tmp", &[agent], "");
    let held = format!("({owner})");
    served.step(204, "DELETE", "/~$report.docx", &[agent, ("if", &held)], "");
    // Over the document itself, under its lock, as other programs do.
    let token = lock("/report.docx");
    served.step(201, "PUT", "/save.tmp", &[agent], "newer");
    let held = format!("<{place}> ({token})");
    served.step(204, "MOVE", "/save.tmp", &[agent, ("destination", &place), ("overwrite", "T"), ("if", &held)], "");
    served.step(204, "PUT", "/report.docx", &[agent, ("if", &format!("({token})"))], "newest");
    served.step(204, "UNLOCK", "/report.docx", &[agent, ("lock-token", &token)], "");
    assert_eq!(served.text("report.docx").as_deref(), Some("newest"));
}

/// TextEdit on a Finder volume: a locked temporary file takes the place of the locked document.
#[test]
fn finder_saves_by_a_move_onto_the_locked_file() {
    let served = Served::new();
    served.put("/note.md", "# Old\n");
    let agent = ("user-agent", "WebDAVFS/3.0.0 (03008000) Darwin/23.0.0 (x86_64)");
    let lock = |target: &str| {
        let locked = served.send("LOCK", target, &[agent, ("timeout", "Second-600"), ("depth", "0")], LOCK);
        assert!(matches!(locked.status, 200 | 201), "{}", locked.text());
        locked.header("lock-token").to_owned()
    };
    let document = lock("/note.md");
    served.step(201, "PUT", "/.sb-1a2b-note.md", &[agent], "");
    let temporary = lock("/.sb-1a2b-note.md");
    served.step(204, "PUT", "/.sb-1a2b-note.md", &[agent, ("if", &format!("({temporary})"))], "# New\n");
    served.step(201, "PUT", "/._note.md", &[agent], "resource");
    let place = format!("http://{}/note.md", served.address);
    let held = format!("<{place}> ({document}) </.sb-1a2b-note.md> ({temporary})");
    served.step(204, "MOVE", "/.sb-1a2b-note.md", &[agent, ("destination", &place), ("if", &held)], "");
    assert_eq!(served.text("note.md").as_deref(), Some("# New\n"));
    let held = format!("({document})");
    served.step(200, "LOCK", "/note.md", &[agent, ("if", &held), ("timeout", "Second-600")], "");
    served.step(204, "PUT", "/note.md", &[agent, ("if", &held)], "# Newer\n");
    served.step(204, "UNLOCK", "/note.md", &[agent, ("lock-token", &document)], "");
    served.put("/note.md", "# Anybody\n");
}

#[test]
fn a_copy_or_a_move_to_another_server_is_not_done_here() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    let here = served.address.to_string();
    let elsewhere = ["http://elsewhere.example/b.md", "https://10.0.0.9/b.md", "http://127.0.0.1:1/b.md"];
    for (method, target) in elsewhere.iter().flat_map(|target| [("COPY", target), ("MOVE", target)]) {
        assert_eq!(served.send(method, "/a.md", &[("destination", target)], "").status, 502, "{method} {target}");
    }
    assert_eq!(served.text("b.md"), None);
    assert_eq!(served.text("a.md").as_deref(), Some("# A\n"));
    let proxied = [("destination", "https://wiki.example/b.md"), ("x-forwarded-host", "wiki.example")];
    assert_eq!(served.send("COPY", "/a.md", &proxied, "").status, 201);
    for (at, target) in [format!("http://{here}/c.md"), "/d.md".to_owned()].iter().enumerate() {
        assert_eq!(served.send("COPY", "/a.md", &[("destination", target)], "").status, 201, "{at}");
    }
}

#[test]
fn a_destination_is_read_as_every_other_address() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    for target in ["/../b.md", "/x/../../b.md", "/%2e%2e/b.md", "/~default/../b.md"] {
        served.step(400, "COPY", "/a.md", &[("destination", target)], "");
    }
    assert_eq!(served.text("b.md"), None);
    // The first space is at both addresses.
    served.step(201, "COPY", "/a.md", &[("destination", "/~default/b%20c.md")], "");
    served.step(201, "MOVE", "/~default/a.md", &[("destination", "/d.md")], "");
    served.step(201, "COPY", "/%7Edefault/d.md", &[("destination", "/%7edefault/e.md")], "");
    assert_eq!(["a.md", "b c.md", "d.md", "e.md"].map(|path| served.text(path).is_some()), [false, true, true, true]);
}

#[test]
fn an_unreadable_condition_fails_and_weak_etags_match_reads() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    for condition in ["((", "([\"nope\"]) junk", "nope"] {
        served.step(400, "PUT", "/a.md", &[("if", condition)], "# B\n");
    }
    served.step(412, "PUT", "/a.md", &[("if", "([\"nope\"])")], "# B\n");
    assert_eq!(served.text("a.md").as_deref(), Some("# A\n"));
    let etag = served.get("/a.md").header("etag").to_owned();
    let weak = format!("\"other\", W/{etag}");
    served.step(304, "GET", "/a.md", &[("if-none-match", &weak)], "");
    let head = served.step(200, "HEAD", "/a.md", &[("range", "bytes=0-1")], "");
    assert_eq!(head.header("content-length"), "4", "a range is for GET");
}

#[test]
fn what_is_not_done_to_a_folder_is_answered_with_what_is() {
    let served = Served::new();
    served.send("MKCOL", "/docs", &[], "");
    for (method, target) in [("GET", "/docs/"), ("PUT", "/docs")] {
        let refused = served.step(405, method, target, &[], "");
        assert!(refused.header("allow").contains("PROPFIND"), "{method}");
    }
}

#[test]
fn what_lies_below_a_file_has_no_folder_to_lie_in() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    served.put("/b.md", "# B\n");
    for target in ["/a.md/c.md", "/none/c.md"] {
        served.step(409, "PUT", target, &[], "# C\n");
        served.step(409, "MKCOL", target, &[], "");
        served.step(409, "LOCK", target, &[], LOCK);
        for method in ["COPY", "MOVE"] {
            served.step(409, method, "/b.md", &[("destination", target)], "");
        }
    }
    for method in ["GET", "PROPFIND", "DELETE"] {
        served.step(404, method, "/a.md/c.md", &[("depth", "0")], "");
    }
    assert_eq!(served.text("a.md").as_deref(), Some("# A\n"));
    assert_eq!(served.text("b.md").as_deref(), Some("# B\n"));
}

#[test]
fn a_part_of_a_file_is_not_taken_for_all_of_it() {
    let served = Served::new();
    served.put("/a.txt", "0123456789");
    for range in ["bytes 0-1/10", "bytes */10", "items 0-1/2", "x"] {
        served.step(400, "PUT", "/a.txt", &[("content-range", range)], "ab");
    }
    assert_eq!(served.text("a.txt").as_deref(), Some("0123456789"));
    let get = |status: u16, range: &str| served.step(status, "GET", "/a.txt", &[("range", range)], "");
    assert_eq!(get(206, "bytes=2-4").text(), "234");
    assert_eq!(get(206, "bytes=-3").text(), "789");
    // Several parts are all of it: a client that asks so takes both.
    let unread = ["items=0-1", "bytes=a-b", "bytes=5-2", "bytes=", "bytes=-", "0-1", "bytes=1", "bytes=0-1,"];
    for several in ["bytes=0-1,4-5", "bytes=0-1, 100-200", "bytes=100-,0-0"].into_iter().chain(unread) {
        let whole = get(200, several);
        assert_eq!((whole.text().as_str(), whole.header("content-length")), ("0123456789", "10"), "{several}");
    }
    let beyond = get(416, "bytes=10-");
    assert_eq!(beyond.header("content-range"), "bytes */10");
}

#[test]
fn twelve_slow_puts_keep_no_other_put_out() {
    let served = Served::new();
    let slow: Vec<_> = (0..12)
        .map(|number| {
            let mut stream = TcpStream::connect(served.address).unwrap();
            let head = format!(
                "PUT /slow-{number}.bin HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_FILE_BYTES}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(b"a few").unwrap();
            stream
        })
        .collect();
    let begun = std::time::Instant::now();
    let large = vec![b'x'; MAX_FILE_BYTES];
    served.step(201, "PUT", "/large.bin", &[], large.clone());
    served.put("/quick.md", "# Quick\n");
    assert!(begun.elapsed() < Duration::from_secs(20), "nobody waits for them");
    assert_eq!(served.get("/large.bin").body, large);
    drop(slow);
}
