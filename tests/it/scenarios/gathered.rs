//! Commits that are made later than their writers are answered (`versioning.async_commit`).

use serde_json::json;

use crate::protocols::{ALL, GUEST, Kind};
use crate::space::client::endpoint;
use crate::space::{TestSpace, git, me};

#[test]
fn one_authors_window_is_one_commit_through_every_protocol() {
    for kind in ALL {
        let Some(space) = kind.gathering_space() else { continue };
        let (protocol, client) = (kind.of(&space), space.client());
        protocol.write("a.md", b"# A\n\none\n").unwrap();
        protocol.write("b/c.md", b"# C\n\ntwo\n").unwrap();
        protocol.write("a.md", b"# A\n\nthree\n").unwrap();
        assert_eq!(protocol.read("a.md").unwrap(), b"# A\n\nthree\n");
        assert_eq!(client.found("three"), ["a.md"], "{kind:?}: search sees it at once");
        assert!(!git::has_commits(&space.root()), "{kind:?}: a commit before its time");
        let versions = client.get(&endpoint("/versions", &[("path", "a.md")])).json();
        assert_eq!(versions.as_array().map(Vec::len), Some(1), "{kind:?}: {versions}");
        let story = space.story();
        assert_eq!(story.log.len(), 1, "{kind:?}: {}", story.told());
        assert_eq!((story.log[0].author.as_str(), story.log[0].files.len()), (me().as_str(), 2), "{kind:?}");
    }
}

#[test]
fn the_path_limit_of_a_commit_holds_for_every_protocol() {
    let settings = "versioning = { async_commit = true, batch_window_ms = 60_000, batch_max_size = 2 }";
    for kind in ALL {
        let Some(space) = kind.space_with(settings) else { continue };
        let protocol = kind.of(&space);
        for (page, text) in
            [("a.md", "# 1\n"), ("b.md", "# 2\n"), ("c.md", "# 3\n"), ("a.md", "# 4\n"), ("d.md", "# 5\n")]
        {
            protocol.write(page, text.as_bytes()).unwrap();
        }
        protocol.write_as_guest("e.md", b"# 6\n").unwrap();
        let story = space.story();
        let files =
            |commit: &git::Commit| commit.files.iter().map(|(_, path)| path.clone()).collect::<Vec<_>>().join(" ");
        let log: Vec<_> = story.log.iter().map(|commit| (commit.author.clone(), files(commit))).collect();
        let commit = |author: &str, files: &str| (author.to_owned(), files.to_owned());
        let me = me();
        let wanted = [commit(&me, "a.md b.md"), commit(&me, "a.md c.md"), commit(&me, "d.md"), commit(GUEST, "e.md")];
        assert_eq!(log, wanted, "{kind:?}: {}", story.told());
    }
}

/// Shows: ASYNC-1
#[test]
fn the_etag_of_a_write_does_not_wait_for_its_commit() {
    let space = TestSpace::gathering(false);
    let client = space.client();
    let at = endpoint("/file", &[("path", "a.md")]);
    let first = client.send("PUT", &at, &[], "# One\n".to_owned()).json()["etag"].clone();
    let etag = first.as_str().unwrap();
    let second = client.send("PUT", &at, &[("If-Match", etag)], "# Two\n".to_owned());
    assert_eq!(second.status, 200, "{}", second.text());
    let stale = client.send("PUT", &at, &[("If-Match", etag)], "# Three\n".to_owned());
    assert_eq!(stale.status, 409, "{}", stale.text());
    let written = second.json()["etag"].as_str().unwrap().to_owned();
    space.settle();
    assert_eq!(git::git(&space.root(), &["rev-parse", "HEAD:a.md"]).trim(), written);
}

#[test]
fn a_bulk_write_is_one_commit_and_each_author_has_own_commits() {
    let space = TestSpace::gathering(false);
    let (client, protocol) = (space.client(), Kind::Http.of(&space));
    protocol.write("a.md", b"# A\n").unwrap();
    protocol.write_as_guest("b.md", b"# B\n").unwrap();
    let files: Vec<_> =
        (0..60).map(|number| json!({ "path": format!("d/{number}.md"), "content": "# Many\n" })).collect();
    let body = json!({ "files": files, "message": "many" }).to_string();
    client.send("POST", &endpoint("/bulk", &[]), &[("X-Actor", &me())], body).success().unwrap();
    protocol.write("c.md", b"# C\n").unwrap();
    protocol.write_as_guest("e.md", b"# E\n").unwrap();
    let changes = client.get(&endpoint("/changes", &[("limit", "100")])).json();
    assert_eq!(changes["changes"].as_array().map(Vec::len), Some(64), "one record for each path");
    let story = space.story();
    let log: Vec<_> = story.log.iter().map(|commit| (commit.author.clone(), commit.files.len())).collect();
    let wanted = [(me(), 1), (GUEST.to_owned(), 2), (me(), 60), (me(), 1)];
    assert_eq!(log, wanted, "{}", story.told());
    assert_eq!(story.log[2].subject, "many");
}
