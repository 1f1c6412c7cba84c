//! `svcfs serve`

use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Place, Running, connect, eventually, head, json_of, program, refusal, request, svcfs};

fn announced(place: &Place) -> Value {
    serde_json::from_str(&place.read("kb/.svc/state/server.json")).unwrap()
}

#[test]
fn a_page_that_was_put_is_in_git_when_the_server_has_ended() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    assert_eq!(announced(&place), json!({ "pid": server.pid(), "url": server.url(), "mounts": [] }));
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=a.md", "# A\n").0, 200);
    let log = server.stop();
    assert!(log.contains("stopped"), "{log}");
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "a.md"]), "ann");
    assert_eq!(place.git("kb", &["show", "HEAD:a.md"]), "# A");
    assert_eq!(place.git("kb", &["status", "--porcelain"]), "");
    assert!(!place.has("kb/.svc/state/server.json"));
}

#[test]
fn the_template_is_added_to_a_new_root_and_not_to_a_filled_one() {
    let place = Place::new();
    Running::serve(&place.at("kb"), &[]).stop();
    assert!(place.has("kb/welcome.md") && place.has("kb/.svc/config.toml"));
    place.write("notes/mine.md", "# Mine\n");
    Running::serve(&place.at("notes"), &[]).stop();
    assert!(place.has("notes/mine.md") && !place.has("notes/welcome.md"));
}

#[test]
fn a_second_server_is_refused_naming_the_first() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    let told = refusal(&["serve", "--port", "0", "--root", &place.at("kb")], 3);
    assert!(told.contains(&format!("process {}", server.pid())) && told.contains(server.url()), "{told}");
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    server.stop();
}

#[test]
fn ctrl_c_ends_it_as_sigterm_does_and_sighup_does_not() {
    let place = Place::with_root();
    let mut server = Running::serve(&place.at("kb"), &[]);
    server.signal(Signal::HUP);
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    server.signal(Signal::INT);
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_request_in_progress_is_finished_before_the_end() {
    let place = Place::with_root();
    let mut server = Running::serve(&place.at("kb"), &[]);
    let mut stream = connect(server.url());
    stream.write_all(head(server.url(), "PUT", "/api/svc/file?path=slow.md", 8).as_bytes()).unwrap();
    stream.write_all(b"# Sl").unwrap();
    // The server has the connection once it answers another one that came later.
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    server.signal(Signal::TERM);
    eventually("the stop begins", || server.errors().contains("stopping"));
    stream.write_all(b"ow!\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(place.git("kb", &["show", "HEAD:slow.md"]), "# Slow!");
}

#[test]
fn a_second_signal_exits_immediately_and_loses_no_acked_write() {
    let place = Place::with_root();
    let mut server = Running::serve(&place.at("kb"), &[]);
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=kept.md", "# Kept\n").0, 200);
    let mut stream = connect(server.url());
    stream.write_all(head(server.url(), "PUT", "/api/svc/file?path=never.md", 100).as_bytes()).unwrap();
    assert_eq!(request(server.url(), "GET", "/readyz", "").0, 200);
    server.signal(Signal::TERM);
    eventually("the stop begins", || server.errors().contains("stopping"));
    server.signal(Signal::TERM);
    assert_eq!(server.ended().code(), Some(130), "{}", server.errors());
    assert!(server.errors().contains("second signal"), "{}", server.errors());
    let found = json_of(&["call", "search", "q=kept", "--root", &place.at("kb"), "--json"]);
    assert_eq!(found[0]["path"], "kept.md");
    assert_eq!(place.git("kb", &["show", "HEAD:kept.md"]), "# Kept");
}

#[test]
fn leftovers_of_a_killed_server_do_not_block_the_next_start() {
    let place = Place::with_root();
    let mut server = Running::serve(&place.at("kb"), &[]);
    assert_eq!(request(server.url(), "PUT", "/api/svc/file?path=kept.md", "# Kept\n").0, 200);
    server.signal(Signal::KILL);
    server.ended();
    assert_eq!(announced(&place)["pid"], server.pid());
    let found = json_of(&["call", "search", "q=kept", "--root", &place.at("kb"), "--json"]);
    assert_eq!(found[0]["path"], "kept.md");
    let next = Running::serve(&place.at("kb"), &[]);
    assert_eq!(announced(&place)["pid"], next.pid());
    next.stop();
}

#[test]
fn systemd_is_notified_when_the_server_is_ready_and_stopping() {
    let place = Place::with_root();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let heard = || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut command = program();
    command.args(["serve", "--root", &place.at("kb"), "--port", "0"]).env("NOTIFY_SOCKET", place.path("notify"));
    let server = Running::start(command, "agents");
    assert_eq!(heard(), "STATUS=opening the root\n");
    // On a busy machine it says how far the opening is, too.
    let mut after_opening =
        std::iter::repeat_with(heard).skip_while(|told| told.starts_with("STATUS=opening the root: "));
    let ready = after_opening.next().unwrap();
    assert!(ready.contains("READY=1\n") && ready.contains(&format!("at {}", server.url())), "{ready}");
    server.stop();
    assert!(after_opening.next().unwrap().contains("STOPPING=1\n"));
}

#[test]
fn the_watchdog_of_systemd_hears_that_the_server_lives() {
    let place = Place::with_root();
    let socket = UnixDatagram::bind(place.path("notify")).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let mut command = program();
    command.args(["serve", "--root", &place.at("kb"), "--port", "0"]).env("NOTIFY_SOCKET", place.path("notify"));
    command.env("WATCHDOG_USEC", "100000");
    let server = Running::start(command, "agents");
    let mut beats = 0;
    while beats < 3 {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        beats += usize::from(&buffer[..length] == b"WATCHDOG=1\n");
    }
    server.stop();
}

#[test]
fn opening_the_server_to_other_machines_prints_a_warning() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &["--host", "0.0.0.0"]);
    assert!(server.url().starts_with("http://127.0.0.1:"), "{}", server.url());
    let log = server.stop();
    assert!(log.contains("WARN") && log.contains("without authentication"), "{log}");
    let server = Running::serve(&place.at("kb"), &["--host", "localhost"]);
    let log = server.stop();
    assert!(!log.contains("WARN"), "{log}");
}

