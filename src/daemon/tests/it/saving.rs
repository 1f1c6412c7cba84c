//! Pages with lint errors, saved through each file protocol of a server without settings: the bytes
//! are stored and versioned, and what lint says is reported.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Place, Running, can_mount, connect, eventually, head, request};
use crate::webdav::has;

/// Pages as somebody has them while typing, and the rule that they break; none where lint finds no
/// error.
const PAGES: [(&str, &str, Option<&str>); 7] = [
    ("fence.md", "# Half typed\n\n```rust\nfn main() {\n", Some("fence-unclosed")),
    ("template.md", "---\ntitle: {{title}}\n---\n\n# {{title}}\n", Some("frontmatter-yaml-invalid")),
    ("bracket.md", "---\ntitle: [never closed\n---\n\ntext\n", Some("frontmatter-yaml-invalid")),
    ("unclosed.md", "---\ntitle: never closed\n", Some("frontmatter-yaml-invalid")),
    ("table.md", "| a | b |\n|---|---|\n| 1 |\n", Some("table-column-mismatch")),
    ("diagram.md", "```mermaid\n```\n", Some("fence-mermaid-invalid")),
    ("spaces.md", "#No heading  \n*  bullet\t\r\nno end", None),
];

/// A mounted server with every file protocol, without settings of lint.
struct Served {
    place: Place,
    server: Running,
    events: BufReader<TcpStream>,
}

impl Served {
    fn new() -> Self {
        let place = Place::with_root();
        std::fs::create_dir(place.path("mnt")).unwrap();
        let protocols = ["--webdav", "--webdav-port", "0", "--s3", "--s3-port", "0", "--nfs", "--nfs-port", "0"];
        let mount = ["--mount", &place.at("mnt")];
        let server = Running::serve(&place.at("kb"), &[&protocols[..], &mount].concat());
        let mut events = connect(server.url());
        write!(events, "{}", head(server.url(), "GET", "/api/svc/events", 0)).unwrap();
        let mut events = BufReader::new(events);
        // What comes before is not announced to this subscriber.
        let mut line = String::new();
        while line.trim() != ":connected" {
            line.clear();
            assert!(events.read_line(&mut line).unwrap() > 0, "no events");
        }
        Self { place, server, events }
    }

    /// Where a protocol is served.
    fn at(&self, protocol: &str) -> String {
        let line = self.server.greeting.lines().find_map(|line| line.trim().strip_prefix(protocol));
        line.unwrap().trim().to_owned()
    }

