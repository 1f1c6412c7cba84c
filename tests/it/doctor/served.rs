//! Servers whose git is taken away, broken or locked while they run.

use std::fs::{self, File};
use std::path::Path;

use super::{Patient, rename};
use crate::crash::server::Server;
use crate::disk::{must_put, page, put, trouble, wait_until_ready};
use crate::space::client::Client;
use crate::space::{git, leftovers, wait};

/// A server that refuses writes says why, to writers and to who watches over it, and reads on.
fn check_refused(client: &Client, reason: &str) {
    wait::until("the server is not ready", || trouble(client).is_some_and(|told| told.contains(reason)));
    let reply = put(client, "refused.md", "# Refused\n");
    assert_eq!(reply.status, 503, "{}", reply.text());
    let told = reply.json()["error"].as_str().unwrap().to_owned();
    assert!(told.contains(reason), "{told}");
    assert_eq!(page(client, "kept.md").as_deref(), Some("# Kept\n\notter\n"));
    assert_eq!(client.found("otter"), ["kept.md"]);
    let blame = client.get("/api/svc/blame?path=kept.md");
    assert!(blame.status == 200 || blame.json()["error"].as_str().unwrap().contains(reason), "{}", blame.text());
}

fn stop_and_audit(patient: &Patient, server: Server) {
    wait::until("git's index is up to date", || git::git(&patient.root(), &["status", "--porcelain"]).is_empty());
    server.stop();
    leftovers::check_root(&patient.root(), &patient.aside("clone"));
    patient.doctor(&[]).must_be_silent("the cause was gone");
}

/// Takes something of git away while it is idle, and puts it back.
fn without(part: &str, taken: impl FnOnce(&Path), reason: &str) {
    let patient = Patient::new();
    let (server, client) = patient.serve();
    must_put(&client, "before.md", "# Before\n");
    let (at, kept) = (patient.at(part), patient.aside("taken"));
    rename(&at, &kept);
    taken(&at);
    check_refused(&client, reason);
    if at.exists() {
        fs::remove_file(&at).unwrap();
    }
    rename(&kept, &at);
    wait_until_ready(&client);
    assert_eq!(page(&client, "refused.md"), None, "a refused write is there");
    assert_eq!(page(&client, "before.md").as_deref(), Some("# Before\n"));
    must_put(&client, "after.md", "# After\n");
    stop_and_audit(&patient, server);
    assert_eq!(git::log(&patient.root()).len(), 7, "a seed, four writes before, one before the damage, one after");
}

/// Shows: FAIL-4
#[test]
fn a_server_with_removed_history_reports_it_and_recovers() {
    without(".git", |_| {}, "restore `.git`");
}

/// Shows: FAIL-4
#[test]
fn a_server_with_a_damaged_head_reports_it_and_recovers() {
    without(".git/HEAD", |at| fs::write(at, "rubbish").unwrap(), "`HEAD`");
}

/// Shows: FAIL-4
#[test]
fn a_server_with_a_damaged_branch_reports_it_and_recovers() {
    without(".git/refs/heads/main", |at| fs::write(at, "rubbish").unwrap(), "its branch");
}

#[test]
fn a_server_whose_branch_names_a_lost_commit_recovers() {
    let lost = format!("{}\n", "12".repeat(20));
    without(".git/refs/heads/main", |at| fs::write(at, &lost).unwrap(), "an object of the branch is missing in git");
}

#[test]
fn a_server_with_removed_objects_creates_no_others_and_recovers() {
    let patient = Patient::new();
    let (server, client) = patient.serve();
    must_put(&client, "before.md", "# Before\n");
    let (at, kept) = (patient.at(".git/objects"), patient.aside("taken"));
    rename(&at, &kept);
    let address = server.address();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || put(&Client::new(address), "held.md", "# Held\n").status);
        wait::until("the server says what is gone", || {
            trouble(&client).is_some_and(|told| told.contains("is missing; restore it"))
        });
        assert!(!writer.is_finished() && !at.exists());
        rename(&kept, &at);
        assert_eq!(writer.join().unwrap(), 200, "a held write is acknowledged once it is whole");
    });
    wait_until_ready(&client);
    stop_and_audit(&patient, server);
    assert!(git::head(&patient.root()).contains_key("held.md"));
}