#[test]
fn flags_beat_the_environment_and_that_beats_the_file() {
    let place = Place::with_root();
    place.write("kb/.svc/config.toml", "[server]\nport = 1\nhost = \"127.0.0.9\"\n");
    let mut command = program();
    command.args(["serve", "--root", &place.at("kb")]).env("SVC_PORT", "0");
    let server = Running::start(command, "agents");
    assert!(server.url().starts_with("http://127.0.0.9:"), "{}", server.url());
    server.stop();
    Running::serve(&place.at("kb"), &["--host", "127.0.0.1"]).stop();
}

#[test]
fn the_log_goes_where_the_settings_say() {
    let place = Place::with_root();
    let file = place.at("svcfs.log");
    place.write("kb/.svc/config.toml", &format!("[tracing]\noutput = \"file\"\nfile = \"{file}\"\n"));
    assert_eq!(Running::serve(&place.at("kb"), &[]).stop(), "");
    let log = place.read("svcfs.log");
    assert!(log.contains("serving") && log.contains("stopped") && !log.contains('\u{1b}'), "{log}");
    place.write("kb/.svc/config.toml", "[tracing]\nenabled = false\n");
    assert_eq!(Running::serve(&place.at("kb"), &[]).stop(), "");
}

#[test]
fn an_edit_in_the_root_is_found_by_search_while_it_serves() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    place.write("kb/direct.md", "# Zanzibar\n");
    eventually("the edit is found", || {
        request(server.url(), "GET", "/api/svc/search?q=zanzibar", "").1.contains("direct.md")
    });
    // A tree that is read in for the first time shows the page already; the edit is recorded once
    // its path was quiet.
    eventually("the edit is recorded", || place.git("kb", &["log", "--format=%an", "--", "direct.md"]) == "fswatch");
    server.stop();
    svcfs(&["reindex", "--root", &place.at("kb")]).assert().success();
}

