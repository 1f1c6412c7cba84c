mod as_of;
mod log_rebuild;

use serde_json::json;
use svcfs_base::{Caller, Kind, Permissions, Protocol, Scope, TreePath};

use crate::spaces::test_space::{TestSpace, from_run};

#[test]
fn versions_are_newest_first_and_outlive_the_page() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let zoe = from_run("Zoë", "");
    space.ask_as(&zoe, "write", json!({ "path": "a.md", "content": "two\n" })).unwrap();
    space.get("delete", json!({ "path": "a.md" }));
    let versions = space.get("versions", json!({ "path": "a.md" }));
    let field = |name: &str| -> Vec<&str> {
        versions.as_array().unwrap().iter().map(|version| version[name].as_str().unwrap()).collect()
    };
    assert_eq!(field("message"), ["delete: a.md", "Zoë: a.md", "anonymous: a.md"]);
    assert_eq!(field("author"), ["anonymous", "Zoë", "anonymous"]);
    assert!(field("timestamp").iter().all(|time| time.starts_with("2026-01-01T00:0") && time.ends_with('Z')));
    assert_eq!(space.refusal("versions", json!({ "path": "b.md" })), (404, "file not found: b.md".to_owned()));
}

#[test]
fn old_versions_are_read_compared_and_blamed() {
    let space = TestSpace::new();
    space.put("a.md", "one\ntwo\n");
    let first = space.newest("a.md").0;
    let zoe = from_run("Zoë", "");
    space.ask_as(&zoe, "write", json!({ "path": "a.md", "content": "one\nthree\n" })).unwrap();
    let second = space.newest("a.md").0;
    let old = space.get("version", json!({ "path": "a.md", "version": &first[..8] }));
    assert_eq!(old["content"], "one\ntwo\n");
    let diff = space.get("diff", json!({ "path": "a.md", "from": first, "to": second }))["diff"].clone();
    assert!(diff.as_str().unwrap().contains("\n-two\n+three\n"), "{diff}");
    let blame = space.get("blame", json!({ "path": "a.md" }));
    assert_eq!(
        (&blame[0]["content"], &blame[0]["author"], &blame[0]["hash"]),
        (&json!("one"), &json!("anonymous"), &json!(first))
    );
    assert_eq!((&blame[1]["line"], &blame[1]["author"], &blame[1]["hash"]), (&json!(2), &json!("Zoë"), &json!(second)));
}

