//! The same through WebDAV, S3 and NFS: many small files, one that fits into no memory, a server
//! that dies in the middle, and three who write one page at once.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Place, Running, connect, eventually, exchange, head, request};
use crate::webdav::{has, many};

/// The most memory a server may need, whatever the size of a file: a version's worth (64 MiB)
/// twice, and what it has anyway.
const MOST_MEMORY: u64 = 256 << 20;

/// A root that is served by every door that needs no kernel.
struct Served {
    place: Place,
    server: Running,
}

impl Served {
    fn new() -> Self {
        Self::of(Place::with_root(), &[])
    }

    fn of(place: Place, more: &[&str]) -> Self {
        let protocols = ["--webdav", "--webdav-port", "0", "--s3", "--s3-port", "0", "--nfs", "--nfs-port", "0"];
        let server = Running::serve(&place.at("kb"), &[&protocols[..], more].concat());
        Self { place, server }
    }

    /// The same root, after the server was killed.
    fn killed(mut self) -> Self {
        self.server.signal(Signal::KILL);
        self.server.ended();
        Self::of(self.place, &[])
    }

    /// Where a door is.
    fn at(&self, protocol: &str) -> String {
        let told = self.server.greeting.lines().find_map(|line| line.trim().strip_prefix(protocol));
        told.unwrap().trim().to_owned()
    }

    /// A path below `/`, as libnfs wants it.
    fn nfs(&self, path: &str) -> String {
        let address = self.at("nfs ");
        let port = address.rsplit(':').next().unwrap();
        format!("nfs://127.0.0.1/{path}?nfsport={port}&mountport={port}")
    }

    /// What a client says, when it succeeds.
    #[track_caller]
    fn says(&self, command: &mut Command) -> String {
        let ended = command.current_dir(self.place.at(".")).env_remove("AWS_CA_BUNDLE").output().unwrap();
        let told = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert!(ended.status.success(), "{command:?}: {told}\n{}", self.server.errors());
        told
    }

    /// rclone, as a client of S3.
    #[track_caller]
    fn rclone(&self, arguments: &[&str]) -> String {
        let url = self.at("s3");
        let flags = ["--config", "/dev/null", "--s3-provider=Other", "--s3-endpoint", &url];
        let signing = ["--s3-access-key-id=ann", "--s3-secret-access-key=svcfs"];
        self.says(Command::new("rclone").args(flags).args(signing).args(arguments))
    }

    /// The most memory there was, in bytes.
    fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    /// How often each file of a folder came into history, after the server has ended.
    fn added(self, folder: &str) -> usize {
        self.server.stop();
        let told = self.place.git("kb", &["log", "--diff-filter=A", "--format=", "--name-only", "--", folder]);
        told.lines().count()
    }
}

fn small_files(place: &Place) -> usize {
    let count = many();
    (0..count).for_each(|number| place.write(&format!("up/{}/{number}.md", number % 50), &format!("# {number}\n")));
    count
}

#[test]
fn many_files_round_trip_over_s3_with_one_version_each() {
    if !has("rclone") {
        return;
    }
    let served = Served::new();
    let count = small_files(&served.place);
    served.rclone(&["sync", "up", ":s3:default/many", "--transfers", "8"]);
    served.rclone(&["check", "--download", "up", ":s3:default/many"]);
    served.rclone(&["copy", ":s3:default/many", "down"]);
    served.says(Command::new("diff").args(["-r", "up", "down"]));
    assert_eq!(served.added("many"), count);
}

#[test]
fn many_files_round_trip_over_nfs_with_one_version_each() {
    if !has("nfs-cp") {
        return;
    }
    let served = Served::new();
    let count = small_files(&served.place);
    (0..50).for_each(|folder| served.place.write(&format!("kb/many/{folder}/.keep"), ""));
    std::fs::create_dir(served.place.path("down")).unwrap();
    let (next, served) = (AtomicUsize::new(0), served);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let from = format!("up/{}/{number}.md", number % 50);
                    let there = served.nfs(&format!("default/many/{}/{number}.md", number % 50));
                    served.says(Command::new("nfs-cp").args([&from, &there]));
                    let back = format!("down/{number}.md");
                    served.says(Command::new("nfs-cp").args([&there, &back]));
                    assert_eq!(served.place.read(&back), served.place.read(&from));
                }
            });
        }
    });
    let listed = served.says(Command::new("nfs-ls").arg("-R").arg(served.nfs("default/many")));
    assert_eq!(listed.lines().filter(|line| line.contains(".md")).count(), count, "{listed}");
    assert_eq!(served.added("many/*.md"), count);
}

