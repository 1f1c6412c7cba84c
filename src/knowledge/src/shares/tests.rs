#![expect(clippy::disallowed_methods, reason = "another program changes the tree beside the server")]

use serde_json::{Value, json};
use svcfs_base::{Actor, Caller, Change, Permissions, Protocol, Scope};

use super::{ShareRefusal, open_share};
use crate::spaces::test_space::{TestSpace, caller, path, status_and_error};

fn space() -> TestSpace {
    TestSpace::with("", &[("docs/plan.md", "# Plan\n"), ("docs/other.md", "# Other\n"), ("top.md", "# Top\n")])
}

fn share(space: &TestSpace, arguments: Value) -> Value {
    space.ask_as(&caller().with_actor(Actor::new("ann")), "share", arguments).unwrap()
}

/// The path and text behind a link, or the status.
fn open(space: &TestSpace, link: &Value, password: Option<&str>) -> Result<(String, String), u16> {
    let token = link["token"].as_str().unwrap();
    match open_share(space.server(), (token, password), None) {
        Ok(page) => {
            page.count_view();
            Ok((page.path.to_string(), String::from_utf8(page.file.content.to_vec()).unwrap()))
        }
        Err(ShareRefusal::Password) => Err(401),
        Err(ShareRefusal::Fault(fault)) => Err(fault.kind().http()),
    }
}

fn views(space: &TestSpace, page: &str) -> Vec<u64> {
    let listed = space.get("shares_list", json!({ "path": page }));
    listed.as_array().unwrap().iter().map(|link| link["viewCount"].as_u64().unwrap()).collect()
}

#[test]
fn a_link_shows_its_page_and_counts_until_it_is_revoked() {
    let space = space();
    let link = share(&space, json!({ "path": "docs/plan.md" }));
    let token = link["token"].as_str().unwrap();
    assert_eq!((token.len(), link["id"].as_str().unwrap().len()), (43, 16), "{link}");
    assert_eq!(link["url"], format!("/api/svc/public/{token}"));
    assert_eq!((&link["createdBy"], &link["hasPassword"]), (&json!("ann"), &json!(false)));
    assert!(link.get("expiresAt").is_none());
    for _ in 0..3 {
        assert_eq!(open(&space, &link, None).unwrap().1, "# Plan\n");
    }
    let listed = space.get("shares_list", json!({ "path": "docs/plan.md" }));
    assert!(listed[0].get("token").is_none() && listed[0].get("url").is_none(), "{listed}");
    assert_eq!(views(&space, "docs/plan.md"), [3]);
    assert_eq!(views(&space, "docs/other.md"), [0; 0]);
    space.space().flush_records();
    let space = space.again();
    assert_eq!(views(&space, "docs/plan.md"), [3]);
    assert!(open(&space, &link, None).is_ok());
    assert_eq!(space.get("share_revoke", json!({ "id": link["id"] })), json!({ "revoked": link["id"] }));
    assert_eq!(open(&space, &link, None), Err(404));
    assert_eq!(space.refusal("share_revoke", json!({ "id": link["id"] })).0, 404);
    assert_eq!(open(&space.again(), &link, None), Err(404));
}

#[test]
fn neither_token_nor_password_is_stored() {
    let space = space();
    let link = share(&space, json!({ "path": "top.md", "password": "correct horse" }));
    assert_eq!(link["hasPassword"], true);
    for (password, expected) in
        [(None, 401), (Some(""), 401), (Some("Correct horse"), 401), (Some("correct horse "), 401)]
    {
        assert_eq!(open(&space, &link, password), Err(expected), "{password:?}");
    }
    assert!(open(&space, &link, Some("correct horse")).is_ok());
    let mut files = 0;
    for entry in std::fs::read_dir(space.root().join(".svc/state")).unwrap() {
        let file = entry.unwrap().path();
        if !file.is_file() {
            continue;
        }
        files += usize::from(file.ends_with("shares.db"));
        let bytes = std::fs::read(&file).unwrap();
        for secret in [link["token"].as_str().unwrap(), "correct horse"] {
            assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{}", file.display());
        }
    }
    assert_eq!(files, 1);
}

