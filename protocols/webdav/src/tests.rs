mod audit;
mod depth_zero;
mod desktop_clients;
mod headers;
mod hidden_members;
mod hostile;
mod large_files;
mod links;
mod locks;
mod modes;
mod observed_state;
mod propfind;
mod proposals;
mod public_url;
mod replace;
mod replace_journal;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use svcfs_base::{ETag, Fault, MAX_FILE_BYTES, Protocol, SystemClock, TreePath};
use svcfs_config::{CliOverrides, Config, Settings};
use svcfs_knowledge::access::AccessControl;
use svcfs_knowledge::kernel::{ServerState, Space};
use svcfs_knowledge::spaces::{self, RunningSpace, SpaceCollection, SpaceOptions};
use svcfs_work::Supervisor;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

/// A server of two spaces, `default` and `team`, with nobody's background tasks.
struct Served {
    server: Arc<ServerState>,
    runtime: Runtime,
    stop: CancellationToken,
    task: Option<tokio::task::JoinHandle<()>>,
    address: SocketAddr,
    folder: Arc<TempDir>,
}

struct Reply {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

fn open(folder: &Path, name: &str, config: &str) -> Arc<Space> {
    let settings = Settings::resolve(Config::parse(config, &|_| None), CliOverrides::default()).unwrap();
    let (name, root) = (name.to_owned(), folder.join(name));
    spaces::open(
        SpaceOptions { name, root, clock: Arc::new(SystemClock), is_watched: false, on_progress: None },
        &settings,
    )
    .unwrap()
}

impl Served {
    fn new() -> Self {
        Self::with("lint.reject_protocols = [\"webdav\"]")
    }

    fn with(config: &str) -> Self {
        Self::of(Arc::new(tempfile::tempdir().unwrap()), config)
    }

    /// What is there, served by another server.
    fn again(self) -> Self {
        let folder = Arc::clone(&self.folder);
        drop(self);
        Self::of(folder, "")
    }

    fn of(folder: Arc<TempDir>, config: &str) -> Self {
        let sick = Box::new(|_: &str, _: &Path| Err(Fault::unavailable("the reason of this test")));
        let spaces = SpaceCollection::single(open(folder.path(), "default", config)).with_opener(sick, Vec::new());
        std::fs::create_dir_all(folder.path().join("sick")).unwrap();
        spaces.open_configured(vec![("sick".to_owned(), folder.path().join("sick"))]).unwrap();
        spaces.add(RunningSpace {
            space: open(folder.path(), "team", ""),
            supervisor: Supervisor::new(),
            resource_guard: None,
        });
        let access = AccessControl::new(spaces.first().settings.auth.clone(), None);
        let server = Arc::new(ServerState::new(spaces, Arc::new(SystemClock), access));
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let task = runtime.spawn(crate::serve(listener, Arc::clone(&server), stop.clone()));
        Self { server, runtime, stop, task: Some(task), address, folder }
    }

    fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        let mut request = Request::builder().method(method).uri(target);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.runtime.block_on(async {
            let stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let (head, body) = sender.send_request(request).await.unwrap().into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            Reply { status: head.status.as_u16(), headers: head.headers, body }
        })
    }

    #[track_caller]
    fn put(&self, target: &str, content: &str) {
        let reply = self.send("PUT", target, &[], content.to_owned());
        assert!(matches!(reply.status, 201 | 204), "{} {}", reply.status, reply.text());
    }

    fn get(&self, target: &str) -> Reply {
        self.send("GET", target, &[], "")
    }

    fn text(&self, path: &str) -> Option<String> {
        let file = self.server.primary().vfs.read(Protocol::Internal, &TreePath::parse(path).unwrap()).ok()?;
        Some(String::from_utf8_lossy(&file.content).into_owned())
    }

    /// Author and subject of every commit of the first space since the last question, oldest first.
    fn commits(&self, seen: &mut usize) -> Vec<String> {
        self.server.primary().vfs.wait_committed().unwrap();
        let mut git = Command::new("git");
        git.arg("-C").arg(self.folder.path().join("default")).args(["log", "--reverse", "--format=%an: %s"]);
        let log = String::from_utf8(git.output().unwrap().stdout).unwrap();
        let all: Vec<_> = log.lines().map(str::to_owned).collect();
        all[std::mem::replace(seen, all.len())..].to_vec()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            self.runtime.block_on(task).unwrap();
        }
        self.server.spaces().close_secondary().unwrap();
        self.server.primary().vfs.close().unwrap();
    }
}