/// Shows: HIST-3
#[test]
fn versions_of_a_renamed_page_are_listed_read_and_compared() {
    let space = TestSpace::new();
    space.put("secret/a.md", "# Page\n\none\n");
    space.get("rename", json!({ "from": "secret/a.md", "to": "team/b.md" }));
    space.put("team/b.md", "# Page\n\ntwo\n");
    let versions = |arguments: serde_json::Value| -> Vec<(String, serde_json::Value)> {
        let listed = space.get("versions", arguments);
        let listed = listed.as_array().unwrap().iter();
        listed.map(|version| (version["hash"].as_str().unwrap().to_owned(), version["path"].clone())).collect()
    };
    let followed = versions(json!({ "path": "team/b.md" }));
    let paths: Vec<_> = followed.iter().map(|(_, path)| path.clone()).collect();
    assert_eq!(paths, [json!(null), json!(null), json!("secret/a.md")]);
    assert_eq!(versions(json!({ "path": "team/b.md", "follow": false })), followed[..2]);
    let (newest, oldest) = (followed[0].0.as_str(), followed[2].0.as_str());
    let old = json!({ "path": "team/b.md", "version": oldest });
    assert_eq!(space.get("version", old.clone())["content"], "# Page\n\none\n");
    let compared = json!({ "path": "team/b.md", "from": oldest, "to": newest });
    let diff = space.get("diff", compared.clone())["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("-one\n+two\n"), "{diff}");
    let prefix = |follow: bool| {
        let answer = space.get("timeline", json!({ "path_prefix": "team/b.md", "follow": follow }));
        answer["total"].clone()
    };
    assert_eq!((prefix(true), prefix(false)), (json!(3), json!(2)));
    // A former name outside the caller's folder is not followed.
    let permissions = Permissions { scope: Scope::Read, folder: Some(TreePath::parse("team").unwrap()) };
    let limited = Caller { permissions, ..Caller::new(Protocol::Http) };
    let listed = space.ask_as(&limited, "versions", json!({ "path": "team/b.md" })).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(space.ask_as(&limited, "version", old).unwrap_err().kind(), Kind::NotFound);
    assert!(!space.ask_as(&limited, "diff", compared).unwrap()["diff"].to_string().contains("-one"));
    let listed = space.ask_as(&limited, "timeline", json!({ "path_prefix": "team" })).unwrap();
    assert!(!listed.to_string().contains("secret"), "{listed}");
}

#[test]
fn what_is_missing_or_unknown_is_said() {
    let space = TestSpace::new();
    space.put("a.md", "one\n");
    let first = space.newest("a.md").0;
    let nowhere = "0".repeat(40);
    for (name, arguments, status, message) in [
        ("version", json!({ "path": "a.md" }), 400, "version is required"),
        ("version", json!({ "version": first }), 400, "path is required"),
        ("version", json!({ "path": "a.md", "version": nowhere }), 404, "version not found"),
        ("version", json!({ "path": "b.md", "version": first }), 404, "version not found"),
        ("diff", json!({ "path": "a.md", "from": first }), 400, "to is required"),
        ("diff", json!({ "path": "a.md", "from": nowhere, "to": first }), 404, "version not found"),
        ("blame", json!({ "path": "b.md" }), 404, "file not found: b.md"),
    ] {
        let (found, text) = space.refusal(name, arguments);
        assert!(found == status && text.starts_with(message), "`{name}`: {found} {text}");
    }
    let (status, message) = space.refusal("changes", json!({ "since": "nonsense" }));
    assert!(status == 400 && message.contains("unknown sequence"), "{status} {message}");
}

#[test]
fn the_server_s_own_files_have_no_history_for_callers() {
    let space = TestSpace::with("", &[("a.md", "a\n"), (".svc/config.toml", "# secret\n")]);
    let first = space.newest("a.md").0;
    assert_eq!(space.refusal("versions", json!({ "path": ".svc/config.toml" })).0, 404);
    assert_eq!(space.refusal("version", json!({ "path": ".svc/config.toml", "version": first })).0, 404);
    assert_eq!(space.refusal("blame", json!({ "path": ".svc/config.toml" })).0, 404);
    assert!(!space.get("changes", json!({})).to_string().contains("config.toml"));
}

#[test]
fn a_follower_starts_with_the_position_it_got_on_an_empty_log() {
    let space = TestSpace::new();
    let nothing = space.get("changes", json!({}));
    assert_eq!(nothing, json!({ "changes": [], "last_seq": "" }));
    space.put("a.md", "a\n");
    let some = space.get("changes", json!({ "since": nothing["last_seq"] }));
    assert_eq!(some["changes"][0]["path"], "a.md");
}

/// Shows: HTTP-8
#[test]
fn changes_are_paged_oldest_first_without_a_gap() {
    let space = TestSpace::new();
    for page in ["a.md", "b.md", "c.md"] {
        space.put(page, "text\n");
    }
    space.get("rename", json!({ "from": "a.md", "to": "d.md" }));
    let newest = space.get("changes", json!({ "limit": 3 }));
    let told = |answer: &serde_json::Value| -> Vec<String> {
        let records = answer["changes"].as_array().unwrap().iter();
        records
            .map(|record| format!("{} {}", record["action"].as_str().unwrap(), record["path"].as_str().unwrap()))
            .collect()
    };
    assert_eq!(told(&newest).last().unwrap(), "write d.md");
    let all = space.get("changes", json!({ "limit": 500 }));
    let first = all["changes"][0]["seq"].clone();
    let mut paged = vec![told(&all)[0].clone()];
    let mut since = first;
    loop {
        let page = space.get("changes", json!({ "since": since, "limit": 2 }));
        if page["changes"].as_array().unwrap().is_empty() {
            break;
        }
        paged.extend(told(&page));
        since = page["last_seq"].clone();
    }
    assert_eq!(paged, told(&all));
    assert!(told(&all).ends_with(&["delete a.md".to_owned(), "write d.md".to_owned()]), "{:?}", told(&all));
    assert_eq!(space.refusal("changes", json!({ "limit": 0 })).0, 400);
}

/// Shows: HIST-2
#[test]
fn times_are_full_seconds_and_removals_precede_sorted_paths() {
    let space = TestSpace::new();
    space.put("m.md", "moved\n");
    let files = json!([{ "path": "z.md", "content": "z\n" }, { "path": "b.md", "content": "b\n" }]);
    space.get("bulk_write", json!({ "files": files }));
    space.get("rename", json!({ "from": "m.md", "to": "a.md" }));
    let changes = space.get("changes", json!({ "limit": 500 }));
    let changes = changes["changes"].as_array().unwrap();
    let told: Vec<_> = changes[changes.len() - 4..].iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert_eq!(told, ["b.md", "z.md", "m.md", "a.md"]);
    for change in changes {
        let time = change["timestamp"].as_str().unwrap();
        assert!(time.ends_with('Z') && !time.contains('.'), "{time}");
    }
}
