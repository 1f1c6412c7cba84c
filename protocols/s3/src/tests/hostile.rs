//! What leads elsewhere: keys that are no paths, paths that are not for strangers, and links.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn an_invalid_or_forbidden_key_gets_one_code_per_operation() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    let (long, part) = ("y/".repeat(512) + "y", "x".repeat(300));
    assert_eq!(long.len(), 1025);
    // How a write, a read and the copy of it are refused.
    let [invalid, too_long, uri] = ["InvalidArgument", "KeyTooLongError", "InvalidURI"];
    let keys = [
        ("..", [invalid; 3]),
        ("../a.md", [invalid; 3]),
        ("b/../a.md", [invalid; 3]),
        ("./a.md", [invalid; 3]),
        ("b//a.md", [invalid; 3]),
        ("%2e%2e/default/a.md", [invalid; 3]),
        ("a%00.md", [invalid; 3]),
        ("%ff.md", [uri, uri, invalid]),
        // The library looks at the length of a source before we do.
        (&long, [too_long, too_long, invalid]),
        (&part, [too_long; 3]),
        (".git/config", [invalid, "NoSuchKey", "NoSuchKey"]),
        (".svc/config.toml", [invalid, "NoSuchKey", "NoSuchKey"]),
        (".svc/state/s3.key", [invalid, "NoSuchKey", "NoSuchKey"]),
        (".svc/spaces.json", [invalid, "NoSuchKey", "NoSuchKey"]),
    ];
    let of_server = |path: &str| std::fs::read(served.folder.path().join("default").join(path)).unwrap();
    let before = [".git/config", ".svc/state/s3.key"].map(of_server);
    for (key, [written, read, copied]) in keys {
        let target = format!("/default/{key}");
        let status = |code: &str| if code == "NoSuchKey" { 404 } else { 400 };
        let from = [("x-amz-copy-source", &*target)];
        served.send("PUT", &target, &[], "x").is(400, written);
        served.send("PUT", &target, &[("x-amz-copy-source", "/default/a.md")], "").is(400, written);
        served.send("POST", &format!("{target}?uploads"), &[], "").is(400, written);
        served.get(&target).is(status(read), read);
        assert_eq!(served.send("HEAD", &target, &[], "").status, status(read), "{key}");
        served.send("PUT", "/default/copy.md", &from, "").is(status(copied), copied);
        let removed = served.send("DELETE", &target, &[], "");
        // What is not there is removed, as S3 says it; what belongs to the server is not there.
        assert_eq!(removed.status, if status(read) == 404 { 204 } else { 400 }, "{key}: {}", removed.text());
    }
    assert_eq!(served.keys(""), ["a.md"]);
    assert_eq!([".git/config", ".svc/state/s3.key"].map(of_server), before);
}

#[test]
fn links_resolve_only_to_objects_visible_to_anonymous_callers() {
    let served = Served::new();
    served.put("notes/a.md", "# A\n");
    let root = served.folder.path().join("default");
    let of_server = |path: &str| std::fs::read(root.join(path)).unwrap();
    let links = [
        ("page.md", "notes/a.md"),
        ("folder", "notes"),
        ("out.md", "/etc/passwd"),
        ("up.md", "../../../../../../../../etc/passwd"),
        ("etc", "/etc"),
        ("git.md", ".git/config"),
        ("key.md", ".svc/state/s3.key"),
        ("state", ".svc/state"),
        ("circle.md", "circle.md"),
        ("gone.md", "nowhere.md"),
    ];
    links.iter().for_each(|(name, to)| symlink(to, root.join(name)).unwrap());
    assert_eq!(served.get("/default/page.md").text(), "# A\n");
    assert_eq!(served.get("/default/folder/a.md").text(), "# A\n");
    assert_eq!(
        served.keys(""),
        ["notes/a.md", "page.md"],
        "folders behind links are not listed, and no links elsewhere"
    );
    let [of_page, of_link] = [served.get("/default/notes/a.md"), served.get("/default/page.md")];
    assert_eq!(of_page.header("etag"), of_link.header("etag"));
    let (git, secret) = (of_server(".git/config"), of_server(".svc/state/s3.key"));
    let (invalid, hidden) = ((400, "InvalidArgument"), (404, "NoSuchKey"));
    let led = [
        ("out.md", invalid),
        ("up.md", invalid),
        ("etc/passwd", invalid),
        ("circle.md", invalid),
        ("git.md", hidden),
        ("key.md", hidden),
        ("state/s3.key", hidden),
        ("gone.md", hidden),
        ("folder", hidden),
    ];
    for (key, (status, code)) in led {
        let target = format!("/default/{key}");
        served.get(&target).is(status, code);
        assert_eq!(served.send("HEAD", &target, &[], "").status, status, "{key}");
        served.send("PUT", "/default/copy.md", &[("x-amz-copy-source", &target)], "").is(status, code);
    }
    for key in ["out.md", "up.md", "etc/passwd", "circle.md", "folder", "state/s3.key", "state/new.md"] {
        served.send("PUT", &format!("/default/{key}"), &[], "x").is(400, "InvalidArgument");
    }
    // Where a link leads nowhere that could be seen, it is the link that is written over.
    for key in ["git.md", "key.md", "gone.md"] {
        served.put(key, "# Mine\n");
        assert!(root.join(key).symlink_metadata().unwrap().is_file(), "{key}");
    }
    served.put("page.md", "# B\n");
    assert_eq!(served.text("notes/a.md").as_deref(), Some("# B\n"));
    assert!(root.join("page.md").is_symlink());
    assert_eq!((of_server(".git/config"), of_server(".svc/state/s3.key")), (git, secret));
    assert!(!root.join("nowhere.md").exists());
    assert!(std::fs::read_to_string("/etc/passwd").unwrap().contains("root:"));
}
