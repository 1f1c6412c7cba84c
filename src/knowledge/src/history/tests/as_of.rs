use std::collections::BTreeMap;

use serde_json::{Value, json};
use svcfs_base::{Caller, Kind, Permissions, Protocol, Scope, TreePath};

use crate::spaces::test_space::TestSpace;

/// The paths and lengths of the files of a tree listing.
fn files(nodes: &Value, into: &mut BTreeMap<String, u64>) {
    for node in nodes.as_array().into_iter().flatten() {
        match node["isDir"].as_bool() {
            Some(true) => files(&node["children"], into),
            _ => drop(into.insert(node["path"].as_str().unwrap().to_owned(), node["size"].as_u64().unwrap())),
        }
    }
}

#[test]
fn each_earlier_tree_is_read_exactly() {
    let space = TestSpace::new();
    let mut present: BTreeMap<String, String> = BTreeMap::new();
    let mut trees = Vec::new();
    for step in 0..12 {
        let path = format!("d{}/p{}.md", step % 3, step % 4);
        if step % 5 == 4 {
            let removed = present.keys().next().unwrap().clone();
            space.get("delete", json!({ "path": removed }));
            present.remove(&removed);
        } else {
            let text = format!("# Page {step}\n\n## Part\n\nline of {step}\nthe same line\n");
            space.put(&path, &text);
            present.insert(path.clone(), text);
        }
        let newest = space.get("changes", json!({ "limit": 1 }))["last_seq"].as_str().unwrap().to_owned();
        trees.push((newest, present.clone()));
    }
    for (commit, expected) in &trees {
        let mut listed = BTreeMap::new();
        files(&space.get("tree", json!({ "as_of": commit })), &mut listed);
        let sizes: BTreeMap<String, u64> =
            expected.iter().map(|(path, text)| (path.clone(), text.len() as u64)).collect();
        assert_eq!(listed, sizes, "{commit}");
        for (path, text) in expected {
            let page = space.get("read", json!({ "path": path, "as_of": commit }));
            assert_eq!((&page["content"], &page["as_of"]), (&json!(text), &json!(commit)));
            let section = space.get("section", json!({ "path": path, "heading": "Part", "as_of": commit }));
            assert!(text.contains(section["content"].as_str().unwrap().trim()), "{section}");
            let blamed = space.get("blame", json!({ "path": path, "as_of": commit }));
            let lines: Vec<&str> =
                blamed.as_array().unwrap().iter().map(|line| line["content"].as_str().unwrap()).collect();
            assert_eq!(lines, text.lines().collect::<Vec<_>>());
            let known = trees.iter().take_while(|(earlier, _)| earlier != commit).map(|(earlier, _)| earlier.as_str());
            let known: Vec<&str> = known.chain([commit.as_str()]).collect();
            for line in blamed.as_array().unwrap() {
                assert!(known.contains(&line["hash"].as_str().unwrap()), "a later commit: {line}");
            }
        }
        for path in present.keys() {
            let outcome = space.ask("read", json!({ "path": path, "as_of": commit }));
            assert_eq!(outcome.is_ok(), expected.contains_key(path), "{path} at {commit}");
        }
    }
    let (first, _) = &trees[0];
    let since = space.get("diff", json!({ "path": "d0/p0.md", "as_of": first }))["diff"].as_str().unwrap().to_owned();
    assert!(since.contains("-line of 0\n"), "{since}");
}

