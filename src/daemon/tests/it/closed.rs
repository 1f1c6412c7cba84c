//! A closed door: keys, who makes them, and who comes in without one.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{Place, Running, eventually, json_of, program, refusal, request_with, svcfs};

/// A key that `svcfs token create` made.
fn make(place: &Place, flags: &[&str]) -> (String, String) {
    let made = json_of(&[&["token", "create", "--json", "--root", &place.at("kb")], flags].concat());
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("key"), text("id"))
}

/// Status of reading a page, with a key or without.
fn reading(server: &Running, key: Option<&str>) -> u16 {
    request_with(server.url(), key, "GET", "/api/svc/file?path=index.md", "").0
}

/// Shows: AUTH-6
#[test]
fn the_first_key_closes_a_running_server_and_revocation_works() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &[]);
    assert_eq!(reading(&server, None), 200, "{}", server.errors());
    let (reader, id) = make(&place, &["--actor", "ann"]);
    assert_eq!(reading(&server, None), 401, "the door is closed when the command ends");
    assert_eq!(reading(&server, Some(&reader)), 200);
    let (writer, _) = make(&place, &["--scope", "write", "--actor", "agent:scribe"]);
    assert_eq!(reading(&server, Some(&writer)), 200, "the second key is known");
    let put = |key: &str| request_with(server.url(), Some(key), "PUT", "/api/svc/file?path=a.md", "# A\n").0;
    assert_eq!((put(&reader), put(&writer)), (403, 200));
    assert!(!place.read("kb/.svc/config.toml").contains(&reader), "the key is kept in clear");

    let listed = json_of(&["token", "list", "--json", "--root", &place.at("kb")]);
    assert_eq!(
        listed[0],
        json!({ "id": id, "space": null, "actor": "ann", "scope": "read", "prefix": null, "limits": false })
    );
    svcfs(&["token", "revoke", &id, "--root", &place.at("kb")]).assert().success();
    assert_eq!(reading(&server, Some(&reader)), 401, "the key is forgotten");
    assert_eq!(reading(&server, Some(&writer)), 200);
    let log = server.stop();
    assert!(!log.contains(&reader) && !log.contains(&writer), "a key is in the log: {log}");
    assert_eq!(place.git("kb", &["log", "-1", "--format=%an", "--", "a.md"]), "agent:scribe");
}