/// MiB of the file that fits into no memory.
fn size() -> usize {
    std::env::var("SVCFS_DOOR_MIB").ok().and_then(|size| size.parse().ok()).unwrap_or(320)
}

#[test]
fn a_file_larger_than_memory_round_trips_through_every_protocol() {
    if !has("nfs-cp") || !has("rclone") {
        return;
    }
    let served = Served::new();
    let mut large = File::create(served.place.path("large.bin")).unwrap();
    (0..size()).for_each(|number| large.write_all(format!("{number:016}").repeat(1 << 16).as_bytes()).unwrap());
    drop(large);
    let (http, webdav, s3) = (served.server.url().to_owned(), served.at("webdav"), served.at("s3"));
    let put = |url: String| {
        let told = served.says(Command::new("curl").args(["-sS", "-f", "-o", "/dev/null", "-T", "large.bin", &url]));
        assert_eq!(told, "");
    };
    let is_same = |from: &mut Command| {
        served.says(from);
        served.says(Command::new("cmp").args(["large.bin", "back.bin"]));
    };
    let get = |url: String| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-f", "-o", "back.bin", &url]);
        is_same(&mut curl);
    };
    put(format!("{webdav}/webdav.bin"));
    get(format!("{webdav}/webdav.bin"));
    put(format!("{s3}/default/s3.bin"));
    get(format!("{s3}/default/s3.bin"));
    served.rclone(&["copyto", "--s3-chunk-size=16M", "large.bin", ":s3:default/parts.bin"]);
    get(format!("{s3}/default/parts.bin"));
    get(format!("{http}/raw/parts.bin"));
    served.says(Command::new("nfs-cp").args(["large.bin", &served.nfs("default/nfs.bin")]));
    std::fs::remove_file(served.place.path("back.bin")).unwrap();
    is_same(Command::new("nfs-cp").args([&served.nfs("default/nfs.bin"), "back.bin"]));
    let most = served.most_memory();
    println!("{} MiB five times up and five times down: {} MiB of memory at most", size(), most >> 20);
    assert!(most < MOST_MEMORY, "{} MiB of memory", most >> 20);
    served.server.stop();
}

#[test]
fn an_s3_upload_survives_a_server_crash_without_partial_objects() {
    let served = Served::new();
    let s3 = served.at("s3");
    let begun = exchange(&s3, "POST", "/default/parts.bin?uploads", ("", "")).2;
    let id = begun.split("<UploadId>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let part = |s3: &str, number: u32, body: &str| {
        request(s3, "PUT", &format!("/default/parts.bin?partNumber={number}&uploadId={id}"), body).0
    };
    let first = "1".repeat(5 << 20);
    assert_eq!(part(&s3, 1, &first), 200);
    assert_eq!(request(&s3, "PUT", "/default/page.md", "# One\n").0, 200);
    // Of a page, of a file that lies beside its place meanwhile, and of a part.
    let second = format!("/default/parts.bin?partNumber=2&uploadId={id}");
    let halves = [("/default/page.md", 1 << 20), ("/default/large.bin", 100 << 20), (&second, 10 << 20)];
    let halves = halves.map(|(target, length)| {
        let mut stream = connect(&s3);
        write!(stream, "{}", head(&s3, "PUT", target, length)).unwrap();
        stream.write_all(&vec![b'x'; length * 4 / 5]).unwrap();
        stream
    });
    let served = served.killed();
    drop(halves);
    let s3 = served.at("s3");
    assert_eq!(served.place.read("kb/page.md"), "# One\n");
    let is_half = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        name.starts_with(".svc-upload-") || name == "large.bin"
    };
    eventually("what was half there is gone", || !std::fs::read_dir(served.place.path("kb")).unwrap().any(is_half));
    let listed = request(&s3, "GET", &format!("/default/parts.bin?uploadId={id}"), "").1;
    assert!(listed.contains("<PartNumber>1<") && !listed.contains("<PartNumber>2<"), "{listed}");
    assert_eq!(part(&s3, 2, "the end"), 200);
    let parts = "<Part><PartNumber>1</PartNumber></Part><Part><PartNumber>2</PartNumber></Part>";
    let complete = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    let done = request(&s3, "POST", &format!("/default/parts.bin?uploadId={id}"), &complete);
    assert_eq!(done.0, 200, "{}", done.1);
    assert_eq!(request(&s3, "GET", "/default/parts.bin", "").1, format!("{first}the end"));
    let left = std::fs::read_dir(served.place.path("kb/.svc/state/s3").join(&id)).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(
        left,
        ["completed.json"],
        "parts are gone once they are put together, and it is known what became of them"
    );
    served.server.stop();
}

