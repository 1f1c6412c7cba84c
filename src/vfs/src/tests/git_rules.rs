//! `.gitignore`, `.gitattributes`, submodules, names and depths that git refuses.

use std::path::Path;

use super::*;

fn caller(protocol: Protocol) -> Caller {
    Caller::new(protocol).with_actor(Actor::new("eve"))
}

fn put_with(space: &TestSpace, protocol: Protocol, path: &str, text: &str) -> Result<ApplyResult, Fault> {
    space.vfs.apply(&caller(protocol), Change::put(at(path), text.to_owned()))
}

/// A space with a repository that has these files in a first commit.
fn repository(files: &[(&str, &str)], settings: &[(&str, &str)], watch: bool) -> TestSpace {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    git_in(root, &["init", "-q"]);
    for (name, value) in settings {
        git_in(root, &["config", name, value]);
    }
    for (path, text) in files {
        write(root, path, text);
    }
    git_in(root, &["add", "."]);
    git_in(root, &["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "theirs"]);
    let vfs = Vfs::open(options(root, watch)).unwrap();
    TestSpace { directory, vfs }
}

fn write(root: &Path, path: &str, text: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

fn git_in(root: &Path, arguments: &[&str]) {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn assert_clean(space: &TestSpace) {
    space.wait_until("git status is clean", |space| space.git(&["status", "--porcelain"]).is_empty());
}

fn head_has(space: &TestSpace, path: &str) -> bool {
    !space.git(&["ls-tree", "-r", "--name-only", "HEAD", "--", path]).is_empty()
}

fn on_disk(space: &TestSpace, path: &str) -> String {
    fs::read_to_string(space.directory.path().join(path)).unwrap()
}

/// Shows: EDIT-9
#[test]
fn ignored_files_are_stored_without_versions() {
    let rules = ".obsidian/workspace.json\nprivate/\n*.draft.md\n";
    let space = repository(&[(".gitignore", rules), (".obsidian/app.json", "{}")], &[], false);
    let before = space.log();
    for path in [".obsidian/workspace.json", "private/a.md", "x.draft.md"] {
        for protocol in [Protocol::Fuse, Protocol::Nfs, Protocol::WebDav] {
            put_with(&space, protocol, path, &format!("{protocol:?}")).unwrap();
            assert_eq!(on_disk(&space, path), format!("{protocol:?}"));
            assert_eq!(space.vfs.read(protocol, &at(path)).unwrap().content, format!("{protocol:?}"));
        }
        for protocol in [Protocol::Http, Protocol::Mcp] {
            let fault = put_with(&space, protocol, path, "x").unwrap_err();
            assert_eq!(fault.kind(), Kind::Invalid, "{path}");
            assert!(fault.message().contains(".gitignore"), "{fault}");
            assert_eq!(space.vfs.read(protocol, &at(path)).unwrap_err().kind(), Kind::NotFound, "{path}");
        }
        assert!(
            space.vfs.walk(Protocol::Internal, &TreePath::root()).unwrap().iter().all(|entry| entry.path != at(path))
        );
    }
    let listed = space.vfs.list(Protocol::Http, &TreePath::root()).unwrap();
    assert!(listed.iter().all(|entry| entry.path != at("private") && entry.path != at("x.draft.md")));
    assert_eq!(space.vfs.rescan().unwrap(), 0);
    assert_eq!(space.log(), before);
    put_with(&space, Protocol::Fuse, ".obsidian/app.json", "{\"a\":1}").unwrap();
    assert_eq!(space.log().len(), before.len() + 1);
    assert_clean(&space);
}

/// Shows: EDIT-9
#[test]
fn a_tracked_file_stays_versioned_although_ignored() {
    let mut space = TestSpace::new();
    space.put("a.draft.md", "one");
    space.put("d/b.md", "one");
    space.put(".gitignore", "*.draft.md\nd/\n");
    space.put("a.draft.md", "two");
    space.put("d/b.md", "two");
    assert_eq!(space.log()[0..2], ["eve|eve: d/b.md", "eve|eve: a.draft.md"]);
    put_with(&space, Protocol::Fuse, "d/new.md", "untracked").unwrap();
    fs::write(space.directory.path().join("a.draft.md"), "edited").unwrap();
    space.reopen();
    assert_eq!(space.log()[0], "fswatch|fswatch: a.draft.md");
    assert!(!head_has(&space, "d/new.md"));
    wait_for_git_index(&space);
    space.git(&["rm", "-q", "--cached", "a.draft.md"]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "untrack"]);
    space.vfs.rescan().unwrap();
    put_with(&space, Protocol::Fuse, "a.draft.md", "three").unwrap();
    assert_eq!(space.log()[0], "Ann|untrack");
    assert_eq!(on_disk(&space, "a.draft.md"), "three");
}

/// Waits until `.git/index` has the last commit: it follows the branch.
fn wait_for_git_index(space: &TestSpace) {
    space.wait_until("the index follows", |space| space.git(&["diff", "--cached", "--name-only"]).is_empty());
}

/// Shows: EDIT-9
#[test]
fn a_changed_ignore_rule_is_effective_at_once() {
    let space = repository(&[(".gitignore", "a.md\n")], &[], true);
    put_with(&space, Protocol::Fuse, "a.md", "one").unwrap();
    assert!(!head_has(&space, "a.md"));
    space.put(".gitignore", "b.md\n");
    assert_eq!(put_with(&space, Protocol::Http, "b.md", "x").unwrap_err().kind(), Kind::Invalid);
    space.wait_until("the file is adopted", |space| head_has(space, "a.md"));
    put_with(&space, Protocol::Fuse, "b.md", "one").unwrap();
    write(space.directory.path(), ".gitignore", "");
    space.wait_until("the other is adopted, too", |space| head_has(space, "b.md"));
    space.put("b.md", "two");
    assert_clean(&space);
}

#[test]
fn moves_between_ignored_and_versioned_names_follow_the_rules() {
    let space = repository(&[(".gitignore", "private/\n"), ("a.md", "a"), ("d/b.md", "b")], &[], true);
    let rename = |from: &str, to: &str| {
        space.vfs.apply(&caller(Protocol::Fuse), Change::rename(at(from), at(to))).unwrap();
    };
    put_with(&space, Protocol::Fuse, "private/x.md", "x").unwrap();
    rename("private/x.md", "x.md");
    assert_eq!(space.log()[0], "eve|eve: x.md");
    rename("a.md", "private/a.md");
    space.wait_until("the removal is recorded", |space| !head_has(space, "a.md"));
    rename("d", "private/d");
    assert!(!head_has(&space, "d/b.md") && !head_has(&space, "private/d/b.md"));
    assert_eq!(on_disk(&space, "private/d/b.md"), "b");
    rename("private", "public");
    space.wait_until("the contents are adopted", |space| head_has(space, "public/d/b.md"));
    assert_clean(&space);
}

/// Shows: GIT-12
#[test]
fn line_ends_are_recorded_as_git_would() {
    for (attributes, settings) in [
        ("* text=auto\n", &[][..]),
        ("* text eol=crlf\n", &[]),
        ("* text=auto eol=crlf\n", &[]),
        ("*.md text\n", &[]),
        ("", &[("core.autocrlf", "true")]),
        ("", &[("core.autocrlf", "input")]),
    ] {
        let mut space = repository(&[(".gitattributes", attributes), ("old.md", "one\r\ntwo\r\n")], settings, false);
        assert_eq!(space.log(), ["Ann|theirs"], "{attributes:?}");
        space.put("a.md", "one\r\ntwo\r\n");
        assert_eq!(space.git(&["cat-file", "blob", "HEAD:a.md"]), "one\ntwo\n", "{attributes:?}");
        assert_eq!(on_disk(&space, "a.md"), "one\r\ntwo\r\n");
        assert_clean(&space);
        let commits = space.log().len();
        // What git shows as unchanged makes no commit, and the tree has the writer's bytes.
        space.put("a.md", "one\ntwo\n");
        assert_eq!(on_disk(&space, "a.md"), "one\ntwo\n");
        fs::write(space.directory.path().join("old.md"), "one\ntwo\n").unwrap();
        space.vfs.rescan().unwrap();
        assert_eq!(space.log().len(), commits, "{attributes:?}");
        space.put("old.md", "three\r\n");
        space.put("old.md", "four\r\n");
        assert_eq!(space.log().len(), commits + 2, "{attributes:?}");
        space.reopen();
        assert_eq!(space.vfs.rescan().unwrap(), 0);
        assert_eq!(space.log().len(), commits + 2, "{attributes:?}");
        space.vfs.apply(&eve(), Change::rename(at("old.md"), at("d/new.md"))).unwrap();
        space.vfs.apply(&eve(), Change::rename(at("d"), at("e"))).unwrap();
        assert_eq!(on_disk(&space, "e/new.md"), "four\r\n");
        assert_eq!(space.git(&["cat-file", "blob", "HEAD:e/new.md"]), "four\n");
        assert_clean(&space);
    }
}

const UPPER: [(&str, &str); 3] =
    [("filter.upper.clean", "tr a-z A-Z"), ("filter.upper.smudge", "tr A-Z a-z"), ("filter.upper.required", "true")];

/// Shows: GIT-12
#[test]
fn filters_run_and_history_is_read_through_them() {
    let mut space = repository(&[(".gitattributes", "secret/** filter=upper\n")], &UPPER, false);
    let first = space.put("secret/a.md", "one\n").commit.unwrap().to_string();
    space.put("secret/a.md", "two\n");
    assert_eq!(space.git(&["cat-file", "blob", "HEAD:secret/a.md"]), "TWO\n");
    assert_eq!(on_disk(&space, "secret/a.md"), "two\n");
    assert_clean(&space);
    space.reopen();
    assert_eq!(space.vfs.read_version(&at("secret/a.md"), &first).unwrap(), "one\n");
    let stored = space.vfs.stored_versions(&at("secret/a.md")).unwrap();
    assert_eq!(space.vfs.stored_content(&stored[0].content).unwrap(), "one\n");
    let blame = space.vfs.blame(&at("secret/a.md")).unwrap();
    assert_eq!((blame[0].content.as_str(), blame[0].author.as_str()), ("two", "eve"));
    fs::write(space.directory.path().join("secret/a.md"), "edited\n").unwrap();
    assert_eq!(space.vfs.rescan().unwrap(), 1);
    assert_eq!(space.git(&["cat-file", "blob", "HEAD:secret/a.md"]), "EDITED\n");
    // A new name is converted by its own rules.
    space.vfs.apply(&eve(), Change::rename(at("secret"), at("open"))).unwrap();
    assert_eq!(space.git(&["cat-file", "blob", "HEAD:open/a.md"]), "edited\n");
    space.vfs.apply(&eve(), Change::rename(at("open"), at("secret"))).unwrap();
    assert_eq!(space.git(&["cat-file", "blob", "HEAD:secret/a.md"]), "EDITED\n");
    assert_clean(&space);
    let commits = space.log().len();
    space.reopen();
    assert_eq!(space.log().len(), commits);
}

/// Shows: GIT-12
#[test]
fn a_filter_that_cannot_run_refuses_the_write() {
    let settings = [("filter.crypt.clean", "no-such-program"), ("filter.crypt.required", "true")];
    let mut space = repository(&[("a.md", "one")], &settings, false);
    space.put(".gitattributes", "*.key filter=crypt\n");
    let commits = space.log();
    for protocol in [Protocol::Http, Protocol::Fuse] {
        let fault = put_with(&space, protocol, "x.key", "secret").unwrap_err();
        assert_eq!(fault.kind(), Kind::Invalid);
        assert!(fault.message().contains("clean filter 'crypt' failed"), "{fault}");
    }
    assert!(!space.directory.path().join("x.key").exists());
    fs::write(space.directory.path().join("y.key"), "secret").unwrap();
    space.reopen();
    assert_eq!(space.log(), commits);
    space.put("a.md", "two");
    assert_eq!(space.log().len(), commits.len() + 1);
}

/// Shows: GIT-13
#[test]
fn a_submodule_is_not_versioned_and_not_renamed() {
    let other = repository(&[("inside.md", "x")], &[], false);
    let mut space = repository(&[("d/a.md", "a"), ("e/b.md", "b")], &[], false);
    let source = other.directory.path().to_str().unwrap().to_owned();
    space.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &source, "d/sub"]);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "-m", "sub"]);
    space.vfs.rescan().unwrap();
    let commits = space.log();
    put_with(&space, Protocol::Fuse, "d/sub/new.md", "new").unwrap();
    put_with(&space, Protocol::Fuse, "d/sub/inside.md", "changed").unwrap();
    for path in ["d", "d/sub"] {
        let fault = space.vfs.apply(&eve(), Change::rename(at(path), at("moved"))).unwrap_err();
        assert_eq!(fault.kind(), Kind::Invalid, "{path}");
        assert!(fault.message().contains("submodule `d/sub`"), "{fault}");
    }
    space.vfs.apply(&eve(), Change::rename(at("e"), at("moved"))).unwrap();
    space.reopen();
    assert_eq!(space.log()[1..], commits);
    assert_eq!(space.git(&["ls-tree", "HEAD", "d/sub"]).split(' ').next(), Some("160000"));
}

