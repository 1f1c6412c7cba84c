use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use svcfs_base::{Actor, Caller, Kind, Permissions, Protocol, Scope};
use svcfs_config::{AuthSettings, CliOverrides, Config, KeyDigest, KeySettings, Settings};

use super::*;
use crate::CATALOGUE;
use crate::kernel::{FolderScope, OperationEntry};
use crate::spaces::test_space::{TestSpace, path, status_and_error};

fn key(text: &str, space: Option<&str>, scope: Scope) -> KeySettings {
    KeySettings {
        digest: KeyDigest::from_key(text),
        space: space.map(str::to_owned),
        actor: Some(Actor::new(text)),
        permissions: Permissions { scope, folder: None },
        is_limited: false,
    }
}

fn refusal(access: &AccessControl, bearer: Option<&str>) -> String {
    let fault = access.identify(bearer).unwrap_err();
    assert_eq!(fault.kind(), Kind::Unauthenticated);
    fault.message().to_owned()
}

#[test]
fn without_authentication_everybody_is_let_in() {
    let access = AccessControl::new(AuthSettings::None, None);
    for bearer in [None, Some("whatever")] {
        assert_eq!(access.identify(bearer).unwrap(), CallerIdentity::UNRESTRICTED);
    }
}

#[test]
fn the_one_key_opens_everything_and_nothing_else_does() {
    let access = AccessControl::new(AuthSettings::ApiKey(KeyDigest::from_key("right")), None);
    assert_eq!(access.identify(Some("right")).unwrap().permissions, Permissions::FULL);
    assert_eq!(refusal(&access, None), "missing bearer token");
    for wrong in ["wrong", "", "right ", "RIGHT", "righ"] {
        assert_eq!(refusal(&access, Some(wrong)), "invalid API key", "{wrong:?}");
    }
}

#[test]
fn each_key_opens_its_space_under_its_name() {
    let keys = vec![key("ann", Some("team"), Scope::Write), key("root", None, Scope::Admin)];
    let access = AccessControl::new(AuthSettings::PerSpace(keys), None);
    let ann = access.identify(Some("ann")).unwrap();
    assert!(ann.check_space("team").is_ok());
    assert_eq!(ann.check_space("other").unwrap_err().kind(), Kind::Unauthenticated);
    let caller = ann.apply_to(Caller::new(Protocol::Http).with_actor(Actor::new("somebody else")));
    assert_eq!(caller.actor().as_str(), "ann", "the key tells who it is, not the caller");
    assert!(access.identify(Some("root")).unwrap().check_space("other").is_ok());
    assert_eq!(refusal(&access, Some("eve")), "invalid API key");
}

#[test]
fn file_access_grants_entry_and_an_empty_key_does_not() {
    let access =
        AccessControl::new(AuthSettings::ApiKey(KeyDigest::from_key("right")), Some(KeyDigest::from_key("local")));
    assert_eq!(access.identify(Some("local")).unwrap().permissions, Permissions::FULL);
    assert_eq!(refusal(&access, Some("")), "invalid API key");
}

#[test]
fn exchanged_settings_hold_from_then_on() {
    let access = AccessControl::new(AuthSettings::ApiKey(KeyDigest::from_key("old")), None);
    access.reload(AuthSettings::ApiKey(KeyDigest::from_key("new"))).unwrap();
    assert!(access.identify(Some("new")).is_ok());
    assert_eq!(refusal(&access, Some("old")), "invalid API key");
}

/// A tree whose half is none of the caller's business, and that caller.
fn two_halves() -> (TestSpace, Caller) {
    let space = TestSpace::with(
        "",
        &[
            ("docs/a.md", "# Open\n\nSee [[hidden]] and [[b]]. Words: tide copper.\n"),
            ("docs/b.md", "---\nstatus: todo\ntags: [tide]\n---\n# Other\n\n- [ ] a task\n"),
            ("secret/hidden.md", "---\nstatus: todo\ntags: [tide]\n---\n# Hidden\n\ntide xylophone [[a]]\n"),
            (".svc/templates/secret.md", "secret xylophone\n"),
        ],
    );
    space.settle();
    let reach = Permissions { scope: Scope::Write, folder: Some(path("docs")) };
    (space, Caller { permissions: reach, ..Caller::new(Protocol::Http) })
}

/// Inputs that an operation accepts, with this path wherever one is asked for, and those that are
/// not asked for only where `all`.
fn inputs(entry: &OperationEntry, path: &str, all: bool) -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let schema = (entry.input)(&mut generator).to_value();
    let definitions = Value::Object(generator.take_definitions(true));
    value(&schema, &definitions, path, all).unwrap_or_else(|| json!({}))
}

