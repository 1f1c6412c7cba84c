use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;
use svcfs_base::{ETag, Precondition, TreePath};

use crate::spaces::test_space::{TestSpace, expecting, path, status_and_error};

#[test]
fn every_form_of_link_follows_a_directory_in_one_commit() {
    let space = TestSpace::new();
    space.put("notes/auth.md", "# Auth\n");
    space.put("notes/deep/pic.txt", "picture");
    space.put("guide.md", "# Guide\n");
    space.put("far.md", "[[guide]] and nothing else\n");
    let index = "[[auth]] [[notes/auth#Tokens|t]] ![[notes/auth.md]] [[deep/pic.txt]]\r\n\
                 [md](notes/auth.md#x) [angled](<notes/auth.md>) ![](./notes/deep/pic.txt)\n\
                 [ref][a] [root](/notes/auth.md)  \n\n[a]: notes/auth.md \"title\"\n\n    [[notes/auth]]\n`[[notes/auth]]`";
    space.get("write", json!({ "path": "index.md", "content": index, "exact": true }));
    space.put(
        "notes/inner.md",
        "[[auth]] [up](../guide.md) [side](auth.md) ![](deep/pic.txt) [[guide]] [[notes/auth]]\n",
    );
    let renamed = space.get("rename_dir", json!({ "from": "notes", "to": "archive/2025/notes" }));
    assert_eq!(renamed, json!({ "from": "notes", "to": "archive/2025/notes", "renamed": 3 }));
    assert_eq!(
        space.text("index.md"),
        "[[auth]] [[archive/2025/notes/auth#Tokens|t]] ![[archive/2025/notes/auth.md]] [[deep/pic.txt]]\r\n\
         [md](archive/2025/notes/auth.md#x) [angled](<archive/2025/notes/auth.md>) ![](./archive/2025/notes/deep/pic.txt)\n\
         [ref][a] [root](/archive/2025/notes/auth.md)  \n\n[a]: archive/2025/notes/auth.md \"title\"\n\n    [[notes/auth]]\n`[[notes/auth]]`"
    );
    assert_eq!(
        space.text("archive/2025/notes/inner.md"),
        "[[auth]] [up](../../../guide.md) [side](auth.md) ![](deep/pic.txt) [[guide]] [[archive/2025/notes/auth]]\n"
    );
    let (commit, _, message) = space.newest("index.md");
    assert_eq!(message, "anonymous: rename dir notes → archive/2025/notes (updated 9 links)");
    for same in ["archive/2025/notes/auth.md", "archive/2025/notes/inner.md"] {
        assert_eq!(space.newest(same).0, commit);
    }
    assert_ne!(space.newest("far.md").0, commit);
    assert_eq!(space.refusal("read", json!({ "path": "notes/auth.md" })).0, 404);
    assert_eq!(space.get("read", json!({ "path": "archive/2025/notes/deep/pic.txt" }))["content"], "picture");
    let backlinks = space.get("backlinks", json!({ "path": "archive/2025/notes/auth.md" }));
    assert_eq!(backlinks.as_array().unwrap().len(), 2);
}

#[test]
fn links_between_pages_that_move_together_stay_as_they_are() {
    let space = TestSpace::new();
    space.put("a/note.md", "# Near\n");
    space.put("b/note.md", "# Far\n");
    space.put("a/page.md", "[[note]] [n](note.md) ![[./note]]\n");
    space.put("b/page.md", "[[note]]\n");
    space.put("top.md", "[[a/note]] [[b/note]] [[Near]]\n");
    space.get("rename_dir", json!({ "from": "a", "to": "c" }));
    assert_eq!(space.text("c/page.md"), "[[note]] [n](note.md) ![[./note]]\n");
    assert_eq!(space.text("b/page.md"), "[[note]]\n");
    assert_eq!(space.text("top.md"), "[[c/note]] [[b/note]] [[Near]]\n");
}

#[test]
fn a_directory_without_pages_and_one_without_anything_move_too() {
    let space = TestSpace::new();
    space.put("img/a.svg", "<svg/>");
    space.put("page.md", "![](img/a.svg) ![[a.svg]]\n");
    let renamed = space.get("rename_dir", json!({ "from": "img", "to": "assets/img" }));
    assert_eq!(renamed["renamed"], 1);
    assert_eq!(space.text("page.md"), "![](assets/img/a.svg) ![[a.svg]]\n");
    std::fs::create_dir(space.root().join("empty")).unwrap();
    let renamed = space.get("rename_dir", json!({ "from": "empty", "to": "void" }));
    assert_eq!(renamed["renamed"], 0);
    assert!(space.root().join("void").is_dir() && !space.root().join("empty").exists());
    let same = space.get("rename_dir", json!({ "from": "void", "to": "./void" }));
    assert_eq!(same, json!({ "from": "void", "to": "void", "renamed": 0 }));
}

