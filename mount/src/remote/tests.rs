//! The tree of a server that answers as each test tells it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use fuser::INodeNo;
use parking_lot::Mutex;
use svcfs_base::{Actor, ETag, Fault, Kind, PathComponent, TreePath};
use tempfile::TempDir;

use super::cache::RemoteCache;
use super::client::{ApiClient, ClientOptions};
use super::dirty_buffers::DirtyBufferPool;
use super::nodes::RemoteNodes;
use super::read_versions::ReadVersions;
use super::rejected::RejectedSaves;
use super::tree::{OpenAccess, RemoteTree};
use super::writeback::{ChangeAuthor, WriteOffset};
use crate::reply::RequestFailure;

/// Longest time anything in a test is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// A request as it came over the line.
struct Asked {
    /// Such as `PUT /file`.
    what: String,
    /// Its address and its headers, in small letters.
    head: String,
    body: String,
}

/// What a server does with a request.
enum Say {
    /// A status, a version, and a body.
    Answer(u16, Option<ETag>, String),
    /// A refusal, with the kind of the fault.
    Refusal(Kind),
    /// It is busy for so many seconds.
    Busy(u16),
    /// The line breaks.
    Nothing,
    /// The line stays open, and nothing comes.
    Silence,
    /// An event stream that says something all the time.
    Stream,
}

/// A mounted tree whose server answers with a function, and keeps what it was asked.
struct Told {
    tree: RemoteTree,
    asked: Arc<Mutex<Vec<String>>>,
    state: TempDir,
}

impl Told {
    fn by(answer: impl FnMut(&Asked) -> Say + Send + 'static) -> Self {
        Self::with_room(1 << 20, answer)
    }

    /// One that has room for so many bytes that are not saved in memory.
    fn with_room(room: usize, answer: impl FnMut(&Asked) -> Say + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (noted, answer) = (Arc::clone(&asked), Arc::new(Mutex::new(answer)));
        let serving = move || {
            for stream in listener.incoming() {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                let answering = move || {
                    let mut stream = stream.unwrap();
                    let asked = heard(&mut stream);
                    noted.lock().push(format!("{} {}", asked.what, asked.body));
                    let said = (answer.lock())(&asked);
                    say(&mut stream, &said);
                };
                thread::Builder::new().spawn(answering).unwrap();
            }
        };
        thread::Builder::new().spawn(serving).unwrap();
        let state = tempfile::tempdir().unwrap();
        let server = ClientOptions { url, space: None, token: None, timeout: Duration::from_millis(300) };
        let tree = RemoteTree {
            client: ApiClient::new(&server).unwrap(),
            cache: RemoteCache::default(),
            nodes: RemoteNodes::new(),
            dirty_buffers: DirtyBufferPool::with_limit(state.path().join("rejected"), room),
            rejected: RejectedSaves::in_directory(state.path().join("rejected")),
            read_versions: ReadVersions::default(),
            owner: (0, 0),
            mounted_at: SystemTime::now(),
        };
        Self { tree, asked, state }
    }

    /// A new file with a text that is not saved: its number and handle.
    fn written(&self, file: &str, text: &str) -> (INodeNo, u64) {
        let (told, handle) = self.tree.create(INodeNo::ROOT, &name(file)).unwrap();
        self.tree.write(handle, WriteOffset::Offset(0), text.as_bytes()).unwrap();
        (told.attributes.ino, handle)
    }

    fn has_asked(&self, what: &str) -> bool {
        self.asked.lock().iter().any(|asked| asked == what)
    }
}

fn heard(stream: &mut TcpStream) -> Asked {
    let mut lines = BufReader::new(stream);
    let mut head = String::new();
    while lines.read_line(&mut head).unwrap() > 2 {}
    let head = head.to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    let mut body = vec![0; length];
    lines.read_exact(&mut body).unwrap();
    let mut words = head.split([' ', '?']);
    let method = words.next().unwrap().to_uppercase();
    let route = words.next().unwrap().trim_start_matches("/api/svc").to_owned();
    Asked { what: format!("{method} {route}"), head, body: String::from_utf8(body).unwrap() }
}

