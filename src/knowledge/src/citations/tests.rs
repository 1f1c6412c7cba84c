#![expect(clippy::disallowed_methods, reason = "the registry of the tests ends with its process")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::spaces::test_space::TestSpace;

/// A strict registry: it knows two papers, and refuses requests that the real ones would refuse.
struct FakeRegistry {
    url: String,
    requests: Arc<AtomicUsize>,
    is_down: Arc<AtomicBool>,
}

const CSL: &str = r#"{"type": "article-journal", "title": "The <i>quantum</i> internet", "DOI": "10.1038/nature07127",
    "author": [{"family": "Kimble", "given": "H. J."}], "issued": {"date-parts": [[2008, 6, 19]]},
    "container-title": "Nature"}"#;

const ATOM: &str = r#"<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom">
    <id>q</id><title>q</title><updated>2024-01-01T00:00:00Z</updated><entry><id>http://arxiv.org/abs/1706.03762v7</id>
    <published>2017-06-12T17:57:34Z</published><updated>2023-08-02T00:41:18Z</updated><title>Attention Is
    All You Need</title><author><name>Ashish Vaswani</name></author><author><name>Noam Shazeer</name></author></entry></feed>"#;

const NO_ENTRY: &str = r#"<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><id>q</id><title>q</title>
    <updated>2024-01-01T00:00:00Z</updated></feed>"#;

fn answer(head: &str) -> (u16, &'static str) {
    let line = head.lines().next().unwrap_or_default();
    let accepts = |media_type: &str| head.to_ascii_lowercase().contains(&format!("accept: {media_type}\r\n"));
    match line {
        "GET /doi/10.1038/nature07127 HTTP/1.1" if accepts("application/vnd.citationstyles.csl+json") => (200, CSL),
        "GET /doi/10.1000/html HTTP/1.1" => (200, "<html>a landing page</html>"),
        "GET /doi/10.1000/broken HTTP/1.1" => (500, ""),
        "GET /api?id_list=1706.03762&max_results=1 HTTP/1.1" if accepts("application/atom+xml") => (200, ATOM),
        "GET /api?id_list=1706.00001&max_results=1 HTTP/1.1" => (200, "<html>too many requests</html>"),
        line if line.starts_with("GET /api?id_list=") => (200, NO_ENTRY),
        _ => (404, ""),
    }
}

impl FakeRegistry {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, is_down) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (counted, is_closed) = (Arc::clone(&requests), Arc::clone(&is_down));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                counted.fetch_add(1, Ordering::SeqCst);
                if is_closed.load(Ordering::SeqCst) {
                    continue;
                }
                stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
                while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                    match stream.read(&mut buffer) {
                        Ok(0) | Err(_) => break,
                        Ok(count) => request.extend_from_slice(&buffer[..count]),
                    }
                }
                let (status, body) = answer(&String::from_utf8_lossy(&request));
                let head =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _closed = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
            }
        });
        Self { url, requests, is_down }
    }

    fn space(&self) -> TestSpace {
        let url = &self.url;
        let memory = format!("[memory]\ndoi_url = \"{url}/doi/\"\narxiv_url = \"{url}/api\"\n");
        TestSpace::with(&format!("[net]\nallow = [\"127.0.0.1\"]\n{memory}"), &[])
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }
}

/// A space without registries.
fn offline() -> TestSpace {
    TestSpace::with("[memory]\ndoi_url = \"\"\narxiv_url = \"\"\n", &[])
}

#[test]
fn a_paper_gets_one_page_with_the_metadata_of_its_registry() {
    let registry = FakeRegistry::start();
    let space = registry.space();
    let cited = space.get("cite", json!({ "doi": "https://doi.org/10.1038/NATURE07127." }));
    assert_eq!(
        (&cited["path"], &cited["citekey"], &cited["metadata"], &cited["title"]),
        (
            &json!("papers/kimble2008quantum.md"),
            &json!("kimble2008quantum"),
            &json!("complete"),
            &json!("The quantum internet")
        )
    );
    let fields = space.get("read", json!({ "path": cited["path"], "metadata_only": true }))["frontmatter"].clone();
    assert_eq!(
        (&fields["type"], &fields["doi"], &fields["year"], &fields["authors"], &fields["published_in"]),
        (&json!("paper"), &json!("10.1038/nature07127"), &json!(2008), &json!(["H. J. Kimble"]), &json!("Nature"))
    );
    let text = space.text("papers/kimble2008quantum.md");
    let bibtex = "```bibtex\n@article{kimble2008quantum,\n  title = {{The quantum internet}},\n  author = {Kimble, H. J.},\n  year = {2008},\n  journal = {Nature},\n  doi = {10.1038/nature07127},\n";
    assert!(
        text.contains("# The quantum internet\n\n<https://doi.org/10.1038/nature07127>\n") && text.contains(bibtex),
        "{text}"
    );
    let requests = registry.requests();
    for same in [json!({ "doi": "10.1038/nature07127" }), json!({ "identifier": "doi:10.1038/Nature07127" })] {
        let again = space.get("cite", same);
        assert_eq!(
            (&again["path"], &again["etag"], &again["existing"]),
            (&cited["path"], &cited["etag"], &json!(true))
        );
    }
    assert_eq!(registry.requests(), requests, "a known paper is not fetched");
    let arxiv = space.get("cite", json!({ "identifier": "https://arxiv.org/pdf/1706.03762v2.pdf" }));
    assert_eq!(arxiv["path"], "papers/vaswani2017attention.md");
    let text = space.text("papers/vaswani2017attention.md");
    let bibtex = "  archivePrefix = {arXiv},\n  eprint = {1706.03762},\n";
    assert!(text.contains("author = {Vaswani, Ashish and Shazeer, Noam}") && text.contains(bibtex), "{text}");
    let same = space.get("cite", json!({ "doi": "10.48550/arXiv.1706.03762" }));
    assert_eq!((&same["path"], &same["existing"]), (&arxiv["path"], &json!(true)));
}

