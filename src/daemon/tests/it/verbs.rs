//! The commands people type: `svcfs search`, `read`, `log` and others.

use std::process::{Command, Stdio};

use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

use crate::harness::{Place, Running, can_mount, json_of, program, refusal, svcfs};

const VERBS: [&str; 13] =
    ["search", "read", "write", "append", "ls", "tree", "rename", "rm", "log", "blame", "diff", "links", "backlinks"];

/// A root with pages that link to each other.
fn place() -> Place {
    let place = Place::with_root();
    place.write("kb/notes/tides.md", "# Tides\n\nSee [[index]], [[moon]] and [[nowhere]].\n");
    place.write("kb/notes/moon.md", "# Moon\n\nThe moon makes the quokka tide.\n");
    place
}

/// What a verb prints.
#[track_caller]
fn run(place: &Place, line: &[&str]) -> String {
    let output = svcfs(line).args(["--root", &place.at("kb")]).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

/// What a verb prints in a directory, with standard error.
#[track_caller]
fn run_in(directory: &str, line: &[&str]) -> (String, String) {
    let mut command = program();
    let output = command.current_dir(directory).args(line).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn item_9_every_verb_runs_with_positional_arguments() {
    let place = place();
    place.write("draft.md", "# Draft\n\nSee [[moon]].\n");
    let draft = place.at("draft.md");
    for (line, expected) in [
        (&["search", "quokka", "tide"][..], "notes/moon.md  Moon\n    "),
        (&["read", "notes/moon.md"], "# Moon\n\nThe moon makes the quokka tide.\n"),
        (&["write", "drafts/a.md", &draft], "wrote drafts/a.md  etag "),
        (&["append", "drafts/a.md", "- an item"], "appended to drafts/a.md  etag "),
        (&["read", "drafts/a.md"], "# Draft\n\nSee [[moon]].\n\n- an item\n"),
        (&["append", "drafts/a.md", "- next", "--separator", ""], "appended to drafts/a.md"),
        (&["read", "drafts/a.md", "--offset", "4"], "- an item\n- next\n"),
        (&["ls", "notes"], "moon.md\ntides.md\n"),
        (&["tree", "notes"], "├── moon.md\n└── tides.md\n\n0 directories, 2 files\n"),
        (&["log", "drafts/a.md"], ""),
        (&["log", "notes/"], ""),
        (&["log"], ""),
        (&["blame", "drafts/a.md"], ""),
        (&["diff", "drafts/a.md"], "diff --git a/drafts/a.md b/drafts/a.md\n"),
        (&["links", "notes/tides.md"], "index.md\nnotes/moon.md\nnowhere  (broken)\n"),
        (&["backlinks", "notes/moon.md"], "drafts/a.md  Draft\n    See [[moon]].\nnotes/tides.md  Tides\n"),
        (&["rename", "notes/moon.md", "drafts/"], "renamed notes/moon.md to drafts/moon.md"),
        (&["rename", "drafts", "sea"], "renamed drafts to sea, 2 files\n"),
        (&["rm", "sea/a.md", "sea/moon.md"], "removed sea/a.md\nremoved sea/moon.md\n"),
        (&["log", "sea/a.md"], ""),
    ] {
        let text = run(&place, line);
        assert!(text.starts_with(expected) && !text.is_empty(), "{line:?}: {text}");
    }
}

#[test]
fn item_9_no_results_is_a_note_and_no_failure() {
    let place = place();
    for line in [&["search", "xqzzy"][..], &["backlinks", "notes/nothing.md"], &["links", "notes/moon.md"]] {
        let assert = svcfs(line).args(["--root", &place.at("kb")]).assert().success().stdout("");
        assert.stderr(contains("no results").or(contains("no backlinks")).or(contains("no links")));
    }
    for (page, is_missing) in [("notes/nothing.md", true), ("drafts/none.md", true), ("notes/tides.md", false)] {
        let assert = svcfs(&["backlinks", page, "--root", &place.at("kb")]).assert().success().stdout("");
        let errors = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert_eq!(errors.contains(&format!("file not found: {page}")), is_missing, "{errors}");
    }
    let unchanged = svcfs(&["diff", "notes/moon.md", "-r", &place.at("kb")]).assert().success().stdout("");
    unchanged.stderr(contains("single version"));
    svcfs(&["search", "xqzzy", "--json", "-r", &place.at("kb")]).assert().success().stdout("[]\n").stderr("");
}

#[test]
fn searches_of_an_earlier_tree_name_its_commit() {
    let place = place();
    let root = place.at("kb");
    run(&place, &["log"]);
    run(&place, &["rm", "notes/moon.md"]);
    let removed = place.git("kb", &["rev-list", "-n", "1", "HEAD", "--", "notes/moon.md"]);
    let before = place.git("kb", &["rev-parse", &format!("{removed}^")]);
    for (line, shown) in [(["search", "quokka"], "notes/moon.md"), (["recall", "quokka"], "quokka tide")] {
        assert!(!run(&place, &line).contains(shown), "{line:?}: it was removed");
        let assert = svcfs(&line).args(["--as-of", &before, "--root", &root]).assert().success();
        assert.stdout(contains(shown)).stderr(contains(format!("as of commit {}", &before[..10])));
    }
    let refused = svcfs(&["search", "--semantic", "quokka", "--as-of", &before, "--root", &root]).assert().code(2);
    refused.stderr(contains("--as-of has no effect with --semantic"));
}

#[test]
fn item_9_json_is_the_answer_of_the_operation_served_or_not() {
    let place = place();
    run(&place, &["append", "notes/moon.md", "more"]);
    let root = place.at("kb");
    let pairs: [(&[&str], &[&str]); 9] = [
        // With an operator only words are searched: the server embeds pages, a command does not.
        (&["search", "quokka", "AND", "tide", "-n", "3"], &["search", "q=quokka AND tide", "limit=3"]),
        (&["read", "notes/moon.md"], &["read", "path=notes/moon.md"]),
        (&["ls", "notes"], &["tree", "path=notes", "depth=1", "details=true"]),
        (&["tree"], &["tree"]),
        (&["log"], &["timeline"]),
        (&["log", "notes/moon.md"], &["versions", "path=notes/moon.md"]),
        (&["blame", "notes/moon.md"], &["blame", "path=notes/moon.md"]),
        (&["links", "notes/tides.md"], &["peek", "path=notes/tides.md"]),
        (&["backlinks", "notes/moon.md"], &["backlinks", "path=notes/moon.md"]),
    ];
    let answers = || -> Vec<(Value, Value)> {
        let ask = |line: &[&str], first: &[&str]| json_of(&[first, line, &["--json", "--root", &root]].concat());
        pairs.iter().map(|(verb, call)| (ask(verb, &[]), ask(call, &["call"]))).collect()
    };
    let alone = answers();
    let server = Running::serve(&root, &[]);
    let served = answers();
    server.stop();
    for (index, (verb, _)) in pairs.iter().enumerate() {
        assert_eq!(alone[index].0, alone[index].1, "{verb:?}");
        assert_eq!(served[index].0, alone[index].0, "{verb:?}");
    }
}

#[test]
fn item_9_content_comes_from_a_file_or_standard_input_unchanged() {
    let place = place();
    let bytes: &[u8] = b"\x89PNG\r\n\x1a\n\0\xff";
    std::fs::write(place.path("dot.png"), bytes).unwrap();
    run(&place, &["write", "dot.png", &place.at("dot.png")]);
    svcfs(&["write", "copy.png", "-r", &place.at("kb")]).write_stdin(bytes).assert().success();
    svcfs(&["append", "a.md", "-r", &place.at("kb")]).write_stdin("# A\n").assert().success();
    let read = svcfs(&["read", "dot.png", "copy.png", "a.md", "-r", &place.at("kb")]).assert().success();
    assert_eq!(read.get_output().stdout, [bytes, bytes, b"# A\n"].concat());
    let refused = refusal(&["write", "a.md", "/nowhere/draft.md", "-r", &place.at("kb")], 1);
    assert!(refused.contains("`/nowhere/draft.md`: No such file"), "{refused}");
    svcfs(&["append", "list.md", "-", "-r", &place.at("kb")]).write_stdin("- an item\n").assert().success();
    // The command before it in a pipe has failed.
    for verb in ["write", "append"] {
        let refused = svcfs(&[verb, "a.md", "-r", &place.at("kb")]).write_stdin("").assert().code(3);
        assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("standard input is empty"), "{verb}");
    }
    svcfs(&["write", "empty.txt", "/dev/null", "-r", &place.at("kb")]).assert().success();
    let refused = refusal(&["append", "list.md", "--actr=ann", "-r", &place.at("kb")], 2);
    assert!(refused.contains("no option `--actr=ann`"), "{refused}");
    assert_eq!(run(&place, &["read", "list.md"]), "- an item\n");
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "dot.png"]), "tester");
    place.write("b.txt", "# B\n");
    run(&place, &["write", "b.md", &place.at("b.txt"), "--actor", "agent:7"]);
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "b.md"]), "agent:7");
    let refused =
        refusal(&["write", "b.md", &place.at("b.txt"), "--if-match", &"0".repeat(40), "-r", &place.at("kb")], 3);
    assert!(refused.contains("b.md"), "{refused}");
}