fn value(schema: &Value, definitions: &Value, path: &str, all: bool) -> Option<Value> {
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return value(&definitions[target.rsplit('/').next()?], definitions, path, all);
    }
    for choice in ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten() {
        if let Some(found) = value(choice, definitions, path, all) {
            return Some(found);
        }
    }
    if let Some(choice) = schema.get("const").or_else(|| schema.get("enum")?.get(0)) {
        return Some(choice.clone());
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null")?.clone(),
        kind => kind.clone(),
    };
    match kind.as_str()? {
        "string" if schema.get("format").is_some_and(|format| format == "tree-path") => Some(json!(path)),
        "string" => Some(json!("tide")),
        "integer" | "number" => {
            Some(schema.get("default").or_else(|| schema.get("minimum")).cloned().unwrap_or(json!(1)))
        }
        "boolean" => Some(json!(true)),
        "array" => Some(Value::Array(value(&schema["items"], definitions, path, all).into_iter().collect())),
        "object" => {
            let required: Vec<&str> =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let members = schema["properties"].as_object().into_iter().flatten();
            let wanted = members.filter(|(name, schema)| {
                required.contains(&name.as_str()) || (all && schema.to_string().contains("tree-path"))
            });
            let found =
                wanted.filter_map(|(name, schema)| Some((name.clone(), value(schema, definitions, path, all)?)));
            Some(Value::Object(found.collect::<Map<_, _>>()))
        }
        _ => None,
    }
}

/// Shows: AUTH-3
#[test]
fn no_operation_reveals_paths_outside_a_folder_key() {
    let (space, caller) = two_halves();
    let mut answered = Vec::new();
    for entry in CATALOGUE.iter().flat_map(|area| area.operations) {
        for all in [false, true] {
            match space.ask_as(&caller, entry.name, inputs(entry, "docs/a.md", all)) {
                Ok(answer) => {
                    let text = answer.to_string();
                    assert!(!text.contains("secret") && !text.contains("xylophone"), "`{}` tells {text}", entry.name);
                    answered.push(entry.name);
                }
                Err(fault) => {
                    let text = format!("{fault} {}", json!(fault.detail()));
                    assert!(!text.contains("secret") && !text.contains("xylophone"), "`{}` refuses {text}", entry.name);
                }
            }
        }
        space.put("docs/a.md", "# Open\n\nSee [[hidden]] and [[b]]. Words: tide copper.\n");
        space.settle();
    }
    for name in [
        "read",
        "write",
        "search",
        "tree",
        "peek",
        "backlinks",
        "timeline",
        "blame",
        "changes",
        "feed",
        "feed_xml",
        "graph",
        "graph_walk",
        "graph_path",
        "graph_analytics",
        "graph_centrality",
        "graph_communities",
        "context",
        "memory_report",
        "health_check",
        "stale",
        "contradictions",
        "resolve_links",
        "eval",
        "view_refresh",
    ] {
        assert!(answered.contains(&name), "`{name}` answers nothing to such a key; {answered:?} do");
    }
    let todo = space.ask_as(&caller, "query_meta", json!({ "filters": ["$.status=todo"] })).unwrap();
    let paths: Vec<&str> = todo.as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["docs/b.md"]);
}

#[test]
fn a_folder_key_queries_its_folder_and_no_link_targets() {
    let (space, caller) = two_halves();
    let ask = |q: &str| space.ask_as(&caller, "query", json!({ "q": q }));
    for (q, expected) in [
        ("LIST", json!([["docs/a.md"], ["docs/b.md"]])),
        ("LIST FROM \"secret/\"", json!([])),
        ("LIST FROM \"\" OR #tide", json!([["docs/a.md"], ["docs/b.md"]])),
        ("LIST FROM #tide", json!([["docs/b.md"]])),
        ("COUNT WHERE status = \"todo\"", json!([[1]])),
    ] {
        let answer = ask(q).unwrap_or_else(|fault| panic!("{q}: {fault}"));
        assert_eq!(answer["rows"], expected, "{q}: {answer}");
    }
    let linked = ask("TABLE inlinks(), outlinks(), _backlink_count").unwrap();
    assert_eq!(linked["rows"], json!([["docs/a.md", [], ["docs/b.md"], 0], ["docs/b.md", ["docs/a.md"], [], 1]]));
    let counted = json!({ "group": "status", "calc": ["count"], "where": "contains(inlinks(), \"secret/hidden.md\")" });
    assert_eq!(space.ask_as(&caller, "aggregate", counted).unwrap(), json!([]));
    let graph = space.ask_as(&caller, "graph", json!({})).unwrap();
    assert_eq!(graph["edges"], json!([{ "source": "docs/a.md", "target": "docs/b.md" }]));
    let around = space.ask_as(&caller, "graph_walk", json!({ "path": "docs/a.md" })).unwrap();
    assert_eq!((&around["links_out"], &around["in_degree"]), (&json!(["docs/b.md"]), &json!(0)));
}

