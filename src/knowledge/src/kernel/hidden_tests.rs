//! Hidden files, files that git ignores, absolute and mistyped paths, for all operations.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use svcfs_base::{Caller, Change, Fault, Permissions, Protocol, Scope};

use super::OperationEntry;
use crate::CATALOGUE;
use crate::spaces::test_space::{TestSpace, caller, path, status_and_error};

/// A word of files that must not be served.
const SECRET: &str = "xyzzysecret";

/// A page whose every part has the secret.
fn secret_page() -> String {
    format!("---\ntitle: {SECRET}\ntags: [{SECRET}]\n---\n\n# {SECRET}\n\n{SECRET} [[page]] #{SECRET}\n")
}

/// Writes a file as a mount does.
fn save(space: &TestSpace, file: &str, text: &str) {
    space.space().vfs.apply(&Caller::new(Protocol::Fuse), Change::put(path(file), text.to_owned())).unwrap();
}

fn operations() -> impl Iterator<Item = &'static OperationEntry> {
    CATALOGUE.iter().flat_map(|area| area.operations)
}

/// The arguments of an operation with a path at one place, for each place of its schema.
fn arguments_with_path(entry: &OperationEntry, path: &str) -> Vec<Value> {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let schema = (entry.input)(&mut generator).to_value();
    let definitions = Value::Object(generator.take_definitions(true));
    values_with_path(&schema, &definitions, path)
}

fn values_with_path(schema: &Value, definitions: &Value, path: &str) -> Vec<Value> {
    let mut values = Vec::new();
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
    let choices = ["anyOf", "oneOf", "allOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
    for choice in choices.chain(target.and_then(|name| definitions.get(name))) {
        values.extend(values_with_path(choice, definitions, path));
    }
    if schema.get("format").is_some_and(|format| format == "tree-path") {
        values.push(path.into());
    }
    if let Some(items) = schema.get("items") {
        values.extend(values_with_path(items, definitions, path).into_iter().map(|item| json!([item])));
    }
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let members = values_with_path(member, definitions, path).into_iter();
        values.extend(members.map(|value| Value::Object(Map::from_iter([(name.clone(), value)]))));
    }
    values
}

/// Shows: PATH-4
#[test]
fn every_operation_refuses_hidden_paths_alike_whether_or_not_they_exist() {
    let space = TestSpace::with("", &[("page.md", "# Page\n")]);
    for file in [".env", "notes/.draft.md", ".obsidian/app.md", ".svc/.x.md"] {
        save(&space, file, &secret_page());
    }
    let mut count = 0;
    for entry in operations() {
        for hidden in [".env", ".absent", "notes/.draft.md", ".obsidian/app.md", "/.obsidian", ".svc/.x.md"] {
            for arguments in arguments_with_path(entry, hidden) {
                for protocol in [Protocol::Http, Protocol::Mcp, Protocol::Cli] {
                    let outcome = space.ask_as(&Caller::new(protocol), entry.name, arguments.clone());
                    let (status, message) = status_and_error(outcome);
                    let name = hidden.trim_start_matches('/');
                    let expected = match entry.is_read_only() {
                        true => status == 404 && message == format!("file not found: {name}"),
                        false => status == 400 && message.contains(name) && message.contains("files.serve_hidden"),
                    };
                    assert!(expected, "`{}` {arguments}: {status} {message}", entry.name);
                    count += 1;
                }
            }
        }
    }
    assert!(count > 500, "{count}");
}

