//! A server that receives notifications, with connections that stay open.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// How it answers.
#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    Redirect(String),
    /// Never.
    Hang,
    /// It closes the connection after the request.
    Close,
}

/// A received notification.
#[derive(Debug, Clone)]
pub struct Message {
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Message {
    pub fn header(&self, name: &str) -> &str {
        &self.headers[name]
    }
}

/// See the module.
pub struct Receiver {
    address: SocketAddr,
    state: Arc<Mutex<(Answer, Vec<Message>)>>,
}

impl Receiver {
    pub fn start(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new((answer, Vec::new())));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream.unwrap(), &shared));
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Answers like this from now on.
    pub fn answer(&self, answer: Answer) {
        self.state.lock().unwrap().0 = answer;
    }

    /// What was received and answered so far.
    pub fn received(&self) -> Vec<Message> {
        self.state.lock().unwrap().1.clone()
    }
}

/// Serves a connection until it ends.
fn serve(mut stream: TcpStream, state: &Mutex<(Answer, Vec<Message>)>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(message) = read(&mut reader) {
        let answer = {
            let mut state = state.lock().unwrap();
            if !matches!(state.0, Answer::Hang) {
                state.1.push(message);
            }
            state.0.clone()
        };
        let text = match answer {
            Answer::Status(status) => format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"),
            Answer::Redirect(target) => format!("HTTP/1.1 307 X\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"),
            Answer::Close => return,
            // Until the sender closes the connection.
            Answer::Hang => {
                let _closed = reader.read(&mut [0]);
                return;
            }
        };
        if stream.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Message> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Message { headers, body: String::from_utf8(body).unwrap() })
}
