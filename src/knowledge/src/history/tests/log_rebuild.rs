//! The log deleted, and made again from git: every question about history has the answer it had.
#![expect(clippy::disallowed_methods, reason = "a person works beside the server")]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use svcfs_base::{Change, Precondition};

use crate::spaces::test_space::{TestSpace, caller, from_run, path};

/// Every answer there is about the history of a space.
fn answers(space: &TestSpace) -> Vec<(String, Value)> {
    // Errors suggest similar paths from the index.
    space.settle();
    let changes = space.get("changes", json!({ "limit": 500 }));
    let mut questions = vec![
        ("changes", json!({ "limit": 3 })),
        ("timeline", json!({ "limit": 500 })),
        ("timeline", json!({ "limit": 2, "offset": 3, "type": "write" })),
        ("timeline", json!({ "path_prefix": "notes", "type": "delete" })),
        ("timeline", json!({ "actor": "Zoë" })),
        ("velocity", json!({})),
        ("feed", json!({})),
        ("feed_xml", json!({})),
    ];
    let records = changes["changes"].as_array().unwrap();
    for record in records {
        questions.push(("versions", json!({ "path": record["path"] })));
        questions.push(("blame", json!({ "path": record["path"] })));
        questions.push(("changes", json!({ "since": record["seq"], "limit": 2 })));
    }
    let answer = |(name, question): (&str, Value)| {
        let answer = space.ask(name, question.clone()).unwrap_or_else(|fault| json!({ "fault": fault.message() }));
        (format!("{name} {question}"), answer)
    };
    let mut answers: Vec<_> = questions.into_iter().map(answer).collect();
    answers.push(("changes".to_owned(), changes));
    answers
}

fn git(root: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(["-c", "user.name=Ann", "-c", "user.email=ann@x"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Everything that makes history: every kind of change, names that sort against the order of
/// events, messages with white space, edits behind the server, commits of a person.
fn eventful() -> TestSpace {
    let space = TestSpace::with("", &[("planted.md", "planted\n"), (".svc/rules.md", "# Rules\n")]);
    let zoe = from_run("Zoë", "run:1");
    space.put("d.md", "one\ntwo\nthree\n");
    space.put("d.md", "one\ntwo\nthree\n");
    space.ask_as(&zoe, "write", json!({ "path": "d.md", "content": "one\nzwei\nthree\n" })).unwrap();
    space.put("notes/x.md", "See [[d]].\n");
    space.put("notes/sub/y.md", "y\n");
    // Written before removed, were paths alone to decide.
    space.get("rename", json!({ "from": "d.md", "to": "a.md" }));
    let rename = Change::Move { from: path("notes"), to: path("alpha"), precondition: Precondition::Any };
    space.space().vfs.apply(&caller(), rename).unwrap();
    let files = json!([
        { "path": "z.md", "content": "z\n" },
        { "path": "a.md", "content": "one\nzwei\nthree\nfour\n" },
        { "path": "planted.md", "content": "planted\n" },
    ]);
    space
        .ask_as(&zoe, "bulk_write", json!({ "files": files, "message": "\n several files \n\nwith a body\n\n" }))
        .unwrap();
    space.get("delete", json!({ "path": "alpha/x.md" }));
    space.get("append", json!({ "path": "a.md", "content": "five\n" }));
    space.edit_behind("a.md", "zero\none\nzwei\nthree\nfour\nfive\n");
    space.edit_behind("behind.md", "behind\n");
    std::fs::write(space.root().join("person.md"), "by hand\n").unwrap();
    // The server refreshes git's index when it has nothing else to do.
    git(space.root(), &["reset", "-q"]);
    git(space.root(), &["rm", "-q", "z.md"]);
    git(space.root(), &["add", "person.md"]);
    git(space.root(), &["commit", "-qm", "by hand\n\nwith a body"]);
    space.put("last.md", "last\n");
    space
}

/// Shows: HIST-1
#[test]
fn a_log_made_again_from_git_gives_the_same_answers() {
    let space = eventful();
    let before = answers(&space);
    assert!(before.len() > 50, "{}", before.len());
    let space = space.without_its_log(|_| {});
    for ((question, before), (_, after)) in before.iter().zip(&answers(&space)) {
        assert_eq!(after, before, "{question}");
    }
    // And goes on from there.
    space.put("a.md", "anew\n");
    assert_eq!(space.get("versions", json!({ "path": "a.md", "follow": false })).as_array().unwrap().len(), 5);
}

/// Shows: HIST-1
#[test]
fn the_index_follows_a_rebuilt_log_of_the_same_length() {
    let space = eventful();
    space.settle();
    let length = space.space().vfs.last_seq();
    let space = space.without_its_log(|root| {
        git(root, &["reset", "-q", "--hard", "HEAD~1"]);
        std::fs::write(root.join("other.md"), "A quokka.\n").unwrap();
    });
    assert_eq!(space.space().vfs.last_seq(), length, "otherwise this test shows nothing");
    assert_eq!(space.get("search", json!({ "q": "quokka" }))[0]["path"], "other.md");
    assert_eq!(space.get("search", json!({ "q": "last" })), json!([]));
}
