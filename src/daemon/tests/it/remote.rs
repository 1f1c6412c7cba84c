//! `svcfs mount --remote`: a real server, a real mount, and real HTTP between them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Signal;

use crate::harness::{Place, Running, can_mount, connect, eventually, program, refusal, request, svcfs};

mod failures;
mod merging;
mod offline;

/// A root that is served, and a folder to mount it at from elsewhere.
fn place() -> Place {
    let place = Place::with_root();
    for name in ["mnt", "other"] {
        std::fs::create_dir(place.path(name)).unwrap();
    }
    place
}

fn remote(place: &Place, url: &str, mountpoint: &str, more: &[&str]) -> Running {
    let mut command = program();
    command.args(["mount", "--remote", url, "--state", &place.at("state"), "--timeout", "2"]).args(more);
    command.arg(place.at(mountpoint));
    Running::start(command, "svcfs mounts")
}

fn served(place: &Place, url: &str) -> Running {
    let mut command = program();
    let port = url.rsplit(':').next().unwrap();
    command.args(["serve", "--create", "--root", &place.at("kb"), "--port", port]);
    Running::start(command, "agents")
}

/// What a file of the server holds.
fn on_server(url: &str, path: &str) -> String {
    request(url, "GET", &format!("/api/svc/file?path={path}"), "").1
}

fn put(url: &str, path: &str, text: &str) {
    assert_eq!(request(url, "PUT", &format!("/api/svc/file?path={path}"), text).0, 200);
}

fn errno(outcome: std::io::Result<()>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

/// Writes a file as a whole, and tells what closing it says.
fn save(path: PathBuf, text: &str) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[track_caller]
fn ran(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Shows: REM-4, REM-9
#[test]
fn a_remote_mount_save_is_a_commit_of_its_author_on_the_server() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let user = rustix::process::geteuid().as_raw();
    let mount = remote(&place, server.url(), "mnt", &["--actor", &format!("{user}=Ann")]);
    place.write("mnt/notes/a.md", "# A\n");
    assert_eq!(on_server(server.url(), "notes/a.md"), "# A\n");
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "notes/a.md"]), "Ann");
    let count = |path: &str| place.git("kb", &["rev-list", "--count", "HEAD", "--", path]);
    assert_eq!(count("notes/a.md"), "1");
    // An editor's save: a scratch file that is renamed over the page.
    ran(Command::new("sed").args(["-i", "s/A/B/", &place.at("mnt/notes/a.md")]));
    assert_eq!((on_server(server.url(), "notes/a.md").as_str(), count("notes/a.md").as_str()), ("# B\n", "2"));
    assert_eq!(place.read("mnt/notes/a.md"), "# B\n");
    std::fs::OpenOptions::new().append(true).open(place.path("mnt/notes/a.md")).unwrap().write_all(b"more\n").unwrap();
    assert_eq!(on_server(server.url(), "notes/a.md"), "# B\nmore\n");
    // What the server would tidy of other clients.
    place.write("mnt/notes/untidy.md", "* one\r\n|a|b|\n|-|-|");
    assert_eq!(place.read("kb/notes/untidy.md"), "* one\r\n|a|b|\n|-|-|");
    // Directories are here until something is in them.
    std::fs::create_dir_all(place.path("mnt/empty/deep")).unwrap();
    assert!(place.has("mnt/empty/deep"));
    std::fs::rename(place.path("mnt/empty"), place.path("mnt/full")).unwrap();
    place.write("mnt/full/deep/b.md", "# Deep\n");
    assert_eq!(on_server(server.url(), "full/deep/b.md"), "# Deep\n");
    ran(Command::new("cp").args(["-r", &place.at("mnt/full"), &place.at("mnt/copy")]));
    assert_eq!(on_server(server.url(), "copy/deep/b.md"), "# Deep\n");
    ran(Command::new("mv").args([place.at("mnt/copy"), place.at("mnt/moved")]));
    assert_eq!((place.read("mnt/moved/deep/b.md").as_str(), place.has("mnt/copy")), ("# Deep\n", false));
    std::fs::remove_dir_all(place.path("mnt/moved")).unwrap();
    assert!(!place.has("kb/moved") && !place.has("kb/copy"));
    symlink("a.md", place.path("mnt/notes/l.md")).unwrap();
    assert_eq!(std::fs::read_link(place.path("kb/notes/l.md")).unwrap().to_str(), Some("a.md"));
    assert_eq!(place.read("mnt/notes/l.md"), "# B\nmore\n");
    ran(Command::new("git").args(["init", "-q", &place.at("mnt/repo")]));
    ran(Command::new("git").args(["-C", &place.at("mnt/repo"), "status"]));
    mount.stop();
    server.stop();
}

