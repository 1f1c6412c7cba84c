//! Answers that are written while they are sent, over real connections.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use svcfs_base::Fault;
use svcfs_knowledge::kernel::{
    JsonPieces, JsonText, Operation, OperationArea, OperationContext, OperationEntry, PIECE_BYTES, Route,
};

use super::connections::Listening;
use super::server::TestServer;

const LONG: Duration = Duration::from_secs(20);

/// Count, a piece at a time
#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The test that asks; its pieces wait for it
    test: String,
    /// How many pieces there are
    pieces: usize,
    /// The piece that fails
    #[serde(default)]
    failing: Option<usize>,
}

/// What lets the next piece of each test be written.
static GATES: Mutex<Vec<(String, Receiver<()>)>> = Mutex::new(Vec::new());

/// Pieces of the test of this name wait for the other end.
fn gate(test: &str) -> Sender<()> {
    let (open, gate) = channel();
    GATES.lock().push((test.to_owned(), gate));
    open
}

struct Pieces {
    gate: Option<Mutex<Receiver<()>>>,
    written: usize,
    count: Count,
}

impl JsonPieces for Pieces {
    fn write_next(&mut self, text: &mut Vec<u8>) -> Result<bool, Fault> {
        if self.written > 0
            && let Some(gate) = &self.gate
        {
            gate.lock().recv_timeout(LONG).map_err(Fault::internal)?;
        }
        if self.count.failing == Some(self.written) {
            return Err(Fault::unavailable("the disk is gone"));
        }
        self.written += 1;
        let is_last = self.written == self.count.pieces;
        text.extend_from_slice(if self.written == 1 { b"[" } else { b"," });
        text.resize(text.len() + PIECE_BYTES, b' ');
        text.extend_from_slice(self.written.to_string().as_bytes());
        text.extend_from_slice(if is_last { b"]" } else { b"" });
        Ok(!is_last)
    }

    fn memory_bytes(&self) -> usize {
        1 << 20
    }
}

impl Operation for Count {
    const NAME: &'static str = "count";
    const HTTP: &'static [Route] = &[Route::get("/count")];
    type Output = Vec<usize>;
    fn run(self, _: &OperationContext<'_>) -> Result<Vec<usize>, Fault> {
        Ok((1..=self.pieces).collect())
    }
    fn run_to_json(self, _: &OperationContext<'_>) -> Result<JsonText, Fault> {
        let mut gates = GATES.lock();
        let at = gates.iter().position(|(test, _)| *test == self.test);
        let gate = at.map(|at| Mutex::new(gates.remove(at).1));
        JsonText::from_pieces(Pieces { gate, written: 0, count: self })
    }
}

const COUNTING: &[OperationArea] =
    &[OperationArea { title: "Counting", operations: &[OperationEntry::new::<Count>()] }];

async fn ask(protocol: &Listening, path: &str) -> Response<Incoming> {
    let request = Request::get(format!("/api/svc{path}")).header("Host", "localhost");
    tokio::time::timeout(LONG, protocol.send(request.body(Full::<Bytes>::default()).unwrap())).await.unwrap()
}

async fn read(answer: Response<Incoming>) -> Bytes {
    answer.collect().await.unwrap().to_bytes()
}

fn json_of(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap()
}

/// Shows: HTTP-2
#[tokio::test(flavor = "multi_thread")]
async fn the_first_piece_comes_before_the_second_is_written() {
    let protocol = Listening::on(TestServer::of(COUNTING, "")).await;
    let open = gate("first");
    let mut answer = ask(&protocol, "/count?test=first&pieces=3").await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert!(!answer.headers().contains_key("content-length"), "nobody knows it yet");
    let mut text = Vec::new();
    while text.len() <= PIECE_BYTES {
        let frame = tokio::time::timeout(LONG, answer.frame()).await.unwrap().unwrap().unwrap();
        text.extend_from_slice(&frame.into_data().unwrap());
    }
    open.send(()).unwrap();
    open.send(()).unwrap();
    text.extend_from_slice(&read(answer).await);
    assert_eq!(json_of(&text), json!([1, 2, 3]));
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_one_piece_has_its_length() {
    let protocol = Listening::on(TestServer::of(COUNTING, "")).await;
    let answer = ask(&protocol, "/count?test=short&pieces=1").await;
    let length: usize = answer.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let text = read(answer).await;
    assert_eq!((text.len(), json_of(&text)), (length, json!([1])));
    assert!(protocol.stopped().await);
}

/// Shows: HTTP-2
#[tokio::test(flavor = "multi_thread")]
async fn a_failure_has_a_status_first_and_breaks_the_answer_off_later() {
    let protocol = Listening::on(TestServer::of(COUNTING, "")).await;
    let refused = ask(&protocol, "/count?test=fails&pieces=3&failing=0").await;
    assert_eq!(refused.status(), 503);
    assert_eq!(json_of(&read(refused).await), json!({ "error": "the disk is gone" }));
    let broken = ask(&protocol, "/count?test=fails&pieces=3&failing=2").await;
    assert_eq!(broken.status(), 200);
    assert!(broken.collect().await.is_err(), "an answer that is not complete must not look so");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_text_holds_takes_room_until_it_is_sent() {
    let protocol = Listening::on(TestServer::of(COUNTING, "")).await;
    let room = Arc::clone(&protocol.server.app.response_budget.0);
    let all = room.available_permits();
    let open = gate("held");
    let slow = ask(&protocol, "/count?test=held&pieces=2").await;
    assert!(room.available_permits() <= all - 1024, "it holds a MiB");
    open.send(()).unwrap();
    let text = read(slow).await;
    let none_left = Arc::clone(&room).acquire_many_owned(u32::try_from(all).unwrap()).await.unwrap();
    let whole = ask(&protocol, "/count?test=none&pieces=2").await;
    assert_eq!(whole.headers()["content-length"].to_str().unwrap(), text.len().to_string());
    assert_eq!(read(whole).await, text);
    drop(none_left);
    assert!(protocol.stopped().await);
}

/// Shows: HTTP-2
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "files of the tree")]
async fn the_graph_and_the_tree_are_sent_in_pieces() {
    let protocol = Listening::on(TestServer::new()).await;
    let title = "long ".repeat(8000);
    for page in 0..16 {
        let text = format!("---\ntitle: {title}{page}\n---\n[[{}]]\n", (page + 1) % 16);
        protocol.server.put(&format!("{page}.md"), &text).await;
    }
    let folder = protocol.server.space().vfs.root().join("many");
    std::fs::create_dir(&folder).unwrap();
    for file in 0..1200 {
        std::fs::write(folder.join(format!("{file:0>240}")), "").unwrap();
    }
    for (path, list, entries) in [("/graph", "/edges", 16), ("/tree", "/16/children", 1200)] {
        let answer = ask(&protocol, path).await;
        assert!(!answer.headers().contains_key("content-length"), "{path} was written before it was sent");
        let text = read(answer).await;
        assert!(text.len() > 2 * PIECE_BYTES, "{path} is too short to say anything");
        assert_eq!(json_of(&text).pointer(list).unwrap().as_array().unwrap().len(), entries, "{path}");
    }
    assert!(protocol.stopped().await);
}