/// Shows: AUTH-7
#[test]
fn callers_with_file_access_need_no_key_and_others_do() {
    let place = Place::with_root();
    let (key, _) = make(&place, &["--prefix", "docs"]);
    let server = Running::serve(&place.at("kb"), &[]);
    let own = std::fs::metadata(place.path("kb/.svc/state/server.key")).unwrap();
    assert_eq!(own.permissions().mode() & 0o777, 0o600);
    let tree: Value = json_of(&["call", "tree", "--json", "--root", &place.at("kb")]);
    assert!(tree.to_string().contains("index.md"), "{tree}");
    let told = refusal(&["call", "tree", "--url", server.url()], 3);
    assert!(told.contains("missing bearer token"), "{told}");
    let mut asked = program();
    asked.env("SVC_API_KEY", &key).args(["call", "read", "path=index.md", "--url", server.url()]);
    let asked = asked.output().unwrap();
    assert_eq!(asked.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&asked.stderr).contains("path outside key scope"));
    place.write("key", &key);
    std::fs::set_permissions(place.path("key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = place.at("key");
    svcfs(&["call", "write", "path=docs/a.md", "content=# A", "--url", server.url(), "--token-file", &file])
        .assert()
        .code(3);
    server.stop();
    assert!(!place.has("kb/.svc/state/server.key"));
}

/// Shows: AUTH-4
#[test]
fn invalid_settings_change_nothing_at_sighup_and_fail_closed() {
    let place = Place::with_root();
    let (key, _) = make(&place, &[]);
    let server = Running::serve(&place.at("kb"), &[]);
    let good = place.read("kb/.svc/config.toml");
    place.write("kb/.svc/config.toml", "[auth]\ntype = \"apikey\"\napi_key = \"${NOT_SET}\"\n");
    server.signal(Signal::HUP);
    eventually("the slip is told", || server.errors().contains("auth.api_key"));
    assert_eq!((reading(&server, None), reading(&server, Some(&key))), (401, 200));
    let told = refusal(&["serve", "--root", &place.at("kb"), "--port", "0"], 2);
    assert!(told.contains("auth.api_key"), "{told}");
    place.write("kb/.svc/config.toml", &good);
    server.stop();
}

/// Shows: AUTH-5
#[test]
fn a_key_that_a_running_server_ignores_is_reported() {
    let place = Place::with_root();
    let root = place.at("kb");
    // NFS carries no keys: whom it serves must be named once others need one.
    let server = Running::serve(&root, &["--nfs", "--nfs-port", "0"]);
    let told = refusal(&["token", "create", "--root", &root], 3);
    assert!(told.contains("nfs.allow") && told.contains("still uses the previous ones"), "{told}");
    assert_eq!(reading(&server, None), 200);
    server.stop();

    place.write("kb/.svc/config.toml", "");
    place.write("other.toml", "");
    let server = Running::serve(&root, &["--config", &place.at("other.toml")]);
    let made = svcfs(&["token", "create", "--root", &root]).assert().code(3);
    let made = made.get_output();
    assert!(
        String::from_utf8_lossy(&made.stdout).starts_with("svc_ro_"),
        "the key is written down, and told nowhere else"
    );
    assert!(String::from_utf8_lossy(&made.stderr).contains("still requires no key"), "{made:?}");
    assert_eq!(reading(&server, None), 200);
    server.stop();
}

/// Shows: AUTH-4
#[test]
fn missing_or_partial_settings_open_no_access_at_sighup() {
    let place = Place::with_root();
    let (key, _) = make(&place, &[]);
    let server = Running::serve(&place.at("kb"), &[]);
    for left in [None, Some(""), Some("[lint]\nauto_format = false\n")] {
        std::fs::remove_file(place.path("kb/.svc/config.toml")).unwrap();
        left.iter().for_each(|text| place.write("kb/.svc/config.toml", text));
        let before = server.errors().matches("have no authentication any more").count();
        server.signal(Signal::HUP);
        eventually("it is told", || server.errors().matches("have no authentication any more").count() > before);
        assert_eq!((reading(&server, None), reading(&server, Some(&key))), (401, 200), "{left:?}");
        place.write("kb/.svc/config.toml", "");
    }
    place.write("kb/.svc/config.toml", "[auth]\ntype = \"none\"\n");
    server.signal(Signal::HUP);
    eventually("who says so opens it", || reading(&server, None) == 200);
    server.stop();
}

#[test]
fn no_key_is_made_in_the_root_of_a_space_beside_the_first() {
    let place = Place::with_root();
    svcfs(&["init", "--root", &place.at("team"), "--template", "blank"]).assert().success();
    let before = place.read("team/.svc/config.toml");
    let server = Running::serve(&place.at("kb"), &["--space", &format!("team={}", place.at("team"))]);
    let told = refusal(&["token", "create", "--root", &place.at("team")], 3);
    assert!(told.contains("--space team"), "{told}");
    assert_eq!(place.read("team/.svc/config.toml"), before, "it would not be opened any more");
    server.stop();
}

#[test]
fn a_key_for_an_unknown_space_is_created_with_a_warning() {
    let place = Place::with_root();
    place.write("kb/.svc/spaces.json", &format!("{{\"made\": \"{}\"}}", place.at("made")));
    let told = |space: &str| {
        let made = svcfs(&["token", "create", "--space", space, "--root", &place.at("kb")]).assert().success();
        String::from_utf8(made.get_output().stderr.clone()).unwrap()
    };
    assert!(told("taem").contains("the space `taem` does not exist yet"));
    for space in ["default", "made"] {
        assert!(!told(space).contains("does not exist yet"), "{space}");
    }
    let refused = svcfs(&["token", "create", "--space", "no such", "--root", &place.at("kb")]).assert().code(2);
    assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("letters, digits"));
}

#[test]
fn the_last_key_is_not_revoked_and_a_short_id_revokes_nothing() {
    let place = Place::with_root();
    let (key, id) = make(&place, &[]);
    let root = place.at("kb");
    let told = refusal(&["token", "revoke", &key, "--root", &root], 3);
    assert!(told.contains("last key"), "{told}");
    assert!(refusal(&["token", "revoke", &id[..3], "--root", &root], 2).contains("too short"));
    assert!(refusal(&["token", "revoke", "ffffffffffff", "--root", &root], 3).contains("svcfs token list"));
    assert!(refusal(&["token", "create", "--prefix", "../x", "--root", &root], 2).contains("path denied"));
}

#[test]
fn a_single_global_key_comes_from_command_line_or_environment() {
    let place = Place::with_root();
    let server = Running::serve(&place.at("kb"), &["--auth", "apikey", "--api-key", "sesame"]);
    assert_eq!((reading(&server, None), reading(&server, Some("sesame"))), (401, 200));
    server.stop();
    let told = refusal(&["serve", "--root", &place.at("kb"), "--auth", "apikey"], 2);
    assert!(told.contains("auth.api_key"), "{told}");
    let told = refusal(&["serve", "--root", &place.at("kb"), "--api-key", "sesame"], 2);
    assert!(told.contains("no effect without"), "{told}");
}
