//! Runs the binary, and waits for what it does.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Nothing here takes this long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(60);
/// Between two looks at a condition nobody announces.
const LOOK: Duration = Duration::from_millis(5);

/// The binary, in an environment in which nothing of the developer's own has an effect.
pub fn program() -> Command {
    program_at(Path::new(env!("CARGO_BIN_EXE_svcfs")))
}

/// A copy of the binary, in the same environment.
pub fn program_at(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    for name in [
        "SVC_ROOT",
        "SVC_PORT",
        "SVC_PUBLIC_URL",
        "SVC_LOG",
        "RUST_LOG",
        "NOTIFY_SOCKET",
        "SVC_API_KEY",
        "SVC_AUTH_TYPE",
    ] {
        command.env_remove(name);
    }
    command.env("USER", "tester");
    command
}

/// The binary with arguments, for assertions on how it ends.
pub fn svcfs(arguments: &[&str]) -> assert_cmd::Command {
    let mut command = program();
    command.args(arguments);
    let mut command = assert_cmd::Command::from_std(command);
    command.timeout(DEADLINE);
    command
}

/// What a successful command prints, as JSON.
#[track_caller]
pub fn json_of(arguments: &[&str]) -> Value {
    let output = svcfs(arguments).assert().success().get_output().stdout.clone();
    serde_json::from_slice(&output).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output)))
}

/// What a refused command prints on standard error, with its exit code.
#[track_caller]
pub fn refusal(arguments: &[&str], code: i32) -> String {
    let assert = svcfs(arguments).assert().code(code);
    let text = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    let first = text.lines().find(|line| line.starts_with("svcfs: "));
    assert!(first.is_some(), "not in the voice of the program: {text}");
    assert!(!text.contains("Error {") && !text.contains("Os {"), "a debug dump: {text}");
    text
}

/// A directory, and what is at a path in it.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
    /// A place with a root `kb` that is initialised.
    pub fn with_root() -> Self {
        let place = Self::new();
        svcfs(&["init", "--root", &place.at("kb")]).assert().success();
        place
    }
    pub fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    /// Without links.
    pub fn canonical(&self, name: &str) -> String {
        self.path(name).canonicalize().unwrap().to_str().unwrap().to_owned()
    }
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
    pub fn has(&self, name: &str) -> bool {
        self.path(name).symlink_metadata().is_ok()
    }
    /// What plain git says of a root.
    #[track_caller]
    pub fn git(&self, root: &str, arguments: &[&str]) -> String {
        let identity = ["-c", "user.name=Old Hand", "-c", "user.email=old@example.org"];
        let output = Command::new("git").current_dir(self.path(root)).args(identity).args(arguments).output().unwrap();
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "git {arguments:?}: {err}");
        out.trim().to_owned()
    }
}

/// A command that stays in the foreground.
pub struct Running {
    pub child: Child,
    /// What it said on standard output until it was ready.
    pub greeting: String,
    errors: PathBuf,
    _rest: Option<BufReader<ChildStdout>>,
    _place: TempDir,
}

impl Running {
    /// Starts `command` and waits for the line of its greeting that begins with `last`.
    #[track_caller]
    pub fn start(mut command: Command, last: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let errors = place.path().join("stderr");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&errors).unwrap());
        let mut child = command.spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let last = last.to_owned();
        let (greeting, rest) = within("the greeting", move || {
            let mut greeting = String::new();
            while reader.read_line(&mut greeting).unwrap() > 0 {
                if greeting.lines().last().unwrap().trim_start().starts_with(&last) {
                    return (greeting, Some(reader));
                }
            }
            (greeting, None)
        });
        let running = Self { child, greeting, errors, _rest: rest, _place: place };
        assert!(running._rest.is_some(), "it ended before it was ready: {}", running.errors());
        running
    }
    /// `svcfs serve` on a free port.
    #[track_caller]
    pub fn serve(root: &str, more: &[&str]) -> Self {
        let mut command = program();
        command.args(["serve", "--root", root, "--create", "--port", "0"]).args(more);
        let last = [("--mount", "folder"), ("--nfs", "nfs"), ("--webdav", "webdav"), ("--s3", "s3")]
            .into_iter()
            .find(|(flag, _)| more.contains(flag));
        Self::start(command, last.map_or("agents", |(_, line)| line))
    }
    pub fn url(&self) -> &str {
        let line = self.greeting.lines().find_map(|line| line.trim().strip_prefix("http "));
        line.expect("the greeting names the address").trim()
    }
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).unwrap()
    }
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
    /// Waits for the end.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
    /// Asks for the end and expects it to be a good one.
    #[track_caller]
    pub fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "{}", self.errors());
        self.errors()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _gone_already = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

/// Waits for a condition.
#[track_caller]
pub fn eventually(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < DEADLINE, "in vain: {what}");
        // Between two looks; nobody unparks this thread.
        std::thread::park_timeout(LOOK);
    }
}

/// Runs something that blocks, but not for ever.
#[track_caller]
pub fn within<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name(what.to_owned());
    thread.spawn(move || drop(sender.send(work()))).unwrap();
    receiver.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("in vain: {what}"))
}

/// One HTTP request; status and body.
#[track_caller]
pub fn request(url: &str, method: &str, target: &str, body: &str) -> (u16, String) {
    request_with(url, None, method, target, body)
}

/// One HTTP request with a key.
#[track_caller]
pub fn request_with(url: &str, key: Option<&str>, method: &str, target: &str, body: &str) -> (u16, String) {
    let mut stream = connect(url);
    let head = head(url, method, target, body.len());
    let head = match key {
        Some(key) => head.replacen("\r\n", &format!("\r\nAuthorization: Bearer {key}\r\n"), 1),
        None => head,
    };
    write!(stream, "{head}").unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    (status, body)
}

/// One request with headers; status, head and body.
#[track_caller]
pub fn exchange(url: &str, method: &str, target: &str, (headers, body): (&str, &str)) -> (u16, String, String) {
    let mut stream = connect(url);
    let head = head(url, method, target, body.len()).replacen("\r\n", &format!("\r\n{headers}"), 1);
    write!(stream, "{head}{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// The head of a request.
pub fn head(url: &str, method: &str, target: &str, length: usize) -> String {
    let host = url.trim_start_matches("http://");
    format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nX-Actor: ann\r\nContent-Length: {length}\r\n\r\n"
    )
}

pub fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Whether this machine can mount; says so when it cannot.
pub fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists();
    if !can {
        println!("skipped: /dev/fuse is missing");
    }
    can
}
