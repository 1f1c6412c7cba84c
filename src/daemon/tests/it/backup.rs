//! Backups: by a server, by `svcfs backup`, to git, to directories and to S3; and the way back.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::harness::{Place, Running, eventually, json_of, program, refusal, request, svcfs};

/// A root with a page, and a bare repository beside it.
fn place() -> Place {
    let place = Place::with_root();
    place.write("page.txt", "# Saved\n");
    svcfs(&["write", "a.md", &place.at("page.txt"), "--root", &place.at("kb")]).assert().success();
    place.git(".", &["init", "-q", "--bare", "-b", "main", "remote.git"]);
    std::fs::create_dir(place.path("bundles")).unwrap();
    place
}

fn set_remote(place: &Place, remote: &str, more: &str) {
    let config = place.read("kb/.svc/config.toml");
    place.write("kb/.svc/config.toml", &format!("{config}\n[backup]\nremote = \"{remote}\"\n{more}"));
    place.git("kb", &["commit", "-qam", "backup"]);
}

fn status(server: &Running) -> Value {
    serde_json::from_str(&request(server.url(), "GET", "/api/svc/backup/status", "").1).unwrap()
}

/// Every file of two roots but the state is equal.
#[track_caller]
fn same_files(place: &Place, a: &str, b: &str) {
    let skipped = ["-x", ".git", "-x", "state"];
    let compared = Command::new("diff").arg("-r").args(skipped).args([place.path(a), place.path(b)]).output().unwrap();
    assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
}

/// A server backs up at start, when it is asked to, and when it stops; the copy can be served.
#[test]
fn a_server_backs_up_and_the_copy_is_served() {
    let place = place();
    set_remote(&place, &place.at("remote.git"), "interval = \"1h\"\n");
    let root = place.at("kb");
    let server = Running::serve(&root, &[]);
    eventually("the backup of the start", || status(&server)["last_verified"].is_string());
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=b.md", "# Second\n").0, 200);
    let done = svcfs(&["backup", "--root", &root]).assert().success().get_output().stdout.clone();
    let done = String::from_utf8(done).unwrap();
    assert!(done.starts_with("backed up to") && done.contains("everything up to commit"), "{done}");
    let status = status(&server);
    assert_eq!(
        (&status["enabled"], &status["stale"], &status["interval"]),
        (&true.into(), &false.into(), &"1h".into())
    );
    assert_eq!(place.git("remote.git", &["rev-parse", "main"]), status["head"].as_str().unwrap());
    assert_eq!(request(server.url(), "GET", "/api/svc/sync/status", "").0, 200);
    let metrics = request(server.url(), "GET", "/metrics", "").1;
    assert!(metrics.contains("svc_backup_age_seconds{space=\"default\"}"), "{metrics}");
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=c.md", "# Last\n").0, 200);
    server.stop();
    assert_eq!(place.git("remote.git", &["show", "main:c.md"]), "# Last");

    let report = json_of(&["restore", "--from", &place.at("remote.git"), "--to", &place.at("new"), "--json"]);
    assert_eq!(report["branch"], "main");
    same_files(&place, "kb", "new");
    let drill = json_of(&["backup", "--drill", "--json", "--root", &root]);
    assert_eq!((&drill["equal"], &drill["newer_commits"]), (&true.into(), &0.into()));
    // A copy for a trial does not back up to the same place.
    place.write("new/.svc/config.toml", "");
    place.git("new", &["commit", "-qam", "no backup"]);
    let restored = Running::serve(&place.at("new"), &[]);
    assert_eq!(request(restored.url(), "GET", "/api/svc/file?path=b.md", ""), (200, "# Second\n".to_owned()));
    assert!(request(restored.url(), "GET", "/api/svc/versions?path=a.md", "").1.contains("tester"));
    restored.stop();
}

