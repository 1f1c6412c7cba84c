//! `svcfs mount`, `svcfs unmount` and `svcfs serve --mount`

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Place, Running, can_mount, eventually, program, program_at, refusal, request, svcfs};

fn mounted(place: &Place) -> bool {
    mounted_at(place, "mnt")
}

fn mounted_at(place: &Place, name: &str) -> bool {
    let at = place.path(name).canonicalize().unwrap();
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.contains(&format!(" {} ", at.display()))
}

fn place() -> Place {
    let place = Place::with_root();
    std::fs::create_dir(place.path("mnt")).unwrap();
    place
}

#[test]
fn a_save_in_the_mount_is_versioned_and_the_server_unmounts() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    assert!(mounted(&place));
    place.write("mnt/saved.md", "# Saved\n");
    assert_eq!(request(server.url(), "GET", "/raw/saved.md", ""), (200, "# Saved\n".to_owned()));
    server.stop();
    assert!(!mounted(&place));
    assert_eq!(place.git("kb", &["show", "HEAD:saved.md"]), "# Saved");
}

/// Shows: MNT-41
#[test]
fn what_a_program_holds_open_is_saved_at_the_end() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    let mut open = std::fs::File::create(place.path("mnt/open.md")).unwrap();
    open.write_all(b"# Open\n").unwrap();
    let log = server.stop();
    assert!(log.contains("still open for writing"), "{log}");
    assert_eq!(place.git("kb", &["show", "HEAD:open.md"]), "# Open");
}

#[test]
fn mount_serves_the_folder_alone() {
    if !can_mount() {
        return;
    }
    let place = place();
    let mut command = program();
    command.args(["mount", &place.at("mnt"), "--root", &place.at("kb")]);
    let server = Running::start(command, "svcfs mounts");
    place.write("mnt/alone.md", "# Alone\n");
    svcfs(&["call", "read", "path=alone.md", "--root", &place.at("kb")]).assert().success().stdout("# Alone\n");
    server.stop();
    assert!(!mounted(&place));
    assert_eq!(place.git("kb", &["show", "HEAD:alone.md"]), "# Alone");
}

#[test]
fn unmount_takes_a_live_mount_away_and_the_server_goes_on() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    svcfs(&["unmount", &place.at("mnt")]).assert().success();
    assert!(!mounted(&place));
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    server.stop();
}

/// Shows: MNT-42
#[test]
fn unmount_takes_the_mount_of_a_dead_server_away() {
    if !can_mount() {
        return;
    }
    let place = place();
    let mut server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    server.signal(Signal::KILL);
    server.ended();
    assert!(std::fs::read_dir(place.path("mnt")).is_err(), "a dead mount");
    svcfs(&["unmount", &place.at("mnt")]).assert().success();
    assert_eq!(std::fs::read_dir(place.path("mnt")).unwrap().count(), 0);
    svcfs(&["reindex", "--root", &place.at("kb")]).assert().success();
}

#[test]
fn unmount_leaves_everything_else_alone() {
    let place = place();
    let told = refusal(&["unmount", &place.at("mnt")], 3);
    assert!(told.contains("no svcfs mount at"), "{told}");
    refusal(&["unmount", "/proc"], 3);
    let told = refusal(&["unmount", &place.at("nowhere")], 3);
    assert!(told.contains("nothing is mounted there"), "{told}");
}

/// Shows: MNT-37
#[test]
fn a_running_server_mounts_its_root_at_more_places() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    for name in ["second", "third"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let mount = |arguments: &[&str]| svcfs(&[&["mount", "--root", &place.at("kb")], arguments].concat());
    mount(&[&place.at("second"), "--actor", "0=agent:x"]).assert().success();
    mount(&[&place.at("third"), "--read-only"]).assert().success();
    place.write("second/saved.md", "# Saved\n");
    assert_eq!(place.read("mnt/saved.md"), "# Saved\n");
    assert_eq!(place.read("third/saved.md"), "# Saved\n");
    assert!(std::fs::write(place.path("third/saved.md"), "no").is_err());
    let told = refusal(&["mount", "--root", &place.at("kb"), &place.at("third")], 1);
    assert!(told.contains("already mounted by svcfs"), "{told}");
    let told = refusal(&["mount", "--root", &place.at("kb"), &place.at("mnt/d")], 1);
    assert!(told.contains("does not exist"), "{told}");
    let told = refusal(&["mount", "--root", &place.at("kb"), &place.at("third"), "--config", "other.toml"], 2);
    assert!(told.contains("omit --config"), "{told}");
    svcfs(&["unmount", &place.at("third")]).assert().success();
    eventually("the server tells of two mounts", || {
        announced(&place) == ["mnt", "second"].map(|name| place.canonical(name))
    });
    server.stop();
    assert!(!mounted(&place) && !mounted_at(&place, "second"));
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "saved.md"]), "agent:x");
}

