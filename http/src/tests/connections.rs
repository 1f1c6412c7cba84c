//! The listener, over real connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::server::TestServer;
use crate::listener::accept;

const LONG: Duration = Duration::from_secs(20);

/// A door that listens.
pub(super) struct Listening {
    pub server: TestServer,
    pub address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Listening {
    pub(super) async fn on(server: TestServer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(accept(listener, Arc::clone(&server.app), server.stop.clone()));
        Self { server, address, accepting }
    }

    /// Sends a request on a connection of its own; the answer's body is unread.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> http::Response<hyper::body::Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }

    /// Sends JSON and reads JSON.
    pub(super) async fn post(&self, uri: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
        let mut request = Request::post(uri).header("Host", self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = self.send(request.body(Full::from(body.to_string())).unwrap()).await;
        let status = answer.status().as_u16();
        let body = answer.collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Stops the door; true when it ended in time.
    pub(super) async fn stopped(self) -> bool {
        self.server.stop.cancel();
        tokio::time::timeout(LONG, self.accepting).await.is_ok()
    }
}

fn get(uri: &str) -> Request<Full<Bytes>> {
    Request::get(uri).header("Host", "localhost").body(Full::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_is_served_over_a_connection() {
    let protocol = Listening::on(TestServer::new()).await;
    let put = Request::put("/api/svc/file?path=a.md").header("Host", "localhost");
    let answer = protocol.send(put.body(Full::from("# A\n")).unwrap()).await;
    assert_eq!(answer.status(), 200);
    let answer = protocol.send(get("/api/svc/file?path=a.md")).await;
    assert_eq!(answer.headers()["content-type"], "text/markdown; charset=utf-8");
    assert_eq!(answer.collect().await.unwrap().to_bytes(), "# A\n");
    let head = Request::head("/api/svc/file?path=a.md").header("Host", "localhost").body(Full::default()).unwrap();
    let answer = protocol.send(head).await;
    assert_eq!((answer.status().as_u16(), &answer.headers()["content-length"]), (200, &"4".parse().unwrap()));
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_page_is_rejected_with_a_readable_answer() {
    let protocol = Listening::on(TestServer::new()).await;
    let put = Request::put("/api/svc/file?path=a.md").header("Host", "localhost");
    let answer = protocol.send(put.body(Full::from(vec![b'a'; 33 << 20])).unwrap()).await;
    assert_eq!(answer.status(), 413);
    let body = answer.collect().await.unwrap().to_bytes();
    assert_eq!(body, "{\"error\":\"file exceeds 32 MB limit\"}");
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_ends_streams_and_refuses_new_connections() {
    let protocol = Listening::on(TestServer::new()).await;
    let address = protocol.address;
    let stream = protocol.send(get("/api/svc/events")).await;
    assert_eq!(stream.status(), 200);
    assert!(protocol.stopped().await, "an open event stream kept the server up");
    assert!(stream.collect().await.is_ok());
    assert!(TcpStream::connect(address).await.is_err());
}

/// What a server says to these bytes before it closes the connection.
async fn said(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    if stream.write_all(bytes).await.is_err() {
        return String::new();
    }
    let mut text = Vec::new();
    let read = tokio::time::timeout(LONG, stream.read_to_end(&mut text)).await;
    assert!(read.is_ok(), "the connection stayed open");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_refused_and_the_server_stays_up() {
    let protocol = Listening::on(TestServer::new()).await;
    // Past the limit the server may close before it has read everything, and its answer can get
    // lost.
    let huge = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "a".repeat(1 << 20));
    let refusal = said(protocol.address, huge.as_bytes()).await;
    assert!(refusal.is_empty() || refusal.starts_with("HTTP/1.1 431 "), "{refusal}");
    assert!(
        said(protocol.address, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 400 ")
    );
    assert!(said(protocol.address, b"GET  /health\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    assert_eq!(protocol.send(get("/health")).await.status(), 200);
    assert!(protocol.stopped().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_changes_nothing() {
    let protocol = Listening::on(TestServer::new()).await;
    let mut stream = TcpStream::connect(protocol.address).await.unwrap();
    let head = b"PUT /api/svc/file?path=a.md HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf";
    stream.write_all(head).await.unwrap();
    drop(stream);
    assert_eq!(protocol.send(get("/api/svc/file?path=a.md")).await.status(), 404);
    assert!(protocol.stopped().await);
}