/// Shows: SPACE-1
#[test]
fn several_spaces_with_own_roots_are_served_by_one_process() {
    let place = Place::with_root();
    svcfs(&["init", "--root", &place.at("team"), "--template", "wiki"]).assert().success();
    place.write("broken", "no directory");
    let (team, broken) = (format!("team={}", place.at("team")), format!("broken={}", place.at("broken")));
    let server = Running::serve(&place.at("kb"), &["--space", &team, "--space", &broken]);
    let ask = |method: &str, target: &str, body: &str| request(server.url(), method, target, body);
    assert_eq!(ask("PUT", "/api/svc/team/file?path=of-team.md", "# Team\n").0, 200);
    assert_eq!(ask("GET", "/api/svc/file?path=of-team.md", "").0, 404);
    let (status, told) = ask("GET", "/api/svc/broken/tree", "");
    assert_eq!(status, 503);
    assert!(told.contains("cannot be opened"), "{told}");
    assert_eq!(ask("GET", "/api/svc/nobody/tree", "").0, 404);
    let (status, made) = ask("POST", "/api/spaces", r#"{"name":"fresh","template":"tasks"}"#);
    assert_eq!(status, 201, "{made}");
    assert_eq!(ask("GET", "/api/svc/fresh/file?path=index.md", "").0, 200);
    // As in a space of `svcfs init`.
    let (status, found) = ask("GET", "/api/svc/fresh/search/semantic?query=tasks", "");
    assert!(!found.contains("is disabled"), "its settings are not in effect: {status} {found}");
    // Whoever names the root finds the server that has it, and the space that it is.
    let team = place.at("team");
    let versions = json_of(&["call", "versions", "path=of-team.md", "--json", "--root", &team]);
    assert_eq!(versions[0]["author"], "ann");
    server.stop();

    assert_eq!(place.git("team", &["log", "-1", "--format=%an", "--", "of-team.md"]), "ann");
    assert!(!place.has("team/.svc/state/server.json") && !place.has("team/.svc/state/server.key"));
    let server = Running::serve(&place.at("kb"), &[]);
    assert_eq!(request(server.url(), "GET", "/api/svc/fresh/tree", "").0, 200, "{}", server.errors());
    assert_eq!(request(server.url(), "GET", "/api/svc/file?path=.svc/spaces.json", "").0, 404);
    assert_eq!(request(server.url(), "DELETE", "/api/spaces/fresh", "").0, 200);
    assert_eq!(request(server.url(), "GET", "/api/svc/fresh/tree", "").0, 404);
    assert!(place.has("kb.spaces/fresh/index.md"));
    server.stop();
}

/// Shows: SPACE-6
#[test]
fn ineffective_authentication_prevents_serving_a_space() {
    let place = Place::with_root();
    svcfs(&["init", "--root", &place.at("team")]).assert().success();
    svcfs(&["token", "create", "--root", &place.at("team")]).assert().success();
    let server = Running::serve(&place.at("kb"), &["--space", &format!("team={}", place.at("team"))]);
    let (status, told) = request(server.url(), "GET", "/api/svc/team/tree", "");
    assert_eq!(status, 503);
    assert!(told.contains("`auth`") && told.contains("has no effect"), "{told}");
    server.stop();
}

/// Shows: SPACE-5
#[test]
fn server_visibility_settings_override_space_and_requests() {
    let place = Place::with_root();
    svcfs(&["init", "--root", &place.at("team")]).assert().success();
    place.write("team/.svc/config.toml", "[space]\nvisibility = \"public\"\n");
    let config = format!("[[spaces]]\nname = \"team\"\nroot = \"{}\"\nvisibility = \"unlisted\"\n", place.at("team"));
    place.write("kb/.svc/config.toml", &config);
    let server = Running::serve(&place.at("kb"), &[]);
    let (status, told) = request(server.url(), "GET", "/api/svc/team/space/info", "");
    assert!(status == 200 && told.contains("\"unlisted\""), "{status} {told}");
    let public = "{\"visibility\": \"public\"}";
    let (status, told) = request(server.url(), "PUT", "/api/svc/team/space/visibility", public);
    assert!(status == 409 && told.contains("[[spaces]]"), "{status} {told}");
    assert_eq!(
        request(server.url(), "PUT", "/api/svc/space/visibility", public).0,
        200,
        "the first has none but its own"
    );
    server.stop();
}

#[test]
fn external_and_root_settings_are_not_written_by_requests() {
    let place = Place::with_root();
    place.write("settings.toml", "[space]\nvisibility = \"private\"\n");
    let before = place.read("kb/.svc/config.toml");
    let server = Running::serve(&place.at("kb"), &["--config", &place.at("settings.toml")]);
    let (status, told) = request(server.url(), "PUT", "/api/svc/space/visibility", "{\"visibility\": \"public\"}");
    assert_eq!(status, 409, "{told}");
    assert!(told.contains("settings.toml"), "{told}");
    server.stop();
    assert_eq!(place.read("kb/.svc/config.toml"), before);
}
