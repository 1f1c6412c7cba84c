//! The first use of svcfs in a directory that a person works in.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Place, Running, eventually, json_of, program, refusal, request, svcfs};

/// Files of the work tree and their contents.
const FILES: [(&str, &str); 10] = [
    ("README.md", "unstaged\n"),
    ("half.md", "later\n"),
    ("staged.md", "staged walrus\n"),
    ("notes/new.md", "untracked walrus\n"),
    ("draft.md", "first draft walrus\n"),
    (".env", "SECRET=walrus\n"),
    ("ignored/x.md", "ignored walrus\n"),
    (".untracked-by-hand", "was tracked\n"),
    ("sub/lib.md", "of a submodule\n"),
    ("media.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"),
];

/// A repository with staged, unstaged, untracked, ignored, stashed, submodule and LFS content.
fn repository() -> Place {
    let place = Place::new();
    place.write("lib/lib.md", "of a submodule\n");
    commit_all(&place, "lib");
    for (path, text) in [
        ("README.md", "committed\n"),
        ("half.md", "committed\n"),
        ("removed.md", "removed with git\n"),
        ("deleted.md", "deleted\n"),
        (".untracked-by-hand", "was tracked\n"),
        (".gitignore", "ignored/\n.untracked-by-hand\n"),
        (".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"),
        ("media.bin", FILES[9].1),
    ] {
        place.write(&format!("kb/{path}"), text);
    }
    place.git("kb", &["init", "-q", "-b", "trunk"]);
    place.git("kb", &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../lib", "sub"]);
    place.git("kb", &["add", "-f", "."]);
    place.git("kb", &["commit", "-q", "-m", "base"]);
    place.git("kb", &["config", "user.name", "Ann Lee"]);
    place.git("kb", &["config", "user.email", "ann@example.org"]);
    place.write("kb/README.md", "stashed\n");
    place.git("kb", &["stash", "-q"]);
    place.write("kb/half.md", "half staged\n");
    place.write("kb/staged.md", FILES[2].1);
    place.git("kb", &["add", "half.md", "staged.md"]);
    place.git("kb", &["rm", "-q", "removed.md"]);
    place.git("kb", &["rm", "-q", "--cached", ".untracked-by-hand"]);
    std::fs::remove_file(place.path("kb/deleted.md")).unwrap();
    for (path, text) in FILES {
        if place.path(&format!("kb/{path}")).parent().unwrap().join(".git").is_file() {
            continue;
        }
        place.write(&format!("kb/{path}"), text);
    }
    place
}

fn commit_all(place: &Place, root: &str) {
    place.git(root, &["init", "-q"]);
    place.git(root, &["add", "."]);
    place.git(root, &["commit", "-q", "-m", "base"]);
}

/// What plain git says of the repository, and the files.
fn state(place: &Place) -> BTreeMap<&'static str, String> {
    let git = |arguments: &[&str]| place.git("kb", &[&["--no-optional-locks"], arguments].concat());
    BTreeMap::from([
        ("status", git(&["status", "--porcelain", "--ignored"])),
        ("index", git(&["ls-files", "--stage"])),
        ("stash", git(&["stash", "list"])),
        ("head", git(&["rev-parse", "HEAD"])),
        ("objects", git(&["count-objects", "-v"])),
        ("submodule", git(&["submodule", "status"])),
        ("exclude", place.read("kb/.git/info/exclude")),
        ("names", std::fs::read_dir(place.path("kb")).unwrap().count().to_string()),
    ])
}

#[track_caller]
fn assert_files_unchanged(place: &Place) {
    for (path, text) in FILES {
        assert_eq!(place.read(&format!("kb/{path}")), text, "{path}");
    }
    assert!(!place.has("kb/removed.md") && !place.has("kb/deleted.md"));
}

/// Subjects with authors, newest first.
fn subjects(place: &Place) -> Vec<String> {
    place.git("kb", &["log", "--format=%an <%ae> %s"]).lines().map(str::to_owned).collect()
}

fn found(root: &str, words: &str) -> Vec<String> {
    let answer = json_of(&["call", "search", "--root", root, &format!("q={words}"), "--json"]);
    let mut paths: Vec<_> =
        answer.as_array().unwrap().iter().map(|result| result["path"].as_str().unwrap().to_owned()).collect();
    paths.sort();
    paths
}