/// Shows: REM-1
#[test]
fn what_others_change_is_seen_on_a_remote_mount() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let mount = remote(&place, server.url(), "mnt", &[]);
    put(server.url(), "a.md", "# One\n");
    eventually("a new page is seen", || place.has("mnt/a.md"));
    for text in ["# Two\n", "# Three, and longer\n", "#\n"] {
        put(server.url(), "a.md", text);
        eventually("a new version is seen", || place.read("mnt/a.md") == text);
    }
    let names = || std::fs::read_dir(place.path("mnt")).unwrap().count();
    let before = names();
    put(server.url(), "b.md", "# B\n");
    eventually("a new name is listed", || names() == before + 1);
    place.write("kb/behind.md", "# Behind the server\n");
    eventually("an edit behind the server is seen", || place.has("mnt/behind.md"));
    assert_eq!(request(server.url(), "DELETE", "/api/svc/file?path=a.md", "").0, 200);
    eventually("a removal is seen", || !place.has("mnt/a.md"));
    mount.stop();
}

/// Shows: PATH-4
#[test]
fn a_remote_mount_has_hidden_and_ignored_files_and_half_typed_pages() {
    if !can_mount() {
        return;
    }
    let place = place();
    place.write("kb/.gitignore", "build/\n.svc/state/\n");
    place.write("kb/.env", "KEY=1\n");
    place.write("kb/build/out.md", "# Out\n");
    let server = Running::serve(&place.at("kb"), &[]);
    let mount = remote(&place, server.url(), "mnt", &[]);
    assert_eq!((place.read("mnt/.env"), place.read("mnt/build/out.md")), ("KEY=1\n".to_owned(), "# Out\n".to_owned()));
    for name in [".obsidian/app.json", "notes/.a.md.swp", "build/more.md"] {
        std::fs::create_dir_all(place.path("mnt").join(name).parent().unwrap()).unwrap();
        save(place.path("mnt").join(name), "x\n").unwrap();
        assert_eq!(place.read(&format!("kb/{name}")), "x\n");
        assert_eq!(request(server.url(), "GET", &format!("/api/svc/file?path={name}"), "").0, 404, "{name}");
        std::fs::remove_file(place.path("mnt").join(name)).unwrap();
        assert!(!place.has(&format!("kb/{name}")));
    }
    // Refused over REST by default, stored through a mount.
    save(place.path("mnt/half.md"), "---\ntitle: {{title}}\n---\n\n```\nnot yet\n").unwrap();
    assert!(on_server(server.url(), "half.md").contains("not yet"));
    mount.stop();
}