/// What litmus 0.13 asks, by the name of the suite.
const LITMUS: [(&str, u32); 5] = [("basic", 16), ("copymove", 13), ("props", 30), ("locks", 41), ("http", 4)];

#[test]
fn the_litmus_suite_passes_completely() {
    let served = Served::new();
    let mut litmus = Command::new("timeout");
    litmus.args(["120", "litmus", "-k", &format!("http://{}/", served.address)]).current_dir(served.folder.path());
    let output = litmus.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(127) {
        assert!(std::env::var_os("SVCFS_TOOLS").is_none(), "`litmus` is missing; scripts/test.sh installs it");
        println!("skipped: `litmus` is not installed; scripts/test.sh installs it");
        return;
    }
    assert!(output.status.success(), "{told}");
    for (suite, asked) in LITMUS {
        // None skipped: what is skipped is no test that was run.
        let summary = format!("<- summary for `{suite}': of {asked} tests run: {asked} passed, 0 failed. 100.0%");
        assert!(told.contains(&summary), "{summary} is not in {told}");
    }
    assert!(!told.contains("FAIL") && !told.contains("SKIPPED"), "{told}");
    // One warning, of an address with a `#` in it, that no client sends: hyper leaves off what
    // follows it, and nobody behind it can tell.
    let warnings: Vec<_> = told.split('\n').filter(|line| line.contains("WARNING")).collect();
    assert!(matches!(&warnings[..], [one] if one.contains("delete_fragment")), "{told}");
}

/// Shows: DAV-1
#[test]
fn a_file_is_one_commit_with_author_and_shared_etag() {
    let served = Served::new();
    let mut seen = 0;
    served.commits(&mut seen);
    let ann = ("authorization", "Basic YW5uOg==");
    let reply = served.send("PUT", "/a.md", &[ann], "# A  \n");
    let etag = ETag::from_content(b"# A  \n");
    assert_eq!((reply.status, reply.header("etag")), (201, format!("\"{etag}\"").as_str()));
    assert_eq!(served.commits(&mut seen), ["ann: ann: a.md"]);
    let reply = served.get("/a.md");
    assert_eq!(
        (reply.status, reply.text().as_str(), reply.header("etag")),
        (200, "# A  \n", format!("\"{etag}\"").as_str())
    );
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    let part = served.send("GET", "/a.md", &[("range", "bytes=2-2")], "");
    assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (206, "A", "bytes 2-2/6"));
    assert_eq!(served.send("GET", "/a.md", &[("if-none-match", &format!("\"{etag}\""))], "").status, 304);
    assert_eq!(served.send("DELETE", "/a.md", &[ann], "").status, 204);
    assert_eq!(served.commits(&mut seen), ["ann: delete: a.md"]);
    assert_eq!(served.get("/a.md").status, 404);
}

/// Shows: DAV-2
#[test]
fn a_folder_is_copied_moved_and_removed_in_one_commit_each() {
    let served = Served::new();
    let mut seen = 0;
    for folder in ["/a", "/a/b", "/a/empty"] {
        assert_eq!(served.send("MKCOL", folder, &[], "").status, 201);
    }
    served.put("/a/1.md", "# One\n");
    served.put("/a/b/2.md", "# Two\n");
    served.commits(&mut seen);
    assert_eq!(served.send("COPY", "/a", &[("destination", "/c")], "").status, 201);
    assert_eq!(served.commits(&mut seen), ["webdav: webdav: copy a → c"]);
    assert_eq!(served.text("c/b/2.md").unwrap(), "# Two\n");
    assert!(served.folder.path().join("default/c/empty").is_dir());
    assert_eq!(served.send("MOVE", "/c", &[("destination", "/d")], "").status, 201);
    assert_eq!(served.commits(&mut seen), ["webdav: webdav: rename dir c → d"]);
    // In place of another: what is left of that goes with the same commit.
    served.put("/d/3.md", "# Three\n");
    served.put("/a/1.md", "# Uno\n");
    served.commits(&mut seen);
    assert_eq!(served.send("COPY", "/a", &[("destination", "/d"), ("overwrite", "F")], "").status, 412);
    assert_eq!(served.send("COPY", "/a", &[("destination", "/d")], "").status, 204);
    assert_eq!(served.commits(&mut seen), ["webdav: webdav: copy a → d"]);
    assert_eq!((served.text("d/1.md").unwrap().as_str(), served.text("d/3.md")), ("# Uno\n", None));
    assert_eq!(served.send("DELETE", "/d", &[], "").status, 204);
    assert_eq!(served.commits(&mut seen), ["webdav: delete: d"]);
    assert!(!served.folder.path().join("default/d").exists());
    // Nothing goes into itself or in place of what it lies in, and nothing is lost by trying.
    for (from, to) in [("/a", "/a/b/c"), ("/a/b", "/a")] {
        for method in ["COPY", "MOVE"] {
            let status = served.send(method, from, &[("destination", to)], "").status;
            assert!(matches!(status, 403 | 409), "{method} {from} {to}: {status}");
        }
    }
    assert_eq!(served.text("a/b/2.md").unwrap(), "# Two\n");
}

