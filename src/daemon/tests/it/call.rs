//! `svcfs call`

use std::os::unix::fs::symlink;
use std::process::Stdio;

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::{Value, json};

use crate::harness::{Place, Running, json_of, program, refusal, svcfs};

/// Asks an operation of the root `kb` of a place.
#[track_caller]
fn ask(place: &Place, arguments: &[&str]) -> Value {
    json_of(&[&["call", "--json", "--root", &place.at("kb")], arguments].concat())
}

#[test]
fn without_an_operation_all_of_them_are_listed() {
    let told = svcfs(&["call"]).assert().success();
    let listed = json_of(&["call", "--json"]);
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|operation| operation["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"search") && names.contains(&"bulk_write"), "{names:?}");
    let text = String::from_utf8(told.get_output().stdout.clone()).unwrap();
    for operation in listed.as_array().unwrap() {
        let (name, summary) = (operation["name"].as_str().unwrap(), operation["summary"].as_str().unwrap());
        assert!(text.lines().any(|line| line.trim().starts_with(name) && line.ends_with(summary)), "{name}");
        assert!(!summary.is_empty());
    }
}

#[test]
fn every_operation_explains_its_arguments() {
    for operation in json_of(&["call", "--json"]).as_array().unwrap() {
        let name = operation["name"].as_str().unwrap();
        let mut told = svcfs(&["call", name, "--help"]).assert().success();
        for argument in operation["inputs"].as_object().unwrap().keys() {
            told = told.stdout(contains(format!("\n  {argument}=")));
        }
        told.stdout(contains(format!("Usage: svcfs call {name}")));
    }
}

#[test]
fn search_answers_as_json_and_as_a_table() {
    let place = Place::with_root();
    let found = ask(&place, &["search", "q=wikilinks", "limit=1"]);
    assert_eq!(found.as_array().unwrap().len(), 1);
    assert!(found[0]["score"].as_f64().unwrap() > 0.0);
    let path = found[0]["path"].as_str().unwrap();
    let table = contains("PATH").and(contains(path)).and(contains("<mark>").not());
    svcfs(&["call", "search", "q=wikilinks", "-r", &place.at("kb")]).assert().success().stdout(table);
    svcfs(&["call", "search", "q=qqqqqq", "-r", &place.at("kb")]).assert().success().stdout("");
    assert_eq!(ask(&place, &["search", "query=wikilinks"]), ask(&place, &["search", "q=wikilinks"]));
}

#[test]
fn the_answer_is_the_same_whether_the_root_is_served_or_not() {
    let place = Place::with_root();
    let kb = place.at("kb");
    place.write("kb/a b&c.md", "# Ä\n\nSee [[index]].\n");
    place.write("kb/data.json", "{\"a\": 1}\n");
    symlink("index.md", place.path("kb/link.md")).unwrap();
    let etag = ask(&place, &["write", "path=log.md", "content=# One\n"])["etag"].as_str().unwrap().to_owned();
    ask(&place, &["write", "path=log.md", "content=# Two\n", "--if-match", &etag]);
    let versions = ask(&place, &["versions", "path=log.md"]);
    let hash = |index: usize| versions[index]["hash"].as_str().unwrap().to_owned();
    let (from, to, version) = (format!("from={}", hash(1)), format!("to={}", hash(0)), format!("version={}", hash(1)));
    let questions: Vec<Vec<&str>> = vec![
        vec!["tree"],
        vec!["tree", "depth=1"],
        vec!["read", "path=a b&c.md"],
        vec!["read", "path=index.md", "metadata_only=true"],
        vec!["read", "path=data.json"],
        vec!["readlink", "path=link.md"],
        vec!["toc", "path=a b&c.md"],
        vec!["peek", "path=index.md"],
        vec!["lint", "path=index.md"],
        vec!["versions", "path=log.md"],
        vec!["version", "path=log.md", &version],
        vec!["diff", "path=log.md", &from, &to],
        vec!["blame", "path=log.md"],
        vec!["changes", "limit=5"],
        vec!["search", "q=links"],
        vec!["search_verified", "q=links", "limit=2"],
        vec!["query_meta", "where=$.title=Index"],
        vec!["query", "q=TABLE title, tags SORT title"],
        vec!["query", "q=LIST", "format=list"],
        vec!["aggregate", "group=title", "calc=count,max:title"],
        vec!["backlinks", "path=index.md"],
    ];
    let alone: Vec<Value> = questions.iter().map(|question| ask(&place, question)).collect();
    let server = Running::serve(&kb, &[]);
    for (question, alone) in questions.iter().zip(alone) {
        assert_eq!(ask(&place, question), alone, "{question:?}");
    }
    server.stop();
}

#[test]
fn a_query_is_a_table_a_number_json_or_markdown() {
    let place = Place::with_root();
    let root = place.at("kb");
    place.write("kb/q/a.md", "---\nstate: open\ntags: [x, y]\n---\n\n# A\n");
    place.write("kb/q/b.md", "---\nstate: done\n---\n\n# B\n");
    let query = |arguments: &[&str]| {
        let all: Vec<&str> = ["query", "--root", &root].iter().chain(arguments).copied().collect();
        let output = svcfs(&all).assert().success().get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    assert_eq!(query(&["TABLE state, tags FROM \"q/\""]), "PATH    STATE  TAGS\nq/a.md  open   x, y\nq/b.md  done\n");
    assert_eq!(query(&["LIST FROM \"q/\"", "--limit", "1"]), "PATH\nq/a.md\n(1 of 2)\n");
    assert_eq!(query(&["COUNT FROM \"q/\""]), "2\n");
    assert_eq!(query(&["LIST FROM \"q/\"", "--format", "list"]), "- [q/a.md](q/a.md)\n- [q/b.md](q/b.md)\n");
    let json: Value = serde_json::from_str(&query(&["COUNT FROM \"q/\"", "--json"])).unwrap();
    assert_eq!(json["count"], 2);
    let refused = svcfs(&["query", "--root", &root, "LIST WERE x"]).assert().failure();
    refused.stderr(contains("line 1, column 6: unexpected keyword \"WERE\"").and(contains("did you mean `WHERE`?")));
}

#[test]
fn a_text_is_printed_as_it_is() {
    let place = Place::with_root();
    place.write("kb/raw.md", "# Raw\n\n- [ ]  two  spaces, no newline");
    let read = ["call", "read", "path=raw.md", "-r", &place.at("kb")];
    svcfs(&read).assert().success().stdout("# Raw\n\n- [ ]  two  spaces, no newline");
    let server = Running::serve(&place.at("kb"), &[]);
    svcfs(&read).assert().success().stdout("# Raw\n\n- [ ]  two  spaces, no newline");
    svcfs(&["call", "read", "path=raw.md", "--url", server.url()]).assert().success().stdout(contains("# Raw"));
    server.stop();
}

#[test]
fn a_file_that_is_no_text_comes_out_as_it_is() {
    let place = Place::with_root();
    let bytes: &[u8] = b"\x89PNG\r\n\x1a\n\0\xff";
    std::fs::write(place.path("kb/dot.png"), bytes).unwrap();
    let read = ["call", "read", "path=dot.png", "-r", &place.at("kb")];
    let alone = svcfs(&read).assert().success().get_output().stdout.clone();
    let server = Running::serve(&place.at("kb"), &[]);
    let served = svcfs(&read).assert().success().get_output().stdout.clone();
    assert_eq!((alone.as_slice(), served.as_slice()), (bytes, bytes));
    server.stop();
}

#[test]
fn a_change_is_a_commit_by_the_caller() {
    let place = Place::with_root();
    let author = |path: &str| place.git("kb", &["log", "-1", "--format=%an", "--", path]);
    ask(&place, &["write", "path=a.md", "content=# A"]);
    let server = Running::serve(&place.at("kb"), &[]);
    ask(&place, &["write", "path=b.md", "content=# B"]);
    ask(&place, &["write", "path=c.md", "content=# C", "--actor", "agent:7"]);
    ask(&place, &["bulk_write", "files=[{\"path\": \"d.md\", \"content\": \"# D\"}]"]);
    server.stop();
    assert_eq!(["a.md", "b.md", "c.md", "d.md"].map(author), ["tester", "tester", "agent:7", "tester"]);
}

#[test]
fn calls_at_the_same_time_take_turns() {
    let place = Place::with_root();
    let names: Vec<String> = (0..6).map(|number| format!("turn-{number}.md")).collect();
    let start = |name: &String| {
        let mut command = program();
        command.args(["call", "write", &format!("path={name}"), "content=# Turn", "--root", &place.at("kb")]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<_> = names.iter().map(start).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(place.git("kb", &["rev-list", "--count", "HEAD"]), "7");
    for name in names {
        assert_eq!(place.git("kb", &["show", &format!("HEAD:{name}")]), "# Turn");
    }
}

#[test]
fn arguments_can_come_as_json_on_standard_input() {
    let place = Place::with_root();
    let input = json!({ "path": "in.md", "content": "# In\n" }).to_string();
    svcfs(&["call", "write", "--input", "-", "-r", &place.at("kb")]).write_stdin(input).assert().success();
    assert_eq!(place.read("kb/in.md"), "# In\n");
    let told = refusal(&["call", "write", "--input", "[1]", "-r", &place.at("kb")], 2);
    assert!(told.contains("JSON object"), "{told}");
    let told = refusal(&["call", "read", "--input", "{\"path\": \"a\"}", "path=b", "-r", &place.at("kb")], 2);
    assert!(told.contains("given twice"), "{told}");
}

#[test]
fn an_argument_error_is_reported_before_anything_is_opened() {
    for (arguments, why) in [
        (&["serch"][..], "search"),
        (&["search"], "`q` is required"),
        (&["search", "q=a", "limt=3"], "did you mean `limit`?"),
        (&["search", "q=a", "limit=many"], "`many` is not an integer"),
        (&["search", "a"], "name=value"),
        (&["search", "q=a", "--if-match", "x"], "changes nothing"),
    ] {
        let told = refusal(&[&["call"], arguments].concat(), 2);
        assert!(told.contains(why), "{arguments:?}: {told}");
    }
}

#[test]
fn a_refusal_reads_the_same_and_ends_with_3_served_or_not() {
    let place = Place::with_root();
    let stale = "0".repeat(40);
    let questions = [
        vec!["read", "path=nowhere.md"],
        vec!["read", "path=../../etc/passwd"],
        vec!["write", "path=index.md", "content=x", "--if-match", &stale],
        vec!["version", "path=index.md", "version=ffffffff"],
        vec!["write", "path=bad.md", "content=---\ntitle: [a\n---\n"],
    ];
    let told = |question: &Vec<&str>| refusal(&[&["call", "--root", &place.at("kb")], question.as_slice()].concat(), 3);
    let alone: Vec<String> = questions.iter().map(told).collect();
    let server = Running::serve(&place.at("kb"), &[]);
    for (question, alone) in questions.iter().zip(alone) {
        assert_eq!(told(question), alone, "{question:?}");
    }
    let told = refusal(&["call", "tree", "--space", "other", "--root", &place.at("kb")], 3);
    assert!(told.contains("space not found: other"), "{told}");
    server.stop();
    assert!(!place.has("kb/bad.md"));
}

#[test]
fn a_server_that_does_not_answer_is_named() {
    let told = refusal(&["call", "tree", "--url", "http://127.0.0.1:1"], 1);
    assert!(told.contains("http://127.0.0.1:1"), "{told}");
    let told = refusal(&["-v", "call", "tree", "--url", "http://127.0.0.1:1"], 1);
    assert!(told.contains("because: "), "{told}");
    refusal(&["call", "tree", "--url", "ftp://127.0.0.1"], 2);
    refusal(&["call", "tree", "--url", "not a url"], 2);
}
