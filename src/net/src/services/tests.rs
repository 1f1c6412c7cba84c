use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

/// A server that gives one answer to each connection; a request ends with `end`.
fn server(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let mut request = Vec::new();
            while !request.ends_with(b"end") && !request.starts_with(b"GET") {
                let count = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..count]);
            }
            stream.write_all(answer.replace("METHOD", &String::from_utf8_lossy(&request[..6])).as_bytes()).unwrap();
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    url
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}", body.len())
}

fn request(method: ServiceMethod, url: &str) -> ServiceRequest {
    let body = if method == ServiceMethod::Get { Vec::new() } else { b"the end".to_vec() };
    ServiceRequest { method, url: url.to_owned(), headers: vec![("Api-Key".to_owned(), "k".to_owned())], body }
}

#[test]
fn each_method_is_sent_with_its_body() {
    let client = ServiceClient::new(Duration::from_secs(5), 100);
    use ServiceMethod::{Delete, Get, Post, Put};
    let url = server(vec![answer("200 OK", "", "METHOD"); 4]);
    for (method, name) in [(Get, "GET / "), (Post, "POST /"), (Put, "PUT / "), (Delete, "DELETE")] {
        let response = client.send(&request(method, &url)).unwrap();
        assert_eq!((response.status, String::from_utf8(response.body).unwrap().as_str()), (200, name));
    }
}

#[test]
fn responses_are_bounded_and_redirects_are_not_followed() {
    let client = ServiceClient::new(Duration::from_secs(5), 100);
    let url = server(vec![
        answer("302 Found", "Location: http://other.example/x?key=secret\r\n", ""),
        answer("429 Too Many Requests", "Retry-After: 7\r\n", &"x".repeat(200_000)),
        answer("200 OK", "", &"x".repeat(101)),
    ]);
    let send = || client.send(&request(ServiceMethod::Post, &url));
    let redirect = send().unwrap();
    assert_eq!((redirect.status, redirect.location.as_deref()), (302, Some("http://other.example/x")));
    let limited = send().unwrap();
    assert_eq!((limited.status, limited.retry_after), (429, Some(Duration::from_secs(7))));
    assert_eq!(limited.body.len() as u64, MAX_ERROR_BYTES);
    assert!(matches!(send().unwrap_err(), NetError::TooLarge { limit: 100, .. }));
    assert!(
        ServiceClient::check_url("http://u:p@localhost/").is_err() && ServiceClient::check_url("localhost").is_err()
    );
}
