//! Behind nginx with its defaults, as many servers stand: event streams, agents and remote mounts
//! go through it as they would without.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Place, Running, can_mount, eventually, program, request};

/// Nothing here takes this long unless it hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// nginx in front of a server: buffering, timeouts and the version of HTTP it speaks to the server
/// are its defaults.
struct Proxy {
    child: Child,
    url: String,
    _place: Place,
}

impl Proxy {
    /// None, and a word about it, where there is no nginx.
    fn of(server: &str, gzip: &str) -> Option<Self> {
        let tools = std::env::var_os("SVCFS_TOOLS").map(PathBuf::from).unwrap_or_default();
        let places = [PathBuf::from("/usr/sbin/nginx"), tools.join("nginx/usr/sbin/nginx")];
        let Some(nginx) = places.into_iter().find(|place| place.is_file()) else {
            assert!(tools.as_os_str().is_empty(), "nginx is missing; scripts/test.sh downloads it");
            println!("skipped: nginx is not installed; scripts/test.sh downloads it");
            return None;
        };
        let place = Place::new();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let folders = folders.map(|name| format!("{name}_temp_path {name};\n")).concat();
        place.write(
            "conf",
            &format!(
                "daemon off;\nuser root;\npid pid;\nerror_log log;\nevents {{ }}\nhttp {{\naccess_log off;\n{folders}\
                 gzip {gzip};\ngzip_proxied any;\ngzip_min_length 0;\n\
                 gzip_types text/event-stream application/json text/markdown text/plain;\n\
                 server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {server}; }} }}\n}}\n"
            ),
        );
        let mut command = Command::new(nginx);
        command.args(["-p", &place.at(""), "-c", "conf", "-e", "log"]).stdin(Stdio::null());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let proxy = Self { child, url: format!("http://127.0.0.1:{port}"), _place: place };
        eventually("nginx listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(proxy)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Its workers end with their master only when it is asked.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _gone_already = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _status = self.child.wait();
    }
}

/// What `curl` reads, line by line, as it comes.
struct Lines {
    child: Child,
    lines: Receiver<String>,
}

impl Lines {
    fn of(arguments: &[&str]) -> Self {
        let mut command = Command::new("curl");
        let mut child =
            command.args(["-sN", "-D", "-", "--compressed"]).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let reader = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        let thread = std::thread::Builder::new().name("curl".to_owned());
        let read = move || reader.lines().map_while(Result::ok).try_for_each(|line| sender.send(line));
        thread.spawn(move || drop(read())).unwrap();
        Self { child, lines }
    }

    /// Lines up to one that begins like this.
    #[track_caller]
    fn until(&self, start: &str) -> Vec<String> {
        let mut read = Vec::new();
        loop {
            let line = self.lines.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("no `{start}` after {read:?}"));
            let is_last = line.to_lowercase().starts_with(start);
            read.push(line.to_lowercase());
            if is_last {
                return read;
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Shows: HTTP-10
#[test]
fn events_pass_nginx_immediately_compressed_or_not() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    for gzip in ["off", "on"] {
        let Some(proxy) = Proxy::of(server.url(), gzip) else { return };
        let events = Lines::of(&[&format!("{}/api/svc/events", proxy.url)]);
        // The first bytes are there before anything happens.
        let head = events.until(":");
        let is_compressed = head.iter().any(|line| line == "content-encoding: gzip");
        assert_eq!(is_compressed, gzip == "on", "{head:?}");
        assert!(head.iter().any(|line| line == "cache-control: no-cache, no-transform"), "{head:?}");
        for text in ["# One\n", "# Two\n"] {
            let target = format!("/api/svc/file?path=p-{gzip}.md");
            assert_eq!(request(server.url(), "PUT", &target, text).0, 200);
            let event = events.until("data:");
            assert!(event.last().unwrap().contains(&format!("p-{gzip}.md")), "{event:?}");
        }
    }
}

#[test]
fn agents_are_served_behind_nginx_in_each_form() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let message =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "svc_tree", "arguments": {} } });
    for gzip in ["off", "on"] {
        let Some(proxy) = Proxy::of(server.url(), gzip) else { return };
        for (accept, start) in [("application/json", "{"), ("text/event-stream", "data:")] {
            let answer = Lines::of(&[
                "-H",
                "Content-Type: application/json",
                "-H",
                &format!("Accept: {accept}"),
                "-d",
                &message.to_string(),
                &format!("{}/mcp", proxy.url),
            ]);
            let last = answer.until(start).pop().unwrap();
            let json: Value = serde_json::from_str(last.trim_start_matches("data:")).unwrap();
            assert!(json["result"].is_object(), "{json}");
        }
    }
}

#[test]
fn a_remote_mount_behind_nginx_sees_what_others_write() {
    if !can_mount() {
        return;
    }
    for gzip in ["off", "on"] {
        let place = Place::with_root();
        std::fs::create_dir(place.path("mnt")).unwrap();
        let server = Running::serve(&place.at("kb"), &[]);
        let Some(proxy) = Proxy::of(server.url(), gzip) else { return };
        let mut command = program();
        command.args(["mount", "--remote", &proxy.url, "--state", &place.at("state"), &place.at("mnt")]);
        let mount = Running::start(command, "svcfs mounts");
        for text in ["# One\n", "# Two, and longer\n", "#\n"] {
            assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=a.md", text).0, 200);
            eventually("a version of others is seen", || place.has("mnt/a.md") && place.read("mnt/a.md") == text);
        }
        // Two saves in a row: the second is based on what the first was answered.
        for text in ["# Mine\n", "# Mine again\n"] {
            place.write("mnt/a.md", text);
            assert_eq!(request(server.url(), "GET", "/api/svc/file?path=a.md", "").1, text);
        }
        assert_eq!(request(server.url(), "DELETE", "/api/svc/file?path=a.md", "").0, 200);
        eventually("a removal is seen", || !place.has("mnt/a.md"));
        mount.stop();
    }
}
