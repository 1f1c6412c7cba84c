//! The examples of docs/webhooks.md.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::{assert_printed_as_documented, block};
use crate::harness::{Place, Running, svcfs};

/// Answers 204 to every request of a connection.
fn receive(mut stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    }
}

#[test]
fn webhooks_work_as_documented() {
    let place = Place::new();
    svcfs(&["init", "--root", &place.at("notes")]).assert().success();
    place.write("notes/.svc/config.toml", &block("docs/webhooks.md", "webhook settings"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let receiver = listener.local_addr().unwrap().to_string();
    let accept = move || {
        for stream in listener.incoming() {
            std::thread::Builder::new().spawn(move || receive(stream.unwrap())).unwrap();
        }
    };
    std::thread::Builder::new().spawn(accept).unwrap();
    let server = Running::serve(&place.at("notes"), &[]);
    let address = server.url().trim_start_matches("http://").to_owned();
    let typed = block("docs/webhooks.md", "webhooks");
    let replaced = [("127.0.0.1:3333", address.as_str()), ("127.0.0.1:8099", &receiver)];
    assert_printed_as_documented(&place, &typed, &replaced);
    server.stop();
}
