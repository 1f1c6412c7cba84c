use serde_json::json;
use svcfs_base::{ETag, Precondition};

use crate::spaces::test_space::{TestSpace, caller, expecting, path, status_and_error};

/// Shows: HTTP-5
#[test]
fn rename_rewrites_links_in_the_same_commit() {
    let space = TestSpace::new();
    space.put("notes/auth.md", "# Auth\n");
    space.put("index.md", "[[auth]] and [[notes/auth#Tokens|tokens]], ![[auth.md]], `[[auth]]`\n");
    space.put("notes/other.md", "[sign in](./auth.md#top) and [again](auth.md)\n");
    space.put("far.md", "nothing here\n");
    let etag = ETag::from_content(b"# Auth\n");
    let renamed = space.get("rename", json!({ "from": "notes/auth.md", "to": "security/sign-in.md" }));
    let expected = json!({ "from": "notes/auth.md", "to": "security/sign-in.md", "etag": etag, "updated_links": 5 });
    assert_eq!(renamed, expected);
    assert_eq!(
        space.text("index.md"),
        "[[sign-in]] and [[security/sign-in#Tokens|tokens]], ![[sign-in.md]], `[[auth]]`\n"
    );
    assert_eq!(
        space.text("notes/other.md"),
        "[sign in](../security/sign-in.md#top) and [again](../security/sign-in.md)\n"
    );
    assert_eq!(space.refusal("read", json!({ "path": "notes/auth.md" })).0, 404);
    let (commit, author, message) = space.newest("security/sign-in.md");
    assert_eq!(author, "anonymous");
    assert_eq!(message, "anonymous: rename notes/auth.md → security/sign-in.md (updated 5 links)");
    assert_eq!(space.newest("index.md").0, commit);
    assert_eq!(space.newest("notes/other.md").0, commit);
    assert_ne!(space.newest("far.md").0, commit);
    let backlinks = space.get("backlinks", json!({ "path": "security/sign-in.md" }));
    assert_eq!(backlinks.as_array().unwrap().len(), 2);
}

#[test]
fn contradiction_fields_follow_a_rename_and_are_linked() {
    let space = TestSpace::new();
    space.put("moon.md", "---\ntitle: Moon\n---\nRound.\n");
    space.put("luna.md", "---\ntitle: Luna\ncontradicts: [moon, nowhere] # both\n---\nFlat.\n");
    let linked = |path: &str| space.get("backlinks", json!({ "path": path }));
    let context = json!([{ "path": "luna.md", "title": "Luna", "context": "contradicts: moon" }]);
    assert_eq!(linked("moon.md"), context);
    let renamed = space.get("rename", json!({ "from": "moon.md", "to": "sky/selene.md" }));
    assert_eq!(renamed["updated_links"], 1);
    assert_eq!(space.text("luna.md"), "---\ntitle: Luna\ncontradicts: [selene, nowhere] # both\n---\nFlat.\n");
    assert_eq!(space.get("contradictions", json!({}))[0]["pages"], json!(["luna.md", "sky/selene.md"]));
    assert_eq!(linked("sky/selene.md").as_array().unwrap().len(), 1);
}

#[test]
fn task_dependencies_follow_a_rename_in_every_link_form() {
    let space = TestSpace::new();
    space.put("base.md", "---\nstatus: open\n---\nFirst this.\n");
    let forms = [
        ("bare", "depends_on: [[base]]", "depends_on: [[ground]]"),
        ("link", "depends_on: [\"[[base]]\"] # why", "depends_on: [\"[[ground]]\"] # why"),
        ("path", "blocked_by: base.md", "blocked_by: ground.md"),
        ("markdown", "blocked_by: \"[x](base.md#part)\"", "blocked_by: \"[x](t/ground.md#part)\""),
    ];
    let page = |field: &str| format!("---\nstatus: todo\n{field}\n---\n");
    for (name, before, _) in forms {
        space.put(&format!("{name}.md"), &page(before));
    }
    assert_eq!(space.get("backlinks", json!({ "path": "base.md" })).as_array().unwrap().len(), 4);
    assert_eq!(space.get("rename", json!({ "from": "base.md", "to": "t/ground.md" }))["updated_links"], 4);
    for (name, _, after) in forms {
        assert_eq!(space.text(&format!("{name}.md")), page(after));
    }
    assert_eq!(space.get("eligible", json!({}))["tasks"], json!([]));
}