/// Commits of others reach the server as those of a person with git, without losing a write.
#[test]
fn a_server_takes_over_commits_that_others_pushed() {
    let place = place();
    set_remote(&place, &place.at("remote.git"), "interval = \"1h\"\n");
    let root = place.at("kb");
    let server = Running::serve(&root, &[]);
    eventually("the backup of the start", || status(&server)["last_verified"].is_string());
    place.git(".", &["clone", "-q", "remote.git", "other"]);
    place.write("other/theirs.md", "# Theirs\n");
    place.git("other", &["add", "."]);
    place.git("other", &["commit", "-qm", "theirs"]);
    place.git("other", &["push", "-q"]);
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=ours.md", "# Ours\n").0, 200);
    svcfs(&["backup", "--root", &root]).assert().success();
    eventually("the server has their page", || {
        request(server.url(), "GET", "/api/svc/file?path=theirs.md", "") == (200, "# Theirs\n".to_owned())
    });
    assert_eq!(status(&server)["merged_commits"], 1);
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=ours.md", "# Ours again\n").0, 200);

    place.git("other", &["pull", "-q"]);
    place.write("other/ours.md", "# Changed by others\n");
    place.git("other", &["commit", "-qam", "conflict"]);
    place.git("other", &["push", "-q"]);
    // Also when a server backs up for the command.
    let refused = refusal(&["backup", "--root", &root], 3);
    assert!(refused.contains("both changed `ours.md`"), "{refused}");
    assert_eq!(status(&server)["refused"], true);
    assert_eq!(request(server.url(), "GET", "/api/svc/file?path=ours.md", "").1, "# Ours again\n");
    assert_eq!(place.git("remote.git", &["show", "main:ours.md"]), "# Changed by others");
    let log = server.stop();
    assert!(log.contains("the backup failed"), "{log}");
}

#[test]
fn a_command_backs_up_without_a_server() {
    let place = place();
    let root = place.at("kb");
    let refused = refusal(&["backup", "--root", &root], 3);
    assert!(refused.contains("backup.remote"), "{refused}");
    set_remote(&place, &place.at("bundles"), "");
    svcfs(&["backup", "--root", &root]).assert().success();
    let again = json_of(&["backup", "--root", &root, "--json"]);
    assert_eq!((&again["last_error"], &again["running"]), (&Value::Null, &false.into()));
    assert_eq!(json_of(&["backup", "--drill", "--json", "--root", &root])["equal"], true);
    // Another place, once.
    svcfs(&["backup", "--root", &root, "--remote", &place.at("remote.git"), "--branch", "copy"]).assert().success();
    assert_eq!(place.git("remote.git", &["rev-parse", "copy"]), place.git("kb", &["rev-parse", "HEAD"]));
    for (arguments, message) in [
        (&["--remote", "ext::sh"][..], "must be a git URL"),
        (&["--branch=-x"], "no name of a git branch"),
        (&["--branch", "a..b"], "no name of a git branch"),
    ] {
        let refused = svcfs(&[&["backup", "--root", &root][..], arguments].concat()).assert().code(2);
        let text = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(text.contains(message), "{text}");
    }
    let refused = refusal(&["backup", "--root", &root, "--remote", &place.at("missing")], 3);
    assert!(refused.contains("mount its disk"), "{refused}");
}

/// Ctrl-C and SIGTERM reach the git commands, which have their own process group.
#[test]
fn an_interrupted_command_leaves_no_git_behind() {
    let place = place();
    let root = place.at("kb");
    place.write("ssh", &format!("#!/bin/sh\necho $$ > {}\nexec sleep 300\n", place.at("pid")));
    for (name, arguments) in [
        ("backup", vec!["backup", "--root", &root, "--remote", "git@h.test:x.git"]),
        ("restore", vec!["restore", "--from", "git@h.test:x.git", "--to", "new"]),
    ] {
        let mut command = program();
        command.args(&arguments).env("GIT_SSH_COMMAND", format!("sh {}", place.at("ssh"))).current_dir(place.path("."));
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        eventually("git asks the remote", || place.path("pid").exists());
        let ssh = place.read("pid").trim().to_owned();
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{name}");
        // Without an init process that reaps it, it stays as a zombie.
        let state = || std::fs::read_to_string(format!("/proc/{ssh}/stat")).unwrap_or_default();
        eventually("git ends", || state().is_empty() || state().contains(") Z "));
        assert!(!place.path("new").exists());
        std::fs::remove_file(place.path("pid")).unwrap();
    }
}