#[test]
fn bad_shares_are_refused_with_their_field() {
    let space = space();
    for (arguments, status, message) in [
        (json!({}), 400, "path is required"),
        (json!({ "path": "" }), 400, "path is required"),
        (json!({ "path": "none.md" }), 404, "file not found: none.md"),
        (json!({ "path": "docs" }), 404, "file not found: docs"),
        (json!({ "path": ".svc/config.toml" }), 404, "file not found"),
        (json!({ "path": "top.md", "expiresIn": "x" }), 400, "`expiresIn`: must be a time"),
        (json!({ "path": "top.md", "expiresIn": "0" }), 400, "`expiresIn`: must be more than 0"),
        (json!({ "path": "top.md", "expiresIn": "-1h" }), 400, "`expiresIn`: must be more than 0"),
        (json!({ "path": "top.md", "expiresIn": "9999999h" }), 400, "`expiresIn`: must be 10 years"),
        (json!({ "path": "top.md", "expiresIn": "9".repeat(400) + "h" }), 400, "`expiresIn`: must be 10 years"),
        (json!({ "path": "top.md", "password": "" }), 400, "`password`: must have 1 to 256 bytes"),
        (json!({ "path": "top.md", "password": "x".repeat(257) }), 400, "`password`: must have 1 to 256 bytes"),
    ] {
        let (found, text) = space.refusal("share", arguments);
        assert!(found == status && text.starts_with(message), "{found} {text}");
    }
    for token in ["", "x", "..", &"a".repeat(100_000)] {
        assert_eq!(open(&space, &json!({ "token": token }), None), Err(404));
    }
}

#[test]
fn a_link_expires_at_its_time() {
    let space = space();
    let link = share(&space, json!({ "path": "top.md", "expiresIn": "1h" }));
    let created: svcfs_base::Timestamp = link["createdAt"].as_str().unwrap().parse().unwrap();
    let expires: svcfs_base::Timestamp = link["expiresAt"].as_str().unwrap().parse().unwrap();
    assert_eq!(expires.duration_since(created).as_secs(), 3_600);
    // The clock of the tests advances one second at each reading.
    let short = share(&space, json!({ "path": "top.md", "expiresIn": "3s" }));
    (0..5).for_each(|_| assert!(space.server().now() > created));
    assert_eq!((open(&space, &short, None), open(&space, &link, None).is_ok()), (Err(404), true));
    assert_eq!(views(&space, "top.md"), [1], "lists omit expired links");
    assert_eq!(space.refusal("share_revoke", json!({ "id": short["id"] })).0, 404);
}

#[test]
fn a_link_follows_renames_and_ends_with_its_page() {
    let space = space();
    let link = share(&space, json!({ "path": "docs/plan.md" }));
    let fuse = Caller::new(Protocol::Fuse);
    let apply = |change: Change| space.space().vfs.apply(&fuse, change).unwrap();
    apply(Change::rename(path("docs/plan.md"), path("docs/moved.md")));
    apply(Change::rename(path("docs"), path("a")));
    space.get("rename", json!({ "from": "a/moved.md", "to": "b/last.md" }));
    space.get("rename_dir", json!({ "from": "b", "to": "docs" }));
    assert_eq!(open(&space, &link, None).unwrap().0, "docs/last.md");
    // An editor that makes a backup.
    apply(Change::rename(path("docs/last.md"), path("docs/last.md~")));
    assert_eq!(open(&space, &link, None), Err(404));
    apply(Change::put(path("docs/last.md"), "# Saved\n"));
    assert_eq!(open(&space, &link, None).unwrap().1, "# Saved\n");
    let space = space.again();
    assert_eq!(open(&space, &link, None).unwrap().0, "docs/last.md");
    space.get("delete", json!({ "path": "docs/last.md" }));
    space.put("docs/last.md", "# New\n");
    assert_eq!(open(&space, &link, None), Err(404), "a new page under an old name is not shared");
    assert_eq!(views(&space, "docs/last.md"), [0; 0]);
}

