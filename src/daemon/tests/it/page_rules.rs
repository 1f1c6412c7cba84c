//! Schemas and append-only pages through the file protocols of a running server.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};

use serde_json::Value;

use crate::harness::{Place, Running, can_mount, exchange, request};

const SCHEMA: &str = r#"{ "properties": { "status": { "enum": ["open", "done"] } } }"#;
const BAD: &str = "---\ntype: task\nstatus: opn\n---\n";
const LOG: &str = "---\nappend_only: true\n---\n\n- one\n";

/// A mounted server with WebDAV that enforces schemas.
struct Served {
    place: Place,
    server: Running,
    webdav: String,
}

impl Served {
    fn new() -> Self {
        let place = Place::with_root();
        place.write("kb/.svc/config.toml", "[schema]\nenforce = true\n");
        std::fs::create_dir(place.path("mnt")).unwrap();
        let arguments = ["--mount", &place.at("mnt"), "--webdav", "--webdav-port", "0"];
        let server = Running::serve(&place.at("kb"), &arguments);
        let webdav = server.greeting.lines().find_map(|line| line.trim().strip_prefix("webdav")).unwrap();
        let webdav = webdav.trim().trim_end_matches('/').to_owned();
        Self { place, server, webdav }
    }

    /// Saves a file on the mount as an editor does, with fsync.
    fn save(&self, name: &str, text: &str) -> std::io::Result<()> {
        std::fs::create_dir_all(self.place.path("mnt").join(name).parent().unwrap())?;
        let mut file = File::create(self.place.path("mnt").join(name))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    fn reason(&self, name: &str) -> String {
        let mut room = [0; 4096];
        let length = rustix::fs::getxattr(self.place.path("mnt").join(name), "user.svc.lint", &mut room[..]).unwrap();
        String::from_utf8_lossy(&room[..length]).into_owned()
    }

    /// Status of a request to the WebDAV server.
    fn webdav(&self, method: &str, name: &str, body: &str) -> u16 {
        let (server, path) = self.webdav.split_at(self.webdav[7..].find('/').map_or(self.webdav.len(), |at| at + 7));
        exchange(server, method, &format!("{path}/{name}"), ("", body)).0
    }
}

#[test]
fn an_enforced_schema_refuses_saves_on_the_mount_and_tells_why() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    served.save(".svc/schemas/task.json", SCHEMA).unwrap();
    served.save("a.md", "---\ntype: task\nstatus: open\n---\n").unwrap();
    let error = served.save("a.md", BAD).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(served.reason("a.md").starts_with("validation failed for type \"task\": /status (line 3): "));
    assert_eq!(served.place.read("mnt/.svc/rejected/a.md"), BAD);
    let report = served.place.read("mnt/.svc/lint/a.md");
    assert!(report.starts_with("a.md:3:1: error: type \"task\": /status: "), "{report}");
    assert_eq!(served.webdav("PUT", "b.md", BAD), 422);
    let (status, body) = request(served.server.url(), "PUT", "/api/svc/file?path=c.md", BAD);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["violations"][0]["pointer"]), (422, &"/status".into()), "{body}");
    for (name, text) in [("task.json", "{ \"type\": 1 }"), ("other.json", r#"{ "$ref": "https://example.com/x" }"#)] {
        let name = format!(".svc/schemas/{name}");
        assert_eq!(served.save(&name, text).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
        assert_eq!(served.webdav("PUT", &name, text), 400, "{name}");
    }
    assert!(served.reason(".svc/schemas/task.json").contains("`/type`"));
    assert_eq!(served.place.read("kb/.svc/schemas/task.json"), SCHEMA);
    assert_eq!(request(served.server.url(), "GET", "/api/svc/schemas/task", ""), (200, SCHEMA.to_owned()));
    let (status, head, body) = exchange(served.server.url(), "GET", "/api/svc/schemas/task?violations=true", ("", ""));
    assert_eq!((status, body.as_str(), head.contains("x-total-count: 0")), (200, "[]", true), "{head}");
    for (target, body, status) in [
        ("schemas/..%2Fa", "{}", 400),
        ("schemas/a%20b", "{}", 400),
        ("schemas/x", "no json", 400),
        ("schemas/x", r#"{ "$ref": "http://example.com/x.json" }"#, 400),
    ] {
        let (actual, message) = request(served.server.url(), "PUT", &format!("/api/svc/{target}"), body);
        assert_eq!(actual, status, "{target} {body}: {message}");
    }
    let large = format!("{{ \"title\": \"{}\" }}", "x".repeat(1 << 20));
    assert_eq!(request(served.server.url(), "PUT", "/api/svc/schemas/x", &large).0, 413);
    served.server.stop();
    assert!(!served.place.has("kb/.svc/schemas/x.json"));
}

#[test]
fn an_append_only_page_on_the_mount_only_grows() {
    if !can_mount() {
        return;
    }
    let served = Served::new();
    let page = served.place.path("mnt/log.md");
    served.save("log.md", LOG).unwrap();
    let mut file = OpenOptions::new().append(true).open(&page).unwrap();
    file.write_all(b"- two\n").unwrap();
    file.sync_all().unwrap();
    drop(file);
    let error = served.save("log.md", &LOG.replace("one", "three")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(served.reason("log.md").starts_with("`log.md` is append-only: line 5 "), "{}", served.reason("log.md"));
    // Not EINVAL: with that, `rm -f` reports success.
    let removed = std::fs::remove_file(&page).unwrap_err();
    assert_eq!(removed.kind(), ErrorKind::PermissionDenied, "{removed}");
    for refused in [
        std::fs::rename(&page, served.place.path("mnt/new.md")),
        std::fs::rename(&page, served.place.path("mnt/log.md~")),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(served.webdav("PUT", "log.md", "# New\n"), 409);
    assert_eq!(served.webdav("DELETE", "log.md", ""), 409);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), format!("{LOG}- two\n"));
    if rustix::process::geteuid().is_root() {
        served.save("log.md", "# Free\n").unwrap();
        std::fs::remove_file(&page).unwrap();
    }
    served.server.stop();
}
