//! `svcfs init`

use serde_json::json;

use crate::harness::{Place, json_of, refusal, svcfs};

#[test]
fn a_new_root_starts_with_its_template_in_one_actor_commit() {
    let place = Place::new();
    let told = json_of(&["init", "--root", &place.at("kb"), "--actor", "Ann Author", "--json"]);
    assert_eq!(told["template"], "knowledge");
    assert_eq!(told["existing"], json!([]));
    let written: Vec<&str> = told["written"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(written.contains(&"index.md") && written.contains(&".svc/config.toml"), "{written:?}");
    assert_eq!(place.git("kb", &["log", "--format=%an"]), "Ann Author");
    let mut recorded: Vec<String> = place.git("kb", &["ls-files"]).lines().map(str::to_owned).collect();
    let mut written: Vec<String> = written.into_iter().map(str::to_owned).collect();
    recorded.sort();
    written.sort();
    assert_eq!(recorded, written);
    assert_eq!(place.git("kb", &["status", "--porcelain"]), "");
}

#[test]
fn the_login_name_is_the_author_when_none_is_given() {
    let place = Place::with_root();
    assert_eq!(place.git("kb", &["log", "--format=%an: %s"]), "tester: tester: install the template `knowledge`");
}

#[test]
fn every_template_makes_a_root_that_serves_searches() {
    for template in ["knowledge", "wiki", "runbook", "research", "tasks", "blank"] {
        let place = Place::new();
        svcfs(&["init", "-r", &place.at("kb"), "-t", template]).assert().success();
        assert_eq!(place.git("kb", &["status", "--porcelain"]), "", "{template}");
        let rebuilt = json_of(&["reindex", "-r", &place.at("kb"), "--json"]);
        assert_eq!(rebuilt["equal"], true, "{template}: {rebuilt}");
        assert_eq!(rebuilt["pages"] == 0, template == "blank", "{template}: {rebuilt}");
    }
}

#[test]
fn doing_it_twice_overwrites_nothing() {
    let place = Place::with_root();
    place.write("kb/index.md", "# Mine\n");
    place.write("kb/.svc/config.toml", "[server]\nport = 4321\n");
    std::fs::remove_file(place.path("kb/log.md")).unwrap();
    let told = json_of(&["init", "--root", &place.at("kb"), "--template", "knowledge", "--json"]);
    assert_eq!(told["written"], json!(["log.md"]), "what is missing is added, nothing else");
    assert_eq!(place.read("kb/index.md"), "# Mine\n");
    assert_eq!(place.read("kb/.svc/config.toml"), "[server]\nport = 4321\n");
    let head = place.git("kb", &["rev-parse", "HEAD"]);
    let told = json_of(&["init", "--root", &place.at("kb"), "--json"]);
    assert_eq!((&told["template"], &told["written"]), (&json!("blank"), &json!([])));
    assert_eq!(place.git("kb", &["rev-parse", "HEAD"]), head);
}

#[test]
fn a_repository_is_adopted_with_its_history() {
    let place = Place::new();
    place.write("kb/README.md", "# Old\n");
    place.write("kb/.gitignore", "target/\n");
    place.write("kb/target/built.o", "junk");
    place.git("kb", &["init", "-q", "-b", "trunk"]);
    place.git("kb", &["add", "."]);
    place.git("kb", &["commit", "-q", "-m", "as it was"]);
    let old = place.git("kb", &["rev-parse", "HEAD"]);

    svcfs(&["init", "--root", &place.at("kb")]).assert().success();

    place.git("kb", &["merge-base", "--is-ancestor", &old, "HEAD"]);
    assert_eq!(place.git("kb", &["symbolic-ref", "--short", "HEAD"]), "trunk");
    assert_eq!(place.git("kb", &["diff", "--name-status", "--diff-filter=a", &old, "HEAD"]), "", "only additions");
    assert_eq!(place.read("kb/.gitignore"), "target/\n");
    assert!(!place.has("kb/index.md"), "a tree that has pages gets no example pages");
    assert!(place.has("kb/.svc/config.toml"));
    let state = place.git("kb", &["status", "--porcelain"]);
    assert!(!state.contains("state"), "{state}");
}

#[test]
fn a_tree_without_git_is_adopted_as_it_is() {
    let place = Place::new();
    place.write("kb/notes/a.md", "---\ntitle: \"A\"   # mine\n---\ntext without a newline");
    svcfs(&["init", "--root", &place.at("kb")]).assert().success();
    assert_eq!(place.read("kb/notes/a.md"), "---\ntitle: \"A\"   # mine\n---\ntext without a newline");
    assert_eq!(place.git("kb", &["log", "--format=%an", "--", "notes/a.md"]), "fswatch");
}

#[test]
fn an_init_interrupted_before_the_template_is_completed() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("kb/.svc/state")).unwrap();
    place.git("kb", &["init", "-q"]);
    let told = json_of(&["init", "--root", &place.at("kb"), "--json"]);
    assert_eq!(told["template"], "knowledge");
}

#[test]
fn init_does_not_change_a_root_being_served() {
    let place = Place::with_root();
    let server = crate::harness::Running::serve(&place.at("kb"), &[]);
    let told = refusal(&["init", "--root", &place.at("kb")], 3);
    assert!(told.contains(&format!("process {}", server.pid())), "{told}");
    server.stop();
}
