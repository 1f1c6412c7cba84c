#![expect(clippy::disallowed_methods, reason = "the server of the test ends with its process")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use super::{file_name, normalized_url};
use crate::spaces::test_space::TestSpace;

const ARTICLE: &str = "<html><head><title>A very long way home | The Site</title><meta name=author content='Ann Lee'></head><body>\
    <nav><a href=/>Home</a> <a href=/about>About</a></nav><article><h1>A very long way home</h1>\
    <p>The first paragraph of this article is long enough to be found by the algorithm, with some commas, words, and a <a href='/next'>relative link</a> in it.</p>\
    <h2>Code</h2><pre><code class='language-rust'>fn main() {}</code></pre>\
    <p>The second paragraph has <b>bold</b> text, <script>alert(1)</script> and again enough words, commas, and so on, to count as content of a page.</p>\
    <table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>\
    <p>A third paragraph follows, so that the score of the article is higher than that of everything around it, as in the real world.</p>\
    </article><footer>Imprint</footer></body></html>";

/// A server that answers each path with a response, or with none.
fn server(answer: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend_from_slice(&buffer[..count]),
                }
            }
            let request = String::from_utf8_lossy(&request).into_owned();
            if let Some(response) = answer(request.split(' ').nth(1).unwrap_or_default()) {
                let _closed = stream.write_all(&response);
            }
        }
    });
    url
}

fn response(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()
}

const HTML: &str = "Content-Type: text/html; charset=utf-8\r\n";

fn space() -> TestSpace {
    TestSpace::with("[net]\nallow = [\"127.0.0.1\"]\n", &[("index.md", "# Index\n")])
}

