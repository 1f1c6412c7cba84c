//! Folders that are removed or replaced with something in them that no client sees.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

use super::*;

impl Served {
    /// A folder with a page, and a folder in it with a page.
    fn filled(&self, folder: &str) {
        for made in [folder.to_owned(), format!("{folder}/in")] {
            assert_eq!(self.send("MKCOL", &made, &[], "").status, 201);
            self.put(&format!("{made}/a.md"), "# A\n");
        }
    }

    fn on_disk(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("default").join(path.trim_start_matches('/'))
    }
}

#[test]
fn a_folder_containing_a_socket_is_removed_and_replaced_fully() {
    let served = Served::new();
    let socket = |folder: &str| {
        served.filled(folder);
        drop(UnixListener::bind(served.on_disk(folder).join("in/s")).unwrap());
    };
    socket("/gone");
    let told = served.send("DELETE", "/gone", &[], "");
    assert_eq!((told.status, served.on_disk("gone").exists()), (204, false), "{}", told.text());
    for method in ["COPY", "MOVE"] {
        socket(&format!("/over-{method}"));
        assert_eq!(served.send("MKCOL", "/from", &[], "").status, 201);
        served.put("/from/b.md", "# B\n");
        let told = served.send(method, "/from", &[("destination", &format!("/over-{method}"))], "");
        assert_eq!(told.status, 204, "{method}: {}", told.text());
        let over = served.on_disk(&format!("over-{method}"));
        assert_eq!((over.join("b.md").exists(), over.join("in").exists()), (true, false), "{method}");
        served.send("DELETE", "/from", &[], "");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "as a program makes it that knows nothing of us")]
fn a_folder_with_an_invalid_name_is_refused_before_any_removal() {
    let served = Served::new();
    let unnamed = |folder: &str| {
        served.filled(folder);
        std::fs::write(served.on_disk(folder).join("in").join(OsStr::from_bytes(b"\xff.md")), "# X\n").unwrap();
    };
    unnamed("/stays");
    let told = served.send("DELETE", "/stays", &[], "");
    assert_eq!((told.status, told.text().contains("`stays/in`")), (409, true), "{}", told.text());
    served.put("/from.md", "# From\n");
    assert_eq!(served.send("MKCOL", "/from", &[], "").status, 201);
    for (method, from) in [("COPY", "/from"), ("MOVE", "/from"), ("COPY", "/from.md"), ("MOVE", "/from.md")] {
        let told = served.send(method, from, &[("destination", "/stays")], "");
        assert_eq!((told.status, told.text().contains("`stays/in`")), (409, true), "{method} {from}: {}", told.text());
    }
    for page in ["stays/a.md", "stays/in/a.md"] {
        assert_eq!(served.text(page).as_deref(), Some("# A\n"), "{page}");
    }
}
