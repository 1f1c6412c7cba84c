//! What the mount shows below `.svc/` and is on no disk.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use svcfs_base::{Actor, Caller, Change, ChangeSet, Protocol, Timestamp, TreePath};
use svcfs_mount::MountOptions;

use crate::mounted::{Mounted, has, options, wait_for};

/// The names in a directory of the mount, in order.
fn names(space: &Mounted, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(space.at(directory)).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(space: &Mounted, actor: &str, path: &str, text: &str) {
    let caller = Caller::new(Protocol::Http).with_actor(Actor::new(actor));
    space.vfs.apply(&caller, Change::put(TreePath::parse(path).unwrap(), text.to_owned())).unwrap();
}

fn errno(outcome: std::io::Result<impl Sized>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

const EROFS: Option<i32> = Some(30);

/// Shows: VIEW-3
#[test]
fn every_version_of_a_page_is_a_file() {
    let Some(space) = Mounted::new() else { return };
    put(&space, "eve", "notes/plan.md", "one\n");
    put(&space, "agent:x", "notes/plan.md", "one and two\n");
    space.shell("echo three > notes/plan.md");
    assert_eq!(space.authors("notes/plan.md", 3), ["root", "agent:x", "eve"]);
    let versions = space.vfs.versions(&TreePath::parse("notes/plan.md").unwrap()).unwrap();
    let listed = names(&space, ".svc/history/notes/plan.md");
    let named = |number: usize, at: usize, actor: &str| {
        format!("{number:04}-{}-{actor}.md", versions[at].timestamp.strftime("%Y%m%dT%H%M%SZ"))
    };
    assert_eq!(listed, [named(1, 2, "eve"), named(2, 1, "agent_x"), named(3, 0, "root")]);
    let second = space.at(".svc/history/notes/plan.md").join(&listed[1]);
    assert_eq!(fs::read_to_string(&second).unwrap(), "one and two\n");
    let found = fs::metadata(&second).unwrap();
    assert_eq!((found.len(), found.mtime()), (12, versions[1].timestamp.as_second()));
    // Programs that know nothing of all this.
    assert_eq!(
        space.shell("cd .svc/history/notes/plan.md; diff 0001-* 0002-* || true"),
        "1c1\n< one\n---\n> one and two\n"
    );
    assert_eq!(space.shell("grep -l two .svc/history/notes/plan.md/* | wc -l"), "1\n");
    for zeros in ["", "0", "000000"] {
        let renamed = format!("{zeros}{}", listed[0].trim_start_matches('0'));
        assert_eq!(space.shell(&format!("cat .svc/history/notes/plan.md/{renamed}")), "one\n", "{renamed}");
    }
    space.shell("cp .svc/history/notes/plan.md/0001-* notes/plan.md");
    assert_eq!(space.shell("cat notes/plan.md"), "one\n");
    assert_eq!(space.authors("notes/plan.md", 4).len(), 4);
    assert_eq!(names(&space, ".svc/history/notes/plan.md").len(), 4);
}

/// Shows: VIEW-3
#[test]
fn versions_from_before_a_rename_are_files_of_the_page() {
    let Some(space) = Mounted::new() else { return };
    put(&space, "eve", "old/plan.md", "# Plan\n\none\n");
    space.shell("mv old/plan.md old/goal.md && mv old new && echo two >> new/goal.md");
    space.authors("new/goal.md", 2);
    let listed = names(&space, ".svc/history/new/goal.md");
    let numbers: Vec<_> = listed.iter().map(|name| &name[..4]).collect();
    assert_eq!(numbers, ["0001", "0002", "0003", "0004"]);
    assert_eq!(space.shell("cd .svc/history/new/goal.md; cat 0001-*; tail -n1 0004-*"), "# Plan\n\none\ntwo\n");
}

/// Shows: VIEW-3
#[test]
fn history_folders_list_the_tree_and_deleted_pages_by_name() {
    let Some(space) = Mounted::new() else { return };
    space.put("a.md", "a");
    space.put("notes/b.md", "b");
    space.put("gone/c.md", "c");
    space.remove("gone/c.md");
    space.put("gone/c.md", "again");
    space.remove("gone/c.md");
    space.shell("echo scratch > x.swp; rmdir gone");
    let all = names(&space, ".svc/history");
    assert_eq!(all.iter().filter(|name| *name != ".svc").collect::<Vec<_>>(), ["a.md", "notes"]);
    assert_eq!(names(&space, ".svc/history/notes"), ["b.md"]);
    // The removals between them are versions, too, and no files.
    let gone: Vec<_> = names(&space, ".svc/history/gone/c.md").iter().map(|name| name[..4].to_owned()).collect();
    assert_eq!(gone, ["0001", "0003"]);
    assert_eq!(space.shell("cat .svc/history/gone/c.md/0003-*"), "again");
    for unknown in
        ["nothing.md", "x.swp", "a.md/0002-20260101T000000Z-eve.md", "a.md/0001-x", "a.md/below", ".svc/state", ".git"]
    {
        let outcome = fs::metadata(space.at(".svc/history").join(unknown));
        assert_eq!(errno(outcome), Some(2), "{unknown}");
    }
}

/// Shows: VIEW-4
#[test]
fn the_tree_as_it_was_is_there_by_time_commit_branch_and_tag() {
    let Some(space) = Mounted::new() else { return };
    space.put("notes/a.md", "old");
    space
        .shell("mkdir bin; printf '#!/bin/sh\\necho ran\\n' > bin/run; chmod +x bin/run; ln -s ../notes/a.md bin/link");
    let settled = space.vfs.wait_committed().unwrap();
    assert!(settled.0 > 0);
    let git = |arguments: &[&str]| {
        let output = Command::new("git").arg("-C").arg(space.folder().join("root")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (commit, time) = (git(&["rev-parse", "HEAD"]), git(&["log", "-1", "--format=%ct"]));
    git(&["tag", "v1"]);
    let moment = Timestamp::from_second(time.parse().unwrap()).unwrap();
    // Until the next commit is of a later second.
    let next = Instant::now();
    while Timestamp::now().as_second() <= moment.as_second() {
        assert!(next.elapsed() < Duration::from_secs(10));
        std::thread::yield_now();
    }
    space.put("notes/a.md", "new");
    space.put("notes/b.md", "new");
    space.remove("bin/run");
    let compact = moment.strftime("%Y%m%dT%H%M%SZ").to_string();
    for state in [&commit, &commit[..8], "v1", &moment.to_string(), &compact] {
        let at = |path: &str| space.at(&format!(".svc/at/{state}/{path}"));
        assert_eq!(names(&space, &format!(".svc/at/{state}/notes")), ["a.md"], "{state}");
        assert_eq!(fs::read_to_string(at("notes/a.md")).unwrap(), "old", "{state}");
        let found = fs::metadata(at("bin/run")).unwrap();
        assert_eq!((found.mtime(), found.permissions().mode() & 0o777), (moment.as_second(), 0o755), "{state}");
        assert_eq!(fs::read_link(at("bin/link")).unwrap(), Path::new("../notes/a.md"));
        assert_eq!(errno(fs::metadata(at("notes/b.md"))), Some(2));
    }
    assert_eq!(space.shell(".svc/at/v1/bin/run; cat .svc/at/main/notes/b.md .svc/at/v1/bin/link"), "ran\nnewold");
    space.shell(&format!(
        "cp -r .svc/at/{compact}/. restored; diff -r .svc/at/v1 restored; cp -a .svc/at/v1/bin bin2; bin2/run"
    ));
    assert_eq!(space.authors("restored/notes/a.md", 1), ["root"]);
    assert_eq!(names(&space, ".svc/at"), [""; 0]);
    let unknown = [
        "1999-01-01",
        "2026-99-99",
        "0000000",
        "nothing",
        "v1/nothing.md",
        "v1/notes/a.md.md",
        "HEAD^",
        "..%2f",
        "refs",
    ];
    for unknown in unknown {
        assert_eq!(errno(fs::metadata(space.at(".svc/at").join(unknown))), Some(2), "{unknown}");
    }
}

/// Shows: VIEW-1
#[test]
fn a_recursive_search_skips_the_views_and_a_guide_lists_them() {
    let Some(space) = Mounted::new() else { return };
    space.put("a.md", "needle");
    space.put("a.md", "thread");
    assert_eq!(space.shell("grep -rl needle . || true"), "");
    assert_eq!(space.shell("find . | sort"), ".\n./.svc\n./.svc/VIEWS.txt\n./a.md\n");
    let guide = space.shell("cat .svc/VIEWS.txt");
    assert_eq!(guide.len() as u64, fs::metadata(space.at(".svc/VIEWS.txt")).unwrap().len());
    for line in guide.lines().filter_map(|line| line.trim().strip_prefix(".svc/")) {
        let folder = line.split('/').next().unwrap();
        assert!(space.at(&format!(".svc/{folder}")).is_dir(), "{folder} is there as the guide says");
    }
    space.shell("cd .svc/history/a.md; pwd; test \"$(ls | wc -l)\" = 2; ls -la . > /dev/null");
}

/// Shows: VIEW-2
#[test]
fn views_are_read_only_for_everyone() {
    let Some(space) = Mounted::new() else { return };
    space.put("a.md", "text");
    space.put("b.md", "text");
    let version = format!(".svc/history/a.md/{}", names(&space, ".svc/history/a.md")[0]);
    for place in [version.as_str(), ".svc/at/main/a.md", ".svc/VIEWS.txt"] {
        let path = space.at(place);
        assert_eq!(errno(fs::write(&path, "x")), EROFS, "{place}");
        assert_eq!(errno(fs::OpenOptions::new().append(true).open(&path)), EROFS, "{place}");
        assert_eq!(errno(fs::remove_file(&path)), EROFS, "{place}");
        assert_eq!(errno(fs::rename(&path, space.at("c.md"))), EROFS, "{place}");
        assert_eq!(errno(fs::rename(space.at("b.md"), &path)), EROFS, "{place}");
        assert_eq!(errno(fs::set_permissions(&path, fs::Permissions::from_mode(0o600))), EROFS, "{place}");
    }
    for folder in [".svc/history", ".svc/history/a.md", ".svc/at", ".svc/at/main"] {
        let new = space.at(folder).join("new");
        assert_eq!(errno(fs::write(&new, "x")), EROFS, "{folder}");
        assert_eq!(errno(fs::create_dir(&new)), EROFS, "{folder}");
        assert_eq!(errno(std::os::unix::fs::symlink("x", &new)), EROFS, "{folder}");
        assert_eq!(errno(fs::remove_dir(space.at(folder))), EROFS, "{folder}");
        assert_eq!(errno(fs::rename(space.at(folder), space.at("moved"))), EROFS, "{folder}");
    }
    assert_eq!(space.shell("cat a.md b.md"), "texttext");
}

/// Shows: VIEW-9
#[test]
fn the_past_of_a_page_is_shown_to_those_who_may_read_the_page() {
    let Some(space) = Mounted::new() else { return };
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        return;
    }
    space.put("open.md", "open");
    space.put("secret/page.md", "secret");
    space.put("own.md", "own");
    for page in ["secret/gone.md", "gone.md", "renamed.md", "away/gone.md"] {
        space.put(page, "gone");
    }
    space.shell("chmod 700 secret away; chmod 600 own.md gone.md renamed.md; chmod a+rx . .svc");
    space.remove("secret/gone.md");
    space.remove("gone.md");
    space.shell("mv renamed.md own2.md; rm -r away");
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    let read = |place: &str| space.shell(&format!("{nobody} cat {place} 2>&1 || true"));
    for folder in [".svc/history/open.md/*", ".svc/at/main/open.md"] {
        assert_eq!(read(&format!("$({nobody} sh -c 'echo {folder}')")), "open", "{folder}");
    }
    let places = [
        ".svc/at/main/own.md",
        ".svc/at/main/secret/page.md",
        ".svc/history/own.md",
        ".svc/history/secret/gone.md",
        ".svc/history/gone.md",
        ".svc/history/renamed.md",
        ".svc/history/away/gone.md",
    ];
    for place in places {
        let said = space.shell(&format!("{nobody} cat {place} 2>&1 || {nobody} ls {place} 2>&1 || true"));
        assert!(said.contains("Permission denied"), "{place}: {said}");
    }
}

/// A question is answered to each reader with the pages that they may read, ranked among
/// themselves; nobody learns the title of another's page.
///
/// Shows: VIEW-6
#[test]
fn views_hide_pages_that_a_caller_may_not_read() {
    let Some(space) = Mounted::new() else { return };
    if !rustix::process::geteuid().is_root() || !has("setpriv") {
        return;
    }
    space.put("notes/tides.md", "tides");
    space.put("a.md", "a");
    space.shell("chmod a+rx . .svc notes; chmod 640 notes/tides.md; chgrp 4321 notes/tides.md");
    let all = "001-Tides-Moon.md 002-a.md";
    let list = |who: &str, place: &str| {
        let who = if who.is_empty() { String::new() } else { format!("setpriv --reuid=65534 --regid=65534 {who}") };
        space.shell(&format!("{who} ls '.svc/{place}' | xargs"))
    };
    let (alone, member) = ("--clear-groups", "--groups=24,4321");
    assert_eq!(list("", "search/tide OR moon"), format!("{all}\n"));
    assert_eq!(list(alone, "search/tide OR moon"), "001-a.md\n");
    assert_eq!(list(member, "search/tide OR moon"), format!("{all}\n"));
    assert_eq!(list(alone, "query/open tasks"), "001-a.md\n");
    assert_eq!((list(alone, "tags/sea"), list(member, "tags/sea")), ("\n".into(), "001-Tides.md deep\n".into()));
    assert_eq!((list(alone, "tags"), list(member, "tags")), ("\n".into(), "area sea\n".into()));
    space.shell("chmod 644 notes/tides.md; chmod 600 a.md");
    assert_eq!(
        (list(alone, "backlinks/notes/tides.md"), list("", "backlinks/notes/tides.md")),
        ("\n".into(), "001-A.md\n".into())
    );
    assert_eq!(list(alone, "search/tide OR moon"), "001-Tides-Moon.md\n");
    space.shell("chmod 700 notes");
    assert_eq!(list(alone, "search/tide OR moon"), "\n");
    if has("getfattr") {
        let count = "getfattr --only-values -n user.svc.backlinks notes/tides.md";
        space.shell("chmod 755 notes");
        let nobody = format!("setpriv --reuid=65534 --regid=65534 --clear-groups {count}");
        assert_eq!((space.shell(count), space.shell(&nobody)), ("1".into(), "0".into()));
    }
}

/// Shows: VIEW-3
#[test]
fn ten_thousand_versions_are_listed_quickly() {
    let Some(space) = Mounted::new() else { return };
    let path = TreePath::parse("page.md").unwrap();
    let caller = Caller::new(Protocol::Http);
    for number in 0..10_000 {
        let change = Change::put(path.clone(), format!("version {number}\n"));
        space.vfs.apply(&caller, ChangeSet::from(change).soon()).unwrap();
    }
    space.vfs.wait_committed().unwrap();
    let list = || {
        let started = Instant::now();
        let count = fs::read_dir(space.at(".svc/history/page.md")).unwrap().count();
        assert_eq!(count, 10_000);
        started.elapsed()
    };
    let took = (0..5).map(|_| list()).min().unwrap();
    println!("10,000 versions listed in {took:?}");
    // A release build took 62 ms on two processors with a load of 9; this one is not optimised.
    // Reading them all takes longer.
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(
        space.shell("cat .svc/history/page.md/10000-* .svc/history/page.md/00001-*"),
        "version 9999\nversion 0\n"
    );
}

/// Shows: VIEW-5
#[test]
fn the_answers_to_a_question_are_links_in_their_order() {
    let Some(space) = Mounted::new() else { return };
    space.put("notes/tides.md", "the tide");
    space.put("a.md", "[[tides]]");
    let folder = ".svc/search/tide OR moon";
    assert_eq!(names(&space, folder), ["001-Tides-Moon.md", "002-a.md"]);
    assert_eq!(space.shell("cat '.svc/search/tide OR moon'/001-*"), "the tide");
    assert_eq!(fs::read_link(space.at(folder).join("002-a.md")).unwrap(), Path::new("../../../a.md"));
    assert_eq!(names(&space, ".svc/search"), [""; 0]);
    assert_eq!(names(&space, ".svc/search/nothing has this"), [""; 0]);
    assert_eq!(names(&space, ".svc/tags"), ["area", "sea"]);
    assert_eq!(names(&space, ".svc/tags/area"), ["work"]);
    assert_eq!(names(&space, ".svc/tags/sea"), ["001-Tides.md", "deep"]);
    assert_eq!(space.shell("cat .svc/tags/area/work/001-Tides.md .svc/tags/sea/deep/*"), "the tidethe tide");
    assert_eq!(names(&space, ".svc/search/many"), ["001-A.md", "MORE"]);
    assert_eq!(space.shell("cat .svc/search/many/MORE"), "the rest: ask for it\n");
    assert_eq!(names(&space, ".svc/backlinks"), [".svc", "a.md", "notes"]);
    assert_eq!(names(&space, ".svc/backlinks/notes/tides.md"), ["001-A.md"]);
    assert_eq!(names(&space, ".svc/backlinks/a.md"), [""; 0]);
    assert_eq!(space.shell("cat .svc/backlinks/notes/tides.md/001-A.md"), "[[tides]]");
    assert_eq!(names(&space, ".svc/similar"), [".svc", "a.md", "notes"]);
    assert_eq!(names(&space, ".svc/similar/notes/tides.md"), ["001-A.md"]);
    assert_eq!(space.shell("cat .svc/similar/notes/tides.md/001-A.md"), "[[tides]]");
    assert_eq!(space.shell("cat .svc/similar/a.md/ERROR.txt"), "not embedded yet\n");
    for unknown in
        ["tags/nothing", "tags/se", "backlinks/b.md", "search/tide OR moon/003-a.md", "search/tide OR moon/001-a.md"]
    {
        assert_eq!(errno(fs::symlink_metadata(space.at(".svc").join(unknown))), Some(2), "{unknown}");
    }
    assert_eq!(errno(fs::create_dir(space.at(".svc/search/new"))), Some(17));
    assert_eq!(errno(fs::write(space.at(".svc/tags/new"), "x")), EROFS);
    assert_eq!(errno(fs::remove_file(space.at(folder).join("002-a.md"))), EROFS);
}

/// Shows: VIEW-5
#[test]
fn query_results_are_links_and_saved_queries_are_listed_by_name() {
    let Some(space) = Mounted::new() else { return };
    space.put("notes/tides.md", "the tide");
    space.put("a.md", "a");
    assert_eq!(names(&space, ".svc/query"), ["open tasks"]);
    assert_eq!(names(&space, ".svc/query/open tasks"), ["001-Tides.md", "002-a.md"]);
    assert_eq!(space.shell("cat '.svc/query/open tasks/001-Tides.md'"), "the tide");
    // A slash between quotes is one of the query.
    assert_eq!(names(&space, ".svc/query/LIST FROM \"notes/deep\""), ["001-Tides.md", "002-a.md"]);
    assert_eq!(space.shell("cat '.svc/query/LIST FROM \"notes/deep\"/'*"), "the tidea");
    assert_eq!(names(&space, ".svc/query/LITS"), ["ERROR.txt"]);
    assert_eq!(space.shell("cat .svc/query/LITS/ERROR.txt"), "`q`: 1:1: this is no query\n");
    assert_eq!(errno(fs::symlink_metadata(space.at(".svc/query/open tasks/003-a.md"))), Some(2));
    assert_eq!(errno(fs::write(space.at(".svc/query/open tasks/new"), "x")), EROFS);
}

/// Shows: VIEW-7
#[test]
fn a_faulty_query_lists_one_file_that_explains_the_error() {
    let Some(space) = Mounted::new() else { return };
    assert_eq!(names(&space, ".svc/search/wrong"), ["ERROR.txt"]);
    assert_eq!(space.shell("cat .svc/search/wrong/ERROR.txt"), "`q`: cannot be read\n");
    assert_eq!(
        errno(fs::read_dir(space.at(".svc/search/broken")).and_then(|mut lines| lines.next().unwrap())),
        Some(5)
    );
}

/// Shows: VIEW-8
#[test]
fn page_problems_are_reported_in_compiler_format() {
    let Some(space) = Mounted::new() else { return };
    space.put("notes/a.md", "fine\nodd line\n");
    space.put("notes/b.txt", "odd");
    assert_eq!(names(&space, ".svc/lint/notes"), ["a.md"]);
    assert_eq!(space.shell("cat .svc/lint/notes/a.md"), "notes/a.md:2:3: warning: odd line\n");
    // An editor that was refused shows its own text, and wants to know what is wrong with that.
    let mut file = fs::File::create(space.at("notes/a.md")).unwrap();
    file.write_all(b"FORBIDDEN\n").unwrap();
    assert_eq!(errno(file.sync_all()), Some(22));
    drop(file);
    wait_for(|| space.shell("cat .svc/lint/notes/a.md") == "notes/a.md:1:3: error: FORBIDDEN\n");
    space.shell("echo fine > notes/a.md");
    wait_for(|| space.shell("cat .svc/lint/notes/a.md; stat -c %s .svc/lint/notes/a.md") == "0\n");
    for unknown in ["notes/b.txt", "nothing.md", "notes/a.md/x"] {
        assert!(matches!(errno(fs::metadata(space.at(".svc/lint").join(unknown))), Some(2 | 20)), "{unknown}");
    }
    if has("vim") {
        space.put("notes/a.md", "one\ntwo odd\n");
        wait_for(|| space.shell("cat .svc/lint/notes/a.md").contains(":2:"));
        let line = space.shell("vim -u NONE -es -q .svc/lint/notes/a.md -c 'call writefile([expand(\"%\") . \":\" . line(\".\")], \"/dev/stdout\")' -c q </dev/null");
        assert_eq!(line, "notes/a.md:2\n");
    }
}

/// Shows: MNT-43
#[test]
fn a_snapshot_mount_shows_the_past_tree_and_changes_nothing() {
    let Some(space) = Mounted::new() else { return };
    space.put("notes/a.md", "old");
    space.put("gone.md", "gone");
    let then = space.vfs.past_state("main").unwrap();
    space.put("notes/a.md", "new");
    space.remove("gone.md");
    let (mount, at) = space.another(&MountOptions { past_state: then, ..options() });
    for _ in 0..2 {
        let listed: Vec<_> = fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(listed, ["gone.md", "notes"]);
        assert_eq!(fs::read_to_string(at.join("notes/a.md")).unwrap(), "old");
        assert_eq!(fs::read_to_string(at.join("gone.md")).unwrap(), "gone");
        assert!(fs::metadata(&at).unwrap().is_dir());
        // Told of by the follower, too, and nothing to this mount.
        space.put("notes/a.md", "newer");
        space.put("later.md", "later");
    }
    assert_eq!(errno(fs::metadata(at.join("later.md"))), Some(2));
    for refused in [
        fs::write(at.join("notes/a.md"), "x"),
        fs::create_dir(at.join("d")),
        fs::remove_file(at.join("gone.md")),
        fs::rename(at.join("gone.md"), at.join("b.md")),
        fs::set_permissions(&at, fs::Permissions::from_mode(0o700)),
    ] {
        assert_eq!(errno(refused), EROFS);
    }
    mount.stop(Duration::from_secs(5)).unwrap();
}

/// Shows: VIEW-2
#[test]
fn a_link_moved_to_another_state_moves_its_page() {
    let Some(space) = Mounted::with(&options()) else { return };
    put(&space, "eve", "notes/tides.md", "# Tides\n");
    put(&space, "eve", "a.md", "# A\n");
    assert_eq!(names(&space, ".svc/board"), ["tasks"]);
    assert_eq!(names(&space, ".svc/board/tasks"), [".refused", "done", "shut", "todo"]);
    assert_eq!(names(&space, ".svc/board/tasks/todo"), ["a.md", "tides.md"]);
    assert_eq!(space.shell("cat .svc/board/tasks/todo/tides.md"), "# Tides\n");
    assert_eq!(space.shell("cat .svc/board/tasks/.refused"), "");
    let link = |name: &str| space.at(".svc/board/tasks").join(name);
    let moved = |from: &str, to: &str| errno(fs::rename(link(from), link(to)));
    assert_eq!(moved("todo/a.md", "done/a.md"), None);
    const EPERM: Option<i32> = Some(1);
    assert_eq!(moved("todo/tides.md", "shut/tides.md"), EPERM);
    let reason = || {
        let mut value = vec![0; 256];
        let length = rustix::fs::getxattr(space.at("notes/tides.md"), "user.svc.lint", &mut value).ok()?;
        value.truncate(length);
        String::from_utf8(value).ok()
    };
    assert_eq!(reason().unwrap(), "`notes/tides.md` cannot move to `shut`");
    let refused = space.shell("tail -n 1 .svc/board/tasks/.refused");
    assert!(
        refused.contains(" root notes/tides.md todo -> shut: `notes/tides.md` cannot move to `shut`\n"),
        "{refused}"
    );
    assert_eq!(moved("todo/tides.md", "done/other.md"), EPERM, "a link keeps its name");
    assert!(space.shell("tail -n 1 .svc/board/tasks/.refused").contains("keeps its name"));
    assert_eq!(moved("todo/tides.md", "tides.md"), EPERM);
    assert_eq!(moved("todo/gone.md", "done/gone.md"), Some(2));
    for (from, to) in [("todo", "other"), (".refused", "done/x")] {
        assert_eq!(moved(from, to), EROFS, "{from}");
    }
    assert_eq!(errno(fs::rename(link("todo/a.md"), space.at("b.md"))), EROFS);
    assert_eq!(errno(fs::rename(space.at("a.md"), link("todo/b.md"))), EROFS);
    assert_eq!(errno(fs::remove_file(link("todo/a.md"))), EROFS);
    assert_eq!(errno(fs::write(link("todo/new.md"), "x")), EROFS);
    assert_eq!(errno(fs::create_dir(link("new"))), EROFS);
    // An accepted write of the page ends the refusal.
    put(&space, "eve", "notes/tides.md", "# Tides and moon\n");
    wait_for(|| reason().is_none());
}