    /// The path of the next event `lint`, and its issues.
    fn next_lint_event(&mut self) -> (String, String) {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.events.read_line(&mut line).unwrap() > 0, "the events end");
            assert!(!line.starts_with(':'), "no event comes within 15 seconds");
            if line.trim() == "event:lint" {
                break;
            }
        }
        let data = loop {
            line.clear();
            self.events.read_line(&mut line).unwrap();
            if let Some(data) = line.strip_prefix("data:") {
                break serde_json::from_str::<Value>(data).unwrap();
            }
        };
        (data["path"].as_str().unwrap().to_owned(), data["issues"].to_string())
    }

    /// The reason in `user.svc.lint`; none when there is no error.
    fn attribute(&self, page: &str) -> Option<String> {
        let mut room = [0; 4096];
        match rustix::fs::getxattr(self.place.path("mnt").join(page), "user.svc.lint", &mut room) {
            Ok(length) => Some(String::from_utf8_lossy(&room[..length]).into_owned()),
            Err(rustix::io::Errno::NODATA) => None,
            Err(error) => panic!("{page}: {error}"),
        }
    }

    /// Saves every page, and again with one line more; each save is a version with these bytes, and
    /// what lint finds is reported everywhere.
    fn plays(self, save: impl Fn(&Self, &str, &str)) {
        self.plays_with(&["", "\n"], save);
    }

    /// The same with these additions to the text, one for each save.
    fn plays_with(mut self, additions: &[&str], save: impl Fn(&Self, &str, &str)) {
        for (page, text, rule) in PAGES {
            for more in additions {
                let text = format!("{text}{more}");
                save(&self, page, &text);
                eventually("the save is in history", || {
                    let head = request(self.server.url(), "GET", &format!("/api/svc/versions?path={page}"), "").1;
                    let count = serde_json::from_str::<Value>(&head).unwrap().as_array().map_or(0, Vec::len);
                    count == 1 + more.len()
                        && std::fs::read(self.place.path("kb").join(page)).unwrap() == text.as_bytes()
                });
                assert_eq!(std::fs::read(self.place.path("mnt").join(page)).unwrap(), text.as_bytes(), "{page}");
                let (expected, report) = (rule.is_some(), self.place.read(&format!("mnt/.svc/lint/{page}")));
                assert_eq!(report.contains(": error: "), expected, "{page}: {report}");
                let attribute = self.attribute(page);
                let is_named = |reason: &String| rule.is_some_and(|rule| reason.starts_with(rule));
                assert_eq!(attribute.as_ref().is_some_and(is_named), expected, "{page}: {attribute:?}");
                if let Some(rule) = rule {
                    let (path, issues) = self.next_lint_event();
                    assert!(path == page && issues.contains(rule), "{page}: {path} {issues}");
                }
            }
        }
        let janitor = || request(self.server.url(), "GET", "/api/svc/janitor", "").1;
        let broken = PAGES.iter().filter(|(_, _, rule)| rule.is_some()).count();
        eventually("the janitor lists them", || {
            let listed: Value = serde_json::from_str(&janitor()).unwrap();
            listed["lint_errors"] == broken
        });
        assert!(!self.place.has("kb/.svc/rejected"), "nothing was refused");
        let Self { place, server, .. } = self;
        server.stop();
        for (page, text, _) in PAGES {
            let stored = |revision: &str| {
                let output =
                    Command::new("git").current_dir(place.path("kb")).args(["show", revision]).output().unwrap();
                String::from_utf8(output.stdout).unwrap()
            };
            let last = additions.last().unwrap();
            assert_eq!(stored(&format!("HEAD:{page}")), format!("{text}{last}"), "{page}");
        }
    }
}

/// Shows: LINT-3
#[test]
fn the_mount_stores_pages_with_lint_errors_and_reports_them() {
    if can_mount() {
        Served::new().plays(|served, page, text| served.place.write(&format!("mnt/{page}"), text));
    }
}

/// Shows: LINT-3
#[test]
fn webdav_stores_pages_with_lint_errors_and_reports_them() {
    if can_mount() {
        Served::new().plays(|served, page, text| {
            let (status, answer) = request(&served.at("webdav"), "PUT", &format!("/{page}"), text);
            assert!(matches!(status, 201 | 204), "{page}: {status} {answer}");
        });
    }
}

/// Shows: LINT-3
#[test]
fn s3_stores_pages_with_lint_errors_and_reports_them() {
    if can_mount() {
        Served::new().plays(|served, page, text| {
            let (status, answer) = request(&served.at("s3"), "PUT", &format!("/default/{page}"), text);
            assert_eq!(status, 200, "{page}: {answer}");
        });
    }
}

/// Shows: LINT-3
#[test]
fn nfs_stores_pages_with_lint_errors_and_reports_them() {
    if !can_mount() || !has("nfs-cp") {
        return;
    }
    // The program only creates files.
    Served::new().plays_with(&[""], |served, page, text| {
        served.place.write("page", text);
        let address = served.at("nfs ");
        let port = address.rsplit(':').next().unwrap();
        let there = format!("nfs://127.0.0.1/default/{page}?nfsport={port}&mountport={port}");
        let copied = Command::new("nfs-cp").args([&served.place.at("page"), &there]).output().unwrap();
        assert!(copied.status.success(), "{page}: {copied:?}");
    });
}

/// Shows: LINT-3
#[test]
fn direct_edits_with_lint_errors_are_stored_and_reported() {
    if can_mount() {
        Served::new().plays(|served, page, text| served.place.write(&format!("kb/{page}"), text));
    }
}
