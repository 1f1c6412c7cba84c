//! kill -9 while workers claim and finish tasks: nothing acknowledged is lost, and fences never go
//! back.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{TASK, post};
use crate::crash::server::Binary;
use crate::crash::setting;
use crate::space::client::Client;
use crate::space::folder;

const WORKERS: usize = 4;
const TASKS_PER_ROUND: usize = 40;
/// Lengths of load before a kill, one after the other.
const LOADS: [u64; 4] = [150, 400, 250, 600];

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    last_fence: u64,
    /// The fence of each claim that was not ended.
    claimed: HashMap<String, u64>,
    /// How often each task was finished.
    done: HashMap<String, usize>,
    /// Tasks whose end was sent and not answered.
    uncertain: Vec<String>,
}

#[test]
fn a_crash_during_claims_loses_nothing_and_keeps_fences_growing() {
    let binary = Binary::build();
    let folder = folder();
    let root = folder.path().join("root");
    let acknowledged = Mutex::new(Acknowledged::default());
    let rounds = usize::try_from(setting("SVCFS_CLAIM_ROUNDS").unwrap_or(2)).unwrap();
    for round in 0..rounds {
        let mut server = binary.serve(&root, None);
        let client = Client::new(server.address());
        check(&client, &acknowledged.lock().unwrap());
        let files = (0..TASKS_PER_ROUND).map(|n| json!({ "path": format!("t/{round}-{n}.md"), "content": TASK }));
        let created = post(&client, "setup", "/bulk", &json!({ "files": files.collect::<Vec<_>>() }));
        assert_eq!(created.status, 200, "{}", created.text());
        let is_killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in 0..WORKERS {
                let (address, acknowledged, is_killed) = (server.address(), &acknowledged, &is_killed);
                scope.spawn(move || work(&Client::new(address), worker, acknowledged, is_killed));
            }
            std::thread::park_timeout(Duration::from_millis(LOADS[round % LOADS.len()]));
            is_killed.store(true, Ordering::SeqCst);
            server.kill();
        });
    }
    let server = binary.serve(&root, None);
    check(&Client::new(server.address()), &acknowledged.lock().unwrap());
    server.stop();
}

/// Takes tasks and finishes every second one, until the server is killed.
fn work(client: &Client, worker: usize, acknowledged: &Mutex<Acknowledged>, is_killed: &AtomicBool) {
    let actor = format!("worker {worker}");
    let headers = [("X-Actor", actor.as_str()), ("Content-Type", "application/json")];
    let ask = |target: &str, body: Value| client.try_send("POST", target, &headers, body.to_string());
    while !is_killed.load(Ordering::SeqCst) {
        let Ok(taken) = ask("/api/svc/tasks/next", json!({})) else { return };
        if taken.status != 200 {
            return;
        }
        let taken = taken.json();
        let Some(path) = taken["task"]["path"].as_str().map(str::to_owned) else { return };
        let fence = taken["claim"]["fence"].as_u64().unwrap();
        let is_finished_now = {
            let mut acknowledged = acknowledged.lock().unwrap();
            acknowledged.last_fence = acknowledged.last_fence.max(fence);
            let earlier = acknowledged.claimed.insert(path.clone(), fence);
            assert_eq!(earlier, None, "{path} was handed out twice");
            fence % 2 == 0
        };
        if !is_finished_now {
            continue;
        }
        let ended = ask("/api/svc/tasks/done", json!({ "path": path, "fence": fence }));
        let mut acknowledged = acknowledged.lock().unwrap();
        acknowledged.claimed.remove(&path);
        match ended {
            Ok(ended) if ended.status == 200 => *acknowledged.done.entry(path).or_default() += 1,
            Ok(_) | Err(_) => acknowledged.uncertain.push(path),
        }
    }
}

/// Compares what a server has with what was acknowledged.
fn check(client: &Client, acknowledged: &Acknowledged) {
    let listed = client.get("/api/svc/claims").json();
    let claims: HashMap<&str, u64> = listed["claims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| (claim["path"].as_str().unwrap(), claim["fence"].as_u64().unwrap()))
        .collect();
    for (path, fence) in &acknowledged.claimed {
        assert_eq!(claims.get(path.as_str()), Some(fence), "the claim of {path}");
    }
    for (path, times) in &acknowledged.done {
        assert_eq!(*times, 1, "{path}");
        let text = client.get(&format!("/api/svc/file?path={path}")).text();
        assert!(text.contains("status: done"), "{path}: {text}");
    }
    for path in &acknowledged.uncertain {
        let text = client.get(&format!("/api/svc/file?path={path}")).text();
        assert!(text.contains("status: done") || text.contains("status: todo"), "{path}: {text}");
    }
    client.send("PUT", "/api/svc/file?path=probe.md", &[], "# Probe\n");
    let probe = post(client, "probe", "/claim", &json!({ "path": "probe.md" })).json();
    let fence = probe["fence"].as_u64().unwrap();
    assert!(fence > acknowledged.last_fence || claims.contains_key("probe.md"), "{probe}");
}