#[test]
fn no_answer_reveals_hidden_or_ignored_files() {
    let space = TestSpace::with("", &[("page.md", "# Page\n\nSee [[notes/.draft]] and [x](build/out.md).\n")]);
    for file in [".gitignore", ".env", "notes/.draft.md", ".obsidian/app.md", "build/out.md", "notes/x.log"] {
        let text = if file == ".gitignore" { "build/\n*.log\n".to_owned() } else { secret_page() };
        save(&space, file, &text);
    }
    save(&space, "notes/other.md", "# Other\n");
    space.settle();
    let mut answered = 0;
    for entry in operations().filter(|entry| entry.is_read_only()) {
        for arguments in [
            json!({}),
            json!({ "q": SECRET }),
            json!({ "query": "TABLE title, tags" }),
            json!({ "path": "page.md" }),
            json!({ "details": true }),
        ] {
            let Ok(answer) = space.ask(entry.name, arguments.clone()) else { continue };
            let mut text = answer.to_string();
            // These list the searched words.
            if !entry.name.ends_with("searches") && entry.name != "content_gaps" {
                assert!(!text.contains(SECRET), "`{}` {arguments}: {text}", entry.name);
            }
            // The page itself names the targets of its links.
            for link in ["notes/.draft", "build/out.md"] {
                text = text.replace(link, "");
            }
            for name in [".env", ".obsidian", ".gitignore", "x.log"] {
                assert!(!text.contains(name), "`{}` {arguments}: {text}", entry.name);
            }
            answered += 1;
        }
    }
    assert!(answered > 40, "{answered}");
    assert_eq!(space.get("search", json!({ "q": SECRET })), json!([]));
}

#[test]
fn files_that_git_ignores_exist_for_file_protocols_only() {
    let space = TestSpace::with("", &[("page.md", "# Page\n")]);
    save(&space, ".gitignore", "build/\n*.log\n");
    save(&space, "build/out.md", &secret_page());
    space.settle();
    for entry in operations() {
        for arguments in arguments_with_path(entry, "build/out.md") {
            let answer = space.ask(entry.name, arguments.clone()).map_or(String::new(), |answer| answer.to_string());
            assert!(!answer.contains(SECRET), "`{}` {arguments}: {answer}", entry.name);
        }
    }
    for operation in ["read", "peek", "toc", "versions", "blame", "page_quality"] {
        if operations().any(|entry| entry.name == operation) {
            assert_eq!(space.refusal(operation, json!({ "path": "build/out.md" })).0, 404, "{operation}");
        }
    }
    for file in ["build/out.md", "build/new.md", "notes/new.log"] {
        let (status, message) = space.refusal("write", json!({ "path": file, "content": "x" }));
        assert!(status == 400 && message.contains("git ignores") && message.contains(".gitignore"), "{message}");
    }
    let vfs = &space.space().vfs;
    assert!(vfs.read(Protocol::Fuse, &path("build/out.md")).is_ok());
    assert!(vfs.versions(&path("build/out.md")).unwrap().is_empty());
}

#[test]
fn a_rename_of_a_directory_uncovers_nothing_that_git_ignores() {
    // The ignored file, and whether its directory may be renamed.
    for (file, is_permitted) in
        [("notes/secret/a.md", false), ("notes/one.md", false), ("notes/moves.md", true), ("notes/build/a.md", true)]
    {
        let space = TestSpace::with("", &[("notes/page.md", "# Page\n")]);
        save(&space, ".gitignore", "/notes/secret/\n/notes/one.md\nbuild/\n");
        save(&space, "notes/.gitignore", "moves.md\n");
        space.settle();
        save(&space, file, &secret_page());
        let outcome = space.ask("rename_dir", json!({ "from": "notes", "to": "other" }));
        assert_eq!(outcome.is_ok(), is_permitted, "{file}: {outcome:?}");
        if !is_permitted {
            let (status, message) = status_and_error(outcome);
            assert!(status == 400 && !message.contains(file), "{message}");
        }
        space.settle();
        assert_eq!(space.get("search", json!({ "q": SECRET })), json!([]), "{file}");
    }
}

#[test]
fn served_hidden_files_are_ordinary_files() {
    let config = "files.serve_hidden = [\".github/**\"]\n";
    let space = TestSpace::with(config, &[(".github/ci.md", "# Pipeline\n\nzebra\n"), (".env", "zebra\n")]);
    space.settle();
    assert!(space.text(".github/ci.md").contains("zebra"));
    let names = |tree: &Value| -> Vec<String> {
        tree.as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&space.get("tree", json!({}))), [".github"]);
    assert_eq!(space.get("search", json!({ "q": "zebra" }))[0]["path"], ".github/ci.md");
    space.put(".github/new.md", "# New\n\nzebra\n");
    let timeline = space.get("timeline", json!({}));
    assert_eq!(timeline["events"][0]["path"], ".github/new.md");
    assert_eq!(space.refusal("read", json!({ "path": ".env" })).0, 404);
    // The index follows the setting.
    let space = space.again();
    space.settle();
    assert_eq!(space.get("search", json!({ "q": "zebra" })), json!([]));
    assert_eq!(space.refusal("read", json!({ "path": ".github/ci.md" })).0, 404);
}