/// Shows: LINT-4
#[test]
fn a_page_rejected_by_lint_is_explained_and_saved_aside() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    let reply = served.send("PUT", "/a.md", &[], "---\na: [\n---\n");
    assert_eq!(reply.status, 422, "{}", reply.text());
    assert!(reply.text().contains("a.md") || reply.text().contains("frontmatter"), "{}", reply.text());
    assert_eq!(served.text("a.md").unwrap(), "# A\n");
    assert_eq!(served.get("/.svc/rejected/a.md").text(), "---\na: [\n---\n");
    served.put("/a.md", "# B\n");
    assert_eq!(served.get("/.svc/rejected/a.md").status, 404);
}

/// Shows: COND-6
#[test]
fn conditions_are_held_against_what_is_there_when_it_is_written() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    let stale = format!("\"{}\"", ETag::from_content(b"# older\n"));
    assert_eq!(served.send("PUT", "/a.md", &[("if-match", &stale)], "# B\n").status, 412);
    assert_eq!(served.send("DELETE", "/a.md", &[("if-match", &stale)], "").status, 412);
    assert_eq!(served.send("PUT", "/a.md", &[("if-none-match", "*")], "# B\n").status, 412);
    assert_eq!(served.text("a.md").unwrap(), "# A\n");
    let fresh = format!("\"{}\"", ETag::from_content(b"# A\n"));
    assert_eq!(served.send("PUT", "/a.md", &[("if-match", &fresh)], "# B\n").status, 204);
    assert_eq!(served.send("PUT", "/b.md", &[("if-none-match", "*")], "# B\n").status, 201);
    assert_eq!(served.send("PUT", "/no/such/folder.md", &[], "# B\n").status, 409);
    assert_eq!(served.send("MKCOL", "/no/such", &[], "").status, 409);
}

#[test]
fn a_partial_write_changes_only_its_range() {
    let served = Served::new();
    served.put("/log.txt", "none\n");
    let patch = |range: &str, text: &'static str| {
        let headers = [("content-type", "application/x-sabredav-partialupdate"), ("x-update-range", range)];
        served.send("PATCH", "/log.txt", &headers, text).status
    };
    assert_eq!((patch("append", "one\n"), patch("append", "two\n")), (204, 204));
    assert_eq!(served.text("log.txt").unwrap(), "none\none\ntwo\n");
    assert_eq!(patch("bytes=5-7", "ONE"), 204);
    assert_eq!(served.text("log.txt").unwrap(), "none\nONE\ntwo\n");
}

/// Shows: DAV-5
#[test]
fn an_upload_that_breaks_off_changes_nothing() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    let mut stream = TcpStream::connect(served.address).unwrap();
    write!(stream, "PUT /a.md HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n# half").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = String::new();
    let _broken = stream.read_to_string(&mut answer);
    assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    assert_eq!(served.text("a.md").unwrap(), "# A\n");
}

