mod model;

use serde_json::{Value, json};
use svcfs_base::{Caller, Change, ETag, Permissions, Precondition, Protocol, Scope};

use crate::spaces::test_space::{TestSpace, expecting, from_run, path, status_and_error};

const BASE: &str = "# Title\n\none\n\ntwo\n\nthree\n\nfour\n";

/// Applies changes as an actor, in one commit.
pub(super) fn apply_as(space: &TestSpace, actor: &str, changes: Vec<Change>) {
    let caller = from_run(actor, "");
    space.space().vfs.apply(&caller, svcfs_base::ChangeSet::new(changes)).unwrap();
}

fn put_as(space: &TestSpace, actor: &str, page: &str, text: &str) {
    apply_as(space, actor, vec![Change::put(path(page), text.to_owned())]);
}

fn exists(space: &TestSpace, page: &str) -> bool {
    space.ask("read", json!({ "path": page })).is_ok()
}

fn undo(space: &TestSpace, arguments: Value) -> Value {
    space.ask_as(&from_run("ann", ""), "revert", arguments).unwrap()
}

/// Path and action of the undone pages.
fn actions(answer: &Value) -> Vec<(&str, &str)> {
    let pages = answer["undone"].as_array().unwrap().iter();
    pages.map(|page| (page["path"].as_str().unwrap(), page["action"].as_str().unwrap())).collect()
}

fn reasons(answer: &Value) -> Vec<(&str, &str)> {
    let conflicts = answer["conflicts"].as_array().unwrap().iter();
    conflicts.map(|conflict| (conflict["path"].as_str().unwrap(), conflict["reason"].as_str().unwrap())).collect()
}

#[test]
fn a_page_that_a_rule_protects_stays_and_is_listed() {
    let space = TestSpace::new();
    let log = "---\nappend_only: true\n---\n\n- a\n";
    let longer = format!("{log}- b\n");
    space.put("log.md", log);
    space.put("a.md", BASE);
    let changes =
        vec![Change::put(path("log.md"), longer.clone()), Change::put(path("a.md"), BASE.replace("one", "ONE"))];
    apply_as(&space, "bot", changes);
    for undone in [vec![("a.md", "changed")], vec![]] {
        let answer = undo(&space, json!({ "actor": "bot" }));
        assert_eq!(actions(&answer), undone);
        assert_eq!(reasons(&answer).len(), 1, "{answer}");
        assert!(reasons(&answer)[0].1.contains("append-only"), "{answer}");
        assert_eq!((space.text("a.md"), space.text("log.md")), (BASE.to_owned(), longer.clone()));
    }
}

#[test]
fn changes_of_an_actor_are_undone_below_later_ones() {
    let space = TestSpace::new();
    space.put("a.md", BASE);
    put_as(&space, "bot", "a.md", &BASE.replace("one", "ONE"));
    put_as(&space, "zoe", "a.md", &BASE.replace("one", "ONE").replace("three", "THREE"));
    put_as(&space, "bot", "a.md", &BASE.replace("one", "ONE").replace("three", "THREE").replace("four", "FOUR"));
    let commits = |count: usize| space.get("versions", json!({ "path": "a.md" })).as_array().unwrap().len() == count;
    let shown = undo(&space, json!({ "actor": "bot", "dry_run": true }));
    assert_eq!((&shown["dry_run"], shown.get("version")), (&json!(true), None));
    assert!(shown["undone"][0]["diff"].as_str().unwrap().contains("-ONE\n+one\n"), "{shown}");
    assert!(commits(4), "a dry run changes nothing");
    let answer = undo(&space, json!({ "actor": "bot" }));
    assert_eq!(space.text("a.md"), BASE.replace("three", "THREE"));
    assert_eq!((actions(&answer), answer["conflicts"].clone()), (vec![("a.md", "changed")], json!([])));
    assert_eq!(answer["undone"][0]["commits"].as_array().unwrap().len(), 2);
    let (hash, author, message) = space.newest("a.md");
    assert_eq!((json!(hash), author.as_str()), (answer["version"].clone(), "ann"));
    assert!(message.starts_with("ann: undo 2 changes by bot\n\nUndoes: "), "{message}");
    // Undone already.
    let again = undo(&space, json!({ "actor": "bot" }));
    assert_eq!(again, json!({ "undone": [], "conflicts": [], "dry_run": false }));
    assert!(commits(5));
    // An undo can be undone.
    let redone = undo(&space, json!({ "commits": [hash] }));
    assert_eq!(actions(&redone), [("a.md", "changed")]);
    assert_eq!(space.text("a.md"), BASE.replace("one", "ONE").replace("three", "THREE").replace("four", "FOUR"));
}

