//! An HTTP server for tests: one function sees each request and gives the response.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

/// What a client sent.
#[derive(Debug, Clone)]
pub(crate) struct FakeRequest {
    pub method: String,
    /// Path and query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl FakeRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

/// What the server does.
#[derive(Debug, Clone)]
pub(crate) enum FakeResponse {
    Json(u16, Value),
    WithHeader(u16, &'static str, String, Value),
    /// Sends only a part of what it announces.
    CloseEarly,
    /// Says nothing until the client gives up.
    Silence,
}

impl FakeResponse {
    pub fn ok(body: Value) -> Self {
        Self::Json(200, body)
    }

    pub fn status(status: u16) -> Self {
        Self::Json(status, serde_json::json!({"error": {"message": format!("status {status}")}}))
    }
}

/// A server that lives as long as the test process.
pub(crate) struct FakeServer {
    pub url: String,
    requests: Arc<Mutex<Vec<FakeRequest>>>,
}

impl FakeServer {
    /// `respond` gets the number of the request, from 0, and the request.
    pub fn start(respond: impl Fn(usize, &FakeRequest) -> FakeResponse + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (log, respond) = (Arc::clone(&requests), Arc::new(respond));
        let accept = move || {
            for stream in listener.incoming() {
                let (log, respond) = (Arc::clone(&log), Arc::clone(&respond));
                let serve = move || serve(&stream.unwrap(), &log, &*respond);
                std::thread::Builder::new().spawn(serve).unwrap();
            }
        };
        std::thread::Builder::new().spawn(accept).unwrap();
        Self { url, requests }
    }

    pub fn requests(&self) -> Vec<FakeRequest> {
        self.requests.lock().clone()
    }
}

fn serve(
    stream: &TcpStream,
    log: &Mutex<Vec<FakeRequest>>,
    respond: &(dyn Fn(usize, &FakeRequest) -> FakeResponse + Send + Sync),
) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let number = {
            let mut log = log.lock();
            log.push(request.clone());
            log.len() - 1
        };
        let (status, header, body) = match respond(number, &request) {
            FakeResponse::Json(status, body) => (status, String::new(), body.to_string()),
            FakeResponse::WithHeader(status, name, value, body) => {
                (status, format!("{name}: {value}\r\n"), body.to_string())
            }
            FakeResponse::CloseEarly => {
                let mut writer = stream;
                let _closed = writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"data\": [");
                return;
            }
            FakeResponse::Silence => {
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                let _closed_by_the_client = reader.read(&mut [0; 1]);
                return;
            }
        };
        let head = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n{header}\r\n", body.len());
        // One packet: the second of two would wait for the acknowledgement of the first.
        let mut writer = stream;
        if writer.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<FakeRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let mut request = FakeRequest { method, path, headers, body: Vec::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}