#[test]
fn a_link_follows_its_page_whatever_changes_it() {
    let fuse = Caller::new(Protocol::Fuse);
    let space = space();
    let link = share(&space, json!({ "path": "docs/plan.md" }));
    let apply = |change: Change| space.space().vfs.apply(&fuse, change).unwrap();
    // `sed -i.bak`.
    apply(Change::rename(path("docs/plan.md"), path("docs/plan.md.bak")));
    assert_eq!(open(&space, &link, None).unwrap().0, "docs/plan.md.bak");
    space.space().shares.flush(space.server().now()).unwrap();
    apply(Change::put(path("docs/plan.md"), "# Edited\n"));
    assert_eq!(open(&space, &link, None).unwrap().1, "# Edited\n");
    // Beside the server.
    std::fs::rename(space.root().join("docs/plan.md"), space.root().join("there.md")).unwrap();
    space.space().vfs.rescan().unwrap();
    assert_eq!(open(&space, &link, None).unwrap().0, "there.md");
    std::fs::remove_file(space.root().join("there.md")).unwrap();
    space.space().vfs.rescan().unwrap();
    assert_eq!(open(&space, &link, None), Err(404));
    space.edit_behind("there.md", "# Back\n");
    assert_eq!(open(&space, &link, None).unwrap().1, "# Back\n");
    // A rename that no request has seen before a restart.
    apply(Change::rename(path("there.md"), path("docs/last.md")));
    let space = space.again();
    assert_eq!(open(&space, &link, None).unwrap().0, "docs/last.md");
    // The trash of a file manager.
    let apply = |change: Change| space.space().vfs.apply(&fuse, change).unwrap();
    apply(Change::rename(path("docs"), path(".Trash-0")));
    space.put("docs/last.md", "# Private\n");
    assert_eq!(open(&space, &link, None), Err(404));
}

#[test]
fn shares_are_exchanged_with_their_pages() {
    let space = space();
    let link = share(&space, json!({ "path": "top.md" }));
    let puts = vec![Change::put(path("top.md"), "# Plan\n"), Change::put(path("docs/plan.md"), "# Top\n")];
    space.space().vfs.apply(&Caller::new(Protocol::Fuse), svcfs_base::ChangeSet::new(puts)).unwrap();
    assert_eq!(open(&space, &link, None), Ok(("docs/plan.md".to_owned(), "# Top\n".to_owned())));
}

#[test]
fn a_key_of_a_folder_shares_its_pages_only() {
    let space = space();
    let outside = share(&space, json!({ "path": "top.md" }));
    let key = Caller { permissions: Permissions { scope: Scope::Write, folder: Some(path("docs")) }, ..caller() };
    let ask = |name: &str, arguments: Value| space.ask_as(&key, name, arguments);
    let link = ask("share", json!({ "path": "docs/plan.md" })).unwrap();
    for name in ["share", "shares_list"] {
        assert_eq!(status_and_error(ask(name, json!({ "path": "top.md" }))).0, 403, "{name}");
    }
    assert_eq!(status_and_error(ask("share_revoke", json!({ "id": outside["id"] }))).0, 404);
    // A link to a page outside, put where the shared page was.
    space.space().vfs.apply(&Caller::new(Protocol::Fuse), Change::symlink(path("docs/plan.md"), "../top.md")).unwrap();
    assert_eq!(open(&space, &link, None), Err(404));
    ask("share_revoke", json!({ "id": link["id"] })).unwrap();
}

#[test]
fn guesses_are_limited_for_each_share_and_address() {
    let space = space();
    let link = share(&space, json!({ "path": "top.md", "password": "secret" }));
    let token = link["token"].as_str().unwrap();
    let try_open = |token: &str, password, address: &str| match open_share(
        space.server(),
        (token, password),
        Some(address.parse().unwrap()),
    ) {
        Ok(_) => 200,
        Err(ShareRefusal::Password) => 401,
        Err(ShareRefusal::Fault(fault)) => fault.kind().http(),
    };
    // One more attempt is allowed every two seconds, so a slow machine allows some more.
    let wrong: Vec<u16> = std::iter::repeat_with(|| try_open(token, Some("guess"), "192.0.2.1"))
        .take_while(|status| *status == 401)
        .take(200)
        .collect();
    assert!((30..200).contains(&wrong.len()), "{}", wrong.len());
    let other = share(&space, json!({ "path": "docs/plan.md", "password": "secret" }));
    assert_eq!(try_open(other["token"].as_str().unwrap(), Some("secret"), "192.0.2.1"), 200, "another share");
    assert_eq!(try_open(token, Some("secret"), "192.0.2.2"), 200);
    // A password that was right is not a guess.
    assert!((0..100).all(|_| try_open(token, Some("secret"), "192.0.2.2") == 200));
    assert_eq!(try_open(token, Some("secret"), "192.0.2.1"), 200);
    assert!((0..100).all(|_| try_open("unknown", None, "192.0.2.3") == 404), "tokens cannot be guessed");
}