#[test]
fn an_earlier_tree_is_searched_by_its_own_words() {
    let space = TestSpace::new();
    space.put("a.md", "# Alpha\n\nThe running zebra crosses the road.\n");
    space.put("b.md", "# Beta\n\nA road without animals.\n");
    let then = space.newest("b.md").0;
    space.put("a.md", "# Alpha\n\nNothing here any more.\n");
    space.put("c.md", "# Gamma\n\nzebra\n");
    let paths = |arguments: Value| -> Vec<String> {
        let found = space.get("search", arguments);
        found.as_array().unwrap().iter().map(|page| page["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(json!({ "q": "zebra", "as_of": then })), ["a.md"]);
    assert_eq!(paths(json!({ "q": "run", "as_of": then })), ["a.md"], "inflected");
    assert_eq!(paths(json!({ "q": "road NOT zebra", "as_of": then })), ["b.md"]);
    assert_eq!(paths(json!({ "q": "path:b.md", "as_of": then })), ["b.md"]);
    assert_eq!(paths(json!({ "q": "gamma", "as_of": then })), Vec::<String>::new());
    let found = space.get("search", json!({ "q": "zebra road", "as_of": then }));
    assert_eq!((&found[0]["as_of"], &found[0]["partial"]), (&json!(then), &json!(null)), "{found}");
    assert!(found[0]["snippet"].as_str().unwrap().contains("<mark>zebra</mark>"), "{found}");
}

#[test]
fn an_earlier_tree_that_cannot_be_read_says_why() {
    let space = TestSpace::new();
    space.put("old.md", "# Old\n");
    let then = space.newest("old.md").0;
    space.get("rename", json!({ "from": "old.md", "to": "new.md" }));
    for (operation, arguments, status, part) in [
        ("read", json!({ "path": "new.md", "as_of": then }), 404, "it was `old.md` then"),
        ("read", json!({ "path": "none.md", "as_of": then }), 404, "none.md"),
        ("read", json!({ "path": "old.md", "as_of": "no-such" }), 404, "`as_of`: `no-such` is no time, commit"),
        ("read", json!({ "path": "old.md", "as_of": "1999-01-01" }), 404, "after its first commit"),
        ("read", json!({ "path": "old.md", "as_of": then, "resolve_links": true }), 400, "`resolve_links`"),
        ("tree", json!({ "as_of": then, "details": true }), 400, "`details`"),
        ("tree", json!({ "path": "d", "as_of": then }), 404, "d did not exist at that time"),
        ("diff", json!({ "path": "old.md", "as_of": then, "from": then }), 400, "omit `from` and `to`"),
        (
            "diff",
            json!({ "path": "old.md", "from": then }),
            400,
            "to is required: give `from` and `to`, or only `as_of`",
        ),
        (
            "search",
            json!({ "q": "old", "as_of": then, "modified_after": "2026-01-01T00:00:00Z" }),
            400,
            "modified_after",
        ),
    ] {
        let (actual, message) = space.refusal(operation, arguments.clone());
        assert!(actual == status && message.contains(part), "{operation} {arguments}: {actual} {message}");
    }
    assert_eq!(space.get("read", json!({ "path": "old.md", "as_of": then }))["content"], "# Old\n");
}

#[test]
fn an_earlier_tree_shows_a_folder_key_only_its_folder() {
    let space = TestSpace::new();
    space.put("team/a.md", "# Team\n\nshared word\n");
    space.put("secret/b.md", "# Secret\n\nshared word\n");
    let then = space.newest("secret/b.md").0;
    let permissions = Permissions { scope: Scope::Read, folder: Some(TreePath::parse("team").unwrap()) };
    let limited = Caller { permissions, ..Caller::new(Protocol::Http) };
    for (operation, arguments) in [
        ("read", json!({ "path": "secret/b.md", "as_of": then })),
        ("section", json!({ "path": "secret/b.md", "index": 0, "as_of": then })),
        ("blame", json!({ "path": "secret/b.md", "as_of": then })),
        ("diff", json!({ "path": "secret/b.md", "as_of": then })),
        ("tree", json!({ "path": "secret", "as_of": then })),
    ] {
        let fault = space.ask_as(&limited, operation, arguments).unwrap_err();
        assert!(matches!(fault.kind(), Kind::NotFound | Kind::Forbidden), "{operation}: {fault}");
    }
    for (operation, arguments) in
        [("tree", json!({ "as_of": then })), ("search", json!({ "q": "shared", "as_of": then }))]
    {
        let answer = space.ask_as(&limited, operation, arguments).unwrap().to_string();
        assert!(answer.contains("team") && !answer.contains("secret"), "{operation}: {answer}");
    }
}

#[test]
fn without_a_key_an_unlisted_space_has_no_earlier_trees() {
    let space = TestSpace::new();
    space.put("a.md", "# A\n");
    space.space().set_visibility(svcfs_config::SpaceVisibility::Unlisted);
    let anonymous = Caller { permissions: Permissions::READ_ONLY, ..Caller::new(Protocol::Http) };
    let commit = space.get("changes", json!({ "limit": 1 }))["last_seq"].clone();
    let arguments = json!({ "path": "a.md", "as_of": commit });
    let fault = space.ask_as(&anonymous, "read", arguments.clone()).unwrap_err();
    assert_eq!(fault.kind(), Kind::Unauthenticated);
    assert!(space.ask("read", arguments).is_ok(), "with a key");
}