#[test]
fn a_backup_is_not_restored_into_a_mount() {
    let place = place();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    let from = place.at("kb");
    let refused = refusal(&["restore", "--from", &from, "--to", &place.at("mnt/sub/new")], 3);
    assert!(refused.contains("is in the svcfs mount"), "{refused}");
    server.stop();
}

#[test]
fn an_empty_directory_that_had_a_backup_is_refused() {
    let place = place();
    let root = place.at("kb");
    set_remote(&place, &place.at("bundles"), "");
    svcfs(&["backup", "--root", &root]).assert().success();
    std::fs::rename(place.path("bundles"), place.path("disk")).unwrap();
    std::fs::create_dir(place.path("bundles")).unwrap();
    let refused = refusal(&["backup", "--root", &root], 3);
    assert!(refused.contains("mount its disk") && refused.contains("--accept-empty"), "{refused}");
    svcfs(&["backup", "--root", &root, "--accept-empty"]).assert().success();
    svcfs(&["backup", "--root", &root]).assert().success();
}

#[test]
fn both_forms_of_restore_exclude_each_other() {
    let place = place();
    let (from, to) = (place.at("remote.git"), place.at("new"));
    for arguments in [
        &["a.md", "--from", &from, "--to", &to][..],
        &["a.md", "--from", &from],
        &["a.md", "--to", &to],
        &["--from", &from],
        &["--to", &to],
        &[],
    ] {
        let refused = refusal(&[&["restore"][..], arguments].concat(), 2);
        for form in ["svcfs restore PATH", "svcfs restore --from URL --to DIR"] {
            assert!(refused.contains(form), "{arguments:?}: {refused}");
        }
    }
    let refused = refusal(&["restore", "--from", &from, "--to", &to], 3);
    assert!(refused.contains("no branch") && !place.has("new"), "{refused}");
    let refused = refusal(&["restore", "--from", &place.at("kb"), "--to", &place.at("bundles/..")], 3);
    assert!(refused.contains("not empty"), "{refused}");
}

/// A password in the URL is in no output, log, record or command line.
#[test]
fn a_password_is_never_shown() {
    let place = place();
    set_remote(&place, "http://ann:${SVCFS_TEST_TOKEN}@127.0.0.1:1/notes.git", "");
    let mut command = program();
    let serve = ["serve", "--root", &place.at("kb"), "--port", "0"];
    let server = Running::start(
        {
            command.args(serve).env("SVCFS_TEST_TOKEN", "s3cret");
            command
        },
        "agents",
    );
    eventually("the backup fails", || status(&server)["last_error"].is_string());
    let status = status(&server);
    assert_eq!(status["remote"], "http://***@127.0.0.1:1/notes.git");
    let log = server.stop();
    let records = Command::new("grep").args(["-r", "s3cret", &place.at("kb")]).output().unwrap();
    assert!(!format!("{status}{log}").contains("s3cret") && records.stdout.is_empty(), "{status}{log}");
}