#[test]
fn a_server_with_removed_state_acknowledges_nothing_unsafe() {
    let patient = Patient::new();
    let (server, client) = patient.serve();
    must_put(&client, "before.md", "# Before\n");
    let state = patient.at(".svc/state");
    // The server may be making a file there in the moment in which its folder goes.
    wait::until("nothing is left of it", || fs::remove_dir_all(&state).is_ok() || !state.exists());
    let address = server.address();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || put(&Client::new(address), "after.md", "# After\n"));
        wait::until("the server says what is gone", || {
            trouble(&client).is_some_and(|told| told.contains("`.svc/state` was removed while the server runs"))
        });
        let reply = writer.join().unwrap();
        assert!(reply.status == 503 && reply.text().contains("the write is not stored"), "{}", reply.text());
    });
    server.stop();
    // Without its state a root is as new, and `.git/index` is behind: the first start asks.
    let refused = patient.run(&["ls"]);
    assert_eq!(refused.status.code(), Some(3), "{}", String::from_utf8_lossy(&refused.stderr));
    let adopted = patient.run(&["init", "--adopt"]);
    assert!(adopted.status.success(), "{}", String::from_utf8_lossy(&adopted.stderr));
    let (server, client) = patient.serve();
    assert_eq!(page(&client, "before.md").as_deref(), Some("# Before\n"));
    stop_and_audit(&patient, server);
}

/// Shows: FAIL-5
#[test]
fn a_foreign_branch_lock_delays_writes_and_loses_none() {
    let patient = Patient::new();
    let (server, client) = patient.serve();
    let lock = patient.at(".git/refs/heads/main.lock");
    File::create(&lock).unwrap();
    let address = server.address();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|number| {
                scope.spawn(move || {
                    let path = format!("held {number}.md");
                    put(&Client::new(address), &path, &format!("# Held {number}\n")).status
                })
            })
            .collect();
        wait::until("the server says that git is locked", || {
            trouble(&client)
                .is_some_and(|told| told.contains("will be completed") && told.contains("holds a lock of git"))
        });
        assert!(writers.iter().all(|writer| !writer.is_finished()), "nobody is told that a write is safe");
        assert_eq!(page(&client, "kept.md").as_deref(), Some("# Kept\n\notter\n"));
        fs::remove_file(&lock).unwrap();
        for writer in writers {
            assert_eq!(writer.join().unwrap(), 200, "a held write is acknowledged once it is whole");
        }
    });
    wait_until_ready(&client);
    stop_and_audit(&patient, server);
    let head = git::head(&patient.root());
    assert!((0..3).all(|number| head.contains_key(&format!("held {number}.md"))), "{head:?}");
}

/// Shows: FAIL-5
#[test]
fn a_stale_index_lock_is_reported_once_and_blocks_no_write() {
    let patient = Patient::new();
    let (server, client) = patient.serve();
    let lock = patient.leave_lock(".git/index.lock");
    must_put(&client, "one.md", "# One\n");
    let complaint = "cannot refresh `.git/index`";
    wait::until("the lock is noticed", || server.said().contains(complaint));
    must_put(&client, "two.md", "# Two\n");
    assert_eq!(trouble(&client), None, "only `git status` is behind");
    let told = patient.doctor(&[]);
    assert_eq!(told.of("locks")["level"], "problem", "{}", told.answer);
    fs::remove_file(&lock).unwrap();
    wait::until("git's index is up to date by itself", || server.said().contains("`.git/index` is up to date again"));
    assert_eq!(server.said().matches(complaint).count(), 1, "{}", server.said());
    stop_and_audit(&patient, server);
}

#[test]
fn the_doctor_only_checks_beside_a_running_server() {
    let patient = Patient::new();
    let (server, client) = patient.serve();
    let told = patient.doctor(&[]);
    assert_eq!(told.code, Some(0), "{}", told.complaint);
    assert_eq!(told.answer["server"]["pid"], server.pid().to_string());
    assert!(told.of("server")["message"].as_str().unwrap().contains("accepts writes"), "{}", told.answer);
    for check in ["tree", "git-index", "search-index"] {
        assert_eq!(told.of(check)["level"], "skipped");
    }
    for check in ["root", "disk", "settings", "log", "repository", "locks", "objects", "versions"] {
        assert_eq!(told.of(check)["level"], "ok", "{}", told.answer);
    }
    let refused = patient.doctor(&["--fix"]);
    assert_eq!(refused.code, Some(3), "{}", refused.complaint);
    assert!(refused.complaint.contains(&format!("process {}", server.pid())), "{}", refused.complaint);
    assert!(refused.complaint.contains("stop it first"), "{}", refused.complaint);
    must_put(&client, "after.md", "# After\n");
    server.stop();
    patient.doctor(&[]).must_be_silent("the server ended");
}