#[test]
fn item_9_paths_are_relative_to_the_current_directory_inside_the_root() {
    let place = place();
    let (root, notes) = (place.at("kb"), place.at("kb/notes"));
    for (directory, line, expected) in [
        (&notes, vec!["read", "moon.md"], "# Moon"),
        (&notes, vec!["read", "../notes/moon.md"], "# Moon"),
        (&notes, vec!["ls"], "moon.md\ntides.md\n"),
        (&notes, vec!["search", "quokka"], "moon.md  Moon"),
        (&notes, vec!["links", "tides.md"], "../index.md\nmoon.md\n"),
        (&root, vec!["read", "notes/moon.md"], "# Moon"),
    ] {
        let (text, errors) = run_in(directory, &[line.as_slice(), &["--root", &root]].concat());
        assert!(text.starts_with(expected), "{line:?} in {directory}: {text} {errors}");
    }
    let absolute = place.canonical("kb/notes/moon.md");
    assert!(run(&place, &["read", &absolute]).starts_with("# Moon"));
    for (line, why) in [
        (["read", "/etc/passwd"], "outside the knowledge base"),
        (["read", "../x.md"], "above the top"),
        (["read", ""], "the path is empty"),
        (["ls", "/tmp"], "outside the knowledge base"),
    ] {
        let text = refusal(&[&line[..], &["--root", &root]].concat(), 2);
        assert!(text.contains(why), "{line:?}: {text}");
    }
}