/// Shows: REM-3
#[test]
fn a_save_that_lost_a_race_is_rejected_and_both_texts_survive() {
    if !can_mount() {
        return;
    }
    let place = place();
    // A remote mount is a mount for lint, too.
    place.write("kb/.svc/config.toml", "lint.reject_protocols = [\"fuse\"]\n");
    let server = Running::serve(&place.at("kb"), &[]);
    put(server.url(), "a.md", "# Ours\n");
    let mount = remote(&place, server.url(), "mnt", &[]);
    // Open while somebody else writes.
    let mut open = std::fs::OpenOptions::new().append(true).open(place.path("mnt/a.md")).unwrap();
    put(server.url(), "a.md", "# Theirs\n");
    open.write_all(b"and more\n").unwrap();
    assert_eq!(errno(open.sync_all()), Some(16));
    assert!(open.write_all(b"lost").is_err(), "nothing more is taken");
    drop(open);
    eventually("the other text is seen", || place.read("mnt/a.md") == "# Theirs\n");
    assert_eq!(on_server(server.url(), "a.md"), "# Theirs\n");
    assert_eq!(place.read("mnt/.svc/rejected/a.md"), "# Ours\nand more\n");
    // Read, and replaced as a whole: by writing it anew, and by a rename.
    for text in ["# Theirs again\n", "# And again\n"] {
        let read = place.read("mnt/a.md");
        put(server.url(), "a.md", text);
        let outcome = if text.contains("Theirs") {
            save(place.path("mnt/a.md"), &format!("{read}mine\n"))
        } else {
            save(place.path("mnt/a.tmp"), &format!("{read}mine\n")).unwrap();
            std::fs::rename(place.path("mnt/a.tmp"), place.path("mnt/a.md"))
        };
        assert_eq!(errno(outcome), Some(16), "{text}");
        assert_eq!(on_server(server.url(), "a.md"), text);
        assert_eq!(place.read("mnt/.svc/rejected/a.md"), format!("{read}mine\n"));
        eventually("the other text is seen", || place.read("mnt/a.md") == text);
    }
    // Whoever was told may do as they like, and the kept text goes.
    save(place.path("mnt/a.md"), "# Both\n").unwrap();
    assert_eq!(on_server(server.url(), "a.md"), "# Both\n");
    assert!(!place.has("mnt/.svc/rejected/a.md"));
    // A file that somebody else made first.
    let mut new = File::create(place.path("mnt/new.md")).unwrap();
    put(server.url(), "new.md", "# Theirs\n");
    new.write_all(b"# Ours\n").unwrap();
    assert_eq!(errno(new.sync_all()), Some(16));
    drop(new);
    assert_eq!(place.read("mnt/.svc/rejected/new.md"), "# Ours\n");
    assert_eq!(place.read("mnt/new.md"), "# Theirs\n");
    std::fs::remove_file(place.path("mnt/.svc/rejected/new.md")).unwrap();
    assert!(!place.has("mnt/.svc/rejected/new.md"));
    // One that lint refuses.
    assert_eq!(errno(save(place.path("mnt/bad.md"), "---\ntitle: [\n---\n")), Some(22));
    assert_eq!(place.read("mnt/.svc/rejected/bad.md"), "---\ntitle: [\n---\n");
    assert!(!place.has("mnt/bad.md"));
    mount.stop();
}

// Adds one to a number in a page, as a program on a mount does.
fn add_on_mount(page: &PathBuf, is_renaming: bool, name: &str) {
    loop {
        let Ok(text) = std::fs::read_to_string(page) else { continue };
        let Ok(number) = text.trim().parse::<u32>() else { continue };
        let next = format!("{}\n", number + 1);
        let outcome = if is_renaming {
            let scratch = page.with_extension(format!("{name}.tmp"));
            save(scratch.clone(), &next).and_then(|()| std::fs::rename(&scratch, page))
        } else {
            save(page.clone(), &next)
        };
        match outcome {
            Ok(()) => return,
            Err(error) => assert!(matches!(error.raw_os_error(), Some(16 | 116 | 2)), "{error}"),
        }
    }
}

/// Adds one to a number in a page, as a client does.
fn add_over_http(url: &str) {
    loop {
        let mut stream = connect(url);
        let host = url.trim_start_matches("http://");
        write!(stream, "GET /api/svc/file?path=n.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let etag = answer.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let number: u32 = answer.split_once("\r\n\r\n").unwrap().1.trim().parse().unwrap();
        let next = format!("{}\n", number + 1);
        let mut stream = connect(url);
        let length = next.len();
        write!(stream, "PUT /api/svc/file?path=n.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nIf-Match: {etag}\r\nContent-Length: {length}\r\n\r\n{next}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        match answer.split(' ').nth(1) {
            Some("200") => return,
            code => assert_eq!(code, Some("409"), "{answer}"),
        }
    }
}

/// Shows: REM-2
#[test]
fn two_remote_mounts_and_a_client_lose_no_update_of_each_other() {
    if !can_mount() {
        return;
    }
    const EACH: u32 = 6;
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let url = server.url().to_owned();
    put(&url, "n.txt", "0\n");
    let mounts = ["mnt", "other"].map(|name| remote(&place, &url, name, &[]));
    // Each is a process of its own, as programs are: the mounts know who read what.
    let adders = [("mnt", "rename"), ("other", "rename"), ("other", "write")].map(|(name, how)| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "remote::adds_to_a_page_of_a_mount"]);
        let page = place.at(&format!("{name}/n.txt"));
        command.env("ADD_TO", page).env("ADD_HOW", how).env("ADD_TIMES", EACH.to_string());
        command.stdout(std::process::Stdio::null()).spawn().unwrap()
    });
    for _ in 0..EACH {
        add_over_http(&url);
    }
    for mut adder in adders {
        assert!(adder.wait().unwrap().success());
    }
    assert_eq!(on_server(&url, "n.txt"), format!("{}\n", 4 * EACH));
    for name in ["mnt/n.txt", "other/n.txt"] {
        eventually("both mounts show the end", || place.read(name) == on_server(&url, "n.txt"));
    }
    for mount in mounts {
        mount.stop();
    }
}