/// A small disk in memory; unmounted when dropped.
struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// A full disk leaves the last backup as it is, and no half bundle.
#[test]
fn a_full_disk_leaves_the_last_backup() {
    let place = place();
    let disk = SmallDisk(place.path("bundles"));
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=512k", "none"]).arg(&disk.0).output().unwrap();
    if !mounted.status.success() {
        println!("skipped: no tmpfs can be mounted");
        return;
    }
    let root = place.at("kb");
    let backup = ["backup", "--root", &root, "--remote", &place.at("bundles")];
    svcfs(&backup).assert().success();
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{state:016x}\n")
    };
    place.write("kb/large.md", &(0..90_000).map(|_| random()).collect::<String>());
    place.git("kb", &["add", "."]);
    place.git("kb", &["commit", "-qm", "large"]);
    let refused = refusal(&backup, 1);
    assert!(refused.contains("space"), "{refused}");
    let names = std::fs::read_dir(&disk.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    assert_eq!(names, ["000001.bundle", "manifest.json"]);
    svcfs(&["restore", "--from", &place.at("bundles"), "--to", &place.at("new")]).assert().success();
    assert!(place.has("new/a.md") && !place.has("new/large.md"));
}

/// Environment of a client of S3.
fn with_keys(arguments: &[&str], (id, secret): (&str, &str)) -> assert_cmd::Command {
    let mut command = svcfs(arguments);
    command.env("AWS_ACCESS_KEY_ID", id).env("AWS_SECRET_ACCESS_KEY", secret);
    for name in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"] {
        command.env_remove(name);
    }
    command
}

/// Backs up twice, drills, restores, and is refused with wrong keys.
fn there_and_back(place: &Place, url: &str, keys: (&str, &str)) {
    let root = place.at("kb");
    with_keys(&["backup", "--root", &root, "--remote", url], keys).assert().success();
    place.write("kb/later.md", "# Later\n");
    place.git("kb", &["add", "."]);
    place.git("kb", &["commit", "-qm", "later"]);
    let second = with_keys(&["backup", "--root", &root, "--remote", url], keys).assert().success();
    assert!(String::from_utf8_lossy(&second.get_output().stdout).starts_with("backed up"));
    let third = with_keys(&["backup", "--root", &root, "--remote", url], keys).assert().success();
    assert!(String::from_utf8_lossy(&third.get_output().stdout).starts_with("nothing new"));
    with_keys(&["backup", "--drill", "--root", &root, "--remote", url], keys).assert().success();
    with_keys(&["restore", "--from", url, "--to", &place.at("new")], keys).assert().success();
    same_files(place, "kb", "new");
}

#[test]
fn bundles_go_to_our_own_s3() {
    let place = place();
    let other = Place::with_root();
    let root = other.at("kb");
    let made = json_of(&["token", "create", "--json", "--s3", "--scope", "write", "--root", &root]);
    let text = |name: &str| made["s3"][name].as_str().unwrap().to_owned();
    let (id, secret) = (text("access_key_id"), text("secret_access_key"));
    let server = Running::serve(&root, &["--s3", "--s3-port", "0"]);
    let url = server.greeting.lines().find_map(|line| line.trim().strip_prefix("s3")).unwrap().trim().to_owned();
    let remote = format!("s3://default/backups/notes?endpoint={url}");
    there_and_back(&place, &remote, (&id, &secret));
    let refused = with_keys(&["restore", "--from", &remote, "--to", &place.at("x")], (&id, "wrong")).assert().code(3);
    assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("access denied"));
    server.stop();
}

/// A server of moto; killed when dropped.
struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn bundles_go_to_the_s3_of_moto() {
    let Some(mut server) = crate::s3::tool("moto_server") else { return };
    let place = place();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = server.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
    let _moto = Moto(server.spawn().unwrap());
    let url = format!("http://127.0.0.1:{port}");
    eventually("moto answers", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(request(&url, "PUT", "/vault", "").0, 200);
    there_and_back(&place, &format!("s3://vault/a/b?endpoint={url}"), ("id", "secret"));
    let missing = format!("s3://missing?endpoint={url}");
    let refused = with_keys(&["backup", "--root", &place.at("kb"), "--remote", &missing], ("id", "s")).assert().code(3);
    assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("check the bucket"));
}