#[test]
fn a_mount_rename_updates_page_links_only_where_configured() {
    let rename = |space: &TestSpace, from: &str, to: &str| {
        space.get("rename", json!({ "from": from, "to": to, "as_mount": true }))["updated_links"].clone()
    };
    let plain = TestSpace::with("", &[("a.md", "# A\n"), ("index.md", "[[a]]\n")]);
    assert_eq!((rename(&plain, "a.md", "b.md"), plain.text("index.md").as_str()), (json!(0), "[[a]]\n"));
    let settings = "[links]\nupdate_on_rename = true\n";
    let space = TestSpace::with(settings, &[("a.md", "# A\n"), ("index.md", "[[a]]\n"), ("x.txt", "x\n")]);
    space.put("picture.md", "[x](x.txt)\n");
    assert_eq!(rename(&space, "x.txt", "y.txt"), json!(0));
    assert_eq!(rename(&space, "a.md", "sub/b.md"), json!(1));
    assert_eq!(space.text("index.md"), "[[b]]\n");
    assert_eq!(space.newest("index.md").2, "anonymous: rename a.md → sub/b.md (updated 1 links)");
    let mount = svcfs_base::Caller::new(svcfs_base::Protocol::Remote);
    let trash = json!({ "from": "sub/b.md", "to": ".trash/b.md", "as_mount": true });
    assert_eq!(space.ask_as(&mount, "rename", trash).unwrap()["updated_links"], 0);
    assert_eq!(space.text("index.md"), "[[b]]\n");
}

#[test]
fn a_page_missing_during_indexing_still_moves_its_links() {
    let space = TestSpace::new();
    space.put("index.md", "[[a]]\n");
    let rename = |from: &str, to: &str| {
        let change = svcfs_base::Change::rename(path(from), path(to));
        space.space().vfs.apply(&caller(), change).unwrap();
    };
    // Until the index has read it while it was away: what it was told is older.
    for number in 0.. {
        space.put("a.md", &format!("# A {number}\n"));
        rename("a.md", "a.md~");
        space.settle();
        rename("a.md~", "a.md");
        if space.space().index.page(&path("a.md")).unwrap().is_none() {
            break;
        }
    }
    assert_eq!(space.get("rename", json!({ "from": "a.md", "to": "b.md" }))["updated_links"], 1);
    assert_eq!(space.text("index.md"), "[[b]]\n");
}

#[test]
fn a_page_with_very_many_backlinks_is_renamed_in_one_commit() {
    let space = TestSpace::new();
    space.put("hub.md", "---\naliases: [Mitte]\n---\n# Hub\n");
    space.put("other.md", "# Other\n");
    let path = |number: usize| format!("pages/{number:03}.md");
    // More than are read at once, of every form, beside links that lead elsewhere or nowhere.
    for number in 0..150 {
        let text = format!("Page {number}: [[hub]]  [[other]], [[mitte]] [x](../hub.md#y)\n[[nothing]] `[[hub]]`\n");
        space.put(&path(number), &text);
    }
    let renamed = space.get("rename", json!({ "from": "hub.md", "to": "deep/center.md" }));
    assert_eq!(renamed["updated_links"], 300);
    let commit = space.newest("deep/center.md").0;
    for number in 0..150 {
        let text = format!(
            "Page {number}: [[center]]  [[other]], [[mitte]] [x](../deep/center.md#y)\n[[nothing]] `[[hub]]`\n"
        );
        assert_eq!(space.text(&path(number)), text);
        assert_eq!(space.newest(&path(number)).0, commit);
    }
}

