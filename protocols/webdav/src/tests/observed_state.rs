//! What conditions are judged by, and what is written then, while others write.

use std::sync::atomic::{AtomicBool, Ordering};

use dav_server::davpath::DavPath;
use dav_server::fs::{FsError, GuardedFileSystem, OpenOptions};
use svcfs_base::{Caller, Change, Precondition};

use super::*;
use crate::body::RequestBody;
use crate::context::{RequestDetails, WebdavRequestContext};
use crate::file_system::WebdavFileSystem;

const PAGE: &str = "/page.md";

impl Served {
    /// A request with a condition, as the tree sees it.
    pub(super) fn asked(&self, method: &str, target: &str) -> WebdavRequestContext {
        let request = Request::builder().method(method).uri(target).header("if-match", "\"x\"").body(()).unwrap();
        let content = RequestBody::Buffered(None);
        let question = RequestDetails::of(&request.into_parts().0, &content, "");
        let protocol = Arc::new(crate::WebdavServer::new(Arc::clone(&self.server)));
        WebdavRequestContext::new(protocol, Arc::clone(self.server.primary()), Caller::new(Protocol::WebDav), question)
    }

    /// What the tree tells of a path: the hash that a condition is judged by, between quotation
    /// marks.
    fn told(&self, asked: &WebdavRequestContext, path: &str) -> Result<String, FsError> {
        let path = DavPath::new(path).unwrap();
        self.runtime.block_on(WebdavFileSystem.metadata(&path, asked)).map(|metadata| metadata.etag().unwrap())
    }

    /// What another door writes.
    fn written(&self, path: &str, text: &str) {
        let path = TreePath::parse(path.trim_start_matches('/')).unwrap();
        self.server.primary().vfs.apply(&Caller::new(Protocol::Http), Change::put(path, text.to_owned())).unwrap();
    }

    /// Puts a text at a path; whether it was taken.
    fn takes(&self, asked: &WebdavRequestContext, path: &str, text: &'static str) -> bool {
        let path = DavPath::new(path).unwrap();
        let options = OpenOptions { write: true, create: true, truncate: true, ..OpenOptions::default() };
        self.runtime.block_on(async {
            let Ok(mut file) = WebdavFileSystem.open(&path, options, asked).await else { return false };
            file.write_bytes(text.into()).await.unwrap();
            file.flush().await.is_ok()
        })
    }
}