#[test]
fn the_files_listed_in_a_commit_message_are_those_that_are_served() {
    let space = TestSpace::new();
    let change = |file: &str| Change::put(path(file), "x\n");
    let set = svcfs_base::ChangeSet::new(vec![change("a.md"), change(".env"), change("b.md")]);
    space.space().vfs.apply(&Caller::new(Protocol::Fuse), set).unwrap();
    assert_eq!(space.newest("a.md").2, "fuse: 3 files\n\na.md\nb.md");
    assert!(!space.get("feed", json!({})).to_string().contains(".env"));
}

#[test]
fn absolute_paths_of_a_computer_are_refused_by_name() {
    let space = TestSpace::with("", &[("home/a.md", "# A\n")]);
    for absolute in ["/etc/passwd", "//etc/passwd", "/etc", "C:\\x.md", "c:/x.md", "\\\\host\\share", "~/x.md"] {
        for operation in ["read", "write", "tree", "versions"] {
            let (status, message) = space.refusal(operation, json!({ "path": absolute, "content": "x" }));
            let is_named = message.contains(absolute.trim_start_matches('/')) || message.contains("absolute");
            assert!(status == 400 && is_named, "`{operation}` {absolute}: {message}");
            assert!(message.contains("relative to the knowledge base"), "{message}");
        }
    }
    // A leading slash is the root of the knowledge base.
    assert_eq!(space.text("/home/a.md"), "# A\n");
    space.put("/notes/b.md", "# B\n");
    assert_eq!(space.refusal("read", json!({ "path": "/absent.md" })).1, "file not found: absent.md");
}

/// The message and the suggested paths.
fn suggestions(outcome: Result<Value, Fault>) -> (String, Value) {
    let fault = outcome.unwrap_err();
    (fault.message().to_owned(), fault.detail().get("suggestions").cloned().unwrap_or_default())
}

#[test]
fn a_missing_path_suggests_similar_ones_that_the_caller_may_read() {
    let space =
        TestSpace::with("", &[("notes/Meeting.md", "# M\n"), ("archive/meeting.md", "# M\n"), (".envs.md", "x\n")]);
    space.settle();
    for operation in ["read", "peek", "versions", "delete"] {
        let (message, paths) = suggestions(space.ask(operation, json!({ "path": "notes/meeting.md" })));
        assert!(
            message.ends_with("; did you mean `notes/Meeting.md` or `archive/meeting.md`?"),
            "{operation}: {message}"
        );
        assert_eq!(paths, json!(["notes/Meeting.md", "archive/meeting.md"]), "{operation}");
    }
    let (message, _) = suggestions(space.ask("read", json!({ "path": "archive/meetnig.md" })));
    assert!(message.starts_with("file not found: archive/meetnig.md; did you mean `archive/meeting.md`"), "{message}");
    assert_eq!(suggestions(space.ask("read", json!({ "path": "envs.md" }))).1, Value::Null, "hidden");
    assert_eq!(suggestions(space.ask("read", json!({ "path": "quite/other.md" }))).1, Value::Null);
    let limited = Permissions { scope: Scope::Read, folder: Some(path("archive")) };
    let limited = Caller { permissions: limited, ..caller() };
    let (_, paths) = suggestions(space.ask_as(&limited, "read", json!({ "path": "archive/Meeting.md" })));
    assert_eq!(paths, json!(["archive/meeting.md"]), "a key of a folder");
    // Callers of an unlisted space must know the paths.
    space.space().set_visibility(svcfs_config::SpaceVisibility::Unlisted);
    let anonymous = Caller { permissions: Permissions::READ_ONLY, ..caller() };
    assert_eq!(suggestions(space.ask_as(&anonymous, "read", json!({ "path": "notes/meeting.md" }))).1, Value::Null);
}
