#![expect(clippy::disallowed_methods, reason = "a receiver is another program")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svcfs_base::{Seq, SystemClock, Timestamp, TreePath, WebhookEvent};
use svcfs_net::{AddressPolicy, OutgoingClient, OutgoingLimits};
use svcfs_store::{HookPosition, QueuedDelivery, StoredHook};

use crate::webhooks::hook::Hook;
use crate::webhooks::workers::{DeliveryJob, WorkerPool};

/// A receiver that takes all notifications.
fn receiver() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 4096];
            let _read = stream.read(&mut buffer);
            let _sent = stream.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        }
    });
    url
}

fn hook(id: &str, url: String) -> Arc<Hook> {
    Arc::new(Hook::new(StoredHook {
        id: id.to_owned(),
        url,
        path_glob: "**".to_owned(),
        events: Vec::new(),
        secret: "whsec_0123456789abcdef".to_owned(),
        is_static: false,
        created_at: Timestamp::UNIX_EPOCH,
        position: HookPosition { seq: Seq(0), part: 0 },
        failing_since: None,
        disabled: None,
    }))
}

fn job(hook: &Arc<Hook>, number: i64) -> DeliveryJob {
    let delivery = QueuedDelivery {
        number,
        hook: hook.stored.id.clone(),
        message: format!("msg_{number}"),
        event: WebhookEvent::FileUpdated,
        path: TreePath::parse("a.md").unwrap(),
        former_path: None,
        body: "{}".to_owned(),
        attempts: 0,
        next_at: Timestamp::UNIX_EPOCH,
    };
    DeliveryJob { hook: Arc::clone(hook), delivery }
}

#[test]
fn few_threads_serve_all_webhooks_beside_one_that_fails() {
    for threads in [1, 2, 4] {
        let limits = OutgoingLimits {
            timeout: Duration::from_secs(5),
            max_bytes: 1000,
            max_redirects: 0,
            requires_tls: true,
            max_idle_connections: threads,
        };
        let policy = AddressPolicy::new(&["127.0.0.1".to_owned()], &[]);
        let pool = WorkerPool::new(OutgoingClient::new(policy, limits), Arc::new(SystemClock), threads);
        let (failing, good) = (hook("a", "http://127.0.0.1:1/".to_owned()), hook("b", receiver()));
        pool.submit("a", true, (0..3).map(|number| job(&failing, number)).collect()).unwrap();
        pool.submit("b", false, (10..20).map(|number| job(&good, number)).collect()).unwrap();
        let (started, mut outcomes) = (Instant::now(), Vec::new());
        while outcomes.len() < 13 {
            outcomes.extend(pool.take_outcomes());
            assert!(started.elapsed() < Duration::from_secs(20), "{threads} threads: {} outcomes", outcomes.len());
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let delivered = |outcome: &&crate::webhooks::workers::DeliveryOutcome| {
            outcome.attempt.as_ref().is_some_and(|attempt| attempt.result.error.is_none())
        };
        assert_eq!(outcomes.iter().filter(delivered).count(), 10, "{threads} threads");
        let given_back = outcomes.iter().filter(|outcome| outcome.attempt.is_none()).count();
        assert_eq!(given_back, 2, "{threads} threads: the others of a webhook that fails wait");
        pool.stop();
    }
}