#[test]
fn an_article_becomes_a_page_and_again_a_version_of_it() {
    let url = server(|path| {
        Some(response(
            HTML,
            if path == "/a" { ARTICLE.to_owned() } else { ARTICLE.replace("bold", "other") }.as_bytes(),
        ))
    });
    let space = space();
    let clipped = space.get("clip", json!({ "url": format!("{url}/a#part"), "tags": ["web", "read later"] }));
    assert_eq!(clipped["path"], json!("clips/a-very-long-way-home.md"), "{clipped}");
    assert_eq!(clipped["title"], json!("A very long way home"));
    assert!(clipped["excerpt"].as_str().unwrap().starts_with("The first paragraph"), "{clipped}");
    let text = space.text("clips/a-very-long-way-home.md");
    for part in [
        "title: A very long way home\n",
        "trust: external\n",
        "_fetched_at: ",
        "read later",
        "author: Ann Lee",
        "# A very long way home\n",
        "## Code\n",
        "```rust\nfn main() {}\n```",
        "**bold**",
        "| a   | b   |",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(&format!("_source: {url}/a")) && text.contains(&format!("({url}/next)")), "{text}");
    for part in ["Imprint", "About", "alert(1)", "<p>", "#part"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
    assert_eq!(space.newest("clips/a-very-long-way-home.md").1, "clipper");
    let again = space.get("clip", json!({ "url": format!("{url}/a"), "title": "Another title" }));
    assert_eq!((&again["path"], &again["title"]), (&clipped["path"], &json!("Another title")));
    let text = space.text("clips/a-very-long-way-home.md");
    assert!(text.contains("title: Another title") && text.contains("read later"), "{text}");
    assert_eq!(space.get("versions", json!({ "path": "clips/a-very-long-way-home.md" })).as_array().unwrap().len(), 2);
    let other = space.get("clip", json!({ "url": format!("{url}/b") }));
    assert_eq!(other["path"], json!("clips/a-very-long-way-home-2.md"), "another document with the same title");
    let elsewhere =
        space.get("clip", json!({ "url": format!("{url}/a"), "folder": "web/saved", "title": "../../etc: \"x\"\n" }));
    assert_eq!(elsewhere["path"], json!("web/saved/etc-x.md"));
}

#[test]
fn character_sets_and_texts_that_are_no_html_are_read() {
    let plain = ARTICLE.replace(" | The Site", "");
    let latin = plain.replace("home", "caf\u{e9}");
    let latin: Vec<u8> = latin.chars().map(|character| character as u8).collect();
    let japanese = encoding_rs::SHIFT_JIS
        .encode(
            &plain
                .replace("A very long way home", "日本語のページ")
                .replace("<head>", "<head><meta charset=shift_jis>"),
        )
        .0
        .into_owned();
    let markdown = "---\ntitle: From there\npublished: true\n---\n# Head\n\nText *as it is*.\n";
    let url = server(move |path| {
        Some(match path {
            "/latin" => response("Content-Type: text/html; charset=ISO-8859-1\r\n", &latin),
            "/guess" => response("Content-Type: text/html\r\n", &latin),
            "/japanese" => response("Content-Type: text/html\r\n", &japanese),
            "/note.md" => response("Content-Type: text/plain\r\n", markdown.as_bytes()),
            "/text" => response("Content-Type: text/plain\r\n", b"first line\n\nsecond <b>line</b>\n"),
            "/pdf" => response("Content-Type: application/pdf\r\n", b"%PDF-1.7"),
            "/image" => response("Content-Type: image/png\r\n", b"\x89PNG"),
            _ => response("", b"%PDF-1.7"),
        })
    });
    let space = space();
    for (path, title, part) in [
        ("latin", "A very long way café", "A very long way café"),
        ("guess", "A very long way café", "A very long way café"),
        ("japanese", "日本語のページ", "# 日本語のページ"),
        ("note.md", "From there", "Text *as it is*."),
        ("text", "first line", "second <b>line</b>"),
    ] {
        let clipped = space.get("clip", json!({ "url": format!("{url}/{path}"), "folder": path }));
        assert_eq!(clipped["title"], json!(title), "{path}");
        let text = space.text(clipped["path"].as_str().unwrap());
        assert!(text.contains(part), "{path}: {text}");
        assert!(!text.contains("published: true"), "{path}: {text}");
    }
    for (path, reason) in [("pdf", "a PDF document"), ("image", "`image/png`"), ("none", "unknown format")] {
        let (status, message) = space.refusal("clip", json!({ "url": format!("{url}/{path}") }));
        assert_eq!(status, 415, "{path}: {message}");
        assert!(message.contains(reason), "{path}: {message}");
    }
}

#[test]
fn private_addresses_and_hostile_documents_are_refused() {
    let deep = "<div>".repeat(5_000) + "text";
    let many = "<b>x</b>".repeat(100_001);
    let url = server(move |path| match path {
        "/metadata" => Some(redirect("http://169.254.169.254/latest/meta-data/")),
        "/private" => Some(redirect("http://10.0.0.1/")),
        "/file" => Some(redirect("file:///etc/passwd")),
        "/loop" => Some(redirect("/loop")),
        "/huge" => Some(response(HTML, &vec![b'x'; (10 << 20) + 1])),
        "/deep" => Some(response(HTML, deep.as_bytes())),
        "/many" => Some(response(HTML, many.as_bytes())),
        "/empty" => Some(response(HTML, b"")),
        "/missing" => Some(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()),
        _ => None,
    });
    let space = space();
    for (target, status) in [
        ("http://169.254.169.254/", 403),
        ("http://[::1]/", 403),
        ("http://127.0.0.2/", 403),
        ("10.1.2.3", 403),
        ("file:///etc/passwd", 400),
        ("ftp://example.org/", 400),
        ("http://user:key@example.org/", 400),
        ("  ", 400),
        ("/metadata", 403),
        ("/private", 403),
        ("/file", 502),
        ("/loop", 502),
        ("/huge", 413),
        ("/deep", 502),
        ("/many", 413),
        ("/empty", 502),
        ("/missing", 502),
        ("/closed", 502),
    ] {
        let target = if target.starts_with('/') { format!("{url}{target}") } else { target.to_owned() };
        let (actual, message) = space.refusal("clip", json!({ "url": target }));
        assert_eq!(actual, status, "{target}: {message}");
        assert!(message.contains("url"), "{target}: {message}");
    }
    assert_eq!(space.get("tree", json!({})).as_array().unwrap().len(), 1, "nothing was stored");
}

#[test]
fn names_of_files_and_urls_are_safe() {
    for (title, name) in [
        ("Hello, World!", "hello-world"),
        ("../../etc/passwd", "etc-passwd"),
        ("a\u{0}b\\c:d*?", "a-b-c-d"),
        ("...", "untitled"),
        ("", "untitled"),
        ("Über \u{202e}Größe", "über-größe"),
        (&"x".repeat(300), &"x".repeat(100)),
    ] {
        assert_eq!(file_name(title), name, "{title:?}");
    }
    assert!(file_name(&"日".repeat(300)).len() <= 200);
    for (url, normalized) in [
        ("example.org/a", "https://example.org/a"),
        ("example.org:8080/a", "https://example.org:8080/a"),
        ("http://example.org/ä b#c", "http://example.org/%C3%A4%20b"),
        ("https://b\u{fc}cher.example:8080/ä", "https://xn--bcher-kva.example:8080/%C3%A4"),
        ("https://example.org/%41?q=\"x\"", "https://example.org/%41?q=%22x%22"),
    ] {
        assert_eq!(normalized_url(url).unwrap(), normalized);
    }
    assert_eq!(normalized_url("https://a\u{ff0f}b.example/").unwrap_err().kind(), svcfs_base::Kind::Invalid);
}