/// Issue 37, line 1 and criterion 2.
#[test]
fn uncommitted_changes_are_listed_and_refused_without_consent() {
    let place = repository();
    let before = state(&place);
    for command in [&["init"][..], &["init", "--json"], &["serve", "--port", "0"]] {
        let told = refusal(&[command, &["--root", &place.at("kb")]].concat(), 3);
        for part in [
            "`trunk`, as Ann Lee <ann@example.org>",
            "new 4 .env, draft.md, notes/new.md, staged.md",
            "modified 2 README.md, half.md",
            "deleted 3 .untracked-by-hand, deleted.md, removed.md",
            "staged 4 .untracked-by-hand, half.md, removed.md, staged.md",
            "staged, then changed again 2 .untracked-by-hand, half.md",
            "likely secrets 1 .env",
            "total 9",
            "--adopt=tracked",
            "Nothing was changed",
        ] {
            let words: Vec<_> = told.split_whitespace().collect();
            assert!(words.join(" ").contains(part), "{command:?}: {part}: {told}");
        }
        assert!(!told.contains("ignored/x"), "{told}");
        assert_eq!(state(&place), before, "{command:?}");
        assert_files_unchanged(&place);
    }
    for command in [&["mcp"][..], &["mount", "/mnt"], &["call", "tree"]] {
        refusal(&[command, &["--root", &place.at("kb")]].concat(), 3);
        assert_eq!(state(&place), before, "{command:?}");
    }
}

/// Shows: EDIT-12
#[test]
fn with_consent_everything_is_adopted_and_nothing_staged_is_lost() {
    let place = repository();
    let before = state(&place);
    svcfs(&["init", "--root", &place.at("kb"), "--adopt"]).assert().success();
    assert_files_unchanged(&place);
    let told = subjects(&place);
    assert_eq!(
        told[1..],
        [
            "Ann Lee <ann@example.org> adopt 6 files found at setup",
            "Ann Lee <ann@example.org> adopt what was staged at setup",
            "Old Hand <old@example.org> base"
        ],
        "{told:?}"
    );
    assert!(told[0].starts_with("tester <svc@internal> tester: install the template"), "{told:?}");
    assert_eq!(
        place.git("kb", &["log", "--format=%(trailers:key=Svc-Source,valueonly)", "-1", "HEAD~1"]),
        "direct-edit"
    );
    assert_eq!(place.git("kb", &["show", "HEAD~2:half.md"]), "half staged");
    assert_eq!(place.git("kb", &["show", "HEAD:half.md"]), "later");
    assert_eq!(place.git("kb", &["show", "HEAD:.env"]), "SECRET=walrus");
    let tracked = place.git("kb", &["ls-tree", "-r", "--name-only", "HEAD"]);
    for gone in ["ignored/x.md", ".untracked-by-hand", "removed.md", "deleted.md"] {
        assert!(!tracked.lines().any(|path| path == gone), "{gone}: {tracked}");
    }
    let after = state(&place);
    assert_eq!(after["status"], "!! .svc/state/\n!! .untracked-by-hand\n!! ignored/", "{after:#?}");
    assert_eq!(place.git("kb", &["diff", "--cached", "--name-only"]), "");
    assert_eq!((&after["stash"], &after["submodule"]), (&before["stash"], &before["submodule"]));
    place.git("kb", &["fsck", "--strict"]);
    assert_eq!(found(&place.at("kb"), "walrus"), ["draft.md", "notes/new.md", "staged.md"]);
    // Only the first time: later edits while no server runs are adopted without a question.
    place.write("kb/README.md", "edited later\n");
    svcfs(&["init", "--root", &place.at("kb")]).assert().success();
    assert_eq!(subjects(&place)[0], "Ann Lee <ann@example.org> Ann Lee: README.md");
}

