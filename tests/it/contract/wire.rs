//! The corpora below `corpora/`, line by line, against every door that takes them: what leads out
//! of the tree, and requests that hide others.
//!
//! Whatever is sent, nothing beside the root is read or written, nothing answers with a failure of
//! ours, and every request that a server sees is one that was sent to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::hostile;
use crate::protocols::Kind;
use crate::space::{TestSpace, tree};

/// Longer than a server waits for the rest of a request.
const LONG: Duration = Duration::from_secs(45);
/// What lies beside the root.
const SECRET: &str = "what nobody may see";
/// A request that must be answered wherever the one before it ended.
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A space with something beside it, behind HTTP, WebDAV and S3.
struct Beset {
    space: TestSpace,
    s3: SocketAddr,
    runtime: Option<Runtime>,
    stop: CancellationToken,
    beside: PathBuf,
}

impl Beset {
    fn new() -> Self {
        let space = TestSpace::new();
        Kind::Http.of(&space).write("a.md", b"# A\n").unwrap();
        let beside = space.aside().join("outside.md");
        std::fs::write(&beside, SECRET).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let (s3, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        runtime.spawn(svcfs_s3::serve(listener, Arc::clone(space.server()), stop.clone()));
        Self { space, s3, runtime: Some(runtime), stop, beside }
    }

    fn protocols(&self) -> [(&'static str, SocketAddr); 3] {
        [("HTTP", self.space.http()), ("WebDAV", self.space.webdav()), ("S3", self.s3)]
    }

    /// What is beside the root is as it was, and there is nothing new.
    #[track_caller]
    fn is_unharmed(&self, what: &str) {
        assert_eq!(std::fs::read_to_string(&self.beside).unwrap(), SECRET, "{what}");
        let mut names: Vec<_> =
            std::fs::read_dir(self.space.aside()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["mnt", "outside.md", "root"], "{what}");
    }
}

impl Drop for Beset {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(LONG);
        }
    }
}

/// What a server says to these bytes until it closes the connection.
#[track_caller]
fn said(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    // A server that has refused may close before it has read the rest.
    let _refused = stream.write_all(bytes);
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the connection stays open"),
        _ => String::from_utf8_lossy(&said).into_owned(),
    }
}

fn statuses(said: &str) -> Vec<u16> {
    said.split("HTTP/1.")
        .skip(1)
        .map(|answer| answer.get(2..5).unwrap_or_default().parse().unwrap_or_default())
        .collect()
}

/// First lines and headers of requests that take a path there.
fn questions(protocol: &str, target: &str) -> Vec<String> {
    let bare = |methods: &[&str], target: &str| {
        methods.iter().map(|method| format!("{method} {target} HTTP/1.1\r\n")).collect::<Vec<_>>()
    };
    match protocol {
        "HTTP" => [
            bare(&["GET"], &format!("/raw/{target}")),
            bare(&["GET"], &format!("/api/svc/{target}/tree")),
            bare(&["GET", "PUT"], &format!("/{target}")),
            bare(&["GET"], &format!("/api/docs/{target}")),
        ]
        .concat(),
        "WebDAV" => {
            let mut questions = bare(&["GET", "PUT", "DELETE", "MKCOL", "PROPFIND", "LOCK"], &format!("/{target}"));
            for method in ["COPY", "MOVE"] {
                questions.push(format!("{method} /a.md HTTP/1.1\r\nDestination: /{target}\r\n"));
                questions.push(format!("{method} /{target} HTTP/1.1\r\nDestination: /b.md\r\n"));
            }
            questions
        }
        _ => {
            let mut questions = bare(&["GET", "PUT", "DELETE", "HEAD"], &format!("/default/{target}"));
            questions.extend(bare(&["GET"], &format!("/{target}")));
            questions.push(format!("PUT /default/b.md HTTP/1.1\r\nx-amz-copy-source: /default/{target}\r\n"));
            questions
        }
    }
}

#[test]
fn paths_that_escape_the_tree_fail_through_every_protocol() {
    let beset = Beset::new();
    let mut asked = 0;
    for target in hostile::targets() {
        for (protocol, address) in beset.protocols() {
            for question in questions(protocol, &target) {
                let what = format!("{protocol}: {question:?}");
                let said = said(
                    address,
                    format!("{question}Host: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
                );
                let statuses = statuses(&said);
                assert!(matches!(statuses[..], [status] if (200..500).contains(&status)), "{what}: {said}");
                assert!(
                    !said.contains(SECRET) && !said.contains("root:x:") && !said.contains("[core]"),
                    "{what}: {said}"
                );
                assert!(!said.to_lowercase().contains("\r\nx-injected"), "{what}: {said}");
                asked += 1;
            }
        }
        beset.is_unharmed(&target);
    }
    assert!(asked > 500, "only {asked} were asked");
    let others: Vec<String> = tree::files(&beset.space.root())
        .into_keys()
        .filter(|path| path.starts_with(".git/") || path.starts_with(".svc/"))
        .collect();
    assert_eq!(others, [""; 0], "something was written where nobody may write");
}

#[test]
fn request_smuggling_is_impossible_through_every_protocol() {
    let beset = Beset::new();
    let requests: Vec<Value> = serde_json::from_str(include_str!("../corpora/requests.json")).unwrap();
    for request in requests {
        let text = |name: &str| request[name].as_str().unwrap().to_owned();
        let refused: Vec<u64> = request["answers"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        for (protocol, address) in beset.protocols() {
            let (name, said) =
                (format!("{protocol}: {}", text("name")), said(address, format!("{}{NEXT}", text("send")).as_bytes()));
            let statuses = statuses(&said);
            assert!(statuses.iter().all(|status| *status < 500), "{name}: {said}");
            assert!(!said.contains("smuggled"), "{name}: {said}");
            if refused == [400] {
                // A door may have its answer before it has read as far as what is wrong; it hears
                // nothing more then.
                let is_refused = matches!(statuses[..], [status] if (400..500).contains(&status));
                assert!(is_refused && (protocol != "HTTP" || statuses == [400]), "{name}: {said}");
            }
            assert!(statuses.len() <= 2 && statuses.len() >= refused.len().min(1), "{name}: {said}");
        }
    }
    beset.is_unharmed("misshapen requests");
    assert!(!tree::files(&beset.space.root()).keys().any(|path| path.contains("s.md")), "one of them wrote");
}