/// One of the programs that `two_remote_mounts_and_a_client_lose_no_update_of_each_other` starts;
/// without one it has nothing to do.
#[test]
fn adds_to_a_page_of_a_mount() {
    let Ok(page) = std::env::var("ADD_TO") else { return };
    let how = std::env::var("ADD_HOW").unwrap();
    let times: u32 = std::env::var("ADD_TIMES").unwrap().parse().unwrap();
    for _ in 0..times {
        add_on_mount(&PathBuf::from(&page), how == "rename", &std::process::id().to_string());
    }
}

/// Shows: REM-10, REM-11
#[test]
fn what_the_api_has_nothing_of_is_refused() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let mount = remote(&place, server.url(), "mnt", &[]);
    place.write("mnt/a.md", "# A\n");
    let page = place.path("mnt/a.md");
    let mode = |mode| std::fs::set_permissions(&page, std::fs::Permissions::from_mode(mode));
    assert_eq!((errno(mode(0o600)), errno(mode(0o644))), (Some(1), None));
    assert_eq!(errno(std::fs::hard_link(&page, place.path("mnt/b.md"))), Some(1));
    assert!(!Command::new("mkfifo").arg(place.at("mnt/pipe")).output().unwrap().status.success());
    assert_eq!(errno(std::os::unix::fs::chown(&page, Some(1), None)), Some(1));
    let exchanged = rustix::fs::renameat_with(
        rustix::fs::CWD,
        &page,
        rustix::fs::CWD,
        place.path("mnt/index.md"),
        rustix::fs::RenameFlags::EXCHANGE,
    );
    assert_eq!(exchanged, Err(rustix::io::Errno::INVAL));
    let moved = std::fs::rename(place.path("mnt/concepts"), place.path("mnt/ideas"));
    assert_eq!(errno(moved), Some(18), "`mv` copies then");
    let scratch = File::create(place.path("mnt/.a.md.X1Y2Z3")).unwrap();
    scratch.set_permissions(std::fs::Permissions::from_mode(0o600)).unwrap();
    drop(scratch);
    ran(Command::new("touch").args(["-d", "2001-01-01", &place.at("mnt/a.md")]));
    let file = File::create(place.path("mnt/large.bin")).unwrap();
    file.set_len(32 << 20).unwrap();
    assert_eq!(errno(file.set_len((32 << 20) + 1)), Some(27));
    file.set_len(0).unwrap();
    drop(file);
    assert_eq!(errno(save(place.path("mnt/.svc/rejected/a.md"), "")), Some(30));
    mount.stop();
}

/// Stands between a mount and a server: opens no event stream, and notes what it was sent.
struct Between {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Between {
    fn listen(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (server, noted) = (server.trim_start_matches("http://").to_owned(), Arc::clone(&heads));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, noted) = (server.clone(), Arc::clone(&noted));
                thread::spawn(move || between(stream.unwrap(), &server, &noted));
            }
        });
        Self { url, heads }
    }
}