/// Issue 37, line 1 and criterion 2.
#[test]
fn untracked_files_are_left_alone_until_they_are_written() {
    let place = repository();
    let before = state(&place);
    let root = place.at("kb");
    svcfs(&["init", "--root", &root, "--adopt=tracked"]).assert().success();
    assert_files_unchanged(&place);
    let status = || place.git("kb", &["--no-optional-locks", "status", "--porcelain"]);
    let untracked = "?? .env\n?? draft.md\n?? notes/";
    assert_eq!(status(), untracked);
    let after = state(&place);
    assert_eq!((&after["stash"], &after["submodule"]), (&before["stash"], &before["submodule"]));
    assert_eq!(place.git("kb", &["show", "HEAD:README.md"]), "unstaged");
    for _restart in 0..2 {
        assert_eq!(found(&root, "walrus"), ["staged.md"]);
        assert_eq!(json_of(&["reindex", "--root", &root, "--json"])["equal"], true);
        assert_eq!(status(), untracked);
    }
    let server = Running::serve(&root, &[]);
    place.write("kb/notes/new.md", "edited walrus\n");
    eventually("an edit is recorded", || !status().contains("notes"));
    let (code, body) = request(server.url(), "PUT", "/api/svc/file?path=draft.md", "second draft walrus\n");
    assert_eq!(code, 200, "{body}");
    server.stop();
    assert_eq!(status(), "?? .env");
    let versions = place.git("kb", &["log", "--format=%an", "--", "draft.md"]);
    assert_eq!(versions, "ann\nAnn Lee", "the content before the write is a version, too");
    assert_eq!(place.git("kb", &["show", "HEAD~1:draft.md"]), "first draft walrus");
    assert_eq!(found(&root, "walrus"), ["draft.md", "notes/new.md", "staged.md"]);
}

/// `git rebase --abort` would remove files that were committed meanwhile.
#[test]
fn an_unfinished_merge_is_refused_even_with_consent() {
    let place = Place::new();
    place.write("kb/a.md", "committed\n");
    commit_all(&place, "kb");
    place.write("kb/.env", "SECRET=walrus\n");
    place.write("kb/.git/MERGE_HEAD", &place.git("kb", &["rev-parse", "HEAD"]));
    for command in [&["init"][..], &["init", "--adopt"], &["serve", "--port", "0", "--adopt=tracked"]] {
        let message = refusal(&[command, &["--root", &place.at("kb")]].concat(), 3);
        assert!(message.contains("`git merge` is not finished"), "{message}");
        assert!(!place.has("kb/.svc") && place.git("kb", &["log", "--format=%s"]) == "base");
    }
}

#[test]
fn a_directory_inside_a_repository_needs_consent() {
    let place = Place::new();
    place.write("outer/docs/a.md", "committed\n");
    place.write("outer/build/a.md", "ignored\n");
    place.write("outer/.gitignore", "build/\n");
    commit_all(&place, "outer");
    let message = refusal(&["init", "--root", &place.at("outer/docs")], 3);
    assert!(message.contains("is inside the git repository") && message.contains("Nothing was changed"), "{message}");
    assert!(!place.has("outer/docs/.svc") && !place.has("outer/docs/.git"));
    svcfs(&["init", "--root", &place.at("outer/docs"), "--adopt"]).assert().success();
    svcfs(&["init", "--root", &place.at("outer/build")]).assert().success();
}

#[test]
fn a_repository_without_a_work_tree_is_refused_and_unchanged() {
    let place = Place::new();
    place.write("kb/a.md", "committed\n");
    commit_all(&place, "kb");
    place.git("kb", &["clone", "-q", "--bare", ".", "../bare"]);
    for root in ["bare", "kb/.git"] {
        let message = refusal(&["init", "--root", &place.at(root), "--adopt"], 1);
        assert!(message.contains("without a work tree"), "{message}");
        assert!(!place.has(&format!("{root}/.svc")));
    }
    assert_eq!(place.git("kb", &["log", "--format=%s"]), "base");
}

#[test]
fn a_page_that_git_tracks_no_longer_and_ignores_is_not_found() {
    let place = Place::new();
    place.write("kb/private/a.md", "walrus\n");
    commit_all(&place, "kb");
    let root = place.at("kb");
    svcfs(&["init", "--root", &root]).assert().success();
    assert_eq!(found(&root, "walrus"), ["private/a.md"]);
    let rules = place.read("kb/.gitignore");
    place.write("kb/.gitignore", &format!("{rules}private/\n"));
    place.git("kb", &["rm", "-q", "-r", "--cached", "private"]);
    place.git("kb", &["commit", "-q", "-a", "-m", "untrack"]);
    assert_eq!(found(&root, "walrus"), Vec::<String>::new());
    assert!(place.has("kb/private/a.md"));
}