#[test]
fn created_removed_and_renamed_pages_are_undone() {
    let space = TestSpace::new();
    for page in ["kept.md", "removed.md", "renamed.md", "edited.md"] {
        space.put(page, &BASE.replace("Title", page));
    }
    put_as(&space, "bot", "new.md", "# New\n");
    put_as(&space, "bot", "both.md", "# Both\n");
    apply_as(&space, "bot", vec![Change::remove(path("removed.md"))]);
    apply_as(&space, "bot", vec![Change::rename(path("renamed.md"), path("d/moved.md"))]);
    put_as(&space, "bot", "edited.md", &BASE.replace("one", "ONE"));
    // Later changes by others.
    put_as(&space, "zoe", "both.md", "# Both\n\nzoe\n");
    put_as(&space, "zoe", "d/moved.md", &BASE.replace("Title", "renamed.md").replace("four", "FOUR"));
    apply_as(&space, "zoe", vec![Change::rename(path("edited.md"), path("e/edited.md"))]);
    let answer = undo(&space, json!({ "actor": "bot" }));
    assert_eq!(
        actions(&answer),
        [("e/edited.md", "changed"), ("new.md", "removed"), ("removed.md", "restored"), ("renamed.md", "renamed")]
    );
    assert_eq!(reasons(&answer), [("both.md", "the page was created by this change and changed since")]);
    assert_eq!(answer["undone"][3]["former"], "d/moved.md");
    assert_eq!(space.text("renamed.md"), BASE.replace("Title", "renamed.md").replace("four", "FOUR"));
    assert_eq!(space.text("e/edited.md"), BASE.replace("Title", "edited.md").replace("Title", "edited.md"));
    assert_eq!(space.text("removed.md"), BASE.replace("Title", "removed.md"));
    assert!(!exists(&space, "new.md") && !exists(&space, "d/moved.md") && exists(&space, "both.md"));
}

#[test]
fn what_overlaps_with_changes_by_others_is_listed_and_stays() {
    let space = TestSpace::new();
    for page in ["a.md", "gone.md", "again.md", "free.md"] {
        space.put(page, BASE);
    }
    put_as(&space, "bot", "a.md", &BASE.replace("one", "ONE").replace("four", "FOUR"));
    put_as(&space, "bot", "gone.md", &BASE.replace("one", "ONE"));
    apply_as(&space, "bot", vec![Change::remove(path("again.md"))]);
    apply_as(&space, "bot", vec![Change::rename(path("free.md"), path("moved.md"))]);
    put_as(&space, "zoe", "a.md", &BASE.replace("one", "eins").replace("four", "FOUR"));
    apply_as(&space, "zoe", vec![Change::remove(path("gone.md"))]);
    put_as(&space, "zoe", "again.md", "# Other\n");
    put_as(&space, "zoe", "free.md", "# Other\n");
    let answer = undo(&space, json!({ "actor": "bot" }));
    assert_eq!(space.text("a.md"), BASE.replace("one", "eins"), "what does not overlap is undone");
    assert_eq!(
        reasons(&answer),
        [
            ("a.md", "the lines were changed since"),
            ("again.md", "the page was removed by this change, and exists again"),
            ("free.md", "another page has this path now"),
            ("gone.md", "the page was removed since"),
        ]
    );
    assert_eq!(answer["conflicts"][0]["lines"], json!({ "start": 3, "end": 3 }));
    assert_eq!(actions(&answer), [("a.md", "changed")]);
}

#[test]
fn selectors_limit_each_other() {
    let space = TestSpace::new();
    put_as(&space, "bot", "a/one.md", "1\n");
    put_as(&space, "bot", "b/two.md", "2\n");
    put_as(&space, "zoe", "b/three.md", "3\n");
    let (commit, ..) = space.newest("b/two.md");
    let second = space.get("versions", json!({ "path": "b/two.md" }))[0]["timestamp"].clone();
    for (selector, expected) in [
        (json!({ "actor": "bot" }), vec!["a/one.md", "b/two.md"]),
        (json!({ "actor": "bot", "paths": ["b"] }), vec!["b/two.md"]),
        (json!({ "actor": "bot", "paths": ["b/two.md", "a"] }), vec!["a/one.md", "b/two.md"]),
        (json!({ "commits": [&commit[..8]] }), vec!["b/two.md"]),
        (json!({ "commits": [commit], "actor": "zoe" }), vec![]),
        (json!({ "since": second }), vec!["b/three.md", "b/two.md"]),
        (json!({ "since": "24h", "actor": "zoe" }), vec!["b/three.md"]),
        (json!({ "since": "2030-01-01T00:00:00Z" }), vec![]),
        (json!({ "actor": "nobody" }), vec![]),
    ] {
        let mut arguments = selector.clone();
        arguments["dry_run"] = true.into();
        let answer = undo(&space, arguments);
        let paths: Vec<&str> = actions(&answer).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, expected, "{selector}");
    }
    for (arguments, status, message) in [
        (json!({}), 400, "nothing is selected"),
        (json!({ "dry_run": true }), 400, "nothing is selected"),
        (json!({ "since": "yesterday" }), 400, "`since`"),
        (json!({ "since": "-5m" }), 400, "`since`"),
        (json!({ "commits": [] }), 400, "`commits`"),
        (json!({ "paths": [] }), 400, "`paths`"),
        (json!({ "commits": ["0000000"] }), 404, "`commits`: no commit `0000000`"),
        (json!({ "commits": ["x\u{1b}"] }), 404, "`commits`: no commit"),
        (json!({ "actor": "bot", "hunks": [1] }), 400, "`etag`"),
        (json!({ "actor": "bot", "hunks": [1], "etag": "x" }), 400, "`etag`"),
    ] {
        let (found, text) = space.refusal("revert", arguments.clone());
        assert!(found == status && text.starts_with(message), "{arguments}: {found} {text}");
    }
}