#[test]
fn item_9_a_mount_stands_for_its_root() {
    if !can_mount() {
        return;
    }
    let place = place();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    let (mount, notes) = (place.at("mnt"), place.at("mnt/notes"));
    let (text, errors) = run_in(&notes, &["read", "moon.md", "--root", &mount]);
    assert!(text.starts_with("# Moon"), "{text} {errors}");
    let (text, errors) = run_in(&notes, &["append", "moon.md", "more", "--root", &place.at("kb")]);
    assert!(text.starts_with("appended to moon.md"), "{text} {errors}");
    assert!(place.read("mnt/notes/moon.md").ends_with("\nmore\n"));
    let absolute = place.canonical("mnt/notes/moon.md");
    assert!(run(&place, &["log", &absolute]).contains("tester"));
    server.stop();
}

#[test]
fn item_9_rename_and_rm_do_what_mv_and_rm_do() {
    let place = place();
    run(&place, &["rename", "notes/moon.md", "index.md/../luna"]);
    let refused = |line: &[&str], why: &str| {
        let text = refusal(&[line, &["--root", &place.at("kb")]].concat(), 3);
        assert!(text.contains(why), "{line:?}: {text}");
    };
    refused(&["rename", "luna", "index.md"], "exists");
    refused(&["rename", "nothing.md", "else.md"], "file not found: nothing.md");
    refused(&["read", "notes"], "`notes` is a directory; `svcfs ls notes`");
    refused(&["blame", "."], "`.` is a directory; `svcfs ls .`");
    refused(&["rm", "notes"], "svcfs rm -r");
    refused(&["rm", "nothing.md"], "nothing.md");
    assert!(run(&place, &["rename", "luna", "notes"]).starts_with("renamed luna to notes/luna"));
    // One that fails does not stop the others.
    let line = ["rm", "nothing.md", "notes/luna", "--root", &place.at("kb")];
    svcfs(&line).assert().code(3).stdout("removed notes/luna\n").stderr(contains("nothing.md"));
    let top = refusal(&["rm", "-r", ".", "--root", &place.at("kb")], 2);
    assert!(top.contains("the top of the knowledge base"), "{top}");
    // More levels than one answer lists.
    let deep = "d/".repeat(22);
    place.write(&format!("kb/{deep}a.md"), "# Deep\n");
    let removed = run(&place, &["rm", "-r", "d"]);
    assert!(removed.contains("a.md\n") && !place.has("kb/d"), "{removed}");
    let removed = run(&place, &["rm", "-r", "notes"]);
    assert!(removed.contains("removed notes/tides.md\n") && !place.has("kb/notes"), "{removed}");
}

