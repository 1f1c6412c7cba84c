//! Life as a service: how it is doing, whether it could start, and what systemd hands over and
//! hears.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Place, Running, can_mount, eventually, json_of, program, refusal, request, svcfs};

const CLOSED: &str = "[auth]\ntype = \"apikey\"\napi_key = \"${KEY_OF_THIS_TEST}\"\n";

fn told(arguments: &[&str]) -> String {
    let output = svcfs(arguments).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn status_tells_how_the_server_of_a_root_is_doing() {
    let place = Place::with_root();
    let root = place.at("kb");
    let none = refusal(&["status", "--root", &root], 3);
    assert!(none.contains("no server serves"), "{none}");
    let server = Running::serve(&root, &[]);
    let text = told(&["status", "--root", &root]);
    for part in [server.url(), "is ready", "memory", "default", "all components healthy"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let report = json_of(&["status", "--root", &root, "--json"]);
    assert_eq!((&report["status"], &report["pid"]), (&json!("ready"), &json!(server.pid())));
    assert_eq!(report["spaces"][0]["tasks"][0]["name"], "indexer");
    let unknown = refusal(&["status", "--root", &root, "--space", "no-such"], 3);
    assert!(unknown.contains("no-such"), "{unknown}");
    server.stop();
    assert!(refusal(&["status", "--url", "http://127.0.0.1:9"], 1).contains("no server answers"));
}

#[test]
fn status_fails_with_the_reason_when_no_writes_are_taken() {
    let place = Place::with_root();
    let root = place.at("kb");
    let server = Running::serve(&root, &[]);
    std::fs::rename(place.path("kb/.git"), place.path("away")).unwrap();
    eventually("the server sees it", || request(server.url(), "GET", "/readyz", "").0 == 503);
    let output = svcfs(&["status", "--root", &root]).assert().code(1).get_output().clone();
    let (text, why) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(text.contains("NOT READY") && text.contains("PROBLEM   storage of `default`"), "{text}");
    assert!(why.contains("accepts no writes: "), "{why}");
    std::fs::rename(place.path("away"), place.path("kb/.git")).unwrap();
    eventually("it mends", || request(server.url(), "GET", "/readyz", "").0 == 200);
    server.stop();
}

#[test]
fn status_needs_no_key_locally_and_shows_strangers_little() {
    let place = Place::with_root();
    place.write("kb/.svc/config.toml", CLOSED);
    let mut command = program();
    command.args(["serve", "--root", &place.at("kb"), "--port", "0"]).env("KEY_OF_THIS_TEST", "open-sesame");
    let server = Running::start(command, "agents");
    let strangers = told(&["status", "--url", server.url()]);
    assert!(strangers.contains("is ready") && !strangers.contains("default"), "{strangers}");
    assert!(told(&["status", "--root", &place.at("kb")]).contains("default"));
    server.stop();
}

#[test]
fn requests_of_the_kernel_are_counted() {
    if !can_mount() {
        return;
    }
    let place = Place::with_root();
    std::fs::create_dir(place.path("mnt")).unwrap();
    let server = Running::serve(&place.at("kb"), &["--mount", &place.at("mnt")]);
    std::fs::write(place.path("mnt/a.md"), "# A\n").unwrap();
    assert!(!place.path("mnt/none.md").exists());
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    let (_, text) = request(server.url(), "GET", "/metrics", "");
    for name in [
        "svc_mount_requests_total{operation=\"write\",outcome=\"ok\"} 1",
        "svc_mount_request_seconds_count{operation=\"flush\"}",
        "svc_mounts 1",
        "svc_http_requests_total{method=\"GET\",status=\"200\"}",
        "process_resident_memory_bytes ",
    ] {
        assert!(text.contains(name), "{name} is not in {text}");
    }
    let mounts = &json_of(&["status", "--root", &place.at("kb"), "--json"])["mounts"];
    assert_eq!(mounts[0]["mountpoint"], place.canonical("mnt"));
    server.stop();
}

#[test]
fn valid_settings_are_confirmed_without_creating_anything() {
    let place = Place::new();
    place.write("free.toml", "[server]\nport = 0\n");
    let text = told(&["check-config", &place.at("free.toml"), "--root", &place.at("kb")]);
    assert!(text.contains("`svcfs serve --create` creates it") && !text.contains("PROBLEM"), "{text}");
    assert!(!place.has("kb"));
    let found = json_of(&["check-config", &place.at("free.toml"), "--json"]);
    assert_eq!(found["valid"], true, "{found}");
}

#[test]
fn every_configuration_error_is_reported_with_its_line() {
    let place = Place::new();
    place.write("kb/.svc/config.toml", "[server]\nport = \"many\"\nhots = \"x\"\n\n[import]\nprefer_external = true\n");
    let output = svcfs(&["check-config", "--root", &place.at("kb")]).assert().code(2).get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["line 2: `server.port`", "line 3: `server.hots`", "line 6: `import.prefer_external`"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let output = svcfs(&["check-config", "--root", &place.at("kb"), "--json"]).assert().code(2).get_output().clone();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["findings"].as_array().map(Vec::len), Some(3), "{found}");
    let missing = svcfs(&["check-config", &place.at("none.toml")]).assert().code(2).get_output().clone();
    assert!(String::from_utf8(missing.stdout).unwrap().contains("none.toml"));
}

#[test]
fn configured_paths_with_type_conflicts_are_reported() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    place.write("a-file", "no directory\n");
    place.write("other/.svc/config.toml", "[server]\nport = 1234\n");
    let config = format!(
        "[server]\nport = {port}\n\n[tracing]\noutput = \"file\"\nfile = \"{}/none/x.log\"\n\n\
         [[spaces]]\nname = \"search\"\nroot = \"{}\"\n\n[[spaces]]\nname = \"other\"\nroot = \"{}\"\n\n\
         [[spaces]]\nname = \"inside\"\nroot = \"{}\"\n",
        place.at(""),
        place.at("a"),
        place.at("other"),
        place.at("kb/sub"),
    );
    place.write("kb/.svc/config.toml", &config);
    let output = svcfs(&["check-config", "--root", &place.at("kb")]).assert().code(1).get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        &format!("port {port} is in use"),
        "`tracing.file`",
        "`search` is the name of an endpoint",
        "`server` in ",
        "the root of `default` overlap",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let file = svcfs(&["check-config", "--root", &place.at("a-file")]).assert().code(1).get_output().clone();
    assert!(String::from_utf8(file.stdout).unwrap().contains("is a file; give a directory"));
}

/// Shows: SPACE-2
#[test]
fn an_unhealthy_second_space_does_not_block_a_reload() {
    let place = Place::new();
    place.write("sick/.svc/config.toml", "[server]\nport = 1234\n");
    let config = format!(
        "[server]\nport = 0\n\n[[spaces]]\nname = \"sick\"\nroot = \"{}\"\n\n[[spaces]]\nname = \"away\"\nroot = \"{}\"\n",
        place.at("sick"),
        place.at("away"),
    );
    place.write("kb/.svc/config.toml", &config);
    let text = told(&["check-config", "--root", &place.at("kb")]);
    for part in ["requests to `sick` will get 503", "requests to `away` will get 503", "is the disk mounted?"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    // And so it is.
    let server = Running::serve(&place.at("kb"), &[]);
    for name in ["sick", "away"] {
        assert_eq!(request(server.url(), "GET", &format!("/api/svc/{name}/tree"), "").0, 503, "{name}");
    }
    assert!(!place.has("away"));
    server.stop();
}

#[test]
fn spaces_created_at_run_time_are_checked_before_a_start() {
    let place = Place::new();
    place.write("well/.svc/config.toml", "");
    place.write("sick/.svc/config.toml", "[server]\nport = 1234\n");
    std::fs::create_dir(place.path("empty")).unwrap();
    let spaces: Value =
        ["well", "sick", "empty"].map(|name| (name.to_owned(), json!(place.at(name)))).into_iter().collect();
    place.write("kb/.svc/spaces.json", &spaces.to_string());
    let digest = "0".repeat(64);
    let key = |space| format!("[[auth.api_keys]]\nkey = \"sha256:{digest}\"\nspace = \"{space}\"\nactor = \"a\"\n");
    let config = format!("[server]\nport = 0\n[auth]\ntype = \"perspace\"\n{}", key("well"));
    place.write("kb/.svc/config.toml", &config);
    let text = told(&["check-config", "--root", &place.at("kb")]);
    for part in ["`well` can be opened", "requests to `sick` will get 503", "requests to `empty` will get 503"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("some keys are for spaces that do not exist"), "{text}");
    place.write("kb/.svc/spaces.json", "{");
    let text = told(&["check-config", "--root", &place.at("kb")]);
    assert!(text.contains("spaces created at run time are not served"), "{text}");
    assert!(text.contains("some keys are for spaces that do not exist"), "{text}");
}

#[test]
fn a_root_that_is_served_may_have_its_port() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let text = told(&["check-config", "--root", &place.at("kb")]);
    assert!(text.contains(&format!("process {} serves this root", server.pid())), "{text}");
    server.stop();
}

#[test]
fn a_key_that_everybody_can_read_is_warned_of_and_not_shown() {
    let place = Place::new();
    place.write(
        "kb/.svc/config.toml",
        "[server]\nport = 0\n[auth]\ntype = \"apikey\"\napi_key = \"do-not-show-this\"\n",
    );
    let text = told(&["check-config", "--root", &place.at("kb")]);
    assert!(text.contains("all users of this machine can read the key") && !text.contains("do-not-show"), "{text}");
}

/// The server, started the way systemd starts one whose socket it holds: as descriptor 3, told by
/// the environment.
fn activated(place: &Place, socket: OwnedFd) -> std::process::Command {
    // The shell becomes the server, so that its number is the server's.
    let handed = "export LISTEN_PID=$$; exec 3<&0 0</dev/null; exec \"$@\"";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", handed, "sh", env!("CARGO_BIN_EXE_svcfs"), "serve", "--create", "--root", &place.at("kb")]);
    command.envs([("LISTEN_FDS", "1"), ("USER", "tester")]).env_remove("NOTIFY_SOCKET");
    command.stdin(Stdio::from(socket));
    command
}

/// Like [`Running::start`], which gives its child an empty standard input.
fn greeting(mut command: std::process::Command) -> (std::process::Child, String) {
    use std::io::{BufRead, BufReader};
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let http =
        lines.map(|line| line.trim().to_owned()).find_map(|line| Some(line.strip_prefix("http ")?.trim().to_owned()));
    (child, http.unwrap_or_default())
}

#[test]
fn a_socket_that_systemd_hands_over_is_answered_on() {
    let place = Place::with_root();
    // The settings have another one.
    place.write("kb/.svc/config.toml", "[server]\nport = 1\nhost = \"192.0.2.1\"\n");
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let (mut child, url) = greeting(activated(&place, socket.into()));
    assert_eq!(url, format!("http://{address}"));
    assert_eq!(request(&url, "GET", "/readyz", "").0, 200);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_is_handed_over_and_is_no_such_socket_is_refused() {
    let place = Place::with_root();
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let (child, _) = greeting(activated(&place, ours.into()));
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("is not a listening TCP socket"), "{text}");
}

#[test]
fn systemd_hears_that_the_settings_are_read_again() {
    let place = Place::with_root();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = program();
    command.args(["serve", "--root", &place.at("kb"), "--port", "0"]).env("NOTIFY_SOCKET", place.path("notify"));
    let server = Running::start(command, "agents");
    server.signal(Signal::HUP);
    let mut heard = std::iter::repeat_with(|| {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    });
    let reloading = heard.find(|told| told.contains("RELOADING=1\n")).unwrap();
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    assert_eq!(heard.next().unwrap(), "READY=1\n");
    server.stop();
}

#[test]
fn the_journal_gets_entries_with_fields() {
    let directory = Path::new("/run/systemd/journal");
    if directory.exists() || !is_root() {
        return println!("skipped: a journal is there already, or none can be made");
    }
    let place = Place::with_root();
    std::fs::create_dir_all(directory).unwrap();
    let journal = UnixDatagram::bind(directory.join("socket"));
    let outcome = journal.map(|journal| {
        journal.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let errors = std::fs::File::create(place.path("errors")).unwrap();
        let stat = rustix::fs::fstat(&errors).unwrap();
        let mut command = program();
        command.args(["serve", "--root", &place.at("kb"), "--port", "0"]);
        command.env("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let entries = std::iter::repeat_with(|| {
            let mut buffer = vec![0; 65536];
            let length = journal.recv(&mut buffer).unwrap_or_default();
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        });
        let entry = entries.take(50).find(|entry| entry.contains("serving\nSVCFS_ROOT\n"));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM).unwrap();
        while child.try_wait().unwrap().is_none() {
            let _ = journal.recv(&mut [0; 65536]);
        }
        (entry, place.read("errors"))
    });
    std::fs::remove_file(directory.join("socket")).unwrap();
    std::fs::remove_dir(directory).unwrap();
    let (entry, errors) = outcome.unwrap();
    let entry = entry.expect("an entry that tells of serving");
    assert!(entry.contains("SYSLOG_IDENTIFIER") && entry.contains("svcfs"), "{entry}");
    assert!(entry.contains("PRIORITY\n\u{1}\0\0\0\0\0\0\u{0}6\n") && entry.contains("SVCFS_URL"), "{entry}");
    assert_eq!(errors, "", "what is in the journal is not told once more as text");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
