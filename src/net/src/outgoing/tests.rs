use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use super::*;

const LIMITS: OutgoingLimits = OutgoingLimits {
    timeout: Duration::from_secs(2),
    max_bytes: 1000,
    max_redirects: 3,
    requires_tls: true,
    max_idle_connections: 1,
};

fn client(hosts: &[&str], networks: &[&str]) -> OutgoingClient {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let networks: Vec<_> = networks.iter().map(|text| text.parse().unwrap()).collect();
    OutgoingClient::new(AddressPolicy::new(&hosts, &networks), LIMITS)
}

/// A server that gives one answer to each connection and reports the requests.
fn server(answers: Vec<String>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::channel();
    let serve = move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !request.windows(4).any(|end| end == b"\r\n\r\n") || request.ends_with(b"Content-Length: 4\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend_from_slice(&buffer[..count]),
                }
            }
            stream.write_all(answer.as_bytes()).unwrap();
            let _ignored = sender.send(String::from_utf8_lossy(&request).into_owned());
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    (url, requests)
}

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}", body.len())
}

#[test]
fn addresses_in_every_spelling_are_refused() {
    let client = client(&[], &[]);
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.1",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "[64:ff9b::a9fe:a9fe]",
        "169.254.169.254",
        "2852039166",
        "0",
        "10.0.0.1",
        "100.100.100.200",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}/latest");
            for error in [client.check_url(&url).unwrap_err(), client.get(&url).unwrap_err()] {
                assert!(matches!(error, NetError::Refused(_)), "{url}: {error}");
                assert!(error.to_string().contains("net.allow"), "{error}");
            }
            let error = client.post(&url, &[], b"x").unwrap_err();
            assert!(matches!(error, NetError::Refused(_)), "{url}: {error}");
        }
    }
}

#[test]
fn http_needs_a_listed_host() {
    let error = client(&[], &[]).check_url("http://1.1.1.1/").unwrap_err().to_string();
    assert!(error.contains("not encrypted") && error.contains("net.allow"), "{error}");
    client(&[], &["1.1.1.1/32"]).check_url("http://1.1.1.1/").unwrap();
    client(&["LocalHost"], &[]).check_url("http://localhost:1/").unwrap();
    client(&[], &[]).check_url("https://1.1.1.1/").unwrap();
    client(&[], &[]).check_url("https://unknown.invalid/").unwrap();
}

#[test]
fn invalid_urls_are_refused_with_a_reason() {
    let client = client(&[], &["127.0.0.0/8"]);
    for (url, reason) in [
        ("", "is not a URL"),
        ("example.org", "must begin with"),
        ("/path", "must begin with"),
        ("ftp://example.org/", "must begin with"),
        ("file:///etc/passwd", "is not a URL"),
        ("gopher://127.0.0.1:70/", "must begin with"),
        ("https://ann:secret@example.org/", "user name or password"),
        ("https://1.1.1.1@127.0.0.1/", "user name or password"),
        ("https://example.org:0/", "port"),
        ("https://example.org:99999/", "port"),
        ("https://[2606:4700::1]:99999/?token=secret", "port"),
        ("https://exa mple.org/", "is not a URL"),
        ("https://example.org/\r\nHost: x", "is not a URL"),
    ] {
        let error = client.check_url(url).unwrap_err();
        assert!(matches!(error, NetError::InvalidUrl { .. }), "{url}: {error}");
        assert!(error.to_string().contains(reason), "{url}: {error}");
        assert!(!error.to_string().contains("secret"), "{url}: {error}");
    }
    let long = format!("https://example.org/{}", "a".repeat(3000));
    assert!(client.check_url(&long).unwrap_err().to_string().len() < 400);
}

#[test]
fn every_redirect_is_checked_again() {
    for location in [
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "https://10.0.0.1/",
    ] {
        let redirect = answer("307 Temporary Redirect", &format!("Location: {location}\r\n"), "");
        let (url, _requests) = server(vec![redirect.clone(), redirect]);
        let client = client(&[], &["127.0.0.1/32"]);
        for error in [client.get(&url).unwrap_err(), client.post(&url, &[], b"body").unwrap_err()] {
            assert!(matches!(error, NetError::Refused(_)), "{location}: {error}");
        }
    }
}

#[test]
fn the_location_of_a_redirect_can_be_relative() {
    let from: Uri = "https://a.test:8443/x/hook?k=1".parse().unwrap();
    for (location, target) in [
        ("https://b.test/y", "https://b.test/y"),
        ("//b.test/y", "https://b.test/y"),
        ("/y", "https://a.test:8443/y"),
        ("y", "https://a.test:8443/x/y"),
        ("?k=2", "https://a.test:8443/x/hook?k=2"),
    ] {
        assert_eq!(redirect_target(&from, location), target, "{location}");
    }
}

#[test]
fn documents_are_fetched_up_to_the_limit() {
    let page = answer("200 OK", "Content-Type: text/html\r\n", "<p>hello");
    let (target, _requests) = server(vec![page]);
    let (url, _requests) = server(vec![
        answer("302 Found", &format!("Location: {target}/page\r\n"), ""),
        answer("200 OK", "", &"x".repeat(1001)),
        answer("404 Not Found", "", ""),
    ]);
    let client = client(&[], &["127.0.0.1/32"]);
    let document = client.get(&url).unwrap();
    assert_eq!(document.url, format!("{target}/page"));
    assert_eq!((document.content_type.as_deref(), document.body.as_slice()), (Some("text/html"), &b"<p>hello"[..]));
    let error = client.get(&url).unwrap_err();
    assert!(matches!(error, NetError::TooLarge { limit: 1000, .. }), "{error}");
    assert!(client.get(&url).unwrap_err().to_string().contains("404"));
}

#[test]
fn a_post_follows_only_redirects_that_repeat_it() {
    let (target, requests) = server(vec![answer("204 No Content", "", "")]);
    let (url, _requests) = server(vec![
        answer("308 Permanent Redirect", &format!("Location: {target}/hook\r\n"), ""),
        answer("302 Found", &format!("Location: {target}/\r\n"), ""),
        answer("503 Service Unavailable", "Retry-After: 7\r\n", ""),
    ]);
    let client = client(&[], &["127.0.0.1/32"]);
    assert_eq!(client.post(&url, &[("webhook-id", "msg_1")], b"body").unwrap().status, 204);
    let request = requests.recv().unwrap();
    assert!(request.starts_with("POST /hook ") && request.contains("webhook-id: msg_1"), "{request}");
    assert_eq!(client.post(&url, &[], b"body").unwrap().status, 302);
    let answer = client.post(&url, &[], b"body").unwrap();
    assert_eq!(answer, PostAnswer { status: 503, retry_after: Some(Duration::from_secs(7)) });
}