#[test]
fn hunks_of_a_dry_run_are_selected_by_number() {
    let space = TestSpace::new();
    space.put("a.md", BASE);
    put_as(&space, "bot", "a.md", &BASE.replace("one", "ONE").replace("four", "FOUR"));
    put_as(&space, "bot", "b.md", "# B\n");
    let shown = undo(&space, json!({ "actor": "bot", "dry_run": true }));
    let hunks = |page: usize| shown["undone"][page]["hunks"].clone();
    assert_eq!(hunks(0), json!([{ "number": 1, "start": 3, "end": 3 }, { "number": 2, "start": 9, "end": 9 }]));
    assert_eq!(hunks(1), json!([{ "number": 3, "start": 1, "end": 1 }]));
    let select = |hunks: &[u32]| json!({ "actor": "bot", "hunks": hunks, "etag": shown["etag"] });
    let (status, message) = space.refusal("revert", select(&[4]));
    assert_eq!((status, message.as_str()), (400, "`hunks`: there is no hunk 4; there are 3"));
    undo(&space, select(&[2]));
    assert_eq!((space.text("a.md"), exists(&space, "b.md")), (BASE.replace("one", "ONE"), true));
    // The pages are no longer as they were shown.
    let (status, message) = space.refusal("revert", select(&[1]));
    assert!(status == 409 && message.contains("changed since the dry run"), "{status} {message}");
}

#[test]
fn a_key_with_a_folder_undoes_only_what_is_in_it() {
    let space = TestSpace::new();
    put_as(&space, "bot", "team/a.md", "1\n");
    put_as(&space, "bot", "secret/b.md", "2\n");
    apply_as(&space, "bot", vec![Change::put(path("team/c.md"), "3\n"), Change::put(path("secret/c.md"), "3\n")]);
    let permissions = Permissions { scope: Scope::Write, folder: Some(path("team")) };
    let limited = Caller { permissions, ..Caller::new(Protocol::Http) };
    let answer = space.ask_as(&limited, "revert", json!({ "actor": "bot" })).unwrap();
    assert_eq!(actions(&answer), [("team/a.md", "removed"), ("team/c.md", "removed")]);
    assert!(exists(&space, "secret/b.md") && exists(&space, "secret/c.md"));
    apply_as(&space, "bot", vec![Change::remove(path("secret/b.md"))]);
    let trash = space.ask_as(&limited, "trash", json!({})).unwrap();
    let paths: Vec<&str> =
        trash["pages"].as_array().unwrap().iter().map(|page| page["path"].as_str().unwrap()).collect();
    assert_eq!((paths, &trash["total"]), (vec!["team/a.md", "team/c.md"], &json!(2)));
    let fault = space.ask_as(&limited, "restore", json!({ "path": "secret/b.md" })).unwrap_err();
    assert_eq!(fault.kind().http(), 403);
    let reader =
        Caller { permissions: Permissions { scope: Scope::Read, folder: None }, ..Caller::new(Protocol::Http) };
    for operation in ["revert", "undo", "restore"] {
        let fault = space.ask_as(&reader, operation, json!({ "actor": "bot", "path": "a.md" })).unwrap_err();
        assert_eq!(fault.kind().http(), 403, "{operation}");
    }
}