/// Shows: COND-6
#[test]
fn a_condition_and_its_write_see_the_same_state() {
    let served = Served::new();
    served.written(PAGE, "# 0\n");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                served.written(PAGE, &format!("# {number}\n"));
            }
        });
        let path = TreePath::parse("page.md").unwrap();
        for _ in 0..300 {
            let asked = served.asked("PUT", PAGE);
            let told = served.told(&asked, PAGE).unwrap();
            let Precondition::OneOf(expected) = crate::observed_state::to_precondition(asked.observed(&path).as_ref())
            else {
                panic!("anything")
            };
            assert_eq!(told, expected[0].to_string());
            // As `If` asks again.
            assert_eq!(served.told(&asked, PAGE).unwrap(), told);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Shows: COND-6
#[test]
fn a_concurrent_write_after_the_check_fails_every_method() {
    let served = Served::new();
    served.written(PAGE, "# One\n");
    let put = served.asked("PUT", PAGE);
    served.told(&put, PAGE).unwrap();
    let fresh = served.asked("PUT", "/new.md");
    assert_eq!(served.told(&fresh, "/new.md"), Err(FsError::NotFound));
    let [copy, rename, delete] = ["COPY", "MOVE", "DELETE"].map(|method| {
        let asked = served.asked(method, PAGE);
        served.told(&asked, PAGE).unwrap();
        asked
    });
    served.written(PAGE, "# Two\n");
    served.written("new.md", "# New\n");
    let [page, other] = [PAGE, "/other.md"].map(|path| DavPath::new(path).unwrap());
    assert!(!served.takes(&put, PAGE, "# Mine\n"));
    assert!(!served.takes(&fresh, "/new.md", "# Mine\n"));
    assert!(served.runtime.block_on(WebdavFileSystem.copy(&page, &other, &copy)).is_err());
    assert!(served.runtime.block_on(WebdavFileSystem.rename(&page, &other, &rename)).is_err());
    assert!(served.runtime.block_on(WebdavFileSystem.remove_file(&page, &delete)).is_err());
    assert_eq!(served.text("page.md").unwrap(), "# Two\n");
    assert_eq!(served.text("new.md").unwrap(), "# New\n");
    assert_eq!(served.text("other.md"), None);
}

#[test]
fn copy_and_move_never_overwrite_a_file_created_after_the_check() {
    let served = Served::new();
    served.written(PAGE, "# One\n");
    let [page, other] = [PAGE, "/other.md"].map(|path| DavPath::new(path).unwrap());
    let [copy, rename] = ["COPY", "MOVE"].map(|method| served.asked(method, PAGE));
    served.written("other.md", "# Other\n");
    assert!(served.runtime.block_on(WebdavFileSystem.copy(&page, &other, &copy)).is_err());
    assert!(served.runtime.block_on(WebdavFileSystem.rename(&page, &other, &rename)).is_err());
    assert_eq!(served.text("other.md").unwrap(), "# Other\n");
}

#[test]
fn what_a_copy_or_a_move_replaces_is_what_was_looked_at() {
    let served = Served::new();
    served.written(PAGE, "# One\n");
    served.written("other.md", "# Other\n");
    let [page, other] = [PAGE, "/other.md"].map(|path| DavPath::new(path).unwrap());
    for method in ["COPY", "MOVE"] {
        let asked = served.asked(method, PAGE);
        served.told(&asked, "/other.md").unwrap();
        served.runtime.block_on(WebdavFileSystem.remove_file(&other, &asked)).unwrap();
        let text = format!("# After {method}\n");
        served.written("other.md", &text);
        let outcome = if method == "COPY" {
            WebdavFileSystem.copy(&page, &other, &asked)
        } else {
            WebdavFileSystem.rename(&page, &other, &asked)
        };
        assert!(served.runtime.block_on(outcome).is_err(), "{method}");
        assert_eq!(served.text("other.md").unwrap(), text);
    }
}

/// Shows: COND-6
#[test]
fn a_large_file_replaces_only_the_version_that_was_checked() {
    let served = Served::new();
    let content: Bytes = vec![b'x'; MAX_FILE_BYTES + 1].into();
    let put = |asked: &WebdavRequestContext, meanwhile: &dyn Fn()| {
        let path = DavPath::new("/film.bin").unwrap();
        let options = OpenOptions { write: true, create: true, truncate: true, ..OpenOptions::default() };
        served.runtime.block_on(async {
            let mut file = WebdavFileSystem.open(&path, options, asked).await.unwrap();
            file.write_bytes(content.clone()).await.unwrap();
            meanwhile();
            file.flush().await.is_ok()
        })
    };
    served.written("film.bin", "small\n");
    let asked = || {
        let asked = served.asked("PUT", "/film.bin");
        served.told(&asked, "/film.bin").unwrap();
        asked
    };
    assert!(!put(&asked(), &|| served.written("film.bin", "other\n")));
    assert_eq!(served.text("film.bin").unwrap(), "other\n");
    assert!(put(&asked(), &|| {}));
    assert_eq!(served.text("film.bin"), None, "it has no version now");
    let (removed, small) = (asked(), asked());
    served.send("PUT", "/film.bin", &[], content.slice(..).to_vec());
    let path = DavPath::new("/film.bin").unwrap();
    assert!(served.runtime.block_on(WebdavFileSystem.remove_file(&path, &removed)).is_err());
    assert!(!served.takes(&small, "/film.bin", "small\n"));
    assert_eq!(served.get("/film.bin").body.len(), MAX_FILE_BYTES + 1);
    assert!(served.takes(&asked(), "/film.bin", "small\n"));
}

#[test]
fn a_folder_is_removed_completely_whatever_the_depth_header() {
    let served = Served::new();
    for depth in ["0", "infinity"] {
        served.send("MKCOL", "/whole", &[], "");
        served.put("/whole/a.md", "# A\n");
        assert_eq!(served.send("DELETE", "/whole/", &[("depth", "1")], "").status, 400);
        // As if it were infinity (RFC 4918 9.6.1).
        assert_eq!(served.send("DELETE", "/whole/", &[("depth", depth)], "").status, 204, "{depth}");
        assert!(!served.folder.path().join("default/whole").exists(), "{depth}");
    }
}