#[test]
fn a_clean_repository_needs_no_consent() {
    let place = Place::new();
    place.write("kb/a.md", "a\n");
    commit_all(&place, "kb");
    svcfs(&["init", "--root", &place.at("kb")]).assert().success();
    assert_eq!(subjects(&place)[1..], ["Old Hand <old@example.org> base"]);
}

/// A clone has `.svc` from git, and was never served.
#[test]
fn a_clone_of_a_knowledge_base_is_adopted_as_any_repository() {
    let place = Place::with_root();
    for clone in ["clone", "clean"] {
        place.git("kb", &["clone", "-q", ".", &format!("../{clone}")]);
    }
    svcfs(&["call", "tree", "--root", &place.at("clean")]).assert().success();
    let server = Running::serve(&place.at("clean"), &[]);
    server.stop();
    let root = place.at("clone");
    place.write("clone/.env", "SECRET=walrus\n");
    place.write("clone/index.md", "# Mine\n");
    svcfs(&["check-config", "--root", &root]).assert().success();
    svcfs(&["token", "create", "--root", &root, "--scope", "read"]).assert().success();
    let read = || (place.git("clone", &["rev-parse", "HEAD"]), place.git("clone", &["status", "--porcelain"]));
    let before = read();
    for command in [&["init"][..], &["serve", "--port", "0"]] {
        let message = refusal(&[command, &["--root", &root]].concat(), 3);
        assert!(message.contains(".env") && message.contains("--adopt=tracked"), "{command:?}: {message}");
        assert_eq!(read(), before, "{command:?}");
    }
    for command in [&["mcp"][..], &["mount", "/mnt"], &["call", "tree"], &["ls"], &["reindex"]] {
        let message = refusal(&[command, &["--root", &root]].concat(), 3);
        assert!(message.contains("svcfs init --root"), "{command:?}: {message}");
        assert_eq!(read(), before, "{command:?}");
    }
    svcfs(&["init", "--root", &root, "--adopt=tracked"]).assert().success();
    assert_eq!(read().1, "?? .env");
    assert_eq!(place.git("clone", &["show", "HEAD:index.md"]), "# Mine");
    svcfs(&["ls", "--root", &root]).assert().success();
    assert_eq!(read().1, "?? .env");
}

/// Settings may be written before the first start.
#[test]
fn settings_of_a_directory_that_was_never_served_need_no_consent() {
    let place = Place::new();
    place.write("kb/a.md", "a\n");
    commit_all(&place, "kb");
    place.write("kb/.svc/config.toml", "[server]\nport = 0\n");
    svcfs(&["init", "--root", &place.at("kb")]).assert().success();
    assert_eq!(place.git("kb", &["status", "--porcelain"]), "");
}

#[test]
fn a_directory_without_git_is_listed_and_adopted_as_one_commit() {
    let place = Place::new();
    place.write("kb/a.md", "a\n");
    place.write("kb/id_rsa", "key\n");
    let told = refusal(&["init", "--root", &place.at("kb"), "--adopt=tracked"], 2);
    assert!(told.contains("no git repository") && !place.has("kb/.svc"), "{told}");
    let assert = svcfs(&["init", "--root", &place.at("kb")]).assert().success();
    let told = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(told.contains("likely secrets") && told.contains("id_rsa"), "{told}");
    assert_eq!(subjects(&place)[1..], ["fswatch <svc@internal> adopt 2 files found at setup"]);
}

#[test]
fn a_secondary_space_with_uncommitted_changes_is_not_adopted() {
    let place = Place::with_root();
    place.write("team/a.md", "a\n");
    commit_all(&place, "team");
    place.write("team/b.md", "b\n");
    let server = Running::serve(&place.at("kb"), &["--space", &format!("team={}", place.at("team"))]);
    let (_, body) = request(server.url(), "GET", "/readyz", "");
    assert!(!place.has("team/.svc"), "{body}");
    assert_eq!(place.git("team", &["status", "--porcelain"]), "?? b.md");
    let errors = server.stop();
    assert!(errors.contains("svcfs init --root"), "{errors}");
}

