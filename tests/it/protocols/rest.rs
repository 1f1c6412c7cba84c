//! REST.

use serde_json::json;

use super::{Answer, Door, GUEST};
use crate::space::client::{Client, Reply, endpoint};
use crate::space::{TestSpace, me};

pub struct Rest(Client);

impl Rest {
    pub fn new(space: &TestSpace) -> Self {
        Self(space.client())
    }

    fn put(&self, actor: &str, path: &str, content: &[u8]) -> Answer<()> {
        let headers = [("X-Actor", actor), ("Content-Type", "text/markdown")];
        let target = endpoint("/file", &[("path", path)]);
        self.0.send("PUT", &target, &headers, content.to_vec()).success().map(drop)
    }

    fn send(&self, method: &str, target: &str, body: Vec<u8>) -> Answer<Reply> {
        self.0.send(method, target, &[("X-Actor", &me())], body).success()
    }
}

impl Door for Rest {
    fn write(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.put(&me(), path, content)
    }
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.put(GUEST, path, content)
    }
    fn append(&self, path: &str, content: &[u8]) -> Answer<()> {
        let target = endpoint("/file/append", &[("path", path), ("separator", "")]);
        self.send("POST", &target, content.to_vec()).map(drop)
    }
    fn read(&self, path: &str) -> Answer<Vec<u8>> {
        self.send("GET", &endpoint("/file", &[("path", path)]), Vec::new()).map(|reply| reply.body.to_vec())
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        let body = json!({ "from": from, "to": to }).to_string();
        self.send("POST", &endpoint("/rename", &[]), body.into_bytes()).map(drop)
    }
    fn remove(&self, path: &str) -> Answer<()> {
        self.send("DELETE", &endpoint("/file", &[("path", path)]), Vec::new()).map(drop)
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        let target = endpoint("/tree", &[("path", directory), ("depth", "1")]);
        let nodes = self.send("GET", &target, Vec::new())?.json();
        let names = nodes.as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap().to_owned());
        Ok(names.collect())
    }
    fn make_directory(&self, _: &str) -> Answer<()> {
        Ok(())
    }
}