#[test]
fn a_file_beyond_the_history_limit_is_on_disk_and_rangeable() {
    let served = Served::new();
    let size = MAX_FILE_BYTES + 100_000;
    let content: Bytes = (0..size).map(|at| (at / 1000) as u8).collect::<Vec<_>>().into();
    let reply = served.send("PUT", "/film.bin", &[], content.clone());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let reply = served.get("/film.bin");
    assert_eq!((reply.status, reply.body == content), (200, true));
    let range = format!("bytes={}-", size - 5);
    assert_eq!(served.send("GET", "/film.bin", &[("range", &range)], "").body, content.slice(size - 5..));
    assert_eq!(served.send("COPY", "/film.bin", &[("destination", "/copy.bin")], "").status, 201);
    assert_eq!(served.send("MOVE", "/copy.bin", &[("destination", "/moved.bin")], "").status, 201);
    let listed = served.send("PROPFIND", "/", &[("depth", "1")], "").text();
    assert!(listed.contains("moved.bin") && !listed.contains("upload") && !listed.contains("copy.bin"), "{listed}");
    assert_eq!(served.send("PUT", "/film.bin", &[], "small").status, 204);
    assert_eq!(served.get("/film.bin").text(), "small");
    assert_eq!(served.send("DELETE", "/moved.bin", &[], "").status, 204);
    assert_eq!(served.get("/moved.bin").status, 404);
}

#[test]
fn without_a_key_nothing_is_visible_and_a_key_shows_its_scope() {
    let served = Served::with(
        "[auth]\ntype = \"perspace\"\n\
         [[auth.api_keys]]\nkey = \"full\"\nactor = \"boss\"\n\
         [[auth.api_keys]]\nkey = \"reader\"\nscope = \"read\"\n\
         [[auth.api_keys]]\nkey = \"docs\"\nscope = \"write\"\nprefix = \"docs\"\n\
         [[auth.api_keys]]\nkey = \"team\"\nspace = \"team\"\n",
    );
    let key = |key: &str| format!("Bearer {key}");
    let asked = |method: &str, path: &str, key: &str| {
        let depth = if method == "PROPFIND" { "1" } else { "infinity" };
        served.send(method, path, &[("authorization", key), ("depth", depth)], "").status
    };
    let full = key("full");
    assert_eq!(asked("MKCOL", "/docs", &full), 201);
    for path in ["/docs/a.md", "/b.md"] {
        assert_eq!(asked("PUT", path, &full), 201);
    }
    let none = served.send("OPTIONS", "/", &[], "");
    assert_eq!((none.status, none.header("www-authenticate").starts_with("Basic")), (401, true));
    for wrong in ["Bearer wrong", "Basic YW5uOndyb25n", "Bearer ", "Digest x"] {
        assert_eq!(asked("GET", "/b.md", wrong), 401, "{wrong}");
    }
    // Basic: ann:reader
    let reader = "Basic YW5uOnJlYWRlcg==";
    assert_eq!(asked("GET", "/b.md", reader), 200);
    for method in ["PUT", "DELETE", "MKCOL", "COPY", "MOVE", "PROPPATCH", "LOCK", "UNLOCK", "PATCH"] {
        assert_eq!(asked(method, "/b.md", reader), 403, "{method}");
    }
    let docs = key("docs");
    assert_eq!(asked("PROPFIND", "/docs", &docs), 207);
    assert_eq!(asked("PUT", "/docs/new.md", &docs), 201);
    for (method, path) in [("GET", "/b.md"), ("PROPFIND", "/"), ("PUT", "/c.md"), ("DELETE", "/b.md"), ("MKCOL", "/d")]
    {
        assert_eq!(asked(method, path, &docs), 403, "{method} {path}");
    }
    let headers = [("authorization", docs.as_str()), ("destination", "/stolen.md")];
    assert_eq!(served.send("MOVE", "/docs/a.md", &headers, "").status, 403);
    assert_eq!(asked("GET", "/b.md", &key("team")), 401);
    assert_eq!(asked("PUT", "/~team/x.md", &key("team")), 201);
}

