//! Search by meaning with an embedder and a vector database elsewhere, which fail in between.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Place, Running, eventually, request, svcfs};

/// Where the packages of PyPI are installed; scripts/test.sh sets it.
const TOOLS: &str = "SVCFS_TOOLS";

/// An embedder: a text has one number for each letter.
struct FakeEmbedder {
    url: String,
    /// How often each text was embedded.
    texts: Arc<Mutex<BTreeMap<String, usize>>>,
    /// Number of requests that are still answered.
    remaining: Arc<AtomicUsize>,
}

impl FakeEmbedder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/embed", listener.local_addr().unwrap());
        let embedder = Self { url, texts: Arc::default(), remaining: Arc::new(AtomicUsize::new(usize::MAX)) };
        let (texts, remaining) = (Arc::clone(&embedder.texts), Arc::clone(&embedder.remaining));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (texts, remaining) = (Arc::clone(&texts), Arc::clone(&remaining));
                std::thread::spawn(move || serve(&stream.unwrap(), &texts, &remaining));
            }
        });
        embedder
    }

    fn answer_only(&self, requests: usize) {
        self.remaining.store(requests, Ordering::SeqCst);
    }

    fn embedded(&self) -> usize {
        self.texts.lock().unwrap().values().sum()
    }

    fn settings(&self, more: &str) -> String {
        format!(
            "[search.vector]\nenabled = true\nworker_count = 2\n[search.vector.embedder]\nprovider = \"http\"\nurl = \"{}\"\n\
             headers = {{ X-Key = \"${{EMBED_KEY}}\" }}\n{more}",
            self.url
        )
    }
}