#[test]
fn concurrent_conditional_writes_of_three_protocols_are_safe() {
    const EACH: usize = 20;
    let served = Served::new();
    let protocols = [
        (served.server.url().to_owned(), "/api/svc/file?path=page.md"),
        (served.at("webdav"), "/page.md"),
        (served.at("s3"), "/default/page.md"),
    ];
    assert_eq!(request(&protocols[1].0, "PUT", "/page.md", "# Page\n").0, 201);
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for (protocol, (url, target)) in protocols.iter().enumerate() {
            let refused = &refused;
            scope.spawn(move || {
                let mut done = 0;
                while done < EACH {
                    let (status, head, text) = exchange(url, "GET", target, ("", ""));
                    assert_eq!(status, 200, "{text}");
                    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
                    let condition = format!("If-Match: {etag}\r\n");
                    let more = format!("{text}- door {protocol}, line {done}\n");
                    match exchange(url, "PUT", target, (&condition, &more)) {
                        (200 | 201 | 204, ..) => done += 1,
                        (409 | 412, ..) => drop(refused.fetch_add(1, Ordering::Relaxed)),
                        other => panic!("{url}: {other:?}"),
                    }
                }
            });
        }
    });
    let text = request(&protocols[1].0, "GET", "/page.md", "").1;
    let lines: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!((text.lines().count(), lines.len()), (3 * EACH + 1, 3 * EACH + 1), "{text}");
    assert!(refused.load(Ordering::Relaxed) > 0, "they never met");
    let place = &served.place;
    served.server.stop();
    let versions = place.git("kb", &["log", "--format=%h", "--", "page.md"]);
    assert_eq!(versions.lines().count(), 3 * EACH + 1, "each is a version");
}

/// The address that this machine has in a network; none where it is in none.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the system looks for the way there alone.
    socket.connect("203.0.113.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|address| !address.is_loopback())
}

#[test]
fn nfs_disconnects_strangers_and_logs_that_once() {
    let served = Served::of(Place::with_root(), &["--host", "0.0.0.0", "--nfs-allow", "198.51.100.0/24"]);
    let port: u16 = served.at("nfs ").rsplit(':').next().unwrap().parse().unwrap();
    let (here, own) = (IpAddr::from(Ipv4Addr::LOCALHOST), own_address());
    for address in [here].into_iter().chain(own).flat_map(|address| [address; 2]) {
        let mut stream = TcpStream::connect((address, port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // Nothing was asked: neither is anything left unread.
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "{address}");
    }
    let log = served.server.stop();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("is not in `nfs.allow`")).collect();
    match own {
        Some(own) => assert!(told.len() == 1 && told[0].contains(&own.to_string()), "{log}"),
        None => assert!(told.is_empty(), "{log}"),
    }
}

#[test]
fn several_spaces_are_folders_of_what_nfs_serves() {
    if !has("nfs-cp") {
        return;
    }
    let served = Served::new();
    let made = request(served.server.url(), "POST", "/api/spaces", r#"{"name":"team"}"#);
    assert!(made.0 < 300, "{made:?}");
    served.place.write("there.md", "# There\n");
    let listed = served.says(Command::new("nfs-ls").arg(served.nfs("")));
    assert!(listed.contains("default") && listed.contains("team"), "{listed}");
    served.says(Command::new("nfs-cp").args(["there.md", &served.nfs("team/there.md")]));
    let read = request(served.server.url(), "GET", "/api/svc/team/file?path=there.md", "");
    assert!(read.1.contains("# There"), "{read:?}");
    assert_eq!(request(served.server.url(), "GET", "/api/svc/file?path=there.md", "").0, 404);
    served.server.stop();
}
