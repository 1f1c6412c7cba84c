//! Remote mounts that cannot be: each says why.

use super::*;

/// Shows: REM-12
#[test]
fn a_remote_mount_that_cannot_be_says_why() {
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let asked = |url: &str, more: &[&str], code| {
        let state = place.at("state");
        let mut arguments = vec!["mount", "--remote", url, "--state", &state, "--timeout", "1"];
        let at = place.at("mnt");
        arguments.extend(more);
        arguments.push(&at);
        refusal(&arguments, code)
    };
    let nobody = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    assert!(asked(&nobody, &[], 1).contains("cannot be reached"));
    let told = asked(server.url(), &["--space", "nowhere"], 1);
    assert!(told.contains("nowhere"), "{told}");
    place.write("token", "s3cret\n");
    std::fs::set_permissions(place.path("token"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let token = place.at("token");
    assert!(asked(server.url(), &["--token-file", &token], 2).contains("chmod 600"));
    std::fs::set_permissions(place.path("token"), std::fs::Permissions::from_mode(0o600)).unwrap();
    place.write("token", "\n");
    assert!(asked(server.url(), &["--token-file", &token], 2).contains("no token in its first line"));
    let at = place.at("mnt");
    svcfs(&["mount", "--remote", "notes.example.org", &at]).assert().code(2);
    svcfs(&["mount", "--remote", server.url(), "--root", "kb", &at]).assert().code(2);
    svcfs(&["mount", "--timeout", "3", &at]).assert().code(2);
}

/// A server that answers each connection with these bytes.
fn answering(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 4096];
            if stream.read(&mut asked).is_ok() {
                drop(stream.write_all(bytes));
            }
        }
    });
    authority
}

/// A TLS alert (handshake failure), which is how a TLS server answers a plain request.
const TLS_ALERT: &[u8] = b"\x15\x03\x03\x00\x02\x02\x28";

const HTML: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n<html";

const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";

const JSON_NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 21\r\nConnection: close\r\n\r\n{\"error\":\"Not Found\"}";

const BAD_GATEWAY: &[u8] = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

const REDIRECT: &[u8] = b"HTTP/1.1 301 Moved Permanently\r\nLocation: https://notes.example.org/api/svc/tree\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn item_11_a_remote_mount_that_fails_says_the_cause_within_a_second() {
    let place = place();
    let server = Running::serve(&place.at("kb"), &[]);
    let plain = server.url().replace("http://", "https://");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, causes) in [
        (format!("http://{closed}"), &["connection refused", "nothing listens"][..]),
        (format!("https://{closed}"), &["connection refused"]),
        ("http://no-such-host.invalid".to_owned(), &["host name", "no-such-host.invalid"]),
        (plain, &["speaks plain HTTP", "use http://"]),
        (format!("http://{}", answering(TLS_ALERT)), &["speaks HTTPS", "use https://"]),
        (format!("http://{}", answering(HTML)), &["not an svcfs server"]),
        (format!("http://{}", answering(NOT_FOUND)), &["not an svcfs server", "404"]),
        (format!("http://{}", answering(JSON_NOT_FOUND)), &["check the address"]),
        (format!("http://{}", answering(BAD_GATEWAY)), &["a proxy answers", "502"]),
        (format!("http://{}", answering(REDIRECT)), &["redirects to https://notes.example.org;"]),
        (format!("http://{}", answering(b"SSH-2.0-OpenSSH_9.2\r\n")), &["not an svcfs server"]),
        (format!("http://{}", answering(b"")), &["cannot be reached"]),
        (format!("{}/elsewhere", server.url()), &["`/elsewhere/api/svc/tree`", "check the address"]),
    ] {
        let started = std::time::Instant::now();
        let (state, at) = (place.at("state"), place.at("mnt"));
        let told = refusal(&["mount", "--remote", &url, "--state", &state, &at], 1);
        let elapsed = started.elapsed();
        assert!(causes.iter().all(|cause| told.contains(cause)), "{url}: {told}");
        assert!(elapsed < std::time::Duration::from_millis(2500), "{url}: {elapsed:?}");
    }
    server.stop();
}

#[test]
fn item_11_a_refused_token_is_named_with_where_tokens_come_from() {
    let place = place();
    let token = svcfs(&["token", "create", "--root", &place.at("kb"), "--scope", "write"]).assert().success();
    drop(token);
    let server = Running::serve(&place.at("kb"), &[]);
    place.write("token", "svc_wrong\n");
    std::fs::set_permissions(place.path("token"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let (state, at, token) = (place.at("state"), place.at("mnt"), place.at("token"));
    let start = ["mount", "--remote", server.url(), "--state", &state];
    let told = refusal(&[&start[..], &["--token-file", &token, &at]].concat(), 1);
    assert!(told.contains(&token) && told.contains("svcfs token create"), "{told}");
    let told = refusal(&[&start[..], &[&at]].concat(), 1);
    assert!(told.contains("none was given") && told.contains("SVC_API_KEY"), "{told}");
    let output = program().args(start).arg(&at).env("SVC_API_KEY", "svc_wrong").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("token in $SVC_API_KEY"), "{told}");
    server.stop();
}
