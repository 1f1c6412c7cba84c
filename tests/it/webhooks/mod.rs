//! Webhooks, with receivers that fail, and after kill -9.

mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::crash::server::Binary;
use crate::space::client::{Client, Reply};
use crate::space::{folder, wait};
use receiver::{Answer, Receiver};

const SETTINGS: &str = "[webhooks]\nenabled = true\nmax_workers = 6\n\n[net]\nallow = [\"127.0.0.1\"]\n";

/// Where what comes from PyPI is installed; scripts/test.sh sets it.
const TOOLS: &str = "SVCFS_TOOLS";

fn post(client: &Client, target: &str, body: &Value) -> Reply {
    client.send("POST", &format!("/api/svc{target}"), &[("Content-Type", "application/json")], body.to_string())
}

fn register(client: &Client, body: &Value) -> Value {
    let reply = post(client, "/webhooks", body);
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

fn hook(client: &Client, id: &Value) -> Value {
    let hooks = client.get("/api/svc/webhooks").json();
    hooks.as_array().unwrap().iter().find(|hook| hook["id"] == *id).unwrap().clone()
}

fn deliveries(client: &Client, id: &Value) -> Vec<Value> {
    let reply = client.get(&format!("/api/svc/webhooks/{}/deliveries", id.as_str().unwrap()));
    reply.json().as_array().unwrap().clone()
}

fn settle(root: &Path, settings: &str) {
    std::fs::create_dir_all(root.join(".svc")).unwrap();
    std::fs::write(root.join(".svc/config.toml"), settings).unwrap();
}

/// Pages and rounds of the crash test: 1,000 notifications.
const PAGES: usize = 50;
const ROUNDS: usize = 20;

#[test]
fn queued_notifications_survive_kills_and_stay_in_order() {
    let (binary, folder) = (Binary::build(), folder());
    let root = folder.path().join("root");
    settle(&root, SETTINGS);
    let receiver = Receiver::start(Answer::Hang);
    let mut server = binary.serve(&root, None);
    let client = Client::new(server.address());
    let made = register(&client, &json!({ "url": receiver.url(), "path_glob": "p/*.md" }));
    for round in 0..ROUNDS {
        let files = (0..PAGES).map(|page| json!({ "path": format!("p/{page}.md"), "content": format!("{round}\n") }));
        let reply = post(&client, "/bulk", &json!({ "files": files.collect::<Vec<_>>() }));
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    wait::until("all notifications are queued", || hook(&client, &made["id"])["queued"] == PAGES * ROUNDS);
    server.kill();

    // The next server is killed while it delivers.
    receiver.answer(Answer::Status(204));
    let mut server = binary.serve(&root, None);
    wait::until("some notifications arrive", || receiver.received().len() >= 200);
    server.kill();
    let server = binary.serve(&root, None);
    let client = Client::new(server.address());
    wait::until("the queue is empty", || hook(&client, &made["id"])["queued"] == 0);

    let received = receiver.received();
    let mut seen = BTreeSet::new();
    let mut pages: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for message in received.iter().filter(|message| seen.insert(message.header("webhook-id").to_owned())) {
        let body: Value = serde_json::from_str(&message.body).unwrap();
        pages.entry(body["path"].as_str().unwrap().to_owned()).or_default().push(body["seq"].as_u64().unwrap());
    }
    assert_eq!(seen.len(), PAGES * ROUNDS, "each notification arrives at least once");
    for (page, positions) in pages {
        assert!(positions.is_sorted() && positions.len() == ROUNDS, "{page}: {positions:?}");
    }
    let secret = made["secret"].as_str().unwrap();
    verify_signatures(secret, &received[received.len() - 20..]);
    server.stop();
}

/// Checks signatures with the library of Standard Webhooks.
fn verify_signatures(secret: &str, messages: &[receiver::Message]) {
    const PROGRAM: &str = "import json, sys\n\
                           from standardwebhooks import Webhook\n\
                           hook = Webhook(sys.argv[1])\n\
                           for line in sys.stdin:\n\
                           \u{20}   message = json.loads(line)\n\
                           \u{20}   hook.verify(message['body'], message['headers'])\n\
                           \u{20}   print('verified')\n";
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools");
    let folder = std::env::var_os(TOOLS).map_or_else(home, PathBuf::from).join("python/bin");
    let python = folder.join("python");
    let is_installed = Command::new(&python).args(["-c", "import standardwebhooks"]).stderr(Stdio::null()).status();
    if !is_installed.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os(TOOLS).is_none(), "`standardwebhooks` is missing; scripts/test.sh installs it");
        println!("skipped: `standardwebhooks` is not installed; scripts/test.sh installs it");
        return;
    }
    let mut child = Command::new(python)
        .args(["-c", PROGRAM, secret])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for message in messages {
        writeln!(input, "{}", json!({ "headers": message.headers, "body": message.body })).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), messages.len());
}

