use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};
use svcfs_base::{Caller, Kind, Permissions, Protocol, Scope};

use super::test_space::TestSpace;
use crate::CATALOGUE;

#[test]
fn a_space_keeps_its_state_out_of_its_history() {
    let space = TestSpace::new();
    space.put("a.md", "a\n");
    assert!(svcfs_store::StatePaths::new(space.root()).index().is_file());
    let changes = space.get("changes", json!({}));
    assert!(!changes.to_string().contains("index.db"), "{changes}");
}

#[test]
fn no_input_makes_an_operation_fail_inside() {
    let space = TestSpace::with(
        "[webhooks]\nenabled = true",
        &[("a.md", "---\ntitle: [\n---\n[[a]] [b](../../b) ```\n"), ("d/b.bin", "\u{0}\u{1}")],
    );
    let long = "x/".repeat(3000);
    let values = [
        json!(null),
        json!(-1),
        json!(1e300),
        json!(true),
        json!([]),
        json!({}),
        json!(""),
        json!("a.md"),
        json!("d"),
        json!("d/b.bin"),
        json!("../a.md"),
        json!("\u{0}"),
        json!("%2e%2e/%00"),
        json!("a.md/b"),
        json!(".git/config"),
        json!("\"(((* NEAR"),
        json!("[[a|b]]#c"),
        json!("$.a[*]=\u{0}'; DROP"),
        json!("0000"),
        json!("x".repeat(300)),
        json!(long),
        json!(["a.md", "\u{7f}"]),
        json!([{ "path": "x/../y", "content": "z" }]),
        json!([{ "path": "a.md", "content": "z", "if_match": "*" }]),
    ];
    for entry in CATALOGUE.iter().flat_map(|area| area.operations) {
        let schema = (entry.input)(&mut SchemaGenerator::default());
        let names: Vec<String> =
            schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys).cloned().collect();
        for value in &values {
            for name in &names {
                let mut arguments =
                    json!({ "path": "a.md", "q": "a", "where": "$.a=1", "from": "a.md", "to": "a.md", "content": "" });
                arguments[name] = value.clone();
                if let Err(fault) = space.ask(entry.name, arguments) {
                    let is_ours = matches!(fault.kind(), Kind::Internal | Kind::Unavailable);
                    let is_disabled = fault.message().starts_with("search by meaning is disabled");
                    assert!(!is_ours || is_disabled, "`{}` with `{name}` = {value}: {fault:?}", entry.name);
                }
            }
        }
    }
}