fn say(stream: &mut TcpStream, said: &Say) {
    let (status, more, body) = match said {
        Say::Nothing => return,
        Say::Silence => {
            // Until the mount hangs up.
            let _ = stream.read(&mut [0]);
            return;
        }
        Say::Stream => {
            stream.write_all(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n").unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            // Until the mount hangs up, or the test is over.
            while stream.write_all(b":keep-alive\n\n").is_ok() && !matches!(stream.read(&mut [0]), Ok(0)) {}
            return;
        }
        Say::Refusal(kind) => (kind.http(), format!("x-svc-error: {}\r\n", kind.name()), r#"{"error":"refused"}"#),
        Say::Busy(seconds) => (429, format!("retry-after: {seconds}\r\n"), ""),
        Say::Answer(status, etag, body) => {
            (*status, etag.map(|etag| format!("etag: \"{etag}\"\r\n")).unwrap_or_default(), body.as_str())
        }
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n{more}content-length: {length}\r\n\r\n");
    // The mount may have hung up.
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
}

fn answer(status: u16, body: &str) -> Say {
    Say::Answer(status, None, body.to_owned())
}

/// A directory with these files.
fn listing(names: &[&str]) -> Say {
    let entry =
        |name: &&str| format!(r#"{{"name":"{name}","size":1,"modified":"2026-01-01T00:00:00Z","type":"file"}}"#);
    answer(200, &format!("[{}]", names.iter().map(entry).collect::<Vec<_>>().join(",")))
}

fn name(text: &str) -> PathComponent {
    PathComponent::parse(text).unwrap()
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn ann() -> ChangeAuthor {
    ChangeAuthor { name: Actor::new("Ann"), process: None }
}

#[track_caller]
fn kind<T>(outcome: Result<T, Fault>) -> Option<Kind> {
    outcome.err().map(|fault| fault.kind())
}

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "{what}: waited {LIMIT:?} in vain");
        thread::yield_now();
    }
}

#[test]
fn an_open_file_without_name_keeps_its_bytes_through_fsync() {
    let told = Told::by(|_| listing(&[]));
    let (inode, handle) = told.written("scratch", "kept");
    told.tree.unlink(&ann(), INodeNo::ROOT, &name("scratch")).unwrap();
    told.tree.flush(&ann(), inode, handle).unwrap();
    assert_eq!(told.tree.read(inode, handle, (0, 9)).unwrap(), "kept");
    told.tree.fsync(&ann(), inode, handle).unwrap();
    told.tree.write(handle, WriteOffset::End, b", and more").unwrap();
    assert_eq!(told.tree.read(inode, handle, (0, 99)).unwrap(), "kept, and more");
    told.tree.release(&ann(), inode, handle).unwrap();
    assert!(!told.asked.lock().iter().any(|asked| asked.starts_with("PUT")), "nobody would see it");
}

/// Shows: REM-8
#[test]
fn unsaved_data_beyond_memory_spills_and_is_saved_completely() {
    let told = Told::with_room(10, |asked| match asked.what.as_str() {
        "PUT /file" => Say::Answer(200, Some(ETag::from_content(asked.body.as_bytes())), "{}".to_owned()),
        _ => listing(&[]),
    });
    let (first, second) = (told.written("a.md", "in memory"), told.written("b.md", "on the disk"));
    assert!(told.state.path().join("rejected").is_dir(), "there is no bound");
    told.tree.write(second.1, WriteOffset::End, b", more").unwrap();
    assert_eq!(told.tree.read(second.0, second.1, (3, 99)).unwrap(), "the disk, more");
    assert_eq!(told.tree.attributes(second.0).unwrap().attributes.size, 17);
    for (inode, handle) in [first, second] {
        told.tree.release(&ann(), inode, handle).unwrap();
    }
    assert!(told.has_asked("PUT /file in memory") && told.has_asked("PUT /file on the disk, more"));
}

/// Shows: REM-8
#[test]
#[expect(clippy::disallowed_methods, reason = "a file of this machine, and of no tree")]
fn unsaved_data_refused_by_the_local_disk_becomes_no_version() {
    let told = Told::with_room(10, |_| listing(&[]));
    std::fs::write(told.state.path().join("rejected"), "no directory").unwrap();
    let (inode, handle) = told.written("a.md", "first ");
    assert!(told.tree.write(handle, WriteOffset::End, b"and second").is_err());
    assert!(told.tree.flush(&ann(), inode, handle).is_err() && told.tree.fsync(&ann(), inode, handle).is_err());
    told.tree.release(&ann(), inode, handle).unwrap();
    assert!(!told.asked.lock().iter().any(|asked| asked.starts_with("PUT")), "{:?}", told.asked.lock());
}

#[test]
fn fsync_after_a_failed_fsync_fails_again() {
    let told = Told::by(|asked| match asked.what.as_str() {
        "PUT /file" => answer(422, r#"{"error":"not this"}"#),
        _ => listing(&[]),
    });
    let (inode, handle) = told.written("a.md", "text");
    for _ in 0..2 {
        assert_eq!(kind(told.tree.fsync(&ann(), inode, handle)), Some(Kind::Rejected));
    }
    assert_eq!(told.tree.rejected.read(&path("a.md")).unwrap(), "text");
}

#[test]
fn a_rule_of_the_space_is_distinguished_from_a_conflict() {
    for (answered, expected) in
        [(Kind::NotAllowed, Kind::NotAllowed), (Kind::Conflict, Kind::Conflict), (Kind::Exists, Kind::Conflict)]
    {
        let told = Told::by(move |asked| match asked.what.as_str() {
            "PUT /file" | "POST /rename" => Say::Refusal(answered),
            _ => listing(&["b.md"]),
        });
        let (inode, handle) = told.written("a.md", "text");
        assert_eq!(kind(told.tree.fsync(&ann(), inode, handle)), Some(expected), "{answered:?}");
        assert_eq!(told.tree.rejected.read(&path("a.md")).unwrap(), "text");
        let root = INodeNo::ROOT;
        let renamed = told.tree.rename(&ann(), (root, &name("b.md")), (root, &name("c.md")), true);
        match renamed {
            Err(RequestFailure::Fault(fault)) => assert_eq!(fault.kind(), expected, "{answered:?}"),
            other => panic!("{answered:?}: {}", other.is_ok()),
        }
    }
}

#[test]
fn a_failed_rename_leaves_an_unsaved_target_file_unchanged() {
    let told = Told::by(|asked| match asked.what.as_str() {
        "POST /rename" => answer(500, r#"{"error":"a broken disk"}"#),
        "PUT /file" => Say::Answer(200, Some(ETag::from_content(asked.body.as_bytes())), String::new()),
        _ => listing(&["a.md"]),
    });
    let (inode, handle) = told.written("b.md", "mine");
    let root = INodeNo::ROOT;
    assert!(told.tree.rename(&ann(), (root, &name("a.md")), (root, &name("b.md")), false).is_err());
    assert!(!told.has_asked("POST /rename "), "the name is taken");
    assert!(told.tree.rename(&ann(), (root, &name("a.md")), (root, &name("b.md")), true).is_err());
    told.tree.flush(&ann(), inode, handle).unwrap();
    assert!(told.has_asked("PUT /file mine"), "{:?}", told.asked.lock());
}

#[test]
fn a_replaced_unsaved_file_is_preserved_on_close() {
    let told = Told::by(|asked| match asked.what.as_str() {
        "POST /rename" => answer(200, "{}"),
        _ => listing(&["a.md"]),
    });
    let (inode, handle) = told.written("b.md", "mine");
    let root = INodeNo::ROOT;
    assert!(told.tree.rename(&ann(), (root, &name("a.md")), (root, &name("b.md")), true).is_ok());
    assert_eq!(kind(told.tree.flush(&ann(), inode, handle)), Some(Kind::Conflict));
    assert_eq!(told.tree.rejected.read(&path("b.md")).unwrap(), "mine");
}

#[test]
fn a_server_that_answers_that_it_is_busy_is_not_taken_for_lost() {
    let mut is_first = true;
    let told = Told::by(move |_| if std::mem::take(&mut is_first) { Say::Busy(60) } else { listing(&["a.md"]) });
    assert_eq!(kind(told.tree.entry(&path("a.md"))), Some(Kind::Upstream));
    assert!(told.tree.entry(&path("a.md")).unwrap().is_some());
}

/// Shows: FAIL-1
#[test]
fn a_full_disk_of_the_server_is_reported_as_such_without_retries() {
    let told = Told::by(|asked| match asked.what.as_str() {
        "PUT /file" => answer(503, r#"{"error":"disk full: no space left for `a.md`"}"#),
        _ => listing(&[]),
    });
    let (inode, handle) = told.written("a.md", "text");
    assert_eq!(kind(told.tree.fsync(&ann(), inode, handle)), Some(Kind::NoSpace));
    assert_eq!(told.asked.lock().iter().filter(|asked| asked.starts_with("PUT")).count(), 1);
}

#[test]
fn a_once_slow_server_is_retried_without_an_event_stream() {
    let mut is_first = true;
    let told = Told::by(move |_| if std::mem::take(&mut is_first) { Say::Silence } else { listing(&["a.md"]) });
    assert_eq!(kind(told.tree.entry(&path("a.md"))), Some(Kind::Upstream));
    assert_eq!(kind(told.tree.entry(&path("a.md"))), Some(Kind::Upstream), "nobody else waits for it");
    assert_eq!(told.asked.lock().len(), 1);
    eventually("it is asked again", || told.tree.entry(&path("a.md")).is_ok());
}

/// Ends what follows a stream.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn whatever_the_event_stream_says_the_server_is_heard_of() {
    let told = Told::by(|_| Say::Stream);
    let (kernel, _behind) = std::sync::mpsc::sync_channel(8);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also when something is waited for in vain.
        let _end = End(&is_over);
        scope.spawn(|| super::follower::follow(&told.tree, &kernel, &is_over));
        eventually("the stream is open", || told.tree.cache.is_followed());
        told.tree.client.connectivity.report_failure(&Fault::new(Kind::Upstream, "one request was slow"));
        eventually("the server is heard of", || !told.tree.client.connectivity.is_unreachable());
    });
}

/// One file of a server that holds removals to the version they name.
struct Page(Option<&'static str>);

impl Page {
    fn answer(&mut self, asked: &Asked) -> Say {
        match (asked.what.as_str(), self.0) {
            ("GET /tree", Some(_)) => listing(&["a.md"]),
            ("GET /tree", None) => listing(&[]),
            ("HEAD /file", Some(text)) => Say::Answer(200, Some(ETag::from_content(text.as_bytes())), String::new()),
            ("DELETE /file", Some(text))
                if !asked.head.contains("if-match: ")
                    || asked.head.contains(&ETag::from_content(text.as_bytes()).to_string()) =>
            {
                self.0 = None;
                answer(200, "{}")
            }
            ("DELETE /file", Some(_)) => answer(409, r#"{"error":"modified since"}"#),
            ("DELETE /file", None) if asked.head.contains("if-match: ") => answer(409, r#"{"error":"modified since"}"#),
            _ => answer(404, r#"{"error":"nothing is there"}"#),
        }
    }
}

#[test]
fn a_removal_with_lost_reply_does_not_remove_a_newer_file() {
    let (page, mut is_first) = (Arc::new(Mutex::new(Page(Some("old")))), true);
    let its = Arc::clone(&page);
    let told = Told::by(move |asked| {
        let said = its.lock().answer(asked);
        if asked.what == "DELETE /file" && std::mem::take(&mut is_first) {
            its.lock().0 = Some("theirs");
            return Say::Nothing;
        }
        said
    });
    told.tree.unlink(&ann(), INodeNo::ROOT, &name("a.md")).unwrap();
    assert_eq!(page.lock().0, Some("theirs"));
    assert!(told.tree.entry(&path("a.md")).unwrap().is_some(), "it is seen");
}

#[test]
fn a_removal_with_lost_reply_succeeds_when_nothing_is_there() {
    let (mut page, mut is_first) = (Page(Some("old")), true);
    let told = Told::by(move |asked| {
        let said = page.answer(asked);
        let is_lost = asked.what == "DELETE /file" && std::mem::take(&mut is_first);
        if is_lost { Say::Nothing } else { said }
    });
    told.tree.unlink(&ann(), INodeNo::ROOT, &name("a.md")).unwrap();
    assert!(told.tree.entry(&path("a.md")).unwrap().is_none());
}

#[test]
fn a_file_changed_during_its_removal_is_removed() {
    let (page, mut is_first) = (Arc::new(Mutex::new(Page(Some("old")))), true);
    let its = Arc::clone(&page);
    let told = Told::by(move |asked| {
        if asked.what == "DELETE /file" && std::mem::take(&mut is_first) {
            its.lock().0 = Some("new");
        }
        its.lock().answer(asked)
    });
    told.tree.unlink(&ann(), INodeNo::ROOT, &name("a.md")).unwrap();
    assert_eq!(page.lock().0, None);
}

#[test]
fn a_text_that_was_refused_cannot_be_truncated() {
    let told = Told::by(|asked| match asked.what.as_str() {
        "PUT /file" => answer(422, r#"{"error":"not this"}"#),
        _ => listing(&[]),
    });
    told.tree.rejected.store(&path("a.md"), b"kept").unwrap();
    let inode = told.tree.nodes.inode_for(&path(".svc/rejected/a.md"), 1);
    assert_eq!(kind(told.tree.resize(&ann(), (inode, None), 0)), Some(Kind::ReadOnly));
    assert_eq!(told.tree.rejected.read(&path("a.md")).unwrap(), "kept");
    assert!(told.asked.lock().is_empty());
}

#[test]
fn truncate_by_name_is_saved_although_the_file_is_open_to_read() {
    let told = Told::by(|asked| match asked.what.as_str() {
        "GET /file" => Say::Answer(200, Some(ETag::from_content(b"text")), "text".to_owned()),
        "PUT /file" => Say::Answer(200, Some(ETag::from_content(asked.body.as_bytes())), "{}".to_owned()),
        _ => listing(&["a.md"]),
    });
    let inode = told.tree.nodes.inode_for(&path("a.md"), 1);
    let reader = told.tree.open((inode, None), OpenAccess::Read).unwrap();
    told.tree.resize(&ann(), (inode, None), 2).unwrap();
    assert!(told.has_asked("PUT /file te"), "{:?}", told.asked.lock());
    assert_eq!(told.tree.read(inode, reader, (0, 9)).unwrap(), "te");
    // Whoever has it open to write saves it.
    let writer = told.tree.open((inode, None), OpenAccess::Write).unwrap();
    told.tree.resize(&ann(), (inode, None), 1).unwrap();
    assert!(!told.has_asked("PUT /file t"));
    told.tree.release(&ann(), inode, writer).unwrap();
    told.tree.release(&ann(), inode, reader).unwrap();
    assert!(told.has_asked("PUT /file t"));
}
