//! Forms with a file.

use serde_json::json;

use super::server::{Answer, TestServer};

const FORM: (&str, &str) = ("Content-Type", "multipart/form-data; boundary=xx");

/// A part of a form with its head.
fn part(head: &str, bytes: &[u8]) -> Vec<u8> {
    [b"--xx\r\nContent-Disposition: form-data; ", head.as_bytes(), b"\r\n\r\n", bytes, b"\r\n"].concat()
}

async fn send(server: &TestServer, parts: &[Vec<u8>]) -> Answer {
    let body = [&parts.concat()[..], b"--xx--\r\n"].concat();
    server.ask("POST /api/svc/assets", &[FORM, ("X-Actor", "ann")], body).await
}

#[tokio::test]
async fn a_browsers_form_becomes_a_file_of_the_tree() {
    let server = TestServer::new();
    let bytes = b"\x89PNG\r\n--x\r\n\xff";
    let file = part("name=\"file\"; filename=\"a b.png\"", bytes);
    let answer = send(&server, &[part("name=\"path\"", b"pictures"), file.clone()]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["path"], "pictures/a b.png");
    assert_eq!(answer.json()["size"], bytes.len());
    let read = server.get("/raw/pictures/a%20b.png").await;
    assert_eq!((read.status, &read.body[..]), (200, &bytes[..]));
    let versions = server.get("/api/svc/versions?path=pictures/a%20b.png").await.json();
    assert_eq!(versions[0]["author"], "ann");
    let in_query = [&file[..], b"--xx--\r\n"].concat();
    let answer = server.ask("POST /api/svc/assets?path=query", &[FORM], in_query).await;
    assert_eq!(answer.json()["path"], "query/a b.png");
    let json = json!({ "name": "b.png", "file": { "base64": "/9j/" } }).to_string();
    let answer = server.ask("POST /api/svc/assets", &[("Content-Type", "application/json")], json).await;
    assert_eq!((answer.status, &answer.json()["path"]), (200, &json!("assets/b.png")));
}

#[tokio::test]
async fn a_form_that_is_none_is_refused_by_its_part() {
    let server = TestServer::new();
    let file = || part("name=\"file\"; filename=\"a.png\"", b"x");
    assert_eq!(send(&server, &[]).await.error(400), "file is required: a part of that name, with a file name");
    assert!(send(&server, &[file(), file()]).await.error(400).contains("`file`"));
    assert!(send(&server, &[part("name=\"file\"", b"x")]).await.error(400).contains("`name`"));
    assert!(send(&server, &[file(), part("name=\"name\"", b"b.png")]).await.error(400).contains("`name`"));
    assert!(send(&server, &[file(), part("name=\"other\"", b"b")]).await.error(400).contains("`other`"));
    assert!(send(&server, &[file(), part("name=\"path\"", b"\xff")]).await.error(400).contains("`path`"));
    assert!(send(&server, &[file(), part("name=\"path\"", &[b'x'; 5_000])]).await.error(400).contains("`path`"));
    let many: Vec<Vec<u8>> = (0..40).map(|_| part("name=\"path\"", b"x")).collect();
    assert!(send(&server, &many).await.error(400).contains("more than 16 parts"));
    for kind in ["", "text/plain", "multipart/form-data", "multipart/form-data; boundary="] {
        let refused = server.ask("POST /api/svc/assets", &[("Content-Type", kind)], "x").await;
        assert_eq!(refused.status, 400, "{kind}: {}", refused.text());
    }
    let cut_off = file();
    let refused = server.ask("POST /api/svc/assets", &[FORM], cut_off).await;
    assert!(refused.error(400).starts_with("the form cannot be read"), "{}", refused.text());
    let wrong = part("name=\"file\"; filename=\"a.exe\"", b"x");
    assert!(send(&server, &[wrong]).await.error(415).contains("`assets.allowed_types`"));
}