/// Shows: AUTH-3
#[test]
fn to_a_key_of_one_folder_the_graph_is_that_of_the_folder() {
    let (space, caller) = two_halves();
    space.put("secret/second.md", "[[a]] [[hidden]]\n");
    space.put("docs/c.md", "[[b]] [[second]]\n");
    space.settle();
    let ask = |name: &str| space.ask_as(&caller, name, json!({})).unwrap();
    let found = ask("graph_analytics");
    let counted = ["total_nodes", "total_edges", "components", "largest_component_size"].map(|name| &found[name]);
    assert_eq!(counted, [3, 2, 1, 3]);
    assert_eq!(found["orphans"], json!(["docs/a.md", "docs/c.md"]), "what links from elsewhere is none");
    let central = ask("graph_centrality");
    assert_eq!(central["pages"][0]["path"], "docs/b.md");
    let ranks: f64 = central["pages"].as_array().unwrap().iter().map(|page| page["pagerank"].as_f64().unwrap()).sum();
    assert!((ranks - 1.0).abs() < 1e-9, "{central}");
    assert_eq!(ask("graph_communities")["communities"][0]["pages"], json!(["docs/a.md", "docs/b.md", "docs/c.md"]));
    assert_eq!(space.get("graph_analytics", json!({}))["total_nodes"], 5, "others see all of it");
    space.put("docs/d.md", "[[b]]\n");
    space.settle();
    assert_eq!(ask("graph_analytics")["total_nodes"], 4, "what is written since is in it");
}

/// Shows: AUTH-3
#[test]
fn to_a_key_of_one_folder_what_lies_elsewhere_is_not_there() {
    let (space, caller) = two_halves();
    space.put("docs/probe.md", "---\ncontradicts: [secret/hidden]\n---\n[[secret/hidden]] [[secret/nothing]]\n");
    space.put("docs/index.md", "# Begin here\n");
    space.put("index.md", "# Elsewhere\n");
    space.put("docs/late.md", "---\nreview-by: 2001-01-01\n---\nlate\n");
    space.put("secret/late.md", "---\nreview-by: 2001-01-01\n---\nlate\n");
    space.settle();
    let ask = |name: &str, inputs: Value| space.ask_as(&caller, name, inputs).unwrap();
    let glance = ask("peek", json!({ "path": "docs/probe.md" }));
    assert_eq!(glance["links_broken"], json!(["secret/hidden", "secret/nothing"]));
    let links = json!({ "links": ["secret/hidden", "secret/nothing", "hidden", "b"] });
    let resolved = ask("resolve_links", links);
    assert_eq!(resolved["unresolved"], json!(["secret/hidden", "secret/nothing", "hidden"]));
    assert_eq!(resolved["resolved"]["b"]["path"], "docs/b.md");
    let health = ask("health_check", json!({ "path": "docs/probe.md" }));
    let kinds: Vec<&Value> = health["issues"].as_array().unwrap().iter().map(|issue| &issue["type"]).collect();
    // Two of the text, and the one of the field.
    assert_eq!(kinds.iter().filter(|kind| **kind == "broken_link").count(), 3, "{health}");
    assert!(!health.to_string().contains("contradict"), "{health}");
    assert_eq!(ask("contradictions", json!({})), json!([]));
    assert_eq!(ask("stale", json!({}))[0]["path"], "docs/late.md");
    assert_eq!(ask("context", json!({}))["index"], "# Begin here\n");
    // Rows that are left out do not count: neither in a limit, nor in an offset.
    let first = json!({ "filters": ["$.status=todo"], "limit": 1, "sort": "$.status", "order": "desc" });
    assert_eq!(ask("query_meta", first)[0]["path"], "docs/b.md");
    let none = json!({ "filters": ["$.status=todo"], "offset": 1 });
    assert_eq!(ask("query_meta", none), json!([]));
    assert_eq!(ask("backlinks", json!({ "path": "docs/a.md" })), json!([]));
    let (status, said) = status_and_error(space.ask_as(&caller, "janitor", json!({})));
    assert!(status == 403 && said.contains("docs/access.md"), "{said}");
}

/// Shows: AUTH-3
#[test]
fn no_operation_accepts_paths_outside_a_folder_key() {
    let (space, caller) = two_halves();
    for entry in CATALOGUE.iter().flat_map(|area| area.operations) {
        let asked = inputs(entry, "secret/hidden.md", true);
        if !asked.to_string().contains("secret/hidden.md") {
            assert!(
                matches!(entry.folder_scope, FolderScope::WholeTree | FolderScope::Rows | FolderScope::CallerFolder),
                "`{}` has no path to keep to",
                entry.name
            );
            continue;
        }
        let (status, said) = status_and_error(space.ask_as(&caller, entry.name, asked));
        assert_eq!(status, 403, "`{}` answered {said}", entry.name);
        assert!(said.starts_with("path outside key scope"), "`{}` said {said}", entry.name);
    }
    assert!(space.text("secret/hidden.md").contains("xylophone"), "nothing was changed");
}

