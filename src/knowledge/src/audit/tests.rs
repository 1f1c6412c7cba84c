#![expect(clippy::disallowed_methods, reason = "something stands in the way of the log")]

use serde_json::{Value, json};
use svcfs_base::{Actor, AuditEntry, Caller, Change, Protocol, Timestamp};

use super::{AuditRecorder, MAX_PENDING};
use crate::spaces::test_space::{TestSpace, path};

const ON: &str = "[audit]\nenabled = true\n";

fn entry(path: &str, second: i64) -> AuditEntry {
    AuditEntry {
        ts: Timestamp::from_second(second).unwrap(),
        protocol: Protocol::Http,
        method: "GET".to_owned(),
        path: path.to_owned(),
        query: None,
        operation: None,
        file: None,
        space: Some("default".to_owned()),
        actor: "ann".to_owned(),
        token_hash: None,
        ip: None,
        status: 200,
        duration_ms: 1,
        request_id: None,
        x_space: None,
        provenance: None,
        lost_before: 0,
    }
}

fn recorder(space: &TestSpace) -> &AuditRecorder {
    space.space().audit.as_ref().unwrap()
}

fn paths(answer: &Value) -> Vec<&str> {
    answer.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

/// Before the first reading of the test's clock.
const EARLIER: i64 = 1_767_225_000;

#[test]
fn audit_entries_are_oldest_first_by_day_limit_or_start_time() {
    let space = TestSpace::with(ON, &[]);
    for (path, second) in [("/old", EARLIER - 90_000), ("/a", EARLIER), ("/b", EARLIER + 1), ("/c", EARLIER + 2)] {
        recorder(&space).record(entry(path, second));
    }
    assert_eq!(paths(&space.get("audit", json!({}))), ["/a", "/b", "/c"]);
    assert_eq!(paths(&space.get("audit", json!({ "limit": 2 }))), ["/b", "/c"]);
    let since = |text: &str, limit: u32| space.get("audit", json!({ "since": text, "limit": limit }));
    assert_eq!(paths(&since("2025-12-30T00:00:00Z", 2)), ["/old", "/a"]);
    assert_eq!(paths(&since("2025-12-31T23:50:01Z", 9)), ["/b", "/c"]);
    assert_eq!(paths(&since("2036-01-01T00:00:00Z", 9)), [""; 0]);
    for wrong in
        [json!({ "since": "yesterday" }), json!({ "limit": 0 }), json!({ "limit": -1 }), json!({ "limit": "x" })]
    {
        assert_eq!(space.refusal("audit", wrong.clone()).0, 400, "{wrong}");
    }
    assert_eq!(space.get("audit", json!({ "limit": 10_000_000 })).as_array().unwrap().len(), 3);
}

#[test]
fn without_the_setting_there_is_no_log_and_that_is_said() {
    let space = TestSpace::new();
    let (status, message) = space.refusal("audit", json!({}));
    assert!(status == 501 && message.contains("audit.enabled"), "{message}");
}

/// Shows: AUTH-8
#[test]
fn no_protocol_shows_the_audit_log_and_no_version_contains_it() {
    let space = TestSpace::with(ON, &[]);
    recorder(&space).record(entry("/a", EARLIER));
    space.get("audit", json!({}));
    let root = space.space().vfs.root();
    assert!(root.join(".svc/audit/2025-12-31.jsonl").is_file());
    for path in [".svc/audit/2025-12-31.jsonl", ".svc/audit"] {
        assert_eq!(space.refusal("read", json!({ "path": path })).0, 404, "{path}");
        assert!(space.refusal("write", json!({ "path": format!("{path}/x.md"), "content": "x" })).0 >= 400);
    }
    let status =
        std::process::Command::new("git").arg("-C").arg(root).args(["status", "--porcelain"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&status.stdout), "");
}

/// Shows: AUTH-8
#[test]
fn audit_entries_refused_by_disk_wait_and_overflow_is_counted() {
    let root = tempfile::tempdir().unwrap();
    let settings = svcfs_config::AuditSettings { keep_days: 9, max_bytes: 1 << 30 };
    let recorder = AuditRecorder::new(root.path(), &settings);
    let directory = root.path().join(".svc/audit");
    std::fs::create_dir(root.path().join(".svc")).unwrap();
    std::fs::write(&directory, "in the way").unwrap();
    for second in 0..MAX_PENDING + 5 {
        recorder.record(entry("/a", EARLIER + i64::try_from(second % 60).unwrap()));
    }
    assert!(recorder.flush().is_err());
    let keeping = recorder.status();
    assert_eq!((keeping.pending, keeping.dropped), (MAX_PENDING, 5));
    assert!(keeping.last_error.is_some());
    std::fs::remove_file(&directory).unwrap();
    recorder.flush().unwrap();
    recorder.record(entry("/after", EARLIER + 60));
    let kept = recorder.entries(Timestamp::UNIX_EPOCH, MAX_PENDING * 2, false).unwrap();
    assert_eq!(kept.len(), MAX_PENDING + 1);
    let last = kept.last().unwrap();
    assert_eq!((last.path.as_str(), last.lost_before), ("/after", 5));
    assert_eq!((recorder.status().pending, recorder.status().last_error), (0, None));
}

#[test]
fn mount_changes_are_audited_and_protocols_record_requests() {
    let space = TestSpace::with(ON, &[]);
    let vfs = &space.space().vfs;
    let ann = |protocol| Caller {
        address: Some([10, 0, 0, 7].into()),
        ..Caller::new(protocol).with_actor(Actor::new("ann"))
    };
    vfs.apply(&ann(Protocol::Nfs), Change::put(path("a.md"), "# A\n")).unwrap();
    vfs.apply(&ann(Protocol::Fuse), Change::rename(path("a.md"), path("b.md"))).unwrap();
    vfs.apply(&ann(Protocol::Fuse), Change::remove(path(".git/config"))).unwrap_err();
    for protocol in [Protocol::Http, Protocol::WebDav, Protocol::S3, Protocol::Internal] {
        vfs.apply(&ann(protocol), Change::put(path("c.md"), format!("# {protocol:?}\n"))).unwrap();
    }
    let kept = space.get("audit", json!({}));
    let message = |entry: &Value| {
        json!([entry["protocol"], entry["method"], entry["path"], entry["query"], entry["actor"], entry["status"]])
    };
    let message: Vec<Value> = kept.as_array().unwrap().iter().map(message).collect();
    assert_eq!(
        message,
        [
            json!(["nfs", "PUT", "a.md", null, "ann", 200]),
            json!(["fuse", "MOVE", "a.md", "to=b.md", "ann", 200]),
            json!(["fuse", "DELETE", ".git/config", null, "ann", 400]),
        ]
    );
    assert_eq!((&kept[0]["ip"], &kept[0]["space"]), (&json!("10.0.0.7"), &json!("default")));
}