#[test]
fn another_space_of_the_server_is_mounted_by_its_name() {
    if !can_mount() {
        return;
    }
    let place = place();
    for name in ["team", "second"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    let server = Running::serve(&place.at("kb"), &["--space", &format!("team={}", place.at("team"))]);
    let mount =
        |space: &str| ["mount", "--root", &place.at("kb"), "--space", space, &place.at("second")].map(str::to_owned);
    let told = refusal(&mount("nix").each_ref().map(String::as_str), 3);
    assert!(told.contains("nix"), "{told}");
    let told = refusal(&["mount", "--root", &place.at("team"), &place.at("second")], 3);
    assert!(told.contains("is the space `team` of the server") && told.contains("--space team"), "{told}");
    svcfs(&mount("team").each_ref().map(String::as_str)).assert().success();
    place.write("second/saved.md", "# Saved\n");
    eventually("it stands in the tree of that space", || place.has("team/saved.md"));
    assert!(!place.has("kb/saved.md"));
    let told = refusal(&["mount", "--root", &place.at("kb"), &place.at("mnt"), "--timeout", "3"], 2);
    assert!(told.contains("--timeout needs --remote"), "{told}");
    server.stop();
    assert_eq!(place.read("team/saved.md"), "# Saved\n");
}

/// Where the server says that it mounts.
fn announced(place: &Place) -> Vec<String> {
    let served: serde_json::Value = serde_json::from_str(&place.read("kb/.svc/state/server.json")).unwrap();
    let mounts = served["mounts"].as_array().unwrap();
    mounts.iter().map(|mount| mount["mountpoint"].as_str().unwrap().to_owned()).collect()
}

/// Shows: MNT-37
#[test]
fn a_mount_without_a_server_ends_with_its_last_folder() {
    if !can_mount() {
        return;
    }
    let place = place();
    std::fs::create_dir(place.path("second")).unwrap();
    let mut command = program();
    command.args(["mount", &place.at("mnt"), "--root", &place.at("kb")]);
    let server = Running::start(command, "svcfs mounts");
    svcfs(&["mount", &place.at("second"), "--root", &place.at("kb")]).assert().success();
    svcfs(&["unmount", &place.at("mnt")]).assert().success();
    place.write("second/later.md", "# Later\n");
    svcfs(&["unmount", &place.at("second")]).assert().success();
    // Whoever mounts in this moment waits for the end of the other, or is given a place by it when
    // it has not noticed yet.
    let mut command = program();
    command.args(["mount", &place.at("mnt"), "--root", &place.at("kb")]);
    let mut both = [server, Running::start(command, "svcfs mounts")];
    let mut over = None;
    eventually("one of them is over", || {
        over = both.iter_mut().position(|process| process.child.try_wait().unwrap().is_some());
        over.is_some()
    });
    both.rotate_left(over.unwrap());
    let [mut ended, stays] = both;
    assert_eq!(ended.ended().code(), Some(0), "{}", ended.errors());
    assert_eq!(place.read("mnt/later.md"), "# Later\n");
    stays.stop();
}

/// Shows: MNT-42
#[test]
fn mounts_of_a_killed_server_are_recovered_by_the_next_one() {
    if !can_mount() {
        return;
    }
    let place = place();
    std::fs::create_dir(place.path("second")).unwrap();
    let mut server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    svcfs(&["mount", &place.at("second"), "--root", &place.at("kb"), "--read-only"]).assert().success();
    server.signal(Signal::KILL);
    server.ended();
    assert!(std::fs::read_dir(place.path("second")).is_err(), "a dead mount");
    let next = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    place.write("mnt/saved.md", "# Saved\n");
    eventually("the other mount shows it", || place.has("second/saved.md"));
    assert!(std::fs::write(place.path("second/saved.md"), "no").is_err(), "as it was mounted before");
    next.stop();
    assert!(!mounted(&place) && !mounted_at(&place, "second"));
    // What was stopped in order is not taken up again.
    let next = Running::serve(&place.at("kb"), &[]);
    assert!(!mounted(&place));
    next.stop();
}

/// Shows: MNT-43
#[test]
fn the_tree_as_it_was_is_mounted_and_stays_what_it_was() {
    if !can_mount() {
        return;
    }
    let place = place();
    std::fs::create_dir(place.path("then")).unwrap();
    let mut server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    place.write("mnt/saved.md", "# Old\n");
    let saved = || place.git("kb", &["log", "--format=%an", "--", "saved.md"]).lines().count();
    eventually("the save is a version", || saved() == 1);
    let (root, then) = (place.at("kb"), place.at("then"));
    let mount = |at| ["mount", "--root", &root, &then, "--at", at];
    let told = refusal(&mount("1999-01-01"), 3);
    assert!(told.contains("`1999-01-01` is not known"), "{told}");
    let branch = place.git("kb", &["branch", "--show-current"]);
    svcfs(&mount(&branch)).assert().success();
    place.write("mnt/saved.md", "# New\n");
    eventually("the next save is one, too", || saved() == 2);
    assert_eq!(place.read("then/saved.md"), "# Old\n");
    server.signal(Signal::KILL);
    server.ended();
    let next = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    assert_eq!(place.read("then/saved.md"), "# Old\n", "though the branch went on");
    assert!(std::fs::write(place.path("then/saved.md"), "no").is_err());
    next.stop();
}

/// A place where everything belongs to the user `nobody`, with the program in it: where it was
/// built not everybody may look.
fn place_of_nobody() -> Place {
    let place = place();
    std::fs::copy(env!("CARGO_BIN_EXE_svcfs"), place.path("svcfs")).unwrap();
    for arguments in [&["chown", "-R", NOBODY][..], &["chmod", "755"]] {
        let status = Command::new(arguments[0]).args(&arguments[1..]).arg(place.at("")).status();
        assert!(status.unwrap().success());
    }
    place
}

const NOBODY: &str = "65534:65534";

/// Makes a command one of the user `nobody`.
fn as_nobody(command: &mut Command, place: &Place) {
    command.uid(65534).gid(65534).env("HOME", place.at("")).current_dir("/");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// /dev/fuse as it is where the package fuse3 was installed: open to everybody. Containers often
/// keep it to root.
struct OpenDevice(std::fs::Permissions);

impl OpenDevice {
    fn new() -> Self {
        let before = std::fs::metadata("/dev/fuse").unwrap().permissions();
        std::fs::set_permissions("/dev/fuse", PermissionsExt::from_mode(0o666)).unwrap();
        Self(before)
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        std::fs::set_permissions("/dev/fuse", self.0.clone()).unwrap();
    }
}

/// Shows: MNT-40
#[test]
fn an_ordinary_user_mounts_and_unmounts() {
    let is_there = Command::new("fusermount3").arg("--version").output().is_ok();
    if !can_mount() || !is_root() || !is_there {
        println!("skipped: fusermount3, or root to become somebody else, is missing");
        return;
    }
    let _device = OpenDevice::new();
    let place = place_of_nobody();
    let svcfs = |arguments: &[&str]| {
        let mut command = program_at(&place.path("svcfs"));
        as_nobody(command.args(arguments), &place);
        command
    };
    let (root, at) = (place.at("kb"), place.at("mnt"));
    // What Debian's /etc/fuse.conf says.
    if !std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default().lines().any(|line| line == "user_allow_other") {
        let refused = svcfs(&["mount", &at, "--root", &root, "--allow-other"]).output().unwrap();
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.lines().last().unwrap().contains("add the line `user_allow_other`"), "{told}");
    }
    let mut server = Running::start(svcfs(&["mount", &at, "--root", &root]), "svcfs mounts");
    let refused = std::fs::read_dir(&at).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied, "not for root either");
    for (page, actor) in [("saved.md", ""), ("said.md", "agent:x")] {
        let mut shell = Command::new("sh");
        let line = format!("echo text > {at}/{page}");
        as_nobody(shell.args(["-c", &line]).env("SVC_ACTOR", actor), &place);
        assert!(shell.status().unwrap().success());
    }
    assert!(svcfs(&["unmount", &at]).status().unwrap().success());
    assert_eq!(server.ended().code(), Some(0), "{}", server.errors());
    assert!(!mounted(&place));
    let author = |page| place.git("kb", &["-c", "safe.directory=*", "log", "-1", "--format=%an", "--", page]);
    assert_eq!((author("saved.md").as_str(), author("said.md").as_str()), ("nobody", "agent:x"));
}

