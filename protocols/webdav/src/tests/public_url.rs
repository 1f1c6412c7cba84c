//! Behind a proxy that takes a prefix off the paths, names in both Unicode forms, and times that
//! clients give.

use super::*;

const LOCK: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

/// Shows: DAV-9
#[test]
fn a_prefix_stripped_by_a_proxy_is_in_all_returned_urls() {
    let configured = Served::with("[webdav]\nenabled = true\npublic_url = \"https://notes.example.org/dav\"\n");
    for (served, forwarded) in [(configured, ("x-unrelated", "")), (Served::new(), ("x-forwarded-prefix", "/dav/"))] {
        let host = ("host", "notes.example.org");
        let host = if forwarded.1.is_empty() { host } else { ("x-forwarded-host", "notes.example.org") };
        let send = |method: &str, target: &str, more: &[(&str, &str)], body: &str| {
            served.send(method, target, &[&[forwarded, host][..], more].concat(), body.to_owned())
        };
        assert_eq!(send("MKCOL", "/docs", &[], "").status, 201);
        assert_eq!(send("PUT", "/docs/a%20b.md", &[], "# A\n").status, 201);
        let listed = send("PROPFIND", "/docs", &[("depth", "1")], "").text();
        assert!(
            listed.contains("<D:href>/dav/docs/</D:href>") && listed.contains("<D:href>/dav/docs/a%20b.md</D:href>"),
            "{listed}"
        );
        let listed = send("PROPFIND", "/~team/", &[("depth", "0")], "").text();
        assert!(listed.contains("<D:href>/dav/~team/</D:href>"), "{listed}");
        let root = send("PROPFIND", "/", &[("depth", "0")], "").text();
        assert!(root.contains("<D:href>/dav/</D:href>"), "{root}");
        let locked = send("LOCK", "/docs/a%20b.md", &[], LOCK);
        assert!(locked.text().contains("<D:href>/dav/docs/a%20b.md</D:href></D:lockroot>"), "{}", locked.text());
        let token = locked.header("lock-token").to_owned();
        for resource in ["https://notes.example.org/dav/docs/a%20b.md", "/dav/docs/a%20b.md", "/docs/a%20b.md"] {
            let held = format!("<{resource}> ({token})");
            assert_eq!(send("PUT", "/docs/a%20b.md", &[("if", &held)], "# B\n").status, 204, "{resource}");
        }
        let held = format!("<https://notes.example.org/dav/docs/a%20b.md> ({token})");
        let to = ("destination", "https://notes.example.org/dav/dav/c.md");
        assert_eq!(send("MKCOL", "/dav", &[], "").status, 201, "a folder of the same name");
        assert_eq!(send("COPY", "/docs/a%20b.md", &[to], "").status, 201);
        assert_eq!(served.text("dav/c.md").as_deref(), Some("# B\n"));
        let to = ("destination", "https://notes.example.org/dav/c.md");
        assert_eq!(send("MOVE", "/docs/a%20b.md", &[to, ("if", &held)], "").status, 201);
        assert_eq!(served.text("c.md").as_deref(), Some("# B\n"));
        let elsewhere = ("destination", "https://elsewhere.example/dav/d.md");
        assert_eq!(send("COPY", "/c.md", &[elsewhere], "").status, 502);
        let refused = send("DELETE", "/nowhere", &[], "");
        assert_eq!(refused.status, 404);
    }
}