#[test]
fn an_ambiguous_link_name_gets_as_much_path_as_it_needs() {
    let space = TestSpace::new();
    space.put("a/draft.md", "# Draft\n");
    space.put("b/auth.md", "# Other\n");
    space.put("index.md", "[[draft]]\n");
    space.get("rename", json!({ "from": "a/draft.md", "to": "a/auth.md" }));
    assert_eq!(space.text("index.md"), "[[a/auth]]\n");
}

/// Shows: HTTP-5
#[test]
fn links_by_title_or_alias_stay_and_links_by_file_name_follow() {
    let space = TestSpace::new();
    space.put("auth.md", "---\ntitle: Auth\naliases: [Sign-in]\n---\n");
    space.put("b.md", "[[auth]] [[Auth#x|y]] [[sign-in]]\n");
    space.get("rename", json!({ "from": "auth.md", "to": "access.md" }));
    assert_eq!(space.text("b.md"), "[[access]] [[access#x|y]] [[sign-in]]\n");
    space.put("c.md", "---\ntitle: Long title\n---\n");
    space.put("b.md", "[[long title]]\n");
    space.get("rename", json!({ "from": "c.md", "to": "d.md" }));
    assert_eq!(space.text("b.md"), "[[long title]]\n");
}

#[test]
fn a_moved_page_keeps_leading_where_it_led() {
    let space = TestSpace::new();
    space.put("notes/b.md", "# B\n");
    space.put("notes/pic.txt", "picture");
    space.put("notes/a.md", "[b](b.md) ![p](pic.txt) [gone](gone.md) [[b]] [me](a.md)\n");
    let renamed = space.get("rename", json!({ "from": "notes/a.md", "to": "deep/er/a.md" }));
    assert_eq!(
        space.text("deep/er/a.md"),
        "[b](../../notes/b.md) ![p](../../notes/pic.txt) [gone](gone.md) [[b]] [me](a.md)\n"
    );
    assert_eq!(renamed["etag"], json!(ETag::from_content(space.text("deep/er/a.md").as_bytes())));
}

#[test]
fn files_that_are_no_pages_are_followed_too() {
    let space = TestSpace::new();
    space.put("img/old.svg", "<svg/>");
    space.put("a.md", "![x](img/old.svg) ![[old.svg]]\n");
    space.get("rename", json!({ "from": "img/old.svg", "to": "img/new.svg" }));
    assert_eq!(space.text("a.md"), "![x](img/new.svg) ![[new.svg]]\n");
}

#[test]
fn links_are_not_changed_when_requested() {
    let space = TestSpace::new();
    space.put("a.md", "# A\n");
    space.put("b.md", "[[a]]\n");
    let renamed = space.get("rename", json!({ "from": "a.md", "to": "c.md", "update_links": false }));
    assert_eq!(renamed["updated_links"], 0);
    assert_eq!(space.text("b.md"), "[[a]]\n");
    assert_eq!(space.newest("c.md").2, "anonymous: rename a.md → c.md");
}

#[test]
fn a_rename_that_cannot_be_is_refused() {
    let space = TestSpace::new();
    let etag = space.put("a.md", "# A\n");
    space.put("b.md", "# B\n");
    space.put("d/c.md", "# C\n");
    for (arguments, status, message) in [
        (json!({ "to": "x.md" }), 400, "from is required"),
        (json!({ "from": "a.md", "to": "/" }), 400, "to is required"),
        (json!({ "from": "x.md", "to": "y.md" }), 404, "source file not found"),
        (json!({ "from": "x.md", "to": "x.md" }), 404, "source file not found"),
        (json!({ "from": "a.md", "to": "b.md" }), 409, "`b.md` exists already"),
        (json!({ "from": "d", "to": "e" }), 409, "`d` is a directory, not a file"),
    ] {
        assert_eq!(space.refusal("rename", arguments), (status, message.to_owned()));
    }
    let stale = expecting(Precondition::OneOf(vec![ETag::from_content(b"old")]));
    assert_eq!(status_and_error(space.ask_as(&stale, "rename", json!({ "from": "a.md", "to": "z.md" }))).0, 409);
    let unchanged = space.get("rename", json!({ "from": "a.md", "to": "./a.md" }));
    assert_eq!(unchanged, json!({ "from": "a.md", "to": "a.md", "etag": etag, "updated_links": 0 }));
    assert_eq!(space.text("b.md"), "# B\n");
}

