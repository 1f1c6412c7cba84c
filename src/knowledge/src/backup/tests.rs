#![expect(clippy::disallowed_methods, reason = "the remote is outside any tree")]

use std::process::Command;

use serde_json::json;

use crate::spaces::test_space::TestSpace;

fn settings(remote: &std::path::Path) -> String {
    format!("[backup]\nremote = \"{}\"\ninterval = \"30s\"\n", remote.display())
}

#[test]
fn without_a_remote_there_is_no_backup() {
    let space = TestSpace::new();
    let status = space.ask("backup_status", json!({})).unwrap();
    assert_eq!((&status["enabled"], &status["remote"], &status["stale"]), (&json!(false), &json!(null), &json!(false)));
    let refused = space.ask("backup", json!({})).unwrap_err();
    assert_eq!(refused.kind(), svcfs_base::Kind::Disabled);
}

#[test]
fn a_backup_is_verified_and_a_stale_one_is_announced_once() {
    let place = tempfile::tempdir().unwrap();
    let remote = place.path().join("remote.git");
    let init = || Command::new("git").args(["init", "-q", "--bare"]).arg(&remote).status().unwrap();
    assert!(init().success());
    let space = TestSpace::with(&settings(&remote), &[("a.md", "# A\n")]);
    // The task of the space backs up at start, and once more when it is asked to.
    let ended = |runs: u64| {
        let started = std::time::Instant::now();
        loop {
            let status = space.ask("backup_status", json!({})).unwrap();
            if status["runs"].as_u64() >= Some(runs) && status["running"] == false {
                return status;
            }
            assert!(started.elapsed() < std::time::Duration::from_secs(20), "{status}");
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    };
    ended(1);
    assert_eq!(space.ask("backup", json!({})).unwrap()["running"], true);
    let status = ended(2);
    assert_eq!(status["last_error"], json!(null), "{status}");
    assert_eq!((&status["stale"], &status["interval"], &status["runs"]), (&json!(false), &json!("30s"), &json!(2)));
    assert!(status["last_verified"].is_string() && status["head"].is_string());

    // The clock of the test is years behind that of the record.
    let monitor = &space.space().backup;
    let verified = monitor.record().last_verified.unwrap();
    let later = |seconds: i64| verified + jiff::SignedDuration::from_secs(seconds);
    assert_eq!(monitor.problem(later(90)), None);
    std::fs::rename(&remote, place.path().join("away")).unwrap();
    let run = |seconds: i64| monitor.run(space.space(), (later(seconds), &|| false, None));
    run(60).unwrap_err();
    assert_eq!(space.space().notices.last(), 0);
    run(91).unwrap_err();
    run(95).unwrap_err();
    let notices = space.space().notices.after(0);
    assert_eq!(notices.iter().map(|notice| notice.name).collect::<Vec<_>>(), [super::STALE_EVENT]);
    assert_eq!(notices[0].data["age_seconds"], 91);
    let problem = monitor.problem(later(91)).unwrap();
    assert!(problem.contains("the last verified backup is of") && problem.contains("mount its disk"), "{problem}");
    std::fs::rename(place.path().join("away"), &remote).unwrap();
    run(100).unwrap();
    assert_eq!((monitor.problem(later(60)), space.space().notices.last()), (None, 1));
}