/// Shows: DAV-8
#[test]
fn a_name_is_reached_in_either_unicode_form() {
    let (nfc, nfd) = ("r%C3%A9union", "re%CC%81union");
    for (stored, other, file) in [(nfc, nfd, "r\u{e9}union"), (nfd, nfc, "re\u{301}union")] {
        let served = Served::new();
        served.send("MKCOL", &format!("/{stored}"), &[], "");
        served.put(&format!("/{stored}/{stored}.md"), "# A\n");
        let target = format!("/{other}/{other}.md");
        assert_eq!(served.get(&target).text(), "# A\n");
        assert_eq!(served.send("PUT", &target, &[], "# B\n").status, 204, "it is the one that is there");
        assert_eq!(served.text(&format!("{file}/{file}.md")).as_deref(), Some("# B\n"));
        assert_eq!(served.send("PUT", &format!("/{other}/new.md"), &[], "# New\n").status, 201);
        assert!(served.text(&format!("{file}/new.md")).is_some(), "in the folder that is there");
        let listed = served.send("PROPFIND", &format!("/~default/{other}/"), &[("depth", "1")], "");
        assert!(listed.status == 207 && listed.text().contains("new.md"), "{}", listed.text());
        assert_eq!(served.send("MKCOL", &format!("/{other}"), &[], "").status, 405, "it is there");
        let locked = served.send("LOCK", &target, &[], LOCK);
        let held = format!("<http://{}{target}> ({})", served.address, locked.header("lock-token"));
        assert_eq!(served.send("PUT", &format!("/{stored}/{stored}.md"), &[], "# C\n").status, 423, "one file");
        assert_eq!(served.send("PUT", &target, &[("if", &held)], "# D\n").status, 204);
        let to = format!("/{other}/new.md");
        let moved = served.send("MOVE", &target, &[("destination", &to), ("if", &held)], "");
        assert_eq!((moved.status, served.text(&format!("{file}/new.md")).as_deref()), (204, Some("# D\n")));
        assert_eq!(served.send("DELETE", &format!("/{other}"), &[], "").status, 204);
        assert_eq!(served.text(&format!("{file}/new.md")), None);
    }
    // Where both are there, each is itself.
    let served = Served::new();
    for (name, text) in [(nfc, "# C\n"), (nfd, "# D\n")] {
        let vfs = &served.server.primary().vfs;
        let path = percent_encoding::percent_decode_str(name).decode_utf8().unwrap();
        let change = svcfs_base::Change::put(TreePath::parse(&path).unwrap(), text.to_owned());
        vfs.apply(&svcfs_base::Caller::new(Protocol::Http), change).unwrap();
    }
    assert_eq!(
        (served.get(&format!("/{nfc}")).text(), served.get(&format!("/{nfd}")).text()),
        ("# C\n".into(), "# D\n".into())
    );
}

#[test]
fn a_client_supplied_mtime_is_stored_and_confirmed() {
    let served = Served::new();
    let put = |target: &str, time: &str| served.send("PUT", target, &[("x-oc-mtime", time)], "# A\n");
    let modified = |target: &str| served.send("HEAD", target, &[], "").header("last-modified").to_owned();
    for (at, time) in ["784111777", "784111777.25", " 784111777 "].into_iter().enumerate() {
        let target = format!("/{at}.md");
        for status in [201, 204] {
            let told = put(&target, time);
            assert_eq!((told.status, told.header("x-oc-mtime")), (status, "accepted"), "{time}");
            assert_eq!(told.header("last-modified"), "Sun, 06 Nov 1994 08:49:37 GMT");
            assert_eq!(modified(&target), "Sun, 06 Nov 1994 08:49:37 GMT", "{time}");
            assert_eq!(told.header("etag"), served.get(&target).header("etag"));
        }
    }
    for time in ["", "yesterday", "0", "-1", "99999999999999999999", "999999999999", "1e9"] {
        let told = put("/b.md", time);
        assert_eq!((told.status / 100, told.header("x-oc-mtime")), (2, ""), "{time}");
    }
    let large: Bytes = vec![b'x'; MAX_FILE_BYTES + 1].into();
    let told = served.send("PUT", "/large.bin", &[("x-oc-mtime", "784111777")], large);
    assert_eq!((told.status, told.header("x-oc-mtime")), (201, "accepted"), "{}", told.text());
    let head = served.send("HEAD", "/large.bin", &[], "");
    assert_eq!(
        (head.header("last-modified"), head.header("etag")),
        ("Sun, 06 Nov 1994 08:49:37 GMT", told.header("etag"))
    );
}
