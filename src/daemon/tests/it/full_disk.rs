//! A full disk, as every protocol reports it, and what works again when there is space.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use serde_json::json;

use crate::harness::{Place, Running, can_mount, eventually, exchange, request};
use crate::webdav::has;

/// Two seconds are promised. The machine of a test may do other things.
const LIMIT: Duration = Duration::from_secs(5);

/// A small disk in memory at a place of the root; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, with the reason printed, where nothing can be mounted.
    fn at(place: PathBuf, size: &str) -> Option<Self> {
        std::fs::create_dir_all(&place).unwrap();
        let size = format!("size={size},mode=0755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&place).output().unwrap();
        if !mounted.status.success() {
            println!("skipped: no tmpfs can be mounted: {}", String::from_utf8_lossy(&mounted.stderr));
            return None;
        }
        Some(Self(place))
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler.bin")
    }

    /// Leaves no space.
    fn fill(&self) {
        let filler = File::create(self.filler()).unwrap();
        let mut end = 0;
        for size in [1 << 20, 1 << 12] {
            while rustix::fs::fallocate(&filler, FallocateFlags::empty(), end, size).is_ok() {
                end += size;
            }
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// A text that does not fit into the space that programs have set aside.
fn text(number: usize) -> String {
    let mut seed = number as u64 + 1;
    let mut word = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        format!("{seed:016x}\n")
    };
    let lines: String = (0..20_000).map(|_| word()).collect();
    format!("# Page {number}\n\n{lines}")
}

struct Served {
    server: Running,
    place: Place,
    nfs_files: AtomicUsize,
    /// Whether files that svcfs reuses may have space for a write although the disk is full.
    may_have_space: bool,
}

impl Served {
    fn at(&self, protocol: &str) -> String {
        self.server.greeting.lines().find_map(|line| line.trim().strip_prefix(protocol)).unwrap().trim().to_owned()
    }

    /// Saves through the mount: what its calls say.
    fn save(&self, page: &str, text: &str) -> io::Result<()> {
        let mut file = File::create(self.place.path("mnt").join(page))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn nfs(&self, page: &str, text: &str) -> String {
        let from = format!("from-{page}");
        self.place.write(&from, text);
        let address = self.at("nfs ");
        let port = address.rsplit(':').next().unwrap();
        let there = format!("nfs://127.0.0.1/default/{page}?nfsport={port}&mountport={port}");
        let output = Command::new("nfs-cp").args([&self.place.at(&from), &there]).output().unwrap();
        if output.status.success() {
            "ok".to_owned()
        } else {
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        }
    }

    /// Writes a page through each protocol, at the same time: what is wrong about the answers.
    fn writes(&self, is_full: bool) -> Vec<String> {
        let is_taken = |is_success: bool| is_success && self.may_have_space;
        let text = &text(usize::from(is_full));
        let check = |what: &str, begun: Instant, is_right: bool, answer: String| {
            let answer: String = answer.chars().take(300).collect();
            let is_late = is_full && begun.elapsed() > LIMIT;
            println!("full: {is_full}, {what}: {:?} {answer}", begun.elapsed());
            (!is_right || is_late).then(|| format!("{what} after {:?}: {answer}", begun.elapsed()))
        };
        let http = |number: usize| {
            let begun = Instant::now();
            let (status, answer) =
                request(self.server.url(), "PUT", &format!("/api/svc/file?path=http{number}.md"), text);
            let is_right = if is_full {
                status == 503 && answer.contains("disk full: no space left for `") || is_taken(status == 200)
            } else {
                status == 200
            };
            check("HTTP", begun, is_right, format!("{status} {answer}"))
        };
        let agent = || {
            let arguments = json!({ "path": "agent.md", "content": text });
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "svc_write", "arguments": arguments } });
            let headers = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
            let begun = Instant::now();
            let (_, _, answer) = exchange(self.server.url(), "POST", "/mcp", (headers, &call.to_string()));
            check(
                "MCP",
                begun,
                answer.contains("disk full: no space left for `") == is_full || is_taken(answer.contains("Written")),
                answer,
            )
        };
        let webdav = || {
            let begun = Instant::now();
            let (status, answer) = request(&self.at("webdav"), "PUT", "/webdav.md", text);
            check(
                "WebDAV",
                begun,
                if is_full { status == 507 || is_taken(status < 300) } else { status < 300 },
                format!("{status} {answer}"),
            )
        };
        let s3 = || {
            let begun = Instant::now();
            let (status, answer) = request(&self.at("s3"), "PUT", "/default/s3.md", text);
            let is_right = if is_full {
                status == 503 && answer.contains("disk full") || is_taken(status == 200)
            } else {
                status == 200
            };
            check("S3", begun, is_right, format!("{status} {answer}"))
        };
        let mount = || {
            let begun = Instant::now();
            let errno = self.save("mount.md", text).err().and_then(|error| error.raw_os_error());
            check("mount", begun, errno == is_full.then_some(28) || is_taken(errno.is_none()), format!("{errno:?}"))
        };
        let nfs = || {
            let begun = Instant::now();
            // The program only creates files.
            let number = self.nfs_files.fetch_add(1, Ordering::Relaxed);
            let answer = self.nfs(&format!("nfs{number}.md"), text);
            // Of a refused write, unlike a refused create, the program does not say the status.
            let is_refused = answer.contains("NOSPC") || answer.contains("Failed to write");
            check("NFS", begun, if is_full { is_refused || is_taken(answer == "ok") } else { answer == "ok" }, answer)
        };
        thread::scope(|scope| {
            let mut writers: Vec<_> = (0..4).map(|number| scope.spawn(move || http(number))).collect();
            writers.extend([
                scope.spawn(agent),
                scope.spawn(webdav),
                scope.spawn(s3),
                scope.spawn(mount),
                scope.spawn(nfs),
            ]);
            writers.into_iter().filter_map(|writer| writer.join().unwrap()).collect()
        })
    }

    fn is_ready(&self) -> bool {
        request(self.server.url(), "GET", "/readyz", "").0 == 200
    }
}