#[test]
fn a_linking_page_with_a_lint_error_of_its_own_blocks_no_rename() {
    let space = TestSpace::with("", &[("a.md", "# A\n"), ("broken.md", "[[a]]\n\n```mermaid\n```\n")]);
    let renamed = space.get("rename", json!({ "from": "a.md", "to": "b.md" }));
    assert_eq!(renamed["updated_links"], 1);
    assert_eq!(space.text("broken.md"), "[[b]]\n\n```mermaid\n```\n");
}

#[test]
fn a_rename_and_edits_of_a_linking_page_lose_nothing() {
    const ROUNDS: usize = 12;
    let space = TestSpace::new();
    space.put("p0.md", "# Page\n");
    space.put("log.md", "[[p0]]\n");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in 0..ROUNDS {
                space.get("append", json!({ "path": "log.md", "content": format!("line {line}\n") }));
            }
        });
        for round in 0..ROUNDS {
            let arguments = json!({ "from": format!("p{round}.md"), "to": format!("p{}.md", round + 1) });
            space.get("rename", arguments);
        }
    });
    let text = space.text("log.md");
    assert!(text.starts_with(&format!("[[p{ROUNDS}]]\n")), "{text}");
    assert!((0..ROUNDS).all(|line| text.contains(&format!("line {line}\n"))), "{text}");
}

#[test]
fn a_rename_replaces_the_version_it_names_and_no_other() {
    let space = TestSpace::new();
    space.put("new.md", "# New\n");
    let etag = space.put("a.md", "# Old\n");
    let ask = |replacing| json!({ "from": "new.md", "to": "a.md", "replacing": replacing });
    assert_eq!(space.refusal("rename", json!({ "from": "new.md", "to": "a.md" })).0, 409);
    assert_eq!(space.refusal("rename", ask(json!(ETag::from_content(b"x")))).0, 409);
    let (status, message) = space.refusal("rename", ask(json!("nonsense")));
    assert_eq!(status, 400);
    assert!(message.starts_with("`replacing`: "), "{message}");
    assert_eq!(space.text("a.md"), "# Old\n");
    space.get("rename", ask(json!(format!("\"{etag}\""))));
    assert_eq!(space.text("a.md"), "# New\n");
    assert_eq!(space.refusal("read", json!({ "path": "new.md" })).0, 404);
    space.put("new.md", "# Newer\n");
    space.get("rename", ask(json!("*")));
    assert_eq!(space.text("a.md"), "# Newer\n");
}

#[test]
fn a_rename_never_relies_on_an_index_that_is_behind() {
    let space = TestSpace::new();
    space.put("a.md", "# A\n");
    space.settle();
    space.stop_indexing();
    space.put("b.md", "[[a]]\n");
    let caller = caller();
    let Err(fault) = space.cx(&caller).up_to_date_index(std::time::Duration::ZERO) else { panic!("it knows all") };
    assert_eq!(fault.kind().http(), 503);
    assert_eq!(fault.message(), "the search index is 1 changes behind; try again later");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "an edit behind the server, which no gate sees")]
fn a_linking_page_with_invalid_utf_8_is_unchanged_and_reported() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    std::fs::write(space.root().join("b.md"), b"\xff[[a]]\n").unwrap();
    assert_eq!(space.space().vfs.rescan().unwrap(), 1);
    space.settle();
    let caller = svcfs_base::Caller::new(svcfs_base::Protocol::Http);
    let cx = space.cx(&caller);
    let rename = super::super::AREA.operations.iter().find(|entry| entry.name == "rename").unwrap();
    let renamed = (rename.call)(json!({ "from": "a.md", "to": "c.md" }), &cx).unwrap();
    assert_eq!(renamed["updated_links"], 0);
    assert_eq!(cx.response_meta().notes, ["the links of `b.md` were not updated: it is not UTF-8"]);
    assert_eq!(std::fs::read(space.root().join("b.md")).unwrap(), b"\xff[[a]]\n");
}