fn between(mut mount: TcpStream, server: &str, heads: &Mutex<Vec<String>>) {
    let mut server = TcpStream::connect(server).unwrap();
    let (mut answers, mut back) = (server.try_clone().unwrap(), mount.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut answers, &mut back));
    let mut part = [0; 1 << 16];
    while let Ok(length @ 1..) = mount.read(&mut part) {
        let text = String::from_utf8_lossy(&part[..length]);
        if text.starts_with("GET /api/svc/events") {
            // Never answered.
            let _ = mount.read(&mut part);
            return;
        }
        heads.lock().unwrap().push(text.into_owned());
        if server.write_all(&part[..length]).is_err() {
            return;
        }
    }
}

/// Shows: REM-6
#[test]
fn without_event_stream_a_remote_mount_polls_with_credentials() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let between = Between::listen(server.url());
    place.write("token", "s3cret\n");
    std::fs::set_permissions(place.path("token"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let more = ["--token-file", &place.at("token"), "--space", "default"];
    let mount = remote(&place, &between.url, "mnt", &more);
    for text in ["# One\n", "# Two, and longer\n", "#\n"] {
        put(server.url(), "a.md", text);
        assert_eq!(place.read("mnt/a.md"), text, "at once");
    }
    place.read("mnt/a.md");
    let heads = between.heads.lock().unwrap().clone();
    let last = heads.iter().rev().find(|head| head.starts_with("GET /api/svc/file")).unwrap().to_lowercase();
    for header in ["authorization: bearer s3cret", "x-svc-space: default", "if-none-match: \""] {
        assert!(last.contains(header), "{header}: {last}");
    }
    mount.stop();
}

/// Shows: REM-13
#[test]
fn a_background_remote_mount_can_be_unmounted_and_cleaned_up() {
    if !can_mount() {
        return;
    }
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let (url, at, state) = (server.url(), place.at("mnt"), place.at("state"));
    let start = ["mount", "--remote", url, "--state", &state, "--background", "--read-only", &at];
    svcfs(&start).assert().success();
    assert!(place.has("mnt/index.md"));
    assert_eq!(errno(save(place.path("mnt/a.md"), "# A\n")), Some(30));
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(table.contains(&format!("- fuse.svcfs {url} ")), "{table}");
    assert!(refusal(&start, 1).contains("already mounted by svcfs"));
    svcfs(&["unmount", &at]).assert().success();
    assert!(!place.has("mnt/index.md"));
    // What a program holds open is saved at the end.
    let mount = remote(&place, url, "mnt", &[]);
    let mut open = File::create(place.path("mnt/open.md")).unwrap();
    open.write_all(b"# Open\n").unwrap();
    mount.signal(Signal::TERM);
    eventually("what is open is saved", || on_server(url, "open.md") == "# Open\n");
    drop((open, mount));
    // Killed: the next start takes its mount away.
    let mut mount = remote(&place, url, "mnt", &[]);
    mount.signal(Signal::KILL);
    mount.ended();
    let mount = remote(&place, url, "mnt", &[]);
    assert!(place.has("mnt/index.md"));
    mount.stop();
}

/// Shows: HTTP-6
#[test]
fn links_follow_a_remote_mount_rename_where_configured() {
    if !can_mount() {
        return;
    }
    let place = place();
    place.write("kb/.svc/config.toml", "[links]\nupdate_on_rename = true\n");
    let server = Running::serve(&place.at("kb"), &[]);
    let mount = remote(&place, server.url(), "mnt", &[]);
    place.write("mnt/notes/b.md", "# B\n");
    place.write("mnt/notes/a.md", "See [b](b.md).\n");
    place.write("mnt/index.md", "[[a]]\n");
    assert_eq!(place.read("mnt/index.md"), "[[a]]\n");
    ran(Command::new("mv").args([place.at("mnt/notes/a.md"), place.at("mnt/c.md")]));
    assert_eq!(place.read("mnt/index.md"), "[[c]]\n");
    assert_eq!(place.read("mnt/c.md"), "See [b](notes/b.md).\n");
    assert!(place.git("kb", &["log", "-1", "--format=%s"]).ends_with("rename notes/a.md → c.md (updated 2 links)"));
    // What is saved next begins with what the server has.
    ran(Command::new("sh").args(["-c", "echo more >> \"$0\"", &place.at("mnt/c.md")]));
    assert_eq!(on_server(server.url(), "c.md"), "See [b](notes/b.md).\nmore\n");
    mount.stop();
}
