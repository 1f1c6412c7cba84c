//! Clients that mean no good, over real connections: their requests are misshapen, or never end.

use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::connections::Listening;
use super::server::TestServer;

const LONG: Duration = Duration::from_secs(30);

/// A request as it goes over the wire, and how each request that the server sees in it is answered.
#[derive(Deserialize)]
struct Misshapen {
    name: String,
    send: String,
    answers: Vec<u16>,
    /// The connection ends after a good answer, too (RFC 9112 6.1).
    #[serde(default)]
    closes: bool,
}

/// What follows a request that leaves the connection open.
const NEXT: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn no_request_hides_another_one() {
    let protocol = Listening::on(TestServer::new()).await;
    let requests: Vec<Misshapen> =
        serde_json::from_str(include_str!("../../../tests/it/corpora/requests.json")).unwrap();
    for Misshapen { name, send, answers, closes } in requests {
        let mut stream = TcpStream::connect(protocol.address).await.unwrap();
        // A server that has refused may close before it has read the rest.
        let _ = stream.write_all(format!("{send}{NEXT}").as_bytes()).await;
        let mut said = Vec::new();
        let read = tokio::time::timeout(LONG, stream.read_to_end(&mut said)).await;
        assert!(read.is_ok(), "{name}: the connection stays open");
        let said = String::from_utf8_lossy(&said);
        let statuses: Vec<u16> =
            said.split("HTTP/1.").skip(1).map(|answer| answer[2..5].parse().unwrap_or_default()).collect();
        let goes_on = statuses.first() == Some(&200) && !send.contains("HTTP/1.0") && !closes;
        let expected: Vec<u16> = answers.iter().copied().chain(goes_on.then_some(200)).collect();
        // After a refusal that is ours the connection may be used again.
        let is_as_expected = statuses == expected || (answers == [403] && statuses == [403, 200]);
        assert!(is_as_expected, "{name}: {statuses:?} instead of {expected:?}: {said}");
        assert!(!said.contains("smuggled"), "{name}: {said}");
    }
    assert_eq!(protocol.server.get("/api/svc/file?path=s.md").await.status, 404, "one of them wrote");
    assert!(protocol.stopped().await);
}

fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A client that sends a byte now and then, until the server has enough of it; true when it had.
async fn dawdle(mut stream: TcpStream, head: String, pause: Duration, until: Instant) -> bool {
    for byte in head.bytes().chain(std::iter::repeat(b'a')) {
        if Instant::now() >= until {
            return false;
        }
        if stream.write_all(&[byte]).await.is_err() {
            return true;
        }
        tokio::time::sleep(pause).await;
    }
    false
}

/// The long form, by `scripts/nightly.sh`: a thousand clients, a byte a second, longer than the
/// server has patience.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_send_a_byte_now_and_then_leave_others_unharmed() {
    let (clients, seconds) = (number("SVCFS_SLOW_CLIENTS", 150), number("SVCFS_SLOW_SECONDS", 2));
    let protocol = Listening::on(TestServer::new()).await;
    protocol.server.put("a.md", "# A\n").await;
    let (pause, until) = (Duration::from_millis(seconds.min(10) * 100), Instant::now() + Duration::from_secs(seconds));
    let mut slow = JoinSet::new();
    for client in 0..clients {
        let stream = TcpStream::connect(protocol.address).await.unwrap();
        let head = if client % 2 == 0 {
            "GET /api/svc/tree HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_owned()
        } else {
            format!(
                "PUT /api/svc/file?path=slow-{client}.md HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
            )
        };
        slow.spawn(dawdle(stream, head, pause, until));
    }
    let mut asked = 0;
    while asked < 20 || Instant::now() < until {
        let request = http::Request::get("/api/svc/file?path=a.md").header("Host", "localhost");
        let begun = Instant::now();
        let answer =
            tokio::time::timeout(LONG, protocol.send(request.body(http_body_util::Full::default()).unwrap())).await;
        assert_eq!(answer.unwrap().status(), 200, "after {:?}", begun.elapsed());
        asked += 1;
    }
    let given_up = slow.join_all().await.into_iter().filter(|given_up| *given_up).count();
    if seconds > 70 {
        assert_eq!(given_up as u64, clients, "a client that never ends keeps its connection");
    }
    assert!(protocol.stopped().await);
}
