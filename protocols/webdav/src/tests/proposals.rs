//! A key with the scope `propose`: its changes go into its draft, and it sees them.

use svcfs_base::Kind;

use super::*;

const KEYS: &str = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"full\"\n\
                    [[auth.api_keys]]\nkey = \"agent\"\nscope = \"propose\"\nactor = \"agent\"\n";
const FULL: (&str, &str) = ("authorization", "Bearer full");
const AGENT: (&str, &str) = ("authorization", "Bearer agent");

/// Files and directories as a caller lists them.
fn listed(served: &Served, key: (&str, &str), folder: &str) -> Vec<String> {
    let reply = served.send("PROPFIND", folder, &[key, ("depth", "1")], "");
    assert_eq!(reply.status, 207, "{folder}: {}", reply.text());
    let text = reply.text();
    let hrefs = text.split("href>").skip(1).step_by(2).map(|part| part.split('<').next().unwrap().to_owned());
    let mut all = Vec::new();
    for href in hrefs.filter(|href| href != folder && !href.starts_with("/.")) {
        let is_folder = href.ends_with('/');
        all.push(href.clone());
        if is_folder {
            all.extend(listed(served, key, &href));
        }
    }
    all.sort();
    all
}

/// Method, path, headers, expected status, and the tree that the agent sees afterwards.
type Step<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], u16, &'a str);

/// Every method that changes something, and what the caller lists afterwards.
#[test]
fn each_write_of_a_proposing_key_goes_into_its_draft() {
    let served = Served::with(KEYS);
    for folder in ["/d", "/full"] {
        assert_eq!(served.send("MKCOL", folder, &[FULL], "").status, 201);
    }
    for page in ["/a.md", "/d/b.md", "/full/c.md"] {
        assert_eq!(served.send("PUT", page, &[FULL], "# One\n").status, 201);
    }
    let mut seen = 0;
    served.commits(&mut seen);
    let main = listed(&served, FULL, "/");
    let etag = served.send("GET", "/a.md", &[AGENT], "").header("etag").to_owned();
    let (stale, current) = (("if-match", "\"0\""), ("if-match", etag.as_str()));
    let to = |target: &'static str| ("destination", target);
    let steps: [Step<'_>; 16] = [
        ("PUT", "/n.md", &[], 201, "/a.md /d/ /d/b.md /full/ /full/c.md /n.md"),
        ("PUT", "/a.md", &[stale], 412, "/a.md /d/ /d/b.md /full/ /full/c.md /n.md"),
        ("PUT", "/a.md", &[current], 204, "/a.md /d/ /d/b.md /full/ /full/c.md /n.md"),
        ("PUT", "/a.md", &[current], 412, "/a.md /d/ /d/b.md /full/ /full/c.md /n.md"),
        ("PUT", "/none/n.md", &[], 409, "/a.md /d/ /d/b.md /full/ /full/c.md /n.md"),
        ("MKCOL", "/e", &[], 201, "/a.md /d/ /d/b.md /e/ /full/ /full/c.md /n.md"),
        ("PUT", "/e/f.md", &[("x-oc-mtime", "1000")], 201, "/a.md /d/ /d/b.md /e/ /e/f.md /full/ /full/c.md /n.md"),
        ("COPY", "/d", &[to("/k")], 201, "/a.md /d/ /d/b.md /e/ /e/f.md /full/ /full/c.md /k/ /k/b.md /n.md"),
        ("MOVE", "/k/b.md", &[to("/k/x.md")], 201, "/a.md /d/ /d/b.md /e/ /e/f.md /full/ /full/c.md /k/ /k/x.md /n.md"),
        ("MOVE", "/d", &[to("/m")], 201, "/a.md /e/ /e/f.md /full/ /full/c.md /k/ /k/x.md /m/ /m/b.md /n.md"),
        ("MOVE", "/n.md", &[to("/a.md")], 204, "/a.md /e/ /e/f.md /full/ /full/c.md /k/ /k/x.md /m/ /m/b.md"),
        ("COPY", "/m", &[to("/full")], 204, "/a.md /e/ /e/f.md /full/ /full/b.md /k/ /k/x.md /m/ /m/b.md"),
        ("MOVE", "/k", &[to("/m")], 204, "/a.md /e/ /e/f.md /full/ /full/b.md /m/ /m/x.md"),
        ("COPY", "/m", &[to("/e"), ("depth", "0")], 204, "/a.md /e/ /full/ /full/b.md /m/ /m/x.md"),
        ("DELETE", "/m", &[], 204, "/a.md /e/ /full/ /full/b.md"),
        ("PUT", "/.svc/x.json", &[], 403, "/a.md /e/ /full/ /full/b.md"),
    ];
    for (at, (method, target, headers, status, expected)) in steps.into_iter().enumerate() {
        let body = if method == "PUT" { format!("# {at}\n") } else { String::new() };
        let reply = served.send(method, target, &[&[AGENT], headers].concat(), body);
        assert_eq!(reply.status, status, "{at}: {method} {target}: {}", reply.text());
        assert_eq!(listed(&served, AGENT, "/").join(" "), expected, "{at}: {method} {target}");
        assert_eq!(reply.header("x-oc-mtime"), "", "a draft has no such times");
    }
    let read = |key| served.send("GET", "/a.md", &[key], "").text();
    assert_eq!((read(AGENT), read(FULL)), ("# 0\n".to_owned(), "# One\n".to_owned()));
    assert_eq!((listed(&served, FULL, "/"), served.commits(&mut seen)), (main, Vec::new()));
    assert_eq!(served.server.primary().vfs.drafts().len(), 1);
}