#[test]
fn a_rename_of_a_directory_that_cannot_be_is_refused() {
    let space = TestSpace::new();
    space.put("a.md", "# A\n");
    space.put("d/b.md", "# B\n");
    space.put("e/c.md", "# C\n");
    std::fs::create_dir(space.root().join("empty")).unwrap();
    for (arguments, status, message) in [
        (json!({ "to": "x" }), 400, "from is required"),
        (json!({ "from": "d" }), 400, "to is required"),
        (json!({ "from": "/", "to": "x" }), 400, "from is required"),
        (json!({ "from": "d", "to": "" }), 400, "to is required"),
        (json!({ "from": "gone", "to": "x" }), 404, "source directory not found"),
        (json!({ "from": "gone", "to": "gone" }), 404, "source directory not found"),
        (json!({ "from": "a.md", "to": "x" }), 409, "`a.md` is a file, not a directory"),
        (json!({ "from": "d", "to": "e" }), 409, "`e` exists already"),
        (json!({ "from": "d", "to": "empty" }), 409, "`empty` exists already"),
        (json!({ "from": "d", "to": "a.md" }), 409, "`a.md` exists already"),
        (json!({ "from": "d", "to": "d/deeper" }), 400, "`to`: `d` cannot be moved below itself"),
        (json!({ "from": "d", "to": "a.md/x" }), 409, "a part of `a.md` is not a directory"),
        (json!({ "from": ".git", "to": "x" }), 404, "source directory not found"),
        (
            json!({ "from": "d", "to": ".svc/state/x" }),
            400,
            "`path`: path denied: `.svc/state/x` belongs to the server",
        ),
        (json!({ "from": "d", "to": "../x" }), 400, "path denied: `..` in `..`"),
        (json!({ "from": 3, "to": "x" }), 400, "`from`: invalid type: integer `3`, expected a string"),
    ] {
        assert_eq!(space.refusal("rename_dir", arguments.clone()), (status, message.to_owned()), "{arguments}");
    }
    let stale = expecting(Precondition::OneOf(vec![ETag::from_content(b"old")]));
    let (status, message) = status_and_error(space.ask_as(&stale, "rename_dir", json!({ "from": "d", "to": "x" })));
    assert_eq!((status, message.starts_with("`If-Match`: ")), (400, true), "{message}");
    assert_eq!(space.text("d/b.md"), "# B\n");
}

#[test]
fn a_linking_page_with_a_lint_error_of_its_own_blocks_no_rename() {
    let space = TestSpace::with("", &[("d/a.md", "# A\n"), ("broken.md", "[[d/a]]\n\n```mermaid\n```\n")]);
    space.get("rename_dir", json!({ "from": "d", "to": "e" }));
    assert_eq!(space.text("e/a.md"), "# A\n");
    assert!(space.text("broken.md").ends_with("\n\n```mermaid\n```\n"));
}

#[test]
fn a_hub_and_everything_that_links_to_it_change_in_one_commit() {
    let space = TestSpace::new();
    let linking = |n: usize| json!({ "path": format!("p{}/n{n}.md", n % 7), "content": format!("[[hub]] {n}\n") });
    let files: Vec<_> = (0..300).map(linking).chain([json!({ "path": "hub.md", "content": "# Hub\n" })]).collect();
    space.get("bulk_write", json!({ "files": files }));
    let renamed = space.get("rename", json!({ "from": "hub.md", "to": "core/center.md" }));
    assert_eq!(renamed["updated_links"], 300);
    assert_eq!(space.text("p4/n60.md"), "[[center]] 60\n");
    assert_eq!(space.newest("p4/n60.md").0, space.newest("core/center.md").0);
    let renamed = space.get("rename_dir", json!({ "from": "core", "to": "p0/core" }));
    assert_eq!(renamed["renamed"], 1);
    assert_eq!(space.text("p4/n60.md"), "[[center]] 60\n", "the name still leads there");
}

/// Where each link of each page leads; none where it leads nowhere.
fn leading(space: &TestSpace) -> BTreeMap<TreePath, Vec<Option<TreePath>>> {
    let index = &space.space().index;
    space.settle();
    let links = |page: &TreePath| index.links_out(page).unwrap().into_iter().map(|link| link.resolved_path).collect();
    index.paths(&TreePath::root()).unwrap().into_iter().map(|page| (page.clone(), links(&page))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn after_a_directory_has_moved_every_link_leads_where_it_led(
        pages in prop::collection::btree_map(
            "([abd]/){0,2}[xyz]\\.md",
            prop::collection::vec(
                prop_oneof![
                    "\\[\\[([abd]/){0,2}[xyz]\\]\\]",
                    "!\\[\\[[xyz]\\.md#h\\|l\\]\\]",
                    "\\[l\\]\\((\\.\\./){0,2}([abd]/){0,2}[xyz]\\.md#h\\)",
                    "\\[\\[\\.\\./[xyz]\\]\\]",
                ],
                0..4,
            ),
            1..10,
        ),
        to in "(n|a/n|n/m|x\\.md)",
    ) {
        let space = TestSpace::new();
        let text = |links: &Vec<String>| format!("*  kept as it is  \n{}\n\n`[[x]]`", links.join(" and\n"));
        let files: Vec<_> = pages
            .iter()
            .map(|(path, links)| json!({ "path": path, "content": text(links) }))
            .chain([json!({ "path": "d/always.md", "content": "# Always\n" })])
            .collect();
        space.get("bulk_write", json!({ "files": files }));
        let before = leading(&space);
        if let Err(fault) = space.ask("rename_dir", json!({ "from": "d", "to": to })) {
            prop_assert!(matches!(fault.kind().http(), 400 | 409), "{fault:?}");
            prop_assert_eq!(leading(&space), before);
            return Ok(());
        }
        let after = leading(&space);
        let moved = |place: &TreePath| place.rebase(&path("d"), &path(&to));
        for (page, links) in before {
            let now = &after[&moved(&page).unwrap_or_else(|| page.clone())];
            prop_assert_eq!(links.len(), now.len());
            for (target, now) in links.into_iter().zip(now) {
                // A link that nothing has happened to may mean a page that came nearer, as whenever
                // one comes.
                if let Some(target) = target
                    && (moved(&page).is_some() || moved(&target).is_some())
                {
                    prop_assert_eq!(now.as_ref(), Some(&moved(&target).unwrap_or(target)), "from {}", page);
                }
            }
        }
    }
}