/// Shows: PATH-1
#[test]
fn names_that_git_or_a_host_refuses_are_invalid() {
    let space = TestSpace::new();
    fs::create_dir(space.directory.path().join("d")).unwrap();
    let names = [
        "d/.git",
        "d/.git/x",
        "d/.GIT/x.md",
        "git~1",
        "d/git~1/x.md",
        ".git /x",
        "d/.git.",
        ".g\u{200c}it/x",
        "d/.git::$INDEX_ALLOCATION",
    ];
    for path in names {
        // A remote mount makes clones.
        let is_in_clone = path.to_ascii_lowercase().starts_with("d/.git") && !path.ends_with(['.', 'N']);
        for protocol in [Protocol::Http, Protocol::Remote, Protocol::Mcp, Protocol::WebDav, Protocol::S3] {
            if protocol == Protocol::Remote && is_in_clone && path != "d/.git" {
                continue;
            }
            for change in [
                Change::put(at(path), "x"),
                Change::MakeDir { path: at(path) },
                Change::rename(at("d"), at(path)),
                Change::symlink(at(path), "d"),
            ] {
                let makes_folder = matches!(change, Change::MakeDir { .. } | Change::Move { .. });
                if protocol == Protocol::Remote && is_in_clone && makes_folder {
                    continue;
                }
                let fault = space.vfs.apply(&caller(protocol), change).unwrap_err();
                assert_eq!(fault.kind(), Kind::Invalid, "{path} {protocol:?}");
                assert!(fault.message().contains("path denied"), "{path}: {fault}");
            }
        }
    }
    assert_eq!(put_with(&space, Protocol::Fuse, "git~1", "x").unwrap_err().kind(), Kind::Invalid);
    let link = Change::symlink(at("d/.gitmodules"), "x");
    assert_eq!(space.vfs.apply(&eve(), link).unwrap_err().kind(), Kind::Invalid);
    put_with(&space, Protocol::Fuse, "d/.git/HEAD", "a clone in a mount").unwrap();
    fs::write(space.directory.path().join("git~1"), "made outside").unwrap();
    space.vfs.apply(&caller(Protocol::Fuse), Change::remove(at("git~1"))).unwrap();
    assert!(fs::read_dir(space.directory.path()).unwrap().all(|entry| entry.unwrap().file_name() != "git~1"));
}

