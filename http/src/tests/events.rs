//! The event stream.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use svcfs_base::{Caller, Change, Protocol, TreePath};
use svcfs_config::{AuthSettings, KeyDigest, SpaceVisibility};
use svcfs_knowledge::CATALOGUE;
use warp::reply::Response;

use super::issuer::Issuer;
use super::server::TestServer;

/// The only key, `key`.
const CLOSED: &str = "[auth]\ntype = \"apikey\"\napi_key = \"key\"\n";
const KEY: (&str, &str) = ("Authorization", "Bearer key");

const LONG: Duration = Duration::from_secs(20);

/// One event, taken apart.
#[derive(Debug, PartialEq)]
struct Told {
    id: String,
    event: String,
    data: Value,
}

/// Reads events as a client does.
struct Reader {
    response: Response,
    rest: String,
}

impl Reader {
    fn new(response: Response) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, rest: String::new() }
    }

    /// The next event; none when the stream has ended.
    async fn next(&mut self) -> Option<Told> {
        loop {
            if let Some((block, rest)) = self.rest.split_once("\n\n") {
                let told = Self::told(block);
                self.rest = rest.to_owned();
                if told.is_some() {
                    return told;
                }
                continue;
            }
            let frame = tokio::time::timeout(LONG, self.response.body_mut().frame()).await.expect("no event came")?;
            let bytes: Bytes = frame.unwrap().into_data().unwrap();
            self.rest.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    fn told(block: &str) -> Option<Told> {
        let field = |name: &str| {
            let value = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(|value| value.trim_start().to_owned())
        };
        let data = serde_json::from_str(&field("data")?).unwrap();
        Some(Told { id: field("id")?, event: field("event")?, data })
    }

    /// Ids, names and paths of the next events.
    async fn take(&mut self, count: usize) -> Vec<(String, String, Value)> {
        let mut taken = Vec::new();
        for _ in 0..count {
            let told = self.next().await.expect("the stream ended");
            let place = told.data.get("path").or(told.data.get("paths")).cloned().unwrap_or_default();
            taken.push((told.id, told.event, place));
        }
        taken
    }
}

/// A closed server that looks that often whether a subscriber may still read.
fn closed(recheck: Duration) -> TestServer {
    let mut server = TestServer::of(CATALOGUE, CLOSED);
    std::sync::Arc::get_mut(&mut server.app).unwrap().subscribers.recheck = recheck;
    server
}

fn write(server: &TestServer, page: &str) {
    let change = Change::put(TreePath::parse(page).unwrap(), "more\n");
    tokio::task::block_in_place(|| server.space().vfs.apply(&Caller::new(Protocol::Internal), change)).unwrap();
}

async fn follow(server: &TestServer, from: Option<&str>) -> Reader {
    let headers: Vec<_> = from.iter().map(|id| ("Last-Event-ID", *id)).collect();
    Reader::new(server.send("GET /api/svc/events", &headers, "").await)
}

fn row(id: &str, event: &str, place: Value) -> (String, String, Value) {
    (id.to_owned(), event.to_owned(), place)
}

/// Writes, renames, bulk-writes and removes; five events in four sets.
async fn live(server: &TestServer) {
    server.put("a.md", "one\n").await;
    let rename = json!({ "from": "a.md", "to": "b.md" }).to_string();
    assert_eq!(server.ask("POST /api/svc/rename", &[], rename).await.status, 200);
    let bulk = json!({ "files": [{ "path": "c.md", "content": "c\n" }, { "path": "d.md", "content": "d\n" }] });
    assert_eq!(server.ask("POST /api/svc/bulk", &[], bulk.to_string()).await.status, 200);
    assert_eq!(server.ask("DELETE /api/svc/file?path=b.md", &[], "").await.status, 200);
}

fn story() -> Vec<(String, String, Value)> {
    vec![
        row("1", "write", json!("a.md")),
        row("2.1", "delete", json!("a.md")),
        row("2", "write", json!("b.md")),
        row("3", "bulk", json!(["c.md", "d.md"])),
        row("4", "delete", json!("b.md")),
    ]
}

/// The next bytes of a stream.
async fn bytes(response: &mut Response) -> String {
    let frame = tokio::time::timeout(LONG, response.body_mut().frame()).await.expect("nothing came").unwrap();
    String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_hidden_files_are_for_remote_mounts_only() {
    let server = TestServer::new();
    let mut other = follow(&server, None).await;
    let mut mount = Reader::new(server.send("GET /api/svc/events", &[("X-Svc-Mount", "1")], "").await);
    write(&server, ".env.md");
    write(&server, "a.md");
    assert_eq!(other.take(1).await, [row("2", "write", json!("a.md"))]);
    assert_eq!(mount.take(1).await, [row("1", "write", json!(".env.md"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn comments_are_events_of_their_page_also_when_they_were_missed() {
    let server = TestServer::new();
    let mut live = follow(&server, None).await;
    server.put("a.md", "one\n").await;
    let body = json!({ "line": 1, "body": "why?" }).to_string();
    let added = server.ask("POST /api/svc/comments?path=a.md", &[("X-Actor", "ann")], body).await;
    let id = added.json()["id"].as_str().unwrap().to_owned();
    let resolve = json!({ "resolved": true }).to_string();
    assert_eq!(server.ask(&format!("PATCH /api/svc/comments/{id}"), &[], resolve).await.status, 200);
    server.ask("POST /api/svc/rename", &[], json!({ "from": "a.md", "to": "b.md" }).to_string()).await;
    assert_eq!(server.ask(&format!("DELETE /api/svc/comments/{id}"), &[], "").await.status, 200);
    let story = [
        row("1", "write", json!("a.md")),
        row("2", "comment.add", json!("a.md")),
        row("3", "comment.resolve", json!("a.md")),
        row("4.1", "delete", json!("a.md")),
        row("4", "write", json!("b.md")),
        row("5", "comment.delete", json!("b.md")),
    ];
    assert_eq!(live.take(6).await, story);
    assert_eq!(follow(&server, Some("0")).await.take(6).await, story);
}

/// They have the id of the newest change: resuming at it skips none.
#[tokio::test(flavor = "multi_thread")]
async fn claims_are_events_while_they_happen() {
    let server = TestServer::new();
    server.put("a.md", "one\n").await;
    let mut reader = follow(&server, None).await;
    let ann = [("X-Actor", "ann"), ("Content-Type", "application/json")];
    for method in ["POST", "POST", "DELETE"] {
        let answer = server.send(&format!("{method} /api/svc/claim"), &ann, r#"{"path": "a.md"}"#).await;
        assert_eq!(answer.status(), 200);
    }
    server.put("b.md", "two\n").await;
    let expected = ["claim", "claim", "release"].map(|event| row("1", event, json!("a.md")));
    assert_eq!(reader.take(3).await, expected);
    assert_eq!(reader.take(1).await, [row("2", "write", json!("b.md"))]);
}

/// Shows: HTTP-10
#[tokio::test(start_paused = true)]
async fn an_event_stream_sends_bytes_first_and_every_30_seconds() {
    let server = TestServer::new();
    let mut response = server.send("GET /api/svc/events", &[], "").await;
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert_eq!(response.headers()["cache-control"], "no-cache, no-transform");
    let mut last = tokio::time::Instant::now();
    let mut beat = async || {
        let text = bytes(&mut response).await;
        let silent = last.elapsed();
        last = tokio::time::Instant::now();
        (text, silent)
    };
    let (first, waited) = beat().await;
    assert!(first.starts_with(':') && waited.is_zero(), "{first} after {waited:?}");
    for _ in 0..3 {
        let (comment, silent) = beat().await;
        assert!(comment.starts_with(':') && comment.ends_with("\n\n"), "{comment}");
        assert!(silent < Duration::from_secs(30), "{silent:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_streamed_as_they_happen() {
    let server = TestServer::new();
    let mut reader = follow(&server, None).await;
    server.ask("PUT /api/svc/file?path=a.md", &[("X-Actor", "agent:1")], "one\n").await;
    let told = reader.next().await.unwrap();
    assert_eq!((&*told.id, &*told.event), ("1", "write"));
    assert_eq!((&told.data["path"], &told.data["actor"]), (&json!("a.md"), &json!("agent:1")));
    assert!(told.data["timestamp"].is_string() && told.data["etag"].is_string());
}

/// Shows: HTTP-9
#[tokio::test(flavor = "multi_thread")]
async fn what_was_missed_is_replayed_from_any_id() {
    let server = TestServer::new();
    live(&server).await;
    let story = story();
    assert_eq!(follow(&server, Some("0")).await.take(5).await, story);
    for (done, (id, ..)) in story.iter().enumerate() {
        let rest = &story[done + 1..];
        assert_eq!(follow(&server, Some(id)).await.take(rest.len()).await, rest, "after {id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_id_of_another_epoch_resets_the_stream() {
    let server = TestServer::new();
    server.put("a.md", "one\n").await;
    let mut reader = follow(&server, Some("99")).await;
    let told = reader.next().await.unwrap();
    assert_eq!((&*told.event, &*told.id, &told.data["resume"]), ("lagged", "1", &json!("1")));
    server.put("b.md", "two\n").await;
    assert_eq!(reader.take(1).await, [row("2", "write", json!("b.md"))]);
    let wrong = server.ask("GET /api/svc/events", &[("Last-Event-ID", "x")], "").await;
    assert!(wrong.error(400).starts_with("`Last-Event-ID`: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_257th_subscriber_is_turned_away_until_one_leaves() {
    let server = TestServer::new();
    let mut readers = Vec::new();
    for _ in 0..256 {
        readers.push(follow(&server, None).await);
    }
    assert!(server.get("/metrics").await.text().contains("svc_sse_subscribers 256"));
    let refused = server.get("/api/svc/events").await;
    assert!(refused.error(503).contains("256") && !refused.header("retry-after").is_empty());
    readers.pop();
    readers.push(follow(&server, None).await);
    drop(readers);
    assert!(server.get("/metrics").await.text().contains("svc_sse_subscribers 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_ends_when_the_server_stops() {
    let server = TestServer::new();
    let mut reader = follow(&server, None).await;
    server.stop.cancel();
    assert_eq!(reader.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_space_has_its_own_stream() {
    let server = TestServer::new();
    let mut reader = Reader::new(server.send("GET /api/svc/other/events", &[], "").await);
    server.put("a.md", "default\n").await;
    let answer = server.ask("PUT /api/svc/other/file?path=b.md", &[], "other\n").await;
    assert_eq!(answer.status, 200);
    assert_eq!(reader.take(1).await, [row("1", "write", json!("b.md"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lagging_reader_learns_where_to_resume_and_loses_nothing() {
    let mut server = TestServer::new();
    std::sync::Arc::get_mut(&mut server.app).unwrap().subscribers.max_behind = 2;
    let mut reader = follow(&server, None).await;
    server.put("a.md", "one\n").await;
    assert_eq!(reader.take(1).await, [row("1", "write", json!("a.md"))]);
    for path in ["b.md", "c.md", "d.md"] {
        server.put(path, "more\n").await;
    }
    let told = reader.next().await.unwrap();
    assert_eq!((&*told.event, &told.data["resume"], &told.data["newest"]), ("lagged", &json!("1"), &json!("4")));
    assert_eq!(reader.next().await, None);
    let missed = follow(&server, Some(&told.id)).await.take(3).await;
    assert_eq!(missed.iter().map(|(id, ..)| &**id).collect::<Vec<_>>(), ["2", "3", "4"]);
}

/// How somebody loses what they had.
type Loss = (&'static str, &'static [(&'static str, &'static str)], fn(&TestServer));

const LOSSES: [Loss; 4] = [
    ("a key is revoked", &[KEY], |server| {
        server.app.server.access().reload(AuthSettings::ApiKey(KeyDigest::from_key("another"))).unwrap();
    }),
    ("a public space is private", &[], |server| server.space().set_visibility(SpaceVisibility::Private)),
    ("a public space is unlisted", &[], |server| server.space().set_visibility(SpaceVisibility::Unlisted)),
    ("a space is taken away", &[KEY, ("X-Svc-Space", "other")], |server| {
        server.app.server.spaces().close_secondary().unwrap();
    }),
];

/// Shows: AUTH-6
#[tokio::test(flavor = "multi_thread")]
async fn an_event_stream_ends_when_its_reader_loses_access() {
    for (loss, headers, lose) in LOSSES {
        let server = closed(Duration::from_millis(20));
        server.space().set_visibility(SpaceVisibility::Public);
        let mut reader = Reader::new(server.send("GET /api/svc/events", headers, "").await);
        tokio::task::block_in_place(|| lose(&server));
        assert_eq!(reader.next().await, None, "{loss}");
        assert!(server.get("/metrics").await.text().contains("svc_sse_subscribers 0"), "{loss}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_the_token_that_opened_it_runs_out() {
    let issuer = Issuer::new();
    let mut server = TestServer::of(CATALOGUE, &issuer.config());
    std::sync::Arc::get_mut(&mut server.app).unwrap().subscribers.recheck = Duration::from_millis(100);
    // A minute is allowed for clocks that differ; of that some seconds are left.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let bearer = format!("Bearer {}", issuer.token(json!({ "exp": now - 54 })));
    let mut reader = Reader::new(server.send("GET /api/svc/events", &[("Authorization", &bearer)], "").await);
    assert_eq!(reader.next().await, None);
    let refused = server.send("GET /api/svc/events", &[("Authorization", &bearer)], "").await;
    assert_eq!(refused.status(), 401, "coming back they are told why");
}

/// Shows: AUTH-6
#[tokio::test(flavor = "multi_thread")]
async fn writes_after_a_reader_lost_access_are_not_streamed_to_it() {
    // It is never looked for the sake of time: what is written is reason enough.
    for (loss, headers, lose) in LOSSES.into_iter().filter(|(loss, ..)| !loss.contains("taken away")) {
        let server = closed(Duration::from_secs(3600));
        server.space().set_visibility(SpaceVisibility::Public);
        let mut reader = Reader::new(server.send("GET /api/svc/events", headers, "").await);
        write(&server, "a.md");
        assert_eq!(reader.take(1).await, [row("1", "write", json!("a.md"))]);
        lose(&server);
        write(&server, "b.md");
        assert_eq!(reader.next().await, None, "{loss}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_client_can_take_all_event_streams() {
    let server = closed(Duration::from_secs(3600));
    server.space().set_visibility(SpaceVisibility::Public);
    let enter = async |address: [u8; 4], headers: &[(&str, &str)]| {
        let response = server.send_from(address.into(), ("GET /api/svc/events", headers), "").await;
        (response.status() == 200).then_some(response)
    };
    let mut held = Vec::new();
    for last in 0..4 {
        for _ in 0..32 {
            held.push(enter([10, 0, 0, last], &[]).await.expect("one of 32 from one address"));
        }
        assert!(enter([10, 0, 0, last], &[]).await.is_none(), "the 33rd from one address");
    }
    assert!(enter([10, 0, 0, 9], &[]).await.is_none(), "the 129th without a key");
    assert!(enter([127, 0, 0, 1], &[]).await.is_none(), "nor from this machine");
    let refused = server.send("GET /api/svc/events", &[], "").await;
    assert_eq!(refused.status(), 503);
    for _ in 0..128 {
        held.push(enter([10, 0, 0, 9], &[KEY]).await.expect("one of 128 with the key"));
    }
    assert!(enter([10, 0, 0, 10], &[KEY]).await.is_none(), "the 129th with one key");
    held.clear();
    assert!(enter([10, 0, 0, 0], &[]).await.is_some(), "places are given back");
}
