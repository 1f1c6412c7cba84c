//! Names that mean something to a path and nothing to a folder, by every method, as the path that
//! is asked for and as the place where something goes.

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use super::*;

/// What no address has as it is; what is encoded already stays so.
const NEEDED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>').add(b'\\').add(b'^').add(b'`').add(b'{').add(b'}');

const READS: [(&str, &str); 3] = [("GET", ""), ("HEAD", ""), ("PROPFIND", "")];
const TAKES: [(&str, &str); 4] = [("DELETE", ""), ("PROPPATCH", PROPERTY), ("COPY", ""), ("MOVE", "")];
const MAKES: [(&str, &str); 4] = [("PUT", "x"), ("MKCOL", ""), ("PATCH", "x"), ("LOCK", LOCK)];
const ONTO: [&str; 2] = ["COPY", "MOVE"];

const PROPERTY: &str =
    "<propertyupdate xmlns='DAV:'><set><prop><mark xmlns='urn:x'>seven</mark></prop></set></propertyupdate>";
const LOCK: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

/// A server with a page, and what is around its root.
struct Guarded(Served);

impl Guarded {
    fn new() -> Self {
        let served = Served::new();
        served.put("/a.md", "# A\n");
        Self(served)
    }

    fn asks(&self, (method, body): (&'static str, &'static str), path: &str) -> u16 {
        let headers = [
            ("depth", "0"),
            ("destination", "/taken.md"),
            ("content-type", "application/x-sabredav-partialupdate"),
            ("x-update-range", "append"),
        ];
        let headers = match method {
            "PATCH" => &headers[2..],
            "COPY" | "MOVE" => &headers[1..2],
            "PROPFIND" => &headers[..1],
            _ => &[],
        };
        self.0.send(method, path, headers, body).status
    }

    fn goes(&self, method: &str, to: &str) -> u16 {
        self.0.send(method, "/a.md", &[("destination", to)], "").status
    }

    #[track_caller]
    fn answers(&self, path: &str, [reads, takes, makes, onto]: [u16; 4]) {
        let of = |all: &[(&'static str, &'static str)], status: u16| {
            for asked in all {
                assert_eq!(self.asks(*asked, path), status, "{} {path:.60}", asked.0);
            }
        };
        of(&READS, reads);
        of(&TAKES, takes);
        of(&MAKES, makes);
        for method in ONTO {
            assert_eq!(self.goes(method, path), onto, "{method} to {path:.60}");
        }
    }

    /// What is in the folder that holds the roots, and in the first root.
    fn is_as_it_was(&self) {
        let names = |folder: &Path| {
            let names =
                std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort();
            names
        };
        let around = self.0.folder.path();
        assert_eq!(names(around), ["default", "sick", "team"]);
        assert_eq!(names(&around.join("default")), [".git", ".svc", "a.md"]);
        assert_eq!(self.0.text("a.md").as_deref(), Some("# A\n"));
    }
}

/// Shows: DAV-7
#[test]
fn what_belongs_to_the_server_is_not_there_and_is_not_made() {
    let guarded = Guarded::new();
    // In folders that are not there either (RFC 4918 9.3.1, 9.7.1).
    for path in ["/.git/config", "/%2egit/HEAD", "/.GIT/hooks/post-commit", "/.svc/state/log.db", "/.svc/audit/day"] {
        guarded.answers(path, [404, 404, 409, 409]);
    }
    for path in ["/.git", "/.Git", "/.svc/config.toml", "/.svc/spaces.json", "/.svc/state", "/~default/.git"] {
        guarded.answers(path, [404, 404, 403, 403]);
    }
    // Dots are read away in what is asked for, and refused in a place to go to.
    guarded.answers("/a/../.git/HEAD", [404, 404, 409, 400]);
    guarded.answers("/b/%2e%2e/.svc/config.toml", [404, 404, 403, 400]);
    for path in ["/", "/.svc", "/x/..", "/."] {
        assert_eq!([("DELETE", ""), ("MOVE", "")].map(|asked| guarded.asks(asked, path)), [403, 403], "{path}");
    }
    assert_eq!(["/", "/x/..", "/."].map(|path| guarded.asks(("COPY", ""), path)), [409; 3]);
    guarded.is_as_it_was();
}

/// Shows: DAV-7
#[test]
fn names_that_are_none_are_refused_by_every_method() {
    let guarded = Guarded::new();
    let (long, deep, longest) = ("x".repeat(300), "d/".repeat(3000), "y".repeat(9000));
    let names =
        ["a%00b", "a%0ab", "a%0db", "%7f.md", "%1b%5b2J.md", "%ff", "%c3%28", "a%2fb", "..%5ca.md", "%252e%252e/a.md"];
    for name in names.into_iter().chain([&*long, &*deep, &*longest]) {
        guarded.answers(&format!("/{name}"), [400; 4]);
    }
    for above in ["..", "../etc/passwd", "%2e%2e/%2E%2E/etc/passwd", "a/../../a.md", "./../a.md"] {
        guarded.answers(&format!("/{above}"), [403, 403, 403, 400]);
    }
    guarded.is_as_it_was();
}

#[test]
fn paths_that_lead_out_of_the_tree_lead_nowhere() {
    let guarded = Guarded::new();
    let paths: Vec<String> = serde_json::from_str(include_str!("../../../../tests/it/corpora/paths.json")).unwrap();
    // A long word for the root is none of them.
    for path in paths.into_iter().filter(|path| path != "a/..") {
        for address in [utf8_percent_encode(&path, NEEDED), utf8_percent_encode(&path, NON_ALPHANUMERIC)] {
            let address = format!("/{address}");
            for asked in READS.into_iter().chain(TAKES).chain(MAKES) {
                let status = guarded.asks(asked, &address);
                assert!(matches!(status, 400 | 403 | 404 | 405 | 409), "{} {address}: {status}", asked.0);
            }
            for method in ONTO {
                let status = guarded.goes(method, &address);
                assert!(matches!(status, 400 | 403 | 409), "{method} to {address}: {status}");
            }
        }
    }
    guarded.is_as_it_was();
}