#[test]
fn removed_pages_are_in_the_trash_until_they_are_restored() {
    let space = TestSpace::new();
    for page in ["a.md", "d/b.md", "renamed.md", "picture.svg"] {
        space.put(page, &format!("text of {page}\n"));
    }
    apply_as(&space, "bot", vec![Change::rename(path("renamed.md"), path("other.md"))]);
    apply_as(&space, "bot", vec![Change::remove(path("a.md"))]);
    apply_as(&space, "zoe", vec![Change::remove(path("d/b.md")), Change::remove(path("picture.svg"))]);
    let trash = space.get("trash", json!({}));
    let rows: Vec<(&str, &str, u64)> = trash["pages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|page| {
            (page["path"].as_str().unwrap(), page["removed_by"].as_str().unwrap(), page["size"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(rows, [("d/b.md", "zoe", 15), ("picture.svg", "zoe", 20), ("a.md", "bot", 13)]);
    let second = space.get("trash", json!({ "limit": 1, "offset": 1 }));
    assert_eq!((&second["pages"][0]["path"], &second["total"]), (&json!("picture.svg"), &json!(3)));
    assert_eq!(space.get("trash", json!({ "path_prefix": "d" }))["total"], 1);
    let restored = space.get("restore", json!({ "path": "a.md" }));
    assert_eq!((&restored["restored"], space.text("a.md").as_str()), (&trash["pages"][2]["version"], "text of a.md\n"));
    assert_eq!(space.newest("a.md").0, restored["version"]);
    assert_eq!(space.get("trash", json!({}))["total"], 2);
}

#[test]
fn a_page_is_set_to_one_of_its_versions() {
    let space = TestSpace::new();
    let first = space.put("a.md", "one\n");
    let (version, ..) = space.newest("a.md");
    let second = space.put("a.md", "two\n");
    let arguments = json!({ "path": "a.md", "version": &version[..8] });
    let stale = expecting(Precondition::OneOf(vec![first]));
    assert_eq!(status_and_error(space.ask_as(&stale, "restore", arguments.clone())).0, 409);
    let current = expecting(Precondition::OneOf(vec![second]));
    let restored = space.ask_as(&current, "restore", arguments).unwrap();
    assert_eq!((space.text("a.md").as_str(), &restored["etag"]), ("one\n", &json!(ETag::from_content(b"one\n"))));
    for (arguments, status, message) in [
        (json!({}), 400, "path is required"),
        (json!({ "path": "" }), 400, "path is required"),
        (json!({ "path": "a.md" }), 400, "`version`: `a.md` exists"),
        (json!({ "path": "a.md", "version": "0000000" }), 404, "version not found"),
        (json!({ "path": "never.md" }), 404, "no version of `never.md` is stored"),
        (json!({ "path": ".svc/config.toml" }), 400, "`path`: path denied"),
    ] {
        let (found, text) = space.refusal("restore", arguments.clone());
        assert!(found == status && text.starts_with(message), "{arguments}: {found} {text}");
    }
}

#[test]
fn agents_undo_only_when_they_say_so() {
    let space = TestSpace::new();
    put_as(&space, "bot", "a.md", "1\n");
    let agent = Caller::new(Protocol::Mcp);
    let ask = |arguments: Value| space.ask_as(&agent, "undo", arguments).unwrap();
    assert_eq!(ask(json!({ "actor": "bot" }))["dry_run"], true);
    assert!(exists(&space, "a.md"));
    let answer = ask(json!({ "actor": "bot", "path_prefix": "a.md", "dry_run": false, "author": "cleaner" }));
    assert_eq!((&answer["dry_run"], exists(&space, "a.md")), (&json!(false), false));
    assert_eq!(space.newest("a.md").1, "cleaner");
}

#[test]
fn undo_wins_against_concurrent_writers() {
    let space = TestSpace::new();
    space.put("a.md", BASE);
    put_as(&space, "bot", "a.md", &BASE.replace("one", "ONE"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..30 {
                let text = space.text("a.md");
                let end = text.rfind("\n\n").unwrap() + 2;
                let edit = Change::put(path("a.md"), format!("{}{round}\n", &text[..end]));
                let etag = ETag::from_content(text.as_bytes());
                let edit = edit.with_precondition(Precondition::OneOf(vec![etag]));
                let _lost_race = space.space().vfs.apply(&from_run("zoe", ""), edit);
            }
        });
        undo(&space, json!({ "actor": "bot" }));
    });
    let text = space.text("a.md");
    assert!(text.starts_with("# Title\n\none\n\ntwo\n"), "{text}");
}

#[test]
fn an_empty_actor_selects_nothing() {
    let space = TestSpace::new();
    put_as(&space, "anonymous", "a.md", BASE);
    for actor in ["", " ", ".", "<>"] {
        for operation in ["revert", "undo", "timeline", "claims_list"] {
            let (status, message) = space.refusal(operation, json!({ "actor": actor }));
            assert!(status == 400 && message.starts_with("`actor`: "), "{operation} {actor:?}: {message}");
        }
    }
    assert_eq!(actions(&undo(&space, json!({ "actor": "anonymous" }))), [("a.md", "removed")]);
}