/// Shows: SPACE-3
#[test]
fn a_space_is_created_with_its_own_tree_and_survives_restart() {
    let space = TestSpace::new();
    let made = space.get("create_space", json!({ "name": "team", "template": "wiki" }));
    assert_eq!((&made["name"], made["fileCount"].as_u64() > Some(0)), (&json!("team"), true), "{made}");
    let root = space.parent().join("team").canonicalize().unwrap();
    assert_eq!(made["root"], root.to_str().unwrap());
    assert!(root.join(".git").is_dir() && root.join("index.md").is_file() && root.join(".svc/config.toml").is_file());
    assert_eq!(space.refusal("read", json!({ "path": "index.md" })).0, 404, "the first space has the other's pages");
    space.spaces().create_empty("bucket", &Caller::new(Protocol::S3)).unwrap();
    for name in ["team", "bucket"] {
        let created = space.spaces().find(name).unwrap();
        assert!(created.settings.search.vector.is_some(), "{name}: its settings are in effect after a restart only");
    }
    space.get("delete_space", json!({ "name": "bucket" }));
    assert_eq!(space.refusal("create_space", json!({ "name": "team" })).0, 409);

    let again = space.again();
    assert_eq!(again.refusal("get_space", json!({ "name": "team" })).0, 404, "nobody opened the list");
    again.spaces().open_configured(Vec::new()).unwrap();
    assert_eq!(again.get("get_space", json!({ "name": "team" }))["fileCount"], made["fileCount"]);
    let listed = again.get("spaces", json!({}));
    let names: Vec<&str> =
        listed["spaces"].as_array().unwrap().iter().map(|space| space["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["default", "team"]);
    assert_eq!(again.get("delete_space", json!({ "name": "team" })), json!({ "deleted": "team" }));
    assert_eq!(again.refusal("get_space", json!({ "name": "team" })).0, 404);
    assert!(root.join("index.md").is_file(), "the files of a space that is gone stay");
    assert!(again.again().spaces().open_configured(Vec::new()).is_ok());
}

/// Shows: SPACE-4
#[test]
fn a_space_needs_an_allowed_location_and_a_reachable_name() {
    let space = TestSpace::new();
    let inside = space.parent().join("made");
    for root in ["/etc", "/", "..", "a/../../b", "", "a\nb", "a\u{7f}", "a\u{0}", space.root().to_str().unwrap()] {
        let (status, told) = space.refusal("create_space", json!({ "name": "x", "root": root }));
        assert!(matches!(status, 400 | 403), "{root:?}: {status} {told}");
        assert!(told.starts_with("`root`"), "{told}");
    }
    std::os::unix::fs::symlink("/etc", space.parent().join("way")).unwrap();
    assert_eq!(space.refusal("create_space", json!({ "name": "x", "root": "way/x" })).0, 403, "by a link out of it");
    for name in ["", "a/b", "a b", "a.b", "..", "x\u{0}", "x\n", "x\ny", &"x".repeat(65)] {
        assert_eq!(space.refusal("create_space", json!({ "name": name })).0, 400, "{name:?}");
    }
    for taken in ["search", "events"] {
        assert_eq!(space.refusal("create_space", json!({ "name": taken })).0, 409, "{taken:?}");
    }
    assert_eq!(space.refusal("create_space", json!({ "name": "x", "template": "none" })).0, 400);
    assert_eq!(space.parent().read_dir().unwrap().count(), 1, "something was made");
    space.get("create_space", json!({ "name": "x", "root": inside.to_str().unwrap() }));
    for root in ["made", "made/inner"] {
        assert_eq!(space.refusal("create_space", json!({ "name": "y", "root": root })).0, 409, "{root}");
    }
    assert_eq!(space.refusal("delete_space", json!({ "name": "default" })).0, 409);
}

/// Shows: SPACE-2
#[test]
fn a_space_that_fails_to_open_reports_why_and_others_work() {
    let space = TestSpace::new();
    let (bad, good) = (space.parent().join("bad"), space.parent().join("good"));
    std::fs::File::create(&bad).unwrap();
    std::fs::create_dir(&good).unwrap();
    space.spaces().open_configured(vec![("bad".to_owned(), bad), ("good".to_owned(), good)]).unwrap();
    assert!(space.spaces().find("good").is_ok());
    let fault = space.spaces().find("bad").map(|space| space.name.clone()).unwrap_err();
    assert_eq!(fault.kind(), Kind::Unavailable);
    assert!(space.get("get_space", json!({ "name": "bad" }))["error"].as_str().is_some());
    assert_eq!(space.refusal("delete_space", json!({ "name": "good" })).0, 409, "it stands in the settings");
}

/// Shows: SPACE-2
#[test]
#[expect(clippy::disallowed_methods, reason = "a disk comes and goes behind the server")]
fn a_space_with_a_missing_root_is_reported_and_not_recreated() {
    let space = TestSpace::new();
    space.get("create_space", json!({ "name": "made" }));
    let (made, listed) = (space.parent().join("made"), space.parent().join("listed"));
    let again = space.again();
    // The disk of one is not mounted, and the place of the other is empty.
    let away = made.with_extension("away");
    std::fs::rename(&made, &away).unwrap();
    std::fs::create_dir(&made).unwrap();
    again.spaces().open_configured(vec![("listed".to_owned(), listed.clone())]).unwrap();
    for name in ["made", "listed"] {
        let fault = again.spaces().find(name).map(|space| space.name.clone()).unwrap_err();
        assert_eq!(fault.kind(), Kind::Unavailable, "{name}");
        assert!(fault.message().contains("does not exist"), "{fault}");
    }
    assert!(!listed.exists() && made.read_dir().unwrap().next().is_none(), "nothing was made");
    let again = again.again();
    std::fs::remove_dir(&made).unwrap();
    std::fs::rename(&away, &made).unwrap();
    std::fs::create_dir(&listed).unwrap();
    again.spaces().open_configured(vec![("listed".to_owned(), listed)]).unwrap();
    assert!(["made", "listed"].iter().all(|name| again.spaces().find(name).is_ok()), "it is mounted again");
}

#[test]
fn the_disk_path_of_a_space_is_shown_to_administrators() {
    let space = TestSpace::new();
    let ask = |scope| {
        let caller = Caller { permissions: Permissions { scope, folder: None }, ..Caller::new(Protocol::Http) };
        space.ask_as(&caller, "space_info", json!({})).unwrap()
    };
    assert_eq!(ask(Scope::Admin)["root"], space.root().to_str().unwrap());
    for scope in [Scope::Read, Scope::Write] {
        assert_eq!(ask(scope), json!({ "visibility": "private" }), "{scope}");
    }
}

#[test]
fn the_visibility_of_a_space_is_written_into_its_settings() {
    let space = TestSpace::with("", &[(".svc/config.toml", "# ours\n[lint]\nauto_format = false # not here\n")]);
    assert_eq!(space.get("space_info", json!({}))["visibility"], "private");
    assert_eq!(space.get("space_visibility", json!({ "visibility": "public" })), json!({ "visibility": "public" }));
    assert_eq!(space.get("space_info", json!({}))["visibility"], "public");
    let written = || std::fs::read_to_string(space.root().join(".svc/config.toml")).unwrap();
    assert!(written().starts_with("# ours\n[lint]\nauto_format = false # not here\n"), "{}", written());
    assert!(written().contains("visibility = \"public\""), "{}", written());
    assert_eq!(space.refusal("space_visibility", json!({ "visibility": "secret" })).0, 400);
}

#[test]
fn no_endpoint_has_a_name_that_a_space_may_have() {
    let routes = CATALOGUE.iter().flat_map(|area| area.operations).flat_map(|entry| entry.http);
    for route in routes.filter(|route| !route.is_at_root) {
        let first = route.path.split('/').nth(1).unwrap();
        // A dot keeps a name from being a space's.
        assert!(super::check_name(first).is_err(), "`{first}` of {} is missing in RESERVED", route.path);
    }
}