#[test]
fn item_9_unknown_commands_are_answered_with_what_people_mean() {
    for (given, meant) in [
        ("find", "svcfs search"),
        ("cat", "svcfs read"),
        ("history", "svcfs log"),
        ("mv", "svcfs rename"),
        ("grep", "svcfs search"),
        ("get", "svcfs read"),
        ("put", "svcfs write"),
        ("delete", "svcfs rm"),
        ("head", "svcfs read"),
        ("vim", "svcfs write"),
        ("adopt", "svcfs init --adopt"),
        ("toc", "svcfs call toc"),
        ("serch", "search"),
    ] {
        let text = refusal(&[given, "x"], 2);
        assert!(text.contains(meant), "{given}: {text}");
    }
}

#[test]
fn item_9_every_verb_explains_itself_and_completes() {
    let scripts: Vec<String> = ["bash", "zsh", "fish"]
        .map(|shell| {
            let output = svcfs(&["completions", shell]).assert().success().get_output().stdout.clone();
            String::from_utf8(output).unwrap()
        })
        .into();
    let program = svcfs(&["--help"]).assert().success().get_output().stdout.clone();
    let program = String::from_utf8(program).unwrap();
    for verb in VERBS {
        let about =
            program.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{verb} "))).unwrap().trim();
        let own = svcfs(&[verb, "--help"]).assert().success().stdout(predicates::str::starts_with(about));
        drop(own);
        let is_complete = contains("Examples:\n  svcfs ").and(contains(format!("Usage: svcfs {verb} ")));
        let help = svcfs(&[verb, "--help"]).assert().success().stdout(is_complete.and(contains("--json")));
        for line in String::from_utf8(help.get_output().stdout.clone()).unwrap().lines() {
            assert!(line.chars().count() <= 100, "{verb}: {line}");
        }
        assert!(scripts.iter().all(|script| script.contains(verb)), "{verb}");
        svcfs(&["man", verb]).assert().success().stdout(contains(format!("svcfs\\-{verb}")));
    }
}

#[test]
fn item_9_there_are_no_colours_in_a_pipe_and_a_closed_pipe_is_no_failure() {
    let place = place();
    for line in [&["search", "quokka"][..], &["log"], &["tree"], &["ls"], &["diff", "notes/moon.md"]] {
        let output = svcfs(line).args(["--root", &place.at("kb")]).output().unwrap();
        assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{line:?}");
    }
    let mut child = Command::new("sh");
    let script = format!("'{}' tree --root '{}' | head -c 1", env!("CARGO_BIN_EXE_svcfs"), place.at("kb"));
    let output = child.args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
