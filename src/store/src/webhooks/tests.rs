use std::os::unix::fs::PermissionsExt;

use super::*;

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn hook(id: &str) -> StoredHook {
    StoredHook {
        id: id.to_owned(),
        url: "https://example.org/".to_owned(),
        path_glob: "**".to_owned(),
        events: vec![WebhookEvent::FileCreated, WebhookEvent::FileDeleted],
        secret: "whsec_x".to_owned(),
        is_static: false,
        created_at: time(0),
        position: HookPosition { seq: Seq(7), part: 0 },
        failing_since: None,
        disabled: None,
    }
}

fn delivery(number: i64, hook: &str) -> QueuedDelivery {
    QueuedDelivery {
        number,
        hook: hook.to_owned(),
        message: format!("msg_{number}"),
        event: WebhookEvent::FileRenamed,
        path: TreePath::parse("b.md").unwrap(),
        former_path: Some(TreePath::parse("a.md").unwrap()),
        body: "{}".to_owned(),
        attempts: 0,
        next_at: time(1),
    }
}

fn attempt(number: u32, hook: &str) -> DeliveryAttempt {
    DeliveryAttempt {
        hook: hook.to_owned(),
        message: "msg_1".to_owned(),
        event: WebhookEvent::FileRenamed,
        path: TreePath::parse("b.md").unwrap(),
        attempt: number,
        at: time(2),
        duration_ms: 3,
        status: Some(500),
        error: Some("500".to_owned()),
        next_at: Some(time(9)),
    }
}

#[test]
fn hooks_and_their_queue_survive_a_reopen() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("webhooks.db");
    let (hooks, stored) = HookFile::open(&file).unwrap();
    assert!(stored.hooks.is_empty() && !file.exists());
    let position = HookPosition { seq: Seq(9), part: 4 };
    let disabled =
        StoredHook { disabled: Some((time(5), "gone".to_owned())), failing_since: Some(time(4)), ..hook("b") };
    hooks
        .write(&[
            HookWrite::Put(hook("a")),
            HookWrite::Put(disabled.clone()),
            HookWrite::Put(hook("c")),
            HookWrite::Enqueue(delivery(1, "a")),
            HookWrite::Enqueue(delivery(2, "a")),
            HookWrite::Enqueue(delivery(3, "b")),
            HookWrite::Enqueue(delivery(4, "c")),
            HookWrite::Advance("a".to_owned(), position),
            HookWrite::Retry(2, 1, time(8)),
            HookWrite::Finish(1),
            HookWrite::Clear("b".to_owned()),
            HookWrite::Remove("c".to_owned()),
        ])
        .unwrap();
    drop(hooks);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let (hooks, stored) = HookFile::open(&file).unwrap();
    assert!(stored.hooks == [StoredHook { position, ..hook("a") }, disabled]);
    let retried = QueuedDelivery { attempts: 1, next_at: time(8), ..delivery(2, "a") };
    assert_eq!(stored.queue, [QueuedDelivery { body: String::new(), ..retried.clone() }]);
    assert_eq!(hooks.deliveries(&[1, 2, 3]).unwrap(), [retried]);
}

#[test]
fn the_log_of_attempts_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (hooks, _) = HookFile::open(&folder.path().join("webhooks.db")).unwrap();
    let log: Vec<HookWrite> = (0..300).map(|number| HookWrite::Log(attempt(number, "a"))).collect();
    hooks.write(&log).unwrap();
    hooks.write(&[HookWrite::Log(attempt(1, "b"))]).unwrap();
    let logged = hooks.attempts("a", 1000).unwrap();
    assert_eq!((logged.len(), &logged[0]), (200, &attempt(299, "a")));
    assert_eq!(hooks.attempts("a", 3).unwrap().len(), 3);
    assert_eq!(hooks.attempts("b", 3).unwrap(), [attempt(1, "b")]);
}
