//! What became of a page is known under its new name too.

use svcfs_config::VersioningStrategy;

use super::played;
use crate::protocols;
use crate::space::client::endpoint;
use crate::space::{TestSpace, git};

/// How many versions of a page anybody can read.
fn versions(space: &TestSpace, path: &str) -> usize {
    let client = space.client();
    let told = client.get(&endpoint("/versions", &[("path", path)])).success().unwrap().json();
    let hashes = told.as_array().unwrap().iter().map(|version| version["hash"].as_str().unwrap());
    let read = |hash| client.get(&endpoint("/version", &[("path", path), ("version", hash)])).success().is_ok();
    hashes.filter(|hash| read(hash)).count()
}

#[test]
fn a_rename_keeps_history() {
    played("rename", |protocol, space| {
        protocol.write("a.md", b"# Page\n\none\ntwo\nthree\nfour\n").unwrap();
        protocol.write("a.md", b"# Page\n\none\ntwo\nthree\nfour\nfive\n").unwrap();
        protocol.rename("a.md", "b/c.md").unwrap();
        protocol.read("a.md").unwrap_err();
        protocol.write("b/c.md", b"# Page\n\none\ntwo\nthree\nfour\nfive\nsix\n").unwrap();
        space.settle();
        match space.strategy() {
            VersioningStrategy::Git => {
                let followed = git::git(&space.root(), &["log", "--follow", "--format=%h", "--", "b/c.md"]);
                assert_eq!(followed.lines().count(), 4);
            }
            VersioningStrategy::Cow => assert_eq!(versions(space, "a.md"), 2),
            VersioningStrategy::None => assert_eq!(versions(space, "b/c.md"), 0),
        }
        assert_eq!(space.client().found("three"), ["b/c.md"]);
    });
}

/// Shows: HIST-3
#[test]
fn versions_follow_a_rename_through_every_protocol() {
    for kind in protocols::ALL.into_iter().filter(|kind| !kind.renames_in_two()) {
        for strategy in [VersioningStrategy::Git, VersioningStrategy::Cow] {
            let Some(space) = kind.space(strategy) else { continue };
            let protocol = kind.of(&space);
            protocol.write("a.md", b"# Page\n\none\n").unwrap();
            protocol.write("a.md", b"# Page\n\none\ntwo\n").unwrap();
            protocol.rename("a.md", "b/c.md").unwrap();
            protocol.write("b/c.md", b"# Page\n\nthree\n").unwrap();
            space.settle();
            assert_eq!(versions(&space, "b/c.md"), 4, "{kind:?} {strategy:?}");
        }
    }
}

#[test]
fn a_rename_there_and_back_leaves_the_page_as_it_was() {
    played("rename_and_back", |protocol, _| {
        protocol.write("a.md", b"# There\n").unwrap();
        protocol.rename("a.md", "b.md").unwrap();
        protocol.rename("b.md", "a.md").unwrap();
        assert_eq!(protocol.read("a.md").unwrap(), b"# There\n");
        assert_eq!(protocol.list("").unwrap(), ["a.md"]);
    });
}

#[test]
fn renaming_what_is_not_there_changes_nothing() {
    played("rename_nothing", |protocol, _| {
        protocol.write("here.md", b"# Here\n").unwrap();
        protocol.rename("nowhere.md", "somewhere.md").unwrap_err();
        assert_eq!(protocol.list("").unwrap(), ["here.md"]);
    });
}

#[test]
fn the_version_limit_of_a_page_holds_for_every_protocol() {
    for kind in protocols::ALL {
        let Some(space) = kind.space_with("versioning = { strategy = \"cow\", max_versions = 2 }") else { continue };
        let protocol = kind.of(&space);
        for text in ["# One\n", "# Two\n", "# Three\n", "# Four\n"] {
            protocol.write("a.md", text.as_bytes()).unwrap();
        }
        protocol.write("b.md", b"# Beside\n").unwrap();
        space.settle();
        assert_eq!([versions(&space, "a.md"), versions(&space, "b.md")], [2, 1], "{kind:?}");
        let changes = space.client().get(&endpoint("/changes", &[("limit", "9")])).success().unwrap().json();
        assert_eq!(
            changes["changes"].as_array().map(Vec::len),
            Some(5),
            "{kind:?}: what happened is told all the same"
        );
    }
}

/// Shows: COW-4
#[test]
fn history_without_git_is_available_through_every_protocol() {
    for strategy in [VersioningStrategy::Cow, VersioningStrategy::None] {
        let space = TestSpace::keeping(strategy);
        let client = space.client();
        let put = |text: &str| {
            let target = endpoint("/file", &[("path", "a.md")]);
            client.send("PUT", &target, &[("X-Actor", "eve")], text.to_owned()).success().unwrap();
        };
        put("# One\n");
        put("# Two\n");
        let page = client.get(&endpoint("/changes", &[("limit", "1")])).success().unwrap().json();
        let newest = page["last_seq"].as_str().unwrap().to_owned();
        assert_eq!((newest.len(), &page["changes"][0]["actor"]), (19, &"eve".into()));
        put("# Three\n");
        let next = client.tool("svc_changes", serde_json::json!({ "since": newest })).unwrap();
        assert_eq!(next["changes"].as_array().unwrap().len(), 1, "{next}");
        let blame = client.get(&endpoint("/blame", &[("path", "a.md")]));
        assert_eq!(blame.status, 501, "{}", blame.text());
        assert!(blame.text().contains("versioning.strategy"), "the reason is told: {}", blame.text());
        let timeline = client.get(&endpoint("/timeline", &[])).success().unwrap().json();
        assert_eq!((&timeline["total"], &timeline["events"][0]["hash"]), (&3.into(), &next["last_seq"]));
        let feed = client.get(&endpoint("/feed.json", &[])).success().unwrap().json();
        assert_eq!(feed["items"].as_array().unwrap().len(), 3);
        let velocity = client.get(&endpoint("/velocity", &[]));
        assert_eq!(velocity.status, 200, "{}", velocity.text());
        assert_eq!(client.get("/readyz").status, 200);
        let diff = client.get(&endpoint("/diff", &[("path", "a.md"), ("from", &newest), ("to", "1")]));
        assert_eq!(diff.status, 404, "{}", diff.text());
        assert_eq!(versions(&space, "a.md"), if strategy == VersioningStrategy::Cow { 3 } else { 0 });
        assert_eq!(client.get(&endpoint("/versions", &[("path", "nowhere.md")])).status, 404);
    }
}