/// What is not a change of a page: locks bind no other client, properties are refused.
#[test]
fn locks_and_properties_of_a_proposing_key_change_no_page() {
    let served = Served::with(KEYS);
    assert_eq!(served.send("PUT", "/a.md", &[FULL], "# One\n").status, 201);
    let mut seen = 0;
    served.commits(&mut seen);
    let property = |name: &str, value: &str| {
        format!(
            "<D:propertyupdate xmlns:D=\"DAV:\" xmlns:x=\"{}\"><D:set><D:prop><x:{name}>{value}</x:{name}></D:prop></D:set></D:propertyupdate>",
            if name.starts_with("Win32") { "urn:schemas-microsoft-com:" } else { "urn:x" }
        )
    };
    let own = served.send("PROPPATCH", "/a.md", &[AGENT], property("mood", "good"));
    assert!(own.status == 403 || own.text().contains("403"), "{} {}", own.status, own.text());
    let time = property("Win32LastModifiedTime", "Mon, 01 Jan 2024 00:00:00 GMT");
    let before = served.send("HEAD", "/a.md", &[FULL], "").header("last-modified").to_owned();
    let times = served.send("PROPPATCH", "/a.md", &[AGENT], time);
    assert!(times.status == 207 && times.text().contains("200"), "{} {}", times.status, times.text());
    assert_eq!(served.send("HEAD", "/a.md", &[FULL], "").header("last-modified"), before);
    let lock = "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
    let reply = served.send("LOCK", "/new.md", &[AGENT], lock);
    assert_eq!(reply.status, 201, "{}", reply.text());
    let token = format!("({})", reply.header("lock-token"));
    assert_eq!(served.send("PUT", "/new.md", &[AGENT, ("if", &token)], "# New\n").status, 204);
    let deep = served.send("LOCK", "/", &[AGENT, ("depth", "infinity")], lock);
    assert_eq!(deep.status, 200, "{}", deep.text());
    let renewal = format!("({})", deep.header("lock-token"));
    assert_eq!(served.send("LOCK", "/", &[AGENT, ("if", &renewal)], "").status, 200);
    assert_eq!(served.send("PUT", "/a.md", &[FULL], "# One\n").status, 204, "a draft does not block the tree");
    assert_eq!(served.send("LOCK", "/a.md", &[FULL], lock).status, 200);
    assert_eq!(served.send("PUT", "/a.md", &[AGENT], "# Mine\n").status, 204, "and the tree not a draft");
    let unlocked = served.send("UNLOCK", "/new.md", &[AGENT, ("lock-token", reply.header("lock-token"))], "");
    assert_eq!(unlocked.status, 204);
    let large = served.send("PUT", "/large.bin", &[AGENT], vec![b'x'; MAX_FILE_BYTES + 1]);
    assert_eq!(large.status, 413, "{}", large.text());
    let vfs = &served.server.primary().vfs;
    let missing = vfs.read(Protocol::Internal, &TreePath::parse("new.md").unwrap()).unwrap_err();
    assert_eq!((missing.kind(), served.commits(&mut seen)), (Kind::NotFound, Vec::new()));
}