#[test]
fn unknown_and_malformed_identifiers_are_refused() {
    let registry = FakeRegistry::start();
    let space = registry.space();
    for (arguments, status, start) in [
        (json!({}), 400, "identifier is required"),
        (json!({ "doi": "10.1000/1", "arxiv_id": "1706.03762" }), 400, "`identifier`: send exactly one"),
        (json!({ "doi": "nature" }), 400, "`doi`: `nature` is no DOI"),
        (json!({ "arxiv_id": "10.1000/1" }), 400, "`arxiv_id`: `10.1000/1` is no arXiv id"),
        (json!({ "identifier": "" }), 400, "`identifier`: "),
        (json!({ "doi": "10.1000/1", "year": 20 }), 400, "`year`: "),
        (json!({ "doi": "10.1000/1", "url": "javascript:x" }), 400, "`url`: "),
        (json!({ "doi": "10.1000/unknown" }), 404, "`doi`: the registry does not know `10.1000/unknown`"),
        (json!({ "arxiv_id": "1706.99999" }), 404, "`arxiv_id`: the registry does not know `1706.99999`"),
    ] {
        let (actual, message) = space.refusal("cite", arguments.clone());
        assert!(actual == status && message.starts_with(start), "{arguments}: {actual} {message}");
    }
    assert_eq!(space.get("tree", json!({})).as_array().unwrap().len(), 0, "nothing was stored");
    let insisted = space.get("cite", json!({ "doi": "10.1000/unknown", "title": "In print", "authors": ["Lee, Ann"] }));
    assert_eq!((&insisted["metadata"], &insisted["path"]), (&json!("given"), &json!("papers/leeprint.md")));
    for id in ["10.1000/html", "10.1000/broken", "1706.00001"] {
        let pending = space.get("cite", json!({ "identifier": id }));
        assert!(pending["metadata"] == "pending" && pending["note"].is_string(), "{pending}");
    }
}

#[test]
fn a_repeat_completes_a_page_and_retains_its_notes() {
    let registry = FakeRegistry::start();
    let space = registry.space();
    registry.set_down(true);
    let pending = space.get("cite", json!({ "doi": "10.1038/nature07127" }));
    assert_eq!((&pending["metadata"], &pending["path"]), (&json!("pending"), &json!("papers/doi101038nature07127.md")));
    assert!(pending["note"].as_str().unwrap().contains("call it again later"), "{pending}");
    let again = space.get("cite", json!({ "doi": "10.1038/nature07127" }));
    assert_eq!((&again["existing"], &again["etag"]), (&json!(true), &pending["etag"]), "nothing new is known");
    space.get("append", json!({ "path": pending["path"], "content": "My note.\n" }));
    let given =
        space.get("cite", json!({ "doi": "10.1038/nature07127", "title": "Quantum", "url": "https://example.org/q" }));
    assert_eq!((&given["metadata"], &given["path"]), (&json!("given"), &pending["path"]));
    registry.set_down(false);
    let complete = space.get("cite", json!({ "doi": "10.1038/nature07127" }));
    assert_eq!(
        (&complete["metadata"], &complete["path"], &complete["existing"]),
        (&json!("complete"), &pending["path"], &json!(true))
    );
    let text = space.text("papers/doi101038nature07127.md");
    assert!(text.contains("# The quantum internet\n") && text.contains("My note.\n"), "{text}");
    assert_eq!((text.matches("```bibtex").count(), text.matches("\n# ").count()), (1, 1), "{text}");
    assert!(
        text.contains("@article{doi101038nature07127,\n") && text.contains("url: https://example.org/q\n"),
        "{text}"
    );
    assert!(!text.contains("metadata:"), "{text}");
}

#[test]
fn papers_of_one_key_and_private_addresses() {
    let space = offline();
    let cite = |doi: &str| {
        let arguments = json!({ "doi": doi, "title": "On Things", "authors": ["Ann Lee"], "year": 2020 });
        space.get("cite", arguments)["path"].as_str().unwrap().to_owned()
    };
    let paths = ["10.1000/1", "10.1000/2", "10.1000/3", "10.1000/1"].map(cite);
    let [a, b, c] = ["a", "b", "c"].map(|suffix| format!("papers/lee2020things{}.md", suffix.trim_start_matches('a')));
    assert_eq!(paths, [a.clone(), b, c, a]);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| cite("10.1000/4"));
        }
    });
    assert_eq!(space.get("tree", json!({ "path": "papers" })).as_array().unwrap().len(), 4);
    let registry = FakeRegistry::start();
    let config = format!("[memory]\ndoi_url = \"{}/doi\"\n", registry.url);
    let pending = TestSpace::with(&config, &[]).get("cite", json!({ "doi": "10.1038/nature07127" }));
    assert!(pending["metadata"] == "pending" && pending["note"].as_str().unwrap().contains("net.allow"), "{pending}");
    assert_eq!(registry.requests(), 0, "an address that is not public is not reached");
}
