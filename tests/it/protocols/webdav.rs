//! WebDAV, as its clients speak it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{Answer, Door, GUEST};
use crate::space::client::{Client, Reply};
use crate::space::{TestSpace, me};

/// What a path of a URL does not carry as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/');

pub struct WebDav(Client);

impl WebDav {
    pub fn new(space: &TestSpace) -> Self {
        Self(space.webdav_client())
    }

    fn send_as(
        &self,
        actor: &str,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer<Reply> {
        let login = format!("Basic {}", BASE64_STANDARD.encode(format!("{actor}:")));
        let headers = [headers, &[("Authorization", login.as_str())]].concat();
        self.0.send(method, &target(path), &headers, body.to_vec()).success()
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer<Reply> {
        self.send_as(&me(), (method, path), headers, body)
    }
}

impl WebDav {
    /// Makes the folders above a path, as clients do: the protocol asks for it.
    fn make_way(&self, path: &str) {
        for (at, _) in path.match_indices('/') {
            // Refused where it is there already.
            let _there = self.send("MKCOL", &path[..at], &[], b"");
        }
    }
}

fn target(path: &str) -> String {
    format!("/{}", utf8_percent_encode(path.trim_start_matches('/'), ENCODED))
}

impl Door for WebDav {
    fn write(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.make_way(path);
        self.send("PUT", path, &[], content).map(drop)
    }
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.make_way(path);
        self.send_as(GUEST, ("PUT", path), &[], content).map(drop)
    }
    fn append(&self, path: &str, content: &[u8]) -> Answer<()> {
        let headers = [("Content-Type", "application/x-sabredav-partialupdate"), ("X-Update-Range", "append")];
        self.send("PATCH", path, &headers, content).map(drop)
    }
    fn read(&self, path: &str) -> Answer<Vec<u8>> {
        self.send("GET", path, &[], b"").map(|reply| reply.body.to_vec())
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        self.make_way(to);
        self.send("MOVE", from, &[("Destination", &target(to))], b"").map(drop)
    }
    fn remove(&self, path: &str) -> Answer<()> {
        self.send("DELETE", path, &[], b"").map(drop)
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        let listed = self.send("PROPFIND", directory, &[("Depth", "1")], b"")?.text();
        let addresses = listed.split("<D:href>").skip(1).filter_map(|rest| rest.split("</D:href>").next());
        // The first one is the directory itself.
        let names = addresses.skip(1).filter_map(|address| address.trim_end_matches('/').rsplit('/').next());
        let mut names: Vec<_> = names.map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        Ok(names)
    }
    fn make_directory(&self, path: &str) -> Answer<()> {
        self.make_way(path);
        self.send("MKCOL", path, &[], b"").map(drop)
    }
}
