//! Clients of each door, as the checker knows them.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::PAGES;
use super::checker::{Deed, State};
use crate::space::TestSpace;
use crate::space::client::{Client, endpoint};

/// One of the pages.
#[derive(Debug, Clone, Copy)]
pub struct Page(pub usize);

impl Page {
    fn path(self) -> String {
        format!("page {}.md", self.0)
    }
}

/// One who reads and writes pages.
pub trait Asker {
    /// How many of the pages it has to do with: the first ones.
    fn pages(&self) -> usize {
        PAGES
    }
    /// What a page has.
    fn reads(&mut self, page: Page) -> State;
    /// Writes a text in place of `seen`, or whatever there is where the door knows no conditions.
    fn writes(&mut self, page: Page, seen: State, text: u64) -> Deed;
}

/// A text that has its number in it, of various lengths.
fn content(text: u64) -> String {
    format!("# Text {text}\n\n{}", "x\n".repeat(usize::try_from(1 + text * 7 % 90).unwrap()))
}

/// The number of a text that is whole.
#[track_caller]
fn number(found: &str) -> u64 {
    let line = found.lines().next().unwrap_or_default();
    let number = line.strip_prefix("# Text ").and_then(|number| number.parse().ok());
    let number = number.unwrap_or_else(|| panic!("this was never written: {found:?}"));
    assert_eq!(found, content(number), "half a text");
    number
}

/// Whether this is one text and all of it.
fn is_whole(found: &str) -> bool {
    let line = found.lines().next().unwrap_or_default();
    let number = line.strip_prefix("# Text ").and_then(|number| number.parse().ok());
    number.is_some_and(|number| found == content(number))
}

fn etag(text: u64) -> String {
    svcfs_base::ETag::from_content(content(text).as_bytes()).to_string()
}

/// REST with `If-Match` and `If-None-Match`.
pub struct Browser(Client);

impl Browser {
    pub fn new(space: &TestSpace) -> Self {
        Self(space.client())
    }
}

impl Asker for Browser {
    fn reads(&mut self, page: Page) -> State {
        let reply = self.0.get(&endpoint("/file", &[("path", &page.path())]));
        match reply.status {
            200 => {
                let text = number(&reply.text());
                assert_eq!(reply.headers["etag"], format!("\"{}\"", etag(text)), "the tag of another text");
                Some(text)
            }
            404 => None,
            status => panic!("{status}: {}", reply.text()),
        }
    }

    fn writes(&mut self, page: Page, seen: State, text: u64) -> Deed {
        let condition =
            seen.map_or(("If-None-Match", "*".to_owned()), |seen| ("If-Match", format!("\"{}\"", etag(seen))));
        let headers = [(condition.0, condition.1.as_str())];
        let reply = self.0.send("PUT", &endpoint("/file", &[("path", &page.path())]), &headers, content(text));
        match (reply.status, seen) {
            (200, _) => Deed::Swap(seen, text),
            (409, Some(_)) | (412, None) => Deed::Refused(seen),
            (status, _) => panic!("{status}: {}", reply.text()),
        }
    }
}

/// Tools over MCP. They know no "create only", so that a page which is not there is left to others.
pub struct Agent(Client);

impl Agent {
    pub fn new(space: &TestSpace) -> Self {
        Self(space.client())
    }
}

impl Asker for Agent {
    fn reads(&mut self, page: Page) -> State {
        match self.0.tool("svc_read", json!({ "path": page.path() })) {
            Ok(found) => Some(number(found["content"].as_str().unwrap())),
            Err(said) if said.contains("not found") => None,
            Err(said) => panic!("{said}"),
        }
    }

    fn writes(&mut self, page: Page, seen: State, text: u64) -> Deed {
        let Some(expected) = seen else { return Deed::Read(self.reads(page)) };
        let arguments = json!({ "path": page.path(), "content": content(text), "if_match": etag(expected) });
        match self.0.tool("svc_write", arguments) {
            Ok(_) => Deed::Swap(seen, text),
            Err(_) => Deed::Refused(seen),
        }
    }
}

/// How often a page is read anew at most that others replace while it is read.
const MAX_TRIES: usize = 100;

/// Reads a page through the mount, as often as it takes to get a whole text: a page that another
/// door replaces while it is read may be read in parts of both texts, or cut at the size that the
/// kernel knew (SEMANTICS.md).
fn read_file(at: &Path) -> State {
    for _ in 0..MAX_TRIES {
        match fs::read_to_string(at) {
            Ok(found) if is_whole(&found) => return Some(number(&found)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            // The page was replaced twice between the look at its name and its opening; the kernel
            // tries again once itself.
            Err(error) if error.kind() == ErrorKind::StaleNetworkFileHandle => {}
            Err(error) => panic!("{}: {error}", at.display()),
        }
    }
    panic!("{}: never whole in {MAX_TRIES} tries", at.display())
}

/// Saves as editors do: the whole text into a file beside the page, `fsync`, and its name over the
/// page's.
pub struct Editor {
    mountpoint: PathBuf,
    number: usize,
}

impl Editor {
    pub fn new(space: &TestSpace, number: usize) -> Self {
        Self { mountpoint: space.mountpoint(), number }
    }
}

impl Asker for Editor {
    fn reads(&mut self, page: Page) -> State {
        read_file(&self.mountpoint.join(page.path()))
    }

    fn writes(&mut self, page: Page, _: State, text: u64) -> Deed {
        let draft = self.mountpoint.join(format!("draft{}.tmp", self.number));
        let mut file = File::create(&draft).unwrap();
        file.write_all(content(text).as_bytes()).unwrap();
        file.sync_all().unwrap();
        drop(file);
        fs::rename(&draft, self.mountpoint.join(page.path())).unwrap();
        Deed::Write(text)
    }
}

/// Writes a page in its place and returns when `fsync` has. Readers of the same mount see such a
/// text as it grows, those of other doors when it is whole; so this one reads nothing.
pub struct InPlace {
    mountpoint: PathBuf,
    reader: Browser,
}

impl InPlace {
    pub fn new(space: &TestSpace) -> Self {
        Self { mountpoint: space.mountpoint(), reader: Browser::new(space) }
    }
}

impl Asker for InPlace {
    fn reads(&mut self, page: Page) -> State {
        self.reader.reads(page)
    }

    fn writes(&mut self, page: Page, _: State, text: u64) -> Deed {
        let mut file = File::create(self.mountpoint.join(page.path())).unwrap();
        file.write_all(content(text).as_bytes()).unwrap();
        file.sync_all().unwrap();
        Deed::Write(text)
    }
}