fn serve(stream: &TcpStream, texts: &Mutex<BTreeMap<String, usize>>, remaining: &AtomicUsize) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut has_key, mut line) = (0, false, String::new());
        if reader.read_line(&mut line).is_ok_and(|count| count == 0) {
            return;
        }
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let header = line.trim_end().to_ascii_lowercase();
            has_key |= header == "x-key: embed-secret";
            match header.strip_prefix("content-length: ") {
                Some(text) => length = text.parse().unwrap(),
                None if header.is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let is_alive = remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let (status, body) = match (has_key, is_alive) {
            (false, _) => (401, json!({"error": "no key"})),
            (true, false) => (500, json!({"error": "the model is out of memory"})),
            (true, true) => (200, embed(&body, &mut texts.lock().unwrap())),
        };
        let body = body.to_string();
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        if (&*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn embed(body: &Value, texts: &mut BTreeMap<String, usize>) -> Value {
    let letters = |text: &str| -> Vec<usize> {
        (b'a'..=b'z').map(|letter| text.bytes().filter(|byte| byte.to_ascii_lowercase() == letter).count()).collect()
    };
    let vectors = body["texts"].as_array().unwrap().iter().map(|text| {
        let text = text.as_str().unwrap();
        *texts.entry(text.to_owned()).or_default() += 1;
        letters(text)
    });
    json!({"vectors": vectors.collect::<Vec<_>>()})
}

/// A server on the root `kb` of a place, with the settings appended to those of `svcfs init`.
fn serve_with(place: &Place, settings: &str) -> Running {
    write_settings(place, settings);
    let mut command = crate::harness::program();
    command.env("EMBED_KEY", "embed-secret");
    command.args(["serve", "--root", &place.at("kb"), "--port", "0"]);
    Running::start(command, "agents")
}

fn write_settings(place: &Place, settings: &str) {
    place.write("kb/.svc/config.toml", settings);
}

fn get(server: &Running, target: &str) -> (u16, Value) {
    let (status, body) = request(server.url(), "GET", &format!("/api/svc{target}"), "");
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

fn pending(server: &Running) -> Option<usize> {
    let (_, metrics) = request(server.url(), "GET", "/metrics", "");
    let line = metrics.lines().find_map(|line| line.strip_prefix("svc_vectors_pending_pages{space=\"default\"} "))?;
    line.parse().ok()
}

fn is_embedded(server: &Running, page: &str) -> bool {
    get(server, &format!("/embeddings?path={page}")).0 == 200
}

fn finds(server: &Running, word: &str) -> bool {
    let (status, found) = get(server, &format!("/search?q={word}"));
    assert_eq!(status, 200, "{found}");
    found.as_array().is_some_and(|pages| !pages.is_empty())
}

/// `page 17 aaaaaaaaaaaaaaaaa`: each page is most similar to the next ones.
fn page(number: usize) -> String {
    format!("# Page number {number}\n\nThis is the text of a page: {} {}\n", "a".repeat(number + 1), "b".repeat(40))
}

#[test]
fn an_embedder_that_dies_loses_nothing_that_it_computed() {
    const PAGES: usize = 700;
    let (place, embedder) = (Place::with_root(), FakeEmbedder::start());
    for number in 0..PAGES {
        place.write(&format!("kb/p{number:03}.md"), &page(number));
    }
    embedder.answer_only(8);
    let mut server = serve_with(&place, &embedder.settings(""));
    eventually("the embedder fails", || embedder.remaining.load(Ordering::SeqCst) == 0);
    // Words are found, and answers say what is missing and why.
    eventually("words are indexed", || finds(&server, "number"));
    let mut note = String::new();
    eventually("the reason is known", || {
        note = get(&server, "/suggestions?path=p001.md").1.to_string();
        let (_, ready) = request(server.url(), "GET", "/readyz", "");
        note += &ready;
        note.contains("answers 500")
    });
    assert!(note.contains("the model is out of memory") && !note.contains("embed-secret"), "{note}");
    let mut status = String::new();
    eventually("the problem is listed once", || {
        let output = svcfs(&["status", "--root", &place.at("kb")]).output().unwrap();
        status = String::from_utf8(output.stdout).unwrap();
        status.lines().filter(|line| line.starts_with("PROBLEM") && line.contains("out of memory")).count() == 1
    });
    let before = embedder.embedded();
    server.signal(Signal::KILL);
    server.ended();
    embedder.answer_only(usize::MAX);
    let server = serve_with(&place, &embedder.settings(""));
    eventually("all pages are embedded", || is_embedded(&server, "p699.md") && pending(&server) == Some(0));
    // At most one batch was computed and not stored.
    let total = embedder.embedded();
    assert!(before >= 500 && total <= PAGES + 280, "{before} before, {total} in total");
    // A renamed page is not embedded again.
    std::fs::rename(place.path("kb/p005.md"), place.path("kb/renamed.md")).unwrap();
    eventually("the renamed page is embedded", || {
        is_embedded(&server, "renamed.md") && !is_embedded(&server, "p005.md")
    });
    assert_eq!(embedder.embedded(), total);
    server.stop();
}

/// The engine of Qdrant (src/vectors/tests/qdrant.py).
struct Qdrant {
    child: std::process::Child,
    url: String,
}

impl Qdrant {
    fn start() -> Option<Self> {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools");
        let python = std::env::var_os(TOOLS).map_or_else(home, PathBuf::from).join("python/bin/python");
        let found = Command::new(&python).args(["-c", "import qdrant_client"]).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            assert!(std::env::var_os(TOOLS).is_none(), "`qdrant-client` is missing; scripts/test.sh installs it");
            println!("skipped: `qdrant-client` is not installed; scripts/test.sh installs it");
            return None;
        }
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors/tests/qdrant.py");
        let mut child = Command::new(python).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Some(Self { child, url: format!("http://127.0.0.1:{}", port.trim()) })
    }

    /// The number of points below a folder.
    fn points_in(&self, folder: &str) -> usize {
        let vector: Vec<f32> = (0..26).map(|number| 1.0 + number as f32).collect();
        let filter = json!({"must": [{"key": "folders", "match": {"value": folder}}]});
        let body = json!({"query": vector, "limit": 1_000, "with_payload": false, "filter": filter}).to_string();
        let target = "/collections/kb-default/points/query";
        let headers = "api-key: secret-key\r\nContent-Type: application/json\r\n";
        let (status, _, body) = crate::harness::exchange(&self.url, "POST", target, (headers, &body));
        if status != 200 {
            return 0;
        }
        let body: Value = serde_json::from_str(&body).unwrap();
        body["result"]["points"].as_array().unwrap().len()
    }
}

impl Drop for Qdrant {
    fn drop(&mut self) {
        let _has_ended = self.child.kill();
        let _has_ended = self.child.wait();
    }
}

#[test]
fn a_remote_store_is_filled_emptied_and_may_fail() {
    let Some(qdrant) = Qdrant::start() else { return };
    let (place, embedder) = (Place::with_root(), FakeEmbedder::start());
    for number in 0..60 {
        place.write(&format!("kb/{}/p{number:02}.md", if number % 2 == 0 { "even" } else { "odd" }), &page(number));
    }
    let store = format!(
        "[search.vector.store]\nprovider = \"qdrant\"\nurl = \"{}\"\napi_key = \"secret-key\"\ncollection = \"kb\"\n",
        qdrant.url
    );
    let server = serve_with(&place, &embedder.settings(&store));
    eventually("all pages are stored", || qdrant.points_in("even") == 30 && qdrant.points_in("odd") == 30);
    let (status, suggestions) = get(&server, "/suggestions?path=odd/p31.md");
    assert_eq!(status, 200, "{suggestions}");
    assert!(suggestions["suggestions"].as_array().is_some_and(|pages| !pages.is_empty()), "{suggestions}");
    // Removed pages leave the store; a renamed folder is found under its new name.
    std::fs::remove_file(place.path("kb/odd/p31.md")).unwrap();
    std::fs::rename(place.path("kb/even"), place.path("kb/straight")).unwrap();
    eventually("the store follows", || {
        (qdrant.points_in("odd"), qdrant.points_in("even"), qdrant.points_in("straight")) == (29, 0, 30)
    });
    drop(qdrant);
    assert!(finds(&server, "text"));
    place.write("kb/new.md", "# New\n\nWritten while the store is down, and found by words: zebra.\n");
    eventually("words are found", || finds(&server, "zebra"));
    let (status, answer) = get(&server, "/suggestions?path=odd/p33.md");
    assert!(status == 200 || answer.to_string().contains("the vector database does not answer"), "{status} {answer}");
    server.stop();
}

#[test]
fn a_silent_embedder_does_not_delay_the_stop() {
    let (place, listener) = (Place::with_root(), TcpListener::bind("127.0.0.1:0").unwrap());
    place.write("kb/p.md", &page(1));
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let embedder = format!("[search.vector.embedder]\nprovider = \"http\"\nurl = \"{url}\"\n");
    let server = serve_with(&place, &format!("[search.vector]\nenabled = true\n{embedder}"));
    let _silent = listener.accept().unwrap();
    let start = Instant::now();
    let errors = server.stop();
    assert!(start.elapsed() < Duration::from_secs(5) && !errors.contains("did not end in time"), "{errors}");
}

#[test]
fn settings_of_providers_are_checked_before_the_start() {
    let place = Place::with_root();
    for (settings, expected) in [
        ("embedder]\nprovider = \"openai\"", "`search.vector.embedder.api_key`"),
        ("embedder]\nprovider = \"openai\"\napi_key = \"${NO_SUCH_VARIABLE}\"", "`search.vector.embedder.api_key`"),
        ("embedder]\nprovider = \"azure-openai\"\napi_key = \"k\"", "`search.vector.embedder.base_url`"),
        ("embedder]\nprovider = \"cohere\"", "`search.vector.embedder.api_key`"),
        ("embedder]\nprovider = \"voyage\"", "`search.vector.embedder.api_key`"),
        ("embedder]\nprovider = \"http\"", "`search.vector.embedder.url`"),
        ("embedder]\nprovider = \"bedrock\"", "`search.vector.embedder.region`"),
        (
            "embedder]\nprovider = \"bedrock\"\nregion = \"us-east-1\"\nmodel = \"m\"\napi_key = \"k\"",
            "`search.vector.embedder.model`",
        ),
        (
            "embedder]\nprovider = \"vertex\"\ncredentials_file = \"/no/file\"",
            "`search.vector.embedder.credentials_file`",
        ),
        ("store]\nprovider = \"pgvector\"", "`search.vector.store.dsn`"),
        ("store]\nprovider = \"pgvector\"\ndsn = \"postgres://u:hunter2@h:x/y\"", "`search.vector.store.dsn`"),
        ("store]\nprovider = \"pinecone\"", "`search.vector.store.url`"),
        ("store]\nprovider = \"weaviate\"\ncollection = \"lower\"", "`search.vector.store.collection`"),
    ] {
        write_settings(&place, &format!("[search.vector]\nenabled = true\n[search.vector.{settings}\n"));
        let output = svcfs(&["check-config", "--root", &place.at("kb")]).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success() && text.contains(expected), "{settings}: {text}");
        assert!(!text.contains("hunter2") && !text.contains("is valid"), "{text}");
    }
    for settings in [
        "embedder]\nprovider = \"ollama\"",
        "embedder]\nprovider = \"ollama\"\nbase_url = \"https://ollama.example.org\"\napi_key = \"k\"",
        "embedder]\nprovider = \"openai\"\napi_key = \"k\"\ndimensions = 256",
        "embedder]\nprovider = \"azure-openai\"\napi_key = \"k\"\nbase_url = \"https://n.openai.azure.com\"",
        "embedder]\nprovider = \"bedrock\"\nregion = \"us-east-1\"\napi_key = \"k\"",
        "store]\nprovider = \"qdrant\"",
        "store]\nprovider = \"weaviate\"\ncollection = \"Kb\"",
        "store]\nprovider = \"pgvector\"\ndsn = \"postgres://svcfs:secret@db.example.org/svcfs?sslmode=verify-full\"",
    ] {
        write_settings(&place, &format!("[search.vector]\nenabled = true\n[search.vector.{settings}\n"));
        svcfs(&["check-config", "--root", &place.at("kb")]).assert().success();
    }
}