#[test]
fn a_server_starts_with_paths_of_any_depth() {
    let mut space = TestSpace::new();
    space.put("a.md", "one");
    for levels in [99, 100, 101, 300] {
        let path = format!("{}x.md", "d/".repeat(levels));
        space.put(&path, "deep");
        space.reopen();
        assert_eq!(space.text(&path), "deep");
        fs::write(space.directory.path().join("a.md"), format!("{levels}")).unwrap();
        space.reopen();
        assert_eq!(space.log()[0], "fswatch|fswatch: a.md", "{levels}");
    }
    let deep = "d/".repeat(299) + "d";
    assert_eq!(space.vfs.walk(Protocol::Http, &TreePath::root()).unwrap().len(), 5);
    space.vfs.apply(&eve(), Change::rename(at(&deep), at("moved"))).unwrap();
    assert_eq!(space.text("moved/x.md"), "deep");
    wait_for_git_index(&space);
    space.git(&["-c", "user.name=Ann", "-c", "user.email=a@x", "commit", "-q", "--allow-empty", "-m", "theirs"]);
    space.reopen();
    assert_eq!(space.log()[0], "Ann|theirs");
    // The longest path there is; no thread's stack overflows.
    let longest = format!("{}x.md", "e/".repeat(2_000));
    space.put(&longest, "deep");
    assert_eq!(space.text(&longest), "deep");
}
