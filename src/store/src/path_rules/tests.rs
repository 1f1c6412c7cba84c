//! Differential tests against stock git.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use svcfs_base::{ETag, FileKind};
use tempfile::TempDir;

use super::*;
use crate::History;

fn at(path: &str) -> TreePath {
    TreePath::parse(path).unwrap()
}

fn git(root: &Path, arguments: &[&str], input: &[u8]) -> (bool, Vec<u8>) {
    let mut child = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.success(), output.stdout)
}

fn repository(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    assert!(git(root.path(), &["init", "-q"], b"").0);
    for (path, text) in files {
        let file = root.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    root
}

#[rustfmt::skip]
/// Paths for the rules below.
const PATHS: &[&str] = &[
    "a.log",
    "keep.log",
    "d/keep.log",
    "d/a.log",
    "build",
    "build/x",
    "d/build",
    "node_modules/x.md",
    "d/node_modules/y/z.md",
    "node_modules",
    "doc/a.txt",
    "doc/d/a.txt",
    "d/doc/a.txt",
    "cache",
    "x/cache/y",
    "logs/debug",
    "logs/a/b/debug",
    "logs/a/debug/c",
    "a/x",
    "a/b/c",
    "a",
    "foo bar",
    "trailing",
    "trailing   ",
    "#hash",
    "!bang",
    "ax.md",
    "cx.md",
    "a.c",
    "a.h",
    "a.cc",
    "top/in.md",
    "top/out.md",
    "top/d/in.md",
    "Äpfel.md",
    "äpfel.md",
    "x/y",
    "xzy",
    ".obsidian/workspace.json",
    ".obsidian/app.json",
    "v/.obsidian/workspace.json",
    ".trash/a.md",
    "windows.md",
    "$dollar",
    "dollar",
    "end\\",
    "one/mid.md",
    "one/two/mid.md",
    "mid.md",
    "upper.md",
    "UPPER.md",
    "sub/a.log",
    "sub/only-here",
    "sub/d/only-here",
    "sub/nested/x.md",
    "sub/a.md",
    "sub/a.txt",
    "sub/d/a.md",
    "sub/keep.log",
    "deep/b/c/d",
    "deep/b/c/e",
    "deep/b/x",
    "excluded.md",
    "d/excluded.md",
    "ex/a.md",
    "ex",
    "plain.md",
];

#[test]
fn ignored_paths_are_those_of_git_check_ignore() {
    let rules = [
        (
            ".gitignore",
            "# comment\n\n*.log\n!keep.log\n/build\nnode_modules/\ndoc/*.txt\n**/cache\nlogs/**/debug\n\
          a/**\n!a/b/\nfoo\\ bar\ntrailing   \n\\#hash\n\\!bang\n[ab]x.md\n*.[ch]\n/top/*\n!/top/in.md\nÄ*.md\nx?y\n\
          .obsidian/workspace.json\n.trash/\r\nwindows.md\r\n$dollar\nend\\\\\n*/mid.md\nUPPER.md\n",
        ),
        ("sub/.gitignore", "!*.log\n/only-here\nnested/\n*\n!*.md\n"),
        ("deep/.gitignore", "/b/c\n!/b/c/d\n"),
        (".git/info/exclude", "excluded.md\n/ex/\n"),
    ];
    let root = repository(&rules);
    for directories in [false, true] {
        let rules = PathRules::new(root.path());
        for path in PATHS {
            let file = root.path().join(path);
            let _ = if directories { fs::remove_file(&file) } else { Ok(()) };
            if fs::create_dir_all(if directories { &file } else { file.parent().unwrap() }).is_err() {
                continue;
            }
            if !directories && !file.exists() {
                fs::write(&file, "x").unwrap();
            }
            let expected = git(root.path(), &["check-ignore", "-q", "--no-index", "--", path], b"").0;
            assert_eq!(rules.is_ignored(&at(path)), expected, "{path:?}, directory: {directories}");
        }
    }
}

#[test]
fn the_rule_that_ignores_a_path_is_named_with_its_file() {
    let root = repository(&[
        (".gitignore", "build/\n*.log\n!keep.log\n"),
        ("sub/.gitignore", "/x.md\n"),
        (".git/info/exclude", "excluded.md\n"),
    ]);
    let rules = PathRules::new(root.path());
    for (path, rule) in [
        ("build/a/b.md", Some("`build/` in `.gitignore`")),
        ("d/a.log", Some("`*.log` in `.gitignore`")),
        ("keep.log", None),
        ("sub/x.md", Some("`/x.md` in `sub/.gitignore`")),
        ("d/excluded.md", Some("`excluded.md` in `.git/info/exclude`")),
        ("a.md", None),
    ] {
        assert_eq!(rules.ignoring_rule(&at(path)).as_deref(), rule, "{path}");
    }
}

#[test]
fn ignoring_case_is_a_setting_of_the_repository() {
    let root = repository(&[(".gitignore", "*.LOG\nDraft/\n")]);
    for setting in ["false", "true"] {
        git(root.path(), &["config", "core.ignorecase", setting], b"");
        let rules = PathRules::new(root.path());
        for path in ["a.log", "a.LOG", "draft/x", "Draft/x"] {
            let expected = git(root.path(), &["check-ignore", "-q", "--no-index", "--", path], b"").0;
            assert_eq!(rules.is_ignored(&at(path)), expected, "{path}, {setting}");
        }
    }
}

#[test]
fn a_changed_rule_file_is_effective_at_once() {
    let root = repository(&[(".gitignore", "a.md\n")]);
    let rules = PathRules::new(root.path());
    assert!(rules.is_ignored(&at("a.md")) && !rules.is_ignored(&at("d/b.md")));
    fs::write(root.path().join(".gitignore"), "").unwrap();
    fs::create_dir(root.path().join("d")).unwrap();
    fs::write(root.path().join("d/.gitignore"), "b.md\n").unwrap();
    rules.invalidate();
    assert!(!rules.is_ignored(&at("a.md")) && rules.is_ignored(&at("d/b.md")));
    fs::write(root.path().join(".git/info/exclude"), "c.md\n").unwrap();
    let excludes = root.path().join("global");
    fs::write(&excludes, "e.md\n").unwrap();
    git(root.path(), &["config", "core.excludesFile", excludes.to_str().unwrap()], b"");
    std::thread::sleep(RECHECK_INTERVAL);
    assert!(rules.is_ignored(&at("c.md")) && rules.is_ignored(&at("e.md")));
}

#[test]
fn hostile_rule_files_are_harmless() {
    let root = repository(&[(".gitignore/x", "a directory"), ("d/.gitignore", "ok.md\n")]);
    std::os::unix::fs::symlink("/etc/passwd", root.path().join("d/.gitattributes")).unwrap();
    fs::write(
        root.path().join(".gitattributes"),
        [b"[attr]loop loop\n* loop \xff\xfe\n".as_slice(), &[0; 64]].concat(),
    )
    .unwrap();
    fs::write(root.path().join(".gitmodules"), "[submodule \"x\"\npath = ../..\n").unwrap();
    let rules = PathRules::new(root.path());
    assert!(rules.is_ignored(&at("d/ok.md")) && !rules.is_ignored(&at("a.md")));
    assert!(rules.conversion(&at("a.md")).is_identity());
    assert_eq!(rules.submodule_above(&at("a/b")), None);
}

/// Contents whose line ends git treats differently.
const CONTENTS: [&[u8]; 11] = [
    b"one\ntwo\n",
    b"one\r\ntwo\r\n",
    b"one\r\ntwo\n",
    b"one\rtwo\r\n",
    b"a\0b\r\n",
    b"",
    b"\r\n",
    b"text\r\n\x1a",
    b"\x01\x02\x03\x04\r\n",
    "日本\r\n$Id$ $Id: x$\r\n".as_bytes(),
    b"no end\r",
];

#[test]
fn contents_are_recorded_as_git_hash_object_does() {
    let attributes = [
        "",
        "* text",
        "* text=auto",
        "* -text",
        "* text eol=crlf",
        "* text eol=lf",
        "* text=auto eol=crlf",
        "* text=auto eol=lf",
        "* eol=crlf",
        "* eol=lf",
        "* binary",
        "* crlf",
        "* crlf=input",
        "* -crlf",
        "* ident",
        "* text ident",
        "* !text",
        "* text\n*.md -text",
        "[attr]plain -text\n* text=auto\n*.md plain",
        "* text=auto\n*.md !text",
        "* filter=upper",
        "* filter=upper text",
        "* filter=unknown",
        "* working-tree-encoding=UTF-16LE",
        "/d/*.md text\n",
        "\"*.md\" text=auto",
        "*.md text -text",
        "# c\n*.md   text=auto\r\n",
        "* filter=flaky",
    ];
    let settings = [("core.autocrlf", "false"), ("core.autocrlf", "true"), ("core.autocrlf", "input")];
    for (name, value) in settings {
        let root = repository(&[("unrelated", "x")]);
        git(root.path(), &["config", name, value], b"");
        git(root.path(), &["config", "filter.upper.clean", "tr a-z A-Z"], b"");
        git(root.path(), &["config", "filter.upper.smudge", "tr A-Z a-z"], b"");
        git(root.path(), &["config", "filter.flaky.clean", "false"], b"");
        let (history, _) = History::open(root.path(), &[]).unwrap();
        for lines in attributes {
            fs::write(root.path().join(".gitattributes"), lines).unwrap();
            history.rules().invalidate();
            for path in ["a.md", "d/a.md"] {
                let path = at(path);
                for content in CONTENTS {
                    let argument = format!("--path={path}");
                    let (is_done, id) = git(root.path(), &["hash-object", "-w", "--stdin", &argument], content);
                    let id = String::from_utf8(id).unwrap();
                    let own = history.recorded_form(&path, (FileKind::Regular, content));
                    let shown = String::from_utf8_lossy(content);
                    assert_eq!(own.is_ok(), is_done, "{lines:?} {name}={value} {path} {shown:?}: {own:?}");
                    if let Ok(own) = own {
                        assert_eq!(own.to_string(), id.trim(), "{lines:?} {name}={value} {path} {shown:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn recorded_contents_are_read_as_git_checks_them_out() {
    for lines in ["* text eol=crlf", "* text=auto eol=crlf", "* text", "* filter=upper", "* ident", "* -text"] {
        let root = repository(&[(".gitattributes", lines)]);
        git(root.path(), &["config", "filter.upper.clean", "tr a-z A-Z"], b"");
        git(root.path(), &["config", "filter.upper.smudge", "tr A-Z a-z"], b"");
        let (history, _) = History::open(root.path(), &[]).unwrap();
        for content in CONTENTS {
            let (_, id) = git(root.path(), &["hash-object", "-w", "--stdin"], content);
            let id = String::from_utf8(id).unwrap().trim().to_owned();
            let (_, expected) = git(root.path(), &["cat-file", "--filters", "--path=a.md", &id], b"");
            let blob = ETag::from_content(content);
            assert_eq!(blob.to_string(), id);
            let own = history.smudge(&at("a.md"), (FileKind::Regular, blob), content.to_vec().into()).unwrap();
            assert_eq!(own, expected, "{lines:?} {:?}", String::from_utf8_lossy(content));
        }
    }
}

#[test]
fn a_filter_that_cannot_run_says_why() {
    let root = repository(&[(".gitattributes", "* filter=crypt\n")]);
    for (name, value) in [("filter.crypt.clean", "missing-program"), ("filter.crypt.required", "true")] {
        git(root.path(), &["config", name, value], b"");
    }
    let (history, _) = History::open(root.path(), &[]).unwrap();
    let error = history.recorded_form(&at("a.md"), (FileKind::Regular, b"x")).unwrap_err().to_string();
    assert!(error.contains("clean filter 'crypt' failed") && error.contains("a.md"), "{error}");
}

#[test]
fn a_submodule_has_a_git_file_or_is_listed() {
    let root = repository(&[
        (".gitmodules", "[submodule \"s\"]\n\tpath = libs/listed\n\turl = x\n"),
        ("with-file/.git", "gitdir: ../x\n"),
        ("with-file/a.md", "x"),
        ("clone/.git/HEAD", "ref: refs/heads/main\n"),
        ("clone/a.md", "x"),
    ]);
    let rules = PathRules::new(root.path());
    for (path, submodule) in [
        ("libs/listed/a.md", Some("libs/listed")),
        ("libs/listed", None),
        ("libs/other/a.md", None),
        ("with-file/a.md", Some("with-file")),
        ("clone/a.md", None),
        ("a.md", None),
    ] {
        assert_eq!(rules.submodule_above(&at(path)), submodule.map(at), "{path}");
    }
}
