//! Links, as clients see them: what they lead to, or nothing.

use std::os::unix::fs::symlink;

use super::*;

/// What a link leads to, by the name of the link; and what is there.
const SHOWN: [(&str, &str); 3] = [("to-page.md", "a.md"), ("to-film", "film.bin"), ("in/up.md", "../a.md")];
const NOT_THERE: [(&str, &str); 8] = [
    ("passwd", "/etc/passwd"),
    ("above", "../outside.md"),
    ("far", "in/../../outside.md"),
    ("config", ".git/config"),
    ("settings", ".svc/config.toml"),
    ("state", ".svc/state"),
    ("nowhere", "no/such"),
    ("itself", "itself"),
];

/// Shows: DAV-10
#[test]
#[expect(clippy::disallowed_methods, reason = "as a program makes it that knows nothing of us")]
fn links_resolve_inside_the_tree_and_are_hidden_otherwise() {
    let served = Served::new();
    assert_eq!(served.send("MKCOL", "/in", &[], "").status, 201);
    served.put("/a.md", "# A\n");
    let root = served.folder.path().join("default");
    std::fs::write(served.folder.path().join("outside.md"), "# Secret\n").unwrap();
    let size = MAX_FILE_BYTES as u64 + 10;
    std::fs::File::create(root.join("film.bin")).unwrap().set_len(size).unwrap();
    for (link, to) in SHOWN.into_iter().chain(NOT_THERE).chain([("folder", "in")]) {
        symlink(to, root.join(link)).unwrap();
    }

    let guarded =
        || ["outside.md", "default/.git/config"].map(|file| std::fs::read_to_string(served.folder.path().join(file)));
    let guarded = || guarded().map(Result::unwrap);
    let before = guarded();
    let page = served.get("/a.md");
    for link in ["/to-page.md", "/in/up.md", "/folder/up.md"] {
        let (get, head) = (served.get(link), served.send("HEAD", link, &[], ""));
        assert_eq!((get.status, get.text().as_str(), head.status), (200, "# A\n", 200), "{link}");
        assert_eq!([get.header("etag"), head.header("etag")], [page.header("etag"); 2], "{link}");
        let told = served.send("PROPFIND", link, &[("depth", "0")], "").text();
        assert!(told.contains(page.header("etag")) && told.contains(&format!("<D:href>{link}<")), "{link}: {told}");
    }
    let part = served.send("GET", "/to-film", &[("range", "bytes=0-9")], "");
    assert_eq!((part.status, part.header("content-range")), (206, format!("bytes 0-9/{size}").as_str()));
    assert_eq!(served.send("HEAD", "/to-film", &[], "").header("content-length"), size.to_string());
    let listed = served.send("PROPFIND", "/", &[("depth", "1")], "").text();
    assert!(listed.contains(&format!("<D:getcontentlength>{size}<")), "{listed}");
    for there in ["to-page.md<", "to-film<", "folder/<"] {
        assert!(listed.contains(&format!("<D:href>/{there}")), "{there} {listed}");
    }

    for (link, _) in NOT_THERE {
        let target = format!("/{link}");
        let below = format!("/{link}/log.db");
        for path in [&target, &below] {
            for method in ["GET", "HEAD", "PROPFIND"] {
                let told = served.send(method, path, &[("depth", "0")], "");
                assert_eq!(told.status, 404, "{method} {path}: {}", told.text());
            }
        }
        assert!(!listed.contains(&format!("<D:href>{target}<")), "{link}: {listed}");
        // What is put there may take the place of the link, and is not written through it.
        served.send("PUT", &target, &[], "x");
    }
    assert_eq!(guarded(), before);
}
