mod audit;
mod buckets;
mod checksums;
mod concurrent_writes;
mod conditions;
mod direct_calls;
mod etags;
mod hostile;
mod large_objects;
mod listings;
mod missing;
mod object_headers;
mod part_numbers;
mod parts;
mod proposals;
mod rejections;
mod signatures;
mod versions;
mod versions_and_uploads;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use svcfs_base::{Caller, Change, Protocol, SystemClock, TreePath};
use svcfs_config::{CliOverrides, Config, Settings};
use svcfs_knowledge::access::AccessControl;
use svcfs_knowledge::kernel::{ServerState, Space};
use svcfs_knowledge::spaces::{self, RunningSpace, SpaceCollection, SpaceOptions};
use svcfs_work::Supervisor;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::checksums::etag_of;

/// A server of two spaces, `default` and `team`, with nobody's background tasks.
pub(crate) struct Served {
    server: Arc<ServerState>,
    pub(crate) runtime: Runtime,
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
    /// What stands between all the tags of this name.
    fn all(&self, tag: &str) -> Vec<String> {
        let text = self.text();
        let begin = format!("<{tag}>");
        text.split(&begin).skip(1).map(|rest| rest.split(&format!("</{tag}>")).next().unwrap().to_owned()).collect()
    }
    #[track_caller]
    fn is(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.all("Code").join(",").as_str()), (status, code), "{}", self.text());
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
    pub(crate) fn new() -> Self {
        Self::with("lint.reject_protocols = [\"s3\"]")
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
        let opener = |name: &str, root: &Path| {
            let space = open(root.parent().unwrap(), name, "");
            Ok(RunningSpace { space, supervisor: Supervisor::new(), resource_guard: None })
        };
        let parents = vec![folder.path().join("buckets")];
        let spaces =
            SpaceCollection::single(open(folder.path(), "default", config)).with_opener(Box::new(opener), parents);
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
    fn put(&self, key: &str, content: &str) {
        let reply = self.send("PUT", &format!("/default/{key}"), &[], content.to_owned());
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(reply.header("etag"), format!("\"{}\"", etag_of(content.as_bytes())));
    }

    fn get(&self, target: &str) -> Reply {
        self.send("GET", target, &[], "")
    }

    fn keys(&self, query: &str) -> Vec<String> {
        self.get(&format!("/default?list-type=2{query}")).all("Key")
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

/// A request of nobody in particular, to a door of its own.
pub(crate) fn asked_of(served: &Served) -> crate::context::S3RequestContext {
    etags::asked(served.protocol(100))
}

/// Shows: S3-1
#[test]
fn an_object_is_put_read_and_removed_each_in_one_commit() {
    let served = Served::new();
    let mut seen = 0;
    served.commits(&mut seen);
    served.put("notes/a.md", "# A\n");
    let got = served.get("/default/notes/a.md");
    assert_eq!((got.status, got.text().as_str()), (200, "# A\n"));
    assert_eq!(got.header("content-type"), "text/markdown; charset=utf-8");
    assert_eq!(got.header("etag"), format!("\"{}\"", etag_of(b"# A\n")));
    let head = served.send("HEAD", "/default/notes/a.md", &[], "");
    assert_eq!((head.status, head.header("content-length")), (200, "4"));
    assert_eq!(served.send("DELETE", "/default/notes/a.md", &[], "").status, 204);
    assert_eq!(served.send("DELETE", "/default/notes/a.md", &[], "").status, 204, "what is not there is removed");
    served.get("/default/notes/a.md").is(404, "NoSuchKey");
    assert!(served.keys("").iter().all(|key| !key.starts_with("notes")), "a folder is gone with its last object");
    let commits = served.commits(&mut seen);
    assert_eq!(commits.len(), 2, "{commits:?}");
    assert!(commits.iter().all(|commit| commit.starts_with("s3: ")), "{commits:?}");
}

#[test]
fn spaces_are_buckets_by_path_and_by_name_of_the_host() {
    let served = Served::new();
    assert_eq!(served.get("/").all("Name"), ["default", "team"]);
    let put = served.send("PUT", "/a.md", &[("host", "team.localhost:1")], "# A\n");
    assert_eq!(put.status, 200, "{}", put.text());
    assert_eq!(served.get("/team/a.md").text(), "# A\n");
    served.get("/nowhere/a.md").is(404, "NoSuchBucket");
    served.get("/nowhere?list-type=2").is(404, "NoSuchBucket");
    served.send("PUT", "/fresh", &[], "").is(403, "AccessDenied");
    served.send("PUT", "/team", &[], "").is(409, "BucketAlreadyOwnedByYou");
    served.send("DELETE", "/team", &[], "").is(409, "BucketNotEmpty");
    served.send("GET", "/a.md", &[("host", "evil.example")], "").is(403, "AccessDenied");
}

/// Shows: S3-4
#[test]
fn keys_are_listed_in_byte_order_from_any_start() {
    let served = Served::new();
    let mut keys = ["z/a-b", "z/a.md", "z/a/b.md", "z/a/c/d.md", "z/a0", "z/b", "zz", "z/ä", "z/a/c.md"];
    keys.iter().for_each(|key| served.put(&key.replace('ä', "%C3%A4"), key));
    keys.sort_unstable();
    assert_eq!(served.keys("&prefix=z"), keys);
    assert_eq!(served.keys("&prefix=z/a"), ["z/a-b", "z/a.md", "z/a/b.md", "z/a/c.md", "z/a/c/d.md", "z/a0"]);
    for (at, key) in keys.iter().enumerate() {
        assert_eq!(served.keys(&format!("&prefix=z&start-after={}", key.replace('ä', "%C3%A4"))), keys[at + 1..]);
    }
    // One at a time, and what is removed or added meanwhile disturbs nothing behind it.
    let (mut told, mut token) = (Vec::new(), String::new());
    loop {
        let page = served.get(&format!("/default?list-type=2&prefix=z&max-keys=2{token}"));
        told.extend(page.all("Key"));
        if told.len() == 2 {
            served.send("DELETE", &format!("/default/{}", told[1]), &[], "");
        }
        let Some(next) = page.all("NextContinuationToken").pop() else { break };
        token = format!("&continuation-token={next}");
    }
    assert_eq!(told, keys);
}

#[test]
fn keys_behind_a_delimiter_are_grouped_into_common_prefixes() {
    let served = Served::new();
    ["d/a/1", "d/a/2", "d/b", "d/c/1/2", "d/c/3"].iter().for_each(|key| served.put(key, key));
    let page = served.get("/default?list-type=2&prefix=d/&delimiter=/");
    assert_eq!(
        (page.all("Key"), page.all("Prefix")[1..].to_vec()),
        (vec!["d/b".to_owned()], vec!["d/a/".to_owned(), "d/c/".to_owned()])
    );
    assert_eq!(page.all("KeyCount"), ["3"]);
    let first = served.get("/default?list-type=2&prefix=d/&delimiter=/&max-keys=1");
    let next = first.all("NextContinuationToken").concat();
    let second =
        served.get(&format!("/default?list-type=2&prefix=d/&delimiter=/&max-keys=1&continuation-token={next}"));
    assert_eq!(second.all("Key"), ["d/b"]);
    let odd = served.get("/default?list-type=2&prefix=d/&delimiter=1");
    assert_eq!(odd.all("Prefix")[1..], ["d/a/1", "d/c/1"]);
    let old = served.get("/default?prefix=d/&delimiter=/&marker=d/a/");
    assert_eq!((old.all("Key"), old.all("Prefix")[1..].to_vec()), (vec!["d/b".to_owned()], vec!["d/c/".to_owned()]));
}

#[test]
fn ranges_and_conditions_are_honoured() {
    let served = Served::new();
    served.put("a.txt", "0123456789");
    let etag = format!("\"{}\"", etag_of(b"0123456789"));
    let part = served.send("GET", "/default/a.txt", &[("range", "bytes=2-4")], "");
    assert_eq!((part.status, part.text().as_str(), part.header("content-range")), (206, "234", "bytes 2-4/10"));
    assert_eq!(served.send("GET", "/default/a.txt", &[("range", "bytes=-3")], "").text(), "789");
    served.send("GET", "/default/a.txt", &[("range", "bytes=10-")], "").is(416, "InvalidRange");
    assert_eq!(served.send("GET", "/default/a.txt", &[("if-none-match", &etag)], "").status, 304);
    served.send("GET", "/default/a.txt", &[("if-match", "\"x\"")], "").is(412, "PreconditionFailed");
    let late = [("if-modified-since", "Fri, 01 Jan 2100 00:00:00 GMT")];
    assert_eq!(served.send("GET", "/default/a.txt", &late, "").status, 304);
    let early = [("if-unmodified-since", "Mon, 01 Jan 2001 00:00:00 GMT")];
    served.send("GET", "/default/a.txt", &early, "").is(412, "PreconditionFailed");
}

/// Shows: COND-6
#[test]
fn a_conditional_write_fails_after_a_concurrent_write() {
    let served = Served::new();
    let put = |headers: &[(&str, &str)], body: &'static str| served.send("PUT", "/default/a.md", headers, body);
    put(&[("if-match", "\"x\"")], "# 0\n").is(404, "NoSuchKey");
    let first = put(&[("if-none-match", "*")], "# 1\n");
    assert_eq!(first.status, 200);
    put(&[("if-none-match", "*")], "# 2\n").is(412, "PreconditionFailed");
    let etag = first.header("etag").to_owned();
    assert_eq!(put(&[("if-match", &etag)], "# 3\n").status, 200);
    put(&[("if-match", &etag)], "# 4\n").is(412, "PreconditionFailed");
    served.send("DELETE", "/default/a.md", &[("if-match", &etag)], "").is(412, "PreconditionFailed");
    assert_eq!(served.text("a.md").as_deref(), Some("# 3\n"));
}

/// Shows: S3-3
#[test]
fn what_does_not_sum_up_is_not_written() {
    let served = Served::new();
    let put = |headers: &[(&str, &str)]| served.send("PUT", "/default/a.txt", headers, "123456789");
    put(&[("x-amz-checksum-crc32", "AAAAAA==")]).is(400, "BadDigest");
    put(&[("x-amz-checksum-sha256", "AAAA")]).is(400, "BadDigest");
    put(&[("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")]).is(400, "BadDigest");
    assert_eq!(served.text("a.txt"), None);
    let kept = put(&[("x-amz-checksum-crc32c", "4waSgw==")]);
    assert_eq!((kept.status, kept.header("x-amz-checksum-crc32c")), (200, "4waSgw=="));
    let asked = served.send("GET", "/default/a.txt", &[("x-amz-checksum-mode", "ENABLED")], "");
    assert_eq!(asked.header("x-amz-checksum-crc32c"), "4waSgw==");
    // Somebody else writes it: what was said of the content is said no more.
    let path = TreePath::parse("a.txt").unwrap();
    served.server.primary().vfs.apply(&Caller::new(Protocol::Http), Change::put(path, "else")).unwrap();
    let asked = served.send("GET", "/default/a.txt", &[("x-amz-checksum-mode", "ENABLED")], "");
    assert_eq!(
        (asked.header("x-amz-checksum-crc32c"), asked.header("etag")),
        ("", format!("\"{}\"", etag_of(b"else")).as_str())
    );
}

/// Shows: S3-7
#[test]
fn what_clients_say_of_an_object_is_given_back_and_copied() {
    let served = Served::new();
    let said = [
        ("content-type", "text/x-tide"),
        ("cache-control", "no-cache"),
        ("x-amz-meta-mood", "calm"),
        ("x-amz-tagging", "a=1&b%20c=2"),
    ];
    assert_eq!(served.send("PUT", "/default/a.txt", &said, "tide").status, 200);
    let copy = [("x-amz-copy-source", "/default/a.txt")];
    let copied = served.send("PUT", "/team/deep/b.txt", &copy, "");
    assert_eq!((copied.status, copied.all("ETag").len()), (200, 1), "{}", copied.text());
    for target in ["/default/a.txt", "/team/deep/b.txt"] {
        let head = served.send("HEAD", target, &[], "");
        let told = ["content-type", "cache-control", "x-amz-meta-mood"].map(|name| head.header(name).to_owned());
        assert_eq!(told, ["text/x-tide", "no-cache", "calm"], "{target}");
        let tags = served.get(&format!("{target}?tagging"));
        assert_eq!(
            (tags.all("Key"), tags.all("Value")),
            (vec!["a".into(), "b c".into()], vec!["1".into(), "2".into()])
        );
    }
    served.send("PUT", "/default/a.txt", &copy, "").is(400, "InvalidRequest");
    let anew = [copy[0], ("x-amz-metadata-directive", "REPLACE"), ("x-amz-meta-mood", "wild")];
    assert_eq!(served.send("PUT", "/default/a.txt", &anew, "").status, 200);
    assert_eq!(served.send("HEAD", "/default/a.txt", &[], "").header("x-amz-meta-mood"), "wild");
    assert_eq!(served.send("DELETE", "/default/a.txt?tagging", &[], "").status, 204);
    assert_eq!(served.get("/default/a.txt?tagging").all("Key"), [""; 0]);
    served.put("a.txt", "tide");
    assert_eq!(served.send("HEAD", "/default/a.txt", &[], "").header("x-amz-meta-mood"), "", "a PUT says all anew");
    served.get("/default/none.txt?tagging").is(404, "NoSuchKey");
}

/// Shows: S3-1
#[test]
fn many_objects_are_removed_in_one_commit() {
    let served = Served::new();
    (0..20).for_each(|number| served.put(&format!("many/{number}.md"), "# M\n"));
    let mut seen = 0;
    served.commits(&mut seen);
    let objects: String = (0..21).map(|number| format!("<Object><Key>many/{number}.md</Key></Object>")).collect();
    let body = format!("<Delete>{objects}<Object><Key>../x</Key></Object></Delete>");
    let reply = served.send("POST", "/default?delete", &[("content-length", &body.len().to_string())], body.clone());
    assert_eq!((reply.status, reply.all("Deleted").len(), reply.all("Error").len()), (200, 21, 1), "{}", reply.text());
    assert_eq!(served.commits(&mut seen).len(), 1);
    assert!(!served.folder.path().join("default/many").exists());
    // What was not there has no version that says so.
    let markers = reply.all("DeleteMarkerVersionId");
    let listed = served.get("/default?versions&prefix=many/0.md").all("DeleteMarker").concat();
    assert!(markers.len() == 20 && listed.contains(&format!("<VersionId>{}</VersionId>", markers[0])), "{listed}");
    assert_eq!(reply.all("DeleteMarker").len(), 20, "{}", reply.text());
}

#[test]
fn a_folder_that_was_made_stays_when_it_becomes_empty() {
    let served = Served::new();
    served.put("made/", "");
    assert_eq!(served.keys("&prefix=made"), ["made/"]);
    served.put("made/a.md", "# A\n");
    assert_eq!(served.keys("&prefix=made"), ["made/a.md"]);
    assert_eq!(served.send("HEAD", "/default/made/", &[], "").status, 200);
    served.get("/default/made").is(404, "NoSuchKey");
    served.send("DELETE", "/default/made/a.md", &[], "");
    assert_eq!(served.keys("&prefix=made"), ["made/"]);
    assert_eq!(served.send("DELETE", "/default/made/", &[], "").status, 204);
    assert_eq!(served.keys("&prefix=made"), [""; 0]);
    served.send("PUT", "/default/made/", &[], "content").is(400, "InvalidArgument");
}

#[test]
fn what_is_no_path_or_not_for_strangers_is_refused() {
    let served = Served::new();
    for key in ["../x", "a/../../x", "a//b", "./a", "%2e%2e/x", "a/%00"] {
        served.send("PUT", &format!("/default/{key}"), &[], "x").is(400, "InvalidArgument");
    }
    let long = "x".repeat(300);
    served.send("PUT", &format!("/default/{long}"), &[], "x").is(400, "KeyTooLongError");
    served.send("PUT", &format!("/default/{}", "y/".repeat(600)), &[], "x").is(400, "KeyTooLongError");
    for key in [".git/config", ".svc/state/s3.key", ".svc/config.toml"] {
        served.get(&format!("/default/{key}")).is(404, "NoSuchKey");
        assert!(served.send("PUT", &format!("/default/{key}"), &[], "x").status >= 400, "{key}");
    }
    assert!(served.keys("").iter().all(|key| !key.contains("state") && !key.contains(".git/")));
    served.put("a.md", "# A\n");
    let streamed = [("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")];
    served.send("PUT", "/default/b.md", &streamed, "4\r\n# B\n\r\n0\r\n\r\n").is(400, "InvalidRequest");
    served.send("GET", "/default?acl", &[], "").is(501, "NotImplemented");
}
