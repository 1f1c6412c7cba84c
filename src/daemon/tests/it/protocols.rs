//! Protocols beside HTTP: `svcfs serve --webdav`.

use crate::harness::{Place, Running, refusal, request};

#[test]
fn a_page_that_was_put_over_webdav_is_seen_over_http_and_in_git() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &["--webdav", "--webdav-port", "0"]);
    let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix("webdav")).unwrap();
    let webdav = told.trim().to_owned();
    assert_eq!(request(&webdav, "PUT", "/over%20there.md", "# There\n").0, 201);
    assert!(request(server.url(), "GET", "/api/svc/file?path=over%20there.md", "").1.contains("# There"));
    let ready = request(server.url(), "GET", "/readyz", "").1;
    assert!(ready.contains(r#""webdav":{"enabled":true,"healthy":true"#), "{ready}");
    server.stop();
    assert_eq!(place.git("kb", &["show", "HEAD:over there.md"]), "# There");
}

#[test]
fn a_protocol_that_cannot_be_served_is_told_before_the_root_is_touched() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0", "--webdav", "--webdav-port", &port], 1);
    assert!(told.contains(&port) && told.contains("--webdav-port"), "{told}");
    let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0", "--webdav-port", "1"], 2);
    assert!(told.contains("`--webdav-port`") && told.contains("add `--webdav`"), "{told}");
    assert!(!place.has("kb"));
}