#[test]
fn failing_receivers_are_retried_and_do_not_stop_others() {
    let (binary, folder) = (Binary::build(), folder());
    let root = folder.path().join("root");
    settle(&root, SETTINGS);
    let server = binary.serve(&root, None);
    let client = Client::new(server.address());
    let redirect = Answer::Redirect("http://169.254.169.254/latest/meta-data/".to_owned());
    let answers = [
        Answer::Status(500),
        Answer::Close,
        redirect,
        Answer::Status(403),
        Answer::Status(410),
        Answer::Hang,
        Answer::Status(200),
    ];
    let receivers = answers.map(Receiver::start);
    let made: Vec<Value> =
        receivers.iter().map(|receiver| register(&client, &json!({ "url": receiver.url() }))).collect();
    let [failing, closing, redirecting, refusing, gone, _hanging, good] = &receivers;
    for round in 0..3 {
        client.send("PUT", "/api/svc/file?path=a.md", &[], format!("{round}\n"));
    }
    wait::until("the good receiver has all", || good.received().len() == 3);
    wait::until("the others have failed", || made[..5].iter().all(|made| !deliveries(&client, &made["id"]).is_empty()));
    let logged = |at: usize| deliveries(&client, &made[at]["id"]).pop().unwrap();
    assert_eq!((&logged(0)["outcome"], &logged(0)["status"]), (&json!("failed"), &json!(500)));
    assert!(logged(1)["status"].is_null() && logged(1)["outcome"] == "failed", "{}", logged(1));
    let error = logged(2)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("169.254.169.254") && error.contains("net.allow"), "{error}");
    assert_eq!((&logged(3)["outcome"], &logged(3)["status"]), (&json!("given_up"), &json!(403)));
    assert_eq!(gone.received().len(), 1);

    let disabled = hook(&client, &made[4]["id"]);
    assert!(disabled["enabled"] == false && disabled["queued"] == 0, "{disabled}");
    let problems = client.get("/readyz").json()["problems"].to_string();
    assert!(problems.contains("410"), "{problems}");
    let metrics = client.get("/metrics").text();
    assert!(metrics.contains("svc_webhooks_disabled{space=\"default\"} 1"), "{metrics}");
    gone.answer(Answer::Status(200));
    let test = format!("/webhooks/{}/test", made[4]["id"].as_str().unwrap());
    assert_eq!(post(&client, &test, &json!({})).json()["enabled"], true);
    assert_eq!(hook(&client, &made[4]["id"])["enabled"], true, "a successful test enables it again");

    // Later events of the page wait for the retry.
    assert_eq!(failing.received().len(), 1);
    wait::until("every event is refused once", || refusing.received().len() == 3);
    for receiver in [failing, closing, redirecting] {
        receiver.answer(Answer::Status(200));
    }
    wait::until("failed notifications are sent again", || failing.received().len() == 4);
    let ids: Vec<String> = failing.received().iter().map(|message| message.header("webhook-id").to_owned()).collect();
    assert_eq!(ids[0], ids[1], "a retry has the same id");
    assert_eq!(ids[1..].iter().collect::<BTreeSet<_>>().len(), 3);
    server.stop();
}

#[test]
fn webhooks_of_the_settings_receive_the_chosen_events() {
    let (binary, folder) = (Binary::build(), folder());
    let root = folder.path().join("root");
    let receiver = Receiver::start(Answer::Status(200));
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let entry = format!(
        "\n[[webhook_entries]]\nurl = \"{}\"\nsecret = \"{secret}\"\nevents = [\"file.created\"]\npath_glob = \"docs/**\"\n",
        receiver.url()
    );
    settle(&root, &format!("{SETTINGS}{entry}"));
    for start in 0..2 {
        let server = binary.serve(&root, None);
        let client = Client::new(server.address());
        let hooks = client.get("/api/svc/webhooks").json();
        assert_eq!(hooks.as_array().map(Vec::len), Some(1), "registered once: {hooks}");
        let page = format!("/api/svc/file?path=docs/{start}.md");
        client.send("PUT", &page, &[("X-Actor", "ann")], "# A\n");
        client.send("PUT", &page, &[], "# A2\n");
        client.send("PUT", &format!("/api/svc/file?path=other/{start}.md"), &[], "# B\n");
        wait::until("the creation arrives", || receiver.received().len() == start + 1);
        server.stop();
    }
    let received = receiver.received();
    let body: Value = serde_json::from_str(&received[0].body).unwrap();
    assert_eq!(
        (&body["type"], &body["event"], &body["path"], &body["actor"]),
        (&json!("write"), &json!("file.created"), &json!("docs/0.md"), &json!("ann"))
    );
    verify_signatures(secret, &received);
    settle(&root, SETTINGS);
    let server = binary.serve(&root, None);
    assert_eq!(Client::new(server.address()).get("/api/svc/webhooks").json(), json!([]));
    server.stop();
}