#[test]
fn a_key_of_the_first_space_cannot_tell_which_others_there_are() {
    let served = Served::with("[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"first\"\nspace = \"default\"\n");
    let ask = |method: &str, space: &str| {
        let (target, to) = (format!("/~{space}/a.md"), format!("/~{space}/b.md"));
        let headers = [("authorization", "Bearer first"), ("depth", "0"), ("destination", &*to)];
        let headers = if matches!(method, "COPY" | "MOVE") { &headers[..] } else { &headers[..2] };
        let told = served.send(method, &target, headers, "");
        (told.status, told.text().replace(space, "NAME"))
    };
    for method in ["GET", "HEAD", "PROPFIND", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "LOCK", "OPTIONS", "PATCH"] {
        let none = ask(method, "nowhere");
        assert_ne!(none.0, 401, "{method}");
        for there in ["team", "sick"] {
            assert_eq!(ask(method, there), none, "{method}");
        }
    }
    let to = |space: &str| {
        let to = format!("/~{space}/b.md");
        served.send("COPY", "/a.md", &[("authorization", "Bearer first"), ("destination", &to)], "").status
    };
    assert_eq!(served.send("PUT", "/a.md", &[("authorization", "Bearer first")], "# a\n").status, 201);
    assert_eq!(to("team"), to("nowhere"));
}

#[test]
fn the_reason_of_an_unserved_space_is_shown_to_authorised_users() {
    let keys = "[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"full\"\n[[auth.api_keys]]\nkey = \"team\"\nspace = \"team\"\n";
    let served = Served::with(keys);
    let ask = |key: &str| served.send("GET", "/~sick/a.md", &[("authorization", &format!("Bearer {key}"))], "");
    let (may, may_not) = (ask("full"), ask("team"));
    assert!(may.status == 503 && may.text().contains("the reason of this test"), "{}", may.text());
    assert!(may_not.status == 401 && !may_not.text().contains("reason"), "{}", may_not.text());
}

#[test]
fn every_space_has_its_path_and_nothing_crosses_between_spaces() {
    let served = Served::new();
    served.put("/a.md", "# first\n");
    served.put("/~team/a.md", "# team\n");
    assert_eq!(served.get("/~default/a.md").text(), "# first\n");
    assert_eq!(served.get("/~team/a.md").text(), "# team\n");
    assert!(served.send("PROPFIND", "/~team/", &[("depth", "1")], "").text().contains("/~team/a.md"));
    for (from, to) in [("/a.md", "/~team/b.md"), ("/~team/a.md", "/b.md"), ("/a.md", "http://elsewhere:1/~team/b.md")] {
        assert_eq!(served.send("COPY", from, &[("destination", to)], "").status, 502, "{from} {to}");
    }
    // No space of that name: a folder like any other.
    assert_eq!(served.send("MKCOL", "/~own", &[], "").status, 201);
    served.put("/~own/a.md", "# own\n");
    assert_eq!(served.text("~own/a.md").unwrap(), "# own\n");
}

/// Shows: DAV-11
#[test]
fn properties_survive_writes_and_follow_renames() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    let set = "<propertyupdate xmlns='DAV:'><set><prop><mark xmlns='urn:x'>seven</mark></prop></set></propertyupdate>";
    assert_eq!(served.send("PROPPATCH", "/a.md", &[], set).status, 207);
    served.put("/a.md", "# B\n");
    assert_eq!(served.send("MOVE", "/a.md", &[("destination", "/b.md")], "").status, 201);
    assert_eq!(served.send("COPY", "/b.md", &[("destination", "/c.md")], "").status, 201);
    for path in ["/b.md", "/c.md"] {
        let told = served.send("PROPFIND", path, &[("depth", "0")], "").text();
        assert!(told.contains("seven"), "{path}: {told}");
    }
}

#[test]
fn what_no_client_sends_is_refused() {
    let served = Served::new();
    let nested = "<a>".repeat(20_000);
    assert_eq!(served.send("PROPFIND", "/", &[("depth", "0")], nested).status, 400);
    assert_eq!(served.send("PROPFIND", "/", &[("depth", "0")], vec![b' '; 70_000]).status, 413);
    assert_eq!(served.send("PROPFIND", "/", &[("depth", "infinity")], "").status, 403);
    for headers in [("origin", "http://evil.example"), ("host", "evil.example")] {
        assert_eq!(served.send("GET", "/", &[headers], "").status, 403, "{headers:?}");
    }
    for method in ["REPORT", "MKCALENDAR", "TRACE", "BREW"] {
        let status = served.send(method, "/", &[], "").status;
        assert!(matches!(status, 405 | 501), "{method}: {status}");
    }
    assert_eq!(served.send("COPY", "/", &[], "").status, 400);
}