/// Shows: MNT-37
#[test]
fn only_its_user_and_root_may_ask_a_server_for_mounts() {
    if !is_root() {
        println!("skipped: only root can become somebody else");
        return;
    }
    let place = place_of_nobody();
    let server = Running::serve(&place.at("kb"), &[]);
    // Reachable by everybody, which a careless person can make it.
    for (mode, name) in [
        ("755", ""),
        ("755", "kb"),
        ("755", "kb/.svc"),
        ("755", "kb/.svc/state"),
        ("666", "kb/.svc/state/control.sock"),
    ] {
        assert!(Command::new("chmod").args([mode, &place.at(name)]).status().unwrap().success());
    }
    let asked = Command::new(place.path("svcfs"))
        .args(["mount", "--root", &place.at("kb"), &place.at("mnt")])
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&asked.stderr);
    assert!(told.contains("only that user and root may use it") && !mounted(&place), "{told}");
    let log = server.stop();
    assert!(log.contains("refused a user on the control socket"), "{log}");
}

/// Shows: VIEW-5
#[test]
fn result_folders_list_the_pages_of_the_api_in_its_order() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    place.write(
        "mnt/sea/tides.md",
        "---\ntitle: Tides\ntags: [sea, 2024]\n---\n\n# Tides\n\nThe moon pulls. See [[moon]].\n",
    );
    place.write("mnt/moon.md", "---\ntitle: The Moon\ntags: [sky, sea]\n---\n\n# The Moon\n\nMoon, moon and moon.\n");
    place.write("mnt/sun.md", "---\ntitle: Sun\n---\n\n# Sun\n\nBrighter than the [[moon]].\n");
    // What the links of a folder lead to, in the order of their names.
    let linked = |folder: &str| {
        let directory = place.path("mnt/.svc").join(folder);
        let mut links: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        links.sort();
        let top = place.path("mnt").canonicalize().unwrap();
        let page = |link: &std::path::PathBuf| {
            let page = link.canonicalize().unwrap();
            page.strip_prefix(&top).unwrap().to_str().unwrap().to_owned()
        };
        links.iter().map(page).collect::<Vec<_>>()
    };
    let answered = |target: &str| {
        let (status, body) = request(server.url(), "GET", &format!("/api/svc{target}"), "");
        assert_eq!(status, 200, "{body}");
        let found: serde_json::Value = serde_json::from_str(&body).unwrap();
        let paths = found.as_array().unwrap().iter().map(|page| page["path"].as_str().unwrap().to_owned());
        paths.collect::<Vec<_>>()
    };
    for (folder, target, count) in [
        ("search/moon", "/search?q=moon&limit=200", 3),
        ("search/tides OR brighter", "/search?q=tides+OR+brighter&limit=200", 2),
        ("tags/sea", "/meta?where=$.tags[*]=sea", 2),
        ("tags/2024", "/meta?where=$.tags[*]=2024", 1),
        ("backlinks/moon.md", "/backlinks?path=moon.md", 2),
    ] {
        let expected = answered(target);
        assert_eq!((linked(folder), expected.len()), (expected, count), "{folder}");
    }
    let (_, body) =
        request(server.url(), "GET", "/api/svc/query?q=LIST+WHERE+contains(tags,%22sea%22)+SORT+title+DESC", "");
    let answer: serde_json::Value = serde_json::from_str(&body).unwrap();
    let rows: Vec<_> = answer["rows"].as_array().unwrap().iter().map(|row| row[0].as_str().unwrap()).collect();
    assert_eq!(rows, ["sea/tides.md", "moon.md"]);
    assert_eq!(linked("query/LIST WHERE contains(tags,\"sea\") SORT title DESC"), rows);
    assert_eq!(linked("query/LIST FROM \"sea/\""), ["sea/tides.md"]);
    let view = r#"{"query": "LIST WHERE contains(tags,\"sea\") SORT title DESC", "layout": "list"}"#;
    assert_eq!(request(server.url(), "PUT", "/api/svc/views/by%20the%20sea", view).0, 200);
    assert_eq!(linked("query/by the sea"), rows);
    assert_eq!(std::fs::read_dir(place.path("mnt/.svc/query")).unwrap().count(), 1);
    let told = place.read("mnt/.svc/query/COUNT/ERROR.txt");
    assert!(told.contains("returns values, not pages"), "{told}");
    let told = place.read("mnt/.svc/query/LIST WHERE/ERROR.txt");
    assert!(told.starts_with("`q`: "), "{told}");
    let mut tags: Vec<_> =
        std::fs::read_dir(place.path("mnt/.svc/tags")).unwrap().map(|tag| tag.unwrap().file_name()).collect();
    tags.sort();
    for tag in ["2024", "sea", "sky"] {
        assert!(tags.iter().any(|known| known == tag), "{tags:?}");
    }
    place.write("mnt/flawed.md", "# Flawed\n\n### Too deep\n");
    let told = place.read("mnt/.svc/lint/flawed.md");
    let (_, body) = request(server.url(), "POST", "/api/svc/lint", r#"{"path": "flawed.md"}"#);
    let issues: serde_json::Value = serde_json::from_str(&body).unwrap();
    let issue = |issue: &serde_json::Value| {
        let text = |field: &str| issue[field].as_str().unwrap().to_owned();
        format!("flawed.md:{}:{}: {}: {}\n", issue["line"], issue["column"], text("severity"), text("message"))
    };
    let expected: String = issues["issues"].as_array().unwrap().iter().map(issue).collect();
    assert!(!expected.is_empty() && told == expected, "{told}{expected}");
    server.stop();
}