fn plays(full: &Path, size: &str, may_have_space: bool) {
    if !can_mount() || !has("nfs-cp") {
        return;
    }
    let place = Place::new();
    std::fs::create_dir_all(place.path("mnt")).unwrap();
    std::fs::create_dir_all(place.path("kb")).unwrap();
    let Some(disk) = SmallDisk::at(place.path("kb").join(full), size) else { return };
    let protocols = ["--webdav", "--webdav-port", "0", "--s3", "--s3-port", "0", "--nfs", "--nfs-port", "0"];
    let server = Running::serve(&place.at("kb"), &[&protocols[..], &["--mount", &place.at("mnt")]].concat());
    let served = Served { server, place, nfs_files: AtomicUsize::new(0), may_have_space };
    assert_eq!(served.writes(false), [""; 0], "before");
    eventually("the server is ready", || served.is_ready());
    for round in 0..2 {
        disk.fill();
        assert_eq!(served.writes(true), [""; 0], "round {round}");
        assert_eq!(served.writes(true), [""; 0], "round {round}, when it is known");
        // A small write may have found space that a checkpoint freed: the next one does not.
        eventually("the full disk is reported", || {
            !served.is_ready() || !served.writes(true).is_empty() && !served.is_ready()
        });
        let (status, answer) = request(served.server.url(), "GET", "/api/svc/file?path=s3.md", "");
        assert_eq!((status, answer.starts_with("# Page ")), (200, true), "reads work");
        disk.free();
        eventually("the server works again", || served.is_ready());
        assert_eq!(served.writes(false), [""; 0], "round {round}, after it");
    }
    served.server.stop();
    drop(disk);
}

/// Shows: FAIL-1
#[test]
fn a_full_disk_is_reported_by_every_protocol_to_every_writer() {
    plays(Path::new(""), "96m", false);
}

/// Shows: FAIL-2
#[test]
fn a_full_disk_of_git_is_reported_by_every_protocol_to_every_writer() {
    plays(Path::new(".git"), "24m", true);
}
