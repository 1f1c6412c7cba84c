//! Embedders elsewhere that refuse texts or do not answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;

/// A text that the embedder refuses.
const REFUSED: &str = "# Poison\n\nThe poison of a text.\n";

/// What the embedder answers: a status to texts with `poison`, and one to all texts.
#[derive(Clone, Copy, Default)]
struct Statuses {
    poison: Option<u16>,
    all: Option<u16>,
}

struct FakeEmbedder {
    settings: String,
    statuses: Arc<Mutex<Statuses>>,
}

impl FakeEmbedder {
    fn start(statuses: Statuses) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/embed", listener.local_addr().unwrap());
        let (statuses, settings) = (
            Arc::new(Mutex::new(statuses)),
            format!("{ENABLED}[search.vector.embedder]\nprovider = \"http\"\nurl = \"{url}\"\n"),
        );
        let shared = Arc::clone(&statuses);
        let accept = move || {
            for stream in listener.incoming() {
                let shared = Arc::clone(&shared);
                let serve = move || drop(serve(&stream.unwrap(), &shared));
                std::thread::Builder::new().spawn(serve).unwrap();
            }
        };
        std::thread::Builder::new().spawn(accept).unwrap();
        Self { settings, statuses }
    }

    fn answer_all(&self, status: Option<u16>) {
        self.statuses.lock().all = status;
    }
}

fn serve(mut stream: &TcpStream, statuses: &Mutex<Statuses>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, String::new());
        while reader.read_line(&mut line)? > 2 {
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = text.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let texts: Vec<&str> = body["texts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if texts.is_empty() {
            return Ok(());
        }
        let statuses = *statuses.lock();
        let is_poison = texts.iter().any(|text| text.contains("poison"));
        let status = statuses.all.or(statuses.poison.filter(|_| is_poison)).unwrap_or(200);
        let body = match status {
            200 => json!({ "vectors": texts.iter().map(|text| letters(text)).collect::<Vec<_>>() }),
            _ => json!({ "error": "the account acme-internal has a problem" }),
        };
        let (body, wait) = (body.to_string(), if status == 429 { "Retry-After: 500\r\n" } else { "" });
        let length = body.len();
        write!(stream, "HTTP/1.1 {status} X\r\n{wait}Content-Length: {length}\r\n\r\n{body}")?;
    }
}

fn letters(text: &str) -> Vec<usize> {
    let count = |letter| text.bytes().filter(|byte| byte.to_ascii_lowercase() == letter).count();
    (b'a'..=b'z').map(count).collect()
}

fn eventually(what: &str, space: &TestSpace, is_true: impl Fn(&PageVectors) -> bool) {
    let started = Instant::now();
    while !is_true(vectors(space)) {
        assert!(started.elapsed() < Duration::from_secs(20), "{what}: {:?}", vectors(space).index.status());
        std::thread::yield_now();
    }
}

fn has(vectors: &PageVectors, page: &str) -> bool {
    vectors.index.paths().unwrap().contains(&path(page))
}

#[test]
fn a_refused_text_does_not_stop_the_others() {
    for status in [400, 413, 422, 500] {
        let embedder = FakeEmbedder::start(Statuses { poison: Some(status), all: None });
        let files: Vec<(&str, &str)> = FILES.into_iter().chain([("it/poison.md", REFUSED)]).collect();
        // A service that answers 500 is asked several times; so only once here.
        let space = TestSpace::with(&embedder.settings, if status == 500 { &FILES } else { &files });
        eventually("the other pages", &space, |vectors| vectors.index.status().pages == 4);
        space.put("kitchen/bread.md", REFUSED);
        eventually("old vectors are removed", &space, |vectors| !has(vectors, "kitchen/bread.md"));
        eventually("nothing is pending", &space, |vectors| vectors.index.pending() == 0);
        assert_eq!(vectors(&space).index.problem(), None);
        let reason = vectors(&space).refused_pages().unwrap();
        let (count, first) = if status == 500 { ("`kitchen/bread.md`", "") } else { ("2 pages", "`it/poison.md`") };
        for part in [count, first, &format!("answers {status}")] {
            assert!(reason.contains(part), "{reason}");
        }
        let (refusal, message) = space.refusal("embeddings", json!({ "path": "kitchen/bread.md" }));
        assert!(refusal == 503 && message.contains("refuses the text of `kitchen/bread.md`"), "{message}");
        space.put("kitchen/bread.md", BREAD);
        eventually("a changed page", &space, |vectors| has(vectors, "kitchen/bread.md"));
        if status != 500 {
            space.get("delete", json!({ "path": "it/poison.md" }));
        }
        eventually("no page is refused", &space, |vectors| vectors.refused_pages().is_none());
    }
}

#[test]
fn a_refusal_of_every_text_is_a_problem_of_the_service() {
    for status in [400, 401] {
        let embedder = FakeEmbedder::start(Statuses { poison: None, all: Some(status) });
        let space = TestSpace::with(&embedder.settings, &FILES);
        eventually("the problem", &space, |vectors| vectors.index.problem().is_some());
        assert_eq!(vectors(&space).refused_pages(), None);
        // Readers get no texts of the service, operators do.
        eventually("pages are pending", &space, |vectors| vectors.index.pending() == 4);
        let problem = vectors(&space).index.status().problem.unwrap().message;
        assert!(problem.contains("acme-internal") && problem.contains("127.0.0.1"), "{problem}");
        let failed = vectors(&space).search("the sea", 3, &VectorFilter::default()).unwrap_err();
        let refused = space.refusal("suggestions", json!({ "path": "sea/tides.md" })).1;
        for text in [vectors(&space).note().unwrap(), refused, failed.summary.to_owned()] {
            assert!(text.contains("the embedder does not answer; `svcfs status` shows the reason"), "{text}");
            assert!(!text.contains("acme") && !text.contains("127.0.0.1"), "{text}");
        }
    }
}

#[test]
fn deleted_pages_are_not_found_while_the_embedder_fails() {
    // An error at once, and a service that asks to wait.
    for status in [401, 429] {
        let embedder = FakeEmbedder::start(Statuses::default());
        let space = TestSpace::with(&embedder.settings, &FILES);
        settle(&space);
        embedder.answer_all(Some(status));
        space.put("sea/tides.md", REFUSED);
        eventually("the embedder fails", &space, |vectors| vectors.index.problem().is_some());
        space.get("delete", json!({ "path": "kitchen/bread.md" }));
        eventually("the page is removed", &space, |vectors| !has(vectors, "kitchen/bread.md"));
        #[expect(clippy::disallowed_methods, reason = "edits while the server is stopped")]
        let space = space.again_with(&embedder.settings, |root| {
            std::fs::remove_file(root.join("it/backups.md")).unwrap();
        });
        eventually("the page is removed after the start", &space, |vectors| !has(vectors, "it/backups.md"));
        embedder.answer_all(None);
    }
}

#[test]
fn pages_with_vectors_are_not_pending_while_the_index_is_made() {
    let embedder = FakeEmbedder::start(Statuses::default());
    let space = TestSpace::with(&embedder.settings, &FILES);
    settle(&space);
    let index = |root: &std::path::Path| root.join(".svc/state/index.db");
    #[expect(clippy::disallowed_methods, reason = "index.db may be deleted")]
    let space = space.again_with(&embedder.settings, |root| std::fs::remove_file(index(root)).unwrap());
    eventually("the comparison", &space, |vectors| {
        assert_eq!(vectors.index.pending(), 0);
        space.space().index.page_count().unwrap() == 4
    });
}