/// Shows: AUTH-3
#[test]
fn a_folder_key_reaches_nothing_through_outward_links() {
    let (space, caller) = two_halves();
    space.get("write", json!({ "path": "docs/way", "content": "../secret/hidden.md", "symlink": true }));
    space.get("write", json!({ "path": "docs/ways", "content": "../secret", "symlink": true }));
    for asked in ["docs/way", "docs/ways/hidden.md"] {
        let (status, said) = status_and_error(space.ask_as(&caller, "read", json!({ "path": asked })));
        assert_eq!(status, 403, "{asked}: {said}");
        assert!(!said.contains("secret"), "{said}");
        let change = json!({ "path": asked, "content": "mine now" });
        assert_eq!(status_and_error(space.ask_as(&caller, "write", change)).0, 403, "{asked}");
    }
    assert!(space.text("secret/hidden.md").contains("xylophone"));
}

/// Shows: AUTH-3
#[test]
fn a_rename_by_folder_key_neither_changes_nor_shows_outer_links() {
    let (space, caller) = two_halves();
    space.get("write", json!({ "path": "docs/c.md", "content": "# C\n\n[[a]]\n" }));
    let before = space.text("secret/hidden.md");
    let renamed = space.ask_as(&caller, "rename", json!({ "from": "docs/a.md", "to": "docs/d.md" })).unwrap();
    assert_eq!(renamed["updated_links"], 1, "{renamed}");
    assert!(space.text("docs/c.md").contains("[[d]]"), "{}", space.text("docs/c.md"));
    space.ask_as(&caller, "rename_dir", json!({ "from": "docs", "to": "docs/x" })).unwrap_err();
    assert_eq!(space.text("secret/hidden.md"), before);
}

#[test]
fn a_reading_key_changes_nothing_through_any_operation() {
    let (space, _) = two_halves();
    let caller = Caller { permissions: Permissions::READ_ONLY, ..Caller::new(Protocol::Mcp) };
    for entry in CATALOGUE.iter().flat_map(|area| area.operations).filter(|entry| entry.required_scope() > Scope::Read)
    {
        let (status, said) = status_and_error(space.ask_as(&caller, entry.name, inputs(entry, "docs/a.md", true)));
        assert_eq!(status, 403, "`{}`", entry.name);
        assert!(said.starts_with("read-only token cannot perform"), "`{}` said {said}", entry.name);
    }
}

#[test]
fn the_signer_is_identified_by_the_id_of_its_key() {
    let ann = key("ann", Some("team"), Scope::Write);
    let id = svcfs_config::edit::key_id(&ann.digest);
    let access = AccessControl::new(AuthSettings::PerSpace(vec![ann]), Some(KeyDigest::from_key("local")));
    assert_eq!(access.identify_by_key_id(&id).unwrap(), access.identify(Some("ann")).unwrap());
    for wrong in ["", "ann", &id[..6], &svcfs_config::edit::key_id(&KeyDigest::from_key("local"))] {
        assert_eq!(access.identify_by_key_id(wrong).unwrap_err().kind(), Kind::Unauthenticated, "{wrong:?}");
    }
    let one = AccessControl::new(AuthSettings::ApiKey(KeyDigest::from_key("right")), None);
    assert!(one.identify_by_key_id(&svcfs_config::edit::key_id(&KeyDigest::from_key("right"))).is_ok());
    assert!(one.identify_by_key_id(&id).is_err());
}

/// The actor of a key that may only propose names its draft, so that the client must not choose it.
#[test]
fn a_proposing_key_without_an_actor_is_named_by_its_id() {
    let config = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"agent\"\nscope = \"propose\"\n\
                  [[auth.api_keys]]\nkey = \"writer\"\nscope = \"write\"\n";
    let settings = Settings::resolve(Config::parse(config, &|_| None), CliOverrides::default()).unwrap();
    let access = AccessControl::new(settings.auth.clone(), None);
    let actor_of = |key: &str| {
        let caller = Caller::new(Protocol::Http).with_actor(Actor::new("chosen"));
        access.identify(Some(key)).unwrap().apply_to(caller).actor()
    };
    let id = svcfs_config::edit::key_id(&KeyDigest::from_key("agent"));
    assert_eq!((actor_of("agent"), actor_of("writer")), (Actor::new(&id), Actor::new("chosen")));
}