/// Issue 37, line 3.
#[test]
fn direct_edits_have_the_author_that_git_config_names() {
    let place = Place::with_root();
    place.write("gitconfig", "[user]\n\tname = Global Ann\n\temail = global@example.org\n");
    let cases: [(&str, &[&str], &str); 4] = [
        ("/dev/null", &[], "fswatch <svc@internal>"),
        ("/dev/null", &["user.name"], "fswatch <svc@internal>"),
        (&place.at("gitconfig"), &["--unset"], "Global Ann <global@example.org>"),
        (&place.at("gitconfig"), &["user.name", "user.email"], "Local Bob <bob@example.org>"),
    ];
    for (number, (global, local, expected)) in cases.into_iter().enumerate() {
        for name in local {
            match *name {
                "--unset" => place.git("kb", &["config", "--unset", "user.name"]),
                "user.name" => place.git("kb", &["config", name, "Local Bob"]),
                _ => place.git("kb", &["config", name, "bob@example.org"]),
            };
        }
        place.write("kb/direct.md", &format!("{number}\n"));
        let mut command = program();
        command.args(["call", "read", "path=direct.md", "--root", &place.at("kb")]).env("GIT_CONFIG_GLOBAL", global);
        assert!(command.output().unwrap().status.success());
        let last = place.git("kb", &["log", "-1", "--format=%an <%ae> %(trailers:key=Svc-Source,valueonly)"]);
        assert_eq!(last, format!("{expected} direct-edit"), "{number}");
    }
}

/// Issue 37, line 4.
#[test]
fn a_mistyped_root_is_refused_and_creates_nothing() {
    let place = Place::new();
    let told = refusal(&["serve", "--root", &place.at("typo"), "--port", "0"], 3);
    assert!(told.contains("does not exist") && told.contains("--create"), "{told}");
    assert!(!place.has("typo"));
    // The harness gives `--create`.
    Running::serve(&place.at("new"), &[]).stop();
    assert!(place.has("new/index.md"));
}

/// Issue 37, line 4.
#[test]
fn a_command_finds_the_root_around_the_current_directory() {
    let place = Place::with_root();
    place.write("kb/deep/er/page.md", "here\n");
    let run = |directory: &str, variable: &str, arguments: &[&str]| {
        let mut command = program();
        command.args(arguments).current_dir(place.path(directory)).env("SVC_ROOT", variable);
        let output: std::process::Output = Command::output(&mut command).unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).is_ok(), text)
    };
    let read = ["call", "read", "path=deep/er/page.md", "--json"];
    for directory in ["kb", "kb/deep", "kb/deep/er", "kb/.svc"] {
        assert_eq!(run(directory, "", &read), (Some(0), true, String::new()), "{directory}");
    }
    let (code, _, text) = run(".", "", &read);
    assert!(code == Some(3) && text.contains("--root DIR") && text.contains("svcfs init"), "{text}");
    assert_eq!(run(".", &place.at("kb"), &read).0, Some(0));
    let (code, _, text) = run("kb", &place.at("nowhere"), &read);
    assert!(code == Some(3) && text.contains("nowhere"), "the variable goes first: {text}");
    place.write("file", "");
    for (name, arguments) in [
        ("nowhere", &["ls"][..]),
        ("nowhere", &["serve", "--port", "0"]),
        ("nowhere", &["mcp"]),
        ("file", &["ls"]),
        ("kb/deep", &["status"]),
    ] {
        let (code, _, text) = run(".", &place.at(name), arguments);
        assert!(code == Some(3) && text.contains("which SVC_ROOT names"), "{name}: {text}");
        assert!(!text.contains("--root with") && !text.contains("another with --root"), "{name}: {text}");
    }
    assert!(!place.has("knowledge") && !place.has("nowhere"));
    place.write("photos/cat.txt", "meow");
    let (code, _, text) = run("photos", "", &["init"]);
    assert!(code == Some(3) && text.contains("svcfs init --root ."), "{text}");
    assert!(!place.has("photos/.svc"));
    place.write("repo/docs/a.md", "a\n");
    commit_all(&place, "repo");
    let (code, _, text) = run("repo/docs", "", &["init"]);
    assert!(code == Some(3) && text.contains("is in the git repository") && text.contains("/repo` sets up"), "{text}");
    assert!(!text.contains("no git repository") && !place.has("repo/docs/.svc"), "{text}");
    std::fs::create_dir(place.path("empty")).unwrap();
    assert_eq!(run("empty", "", &["init"]).0, Some(0));
    assert!(place.has("empty/index.md"));
}
