//! Agent tools over `/mcp`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{Answer, Door, GUEST};
use crate::space::client::Client;
use crate::space::{TestSpace, me};

pub struct Agent(Client);

impl Agent {
    pub fn new(space: &TestSpace) -> Self {
        Self(space.client())
    }

    fn put(&self, actor: &str, path: &str, content: &[u8]) -> Answer<()> {
        let (content, encoding) = encoded(content);
        let arguments = json!({ "path": path, "content": content, "encoding": encoding, "actor": actor });
        self.0.tool("svc_write", arguments).map(drop)
    }
}

/// Bytes as a tool takes them, and how they are encoded.
fn encoded(content: &[u8]) -> (String, &'static str) {
    match std::str::from_utf8(content) {
        Ok(text) => (text.to_owned(), "text"),
        Err(_) => (STANDARD.encode(content), "base64"),
    }
}

impl Door for Agent {
    fn write(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.put(&me(), path, content)
    }
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.put(GUEST, path, content)
    }
    fn append(&self, path: &str, content: &[u8]) -> Answer<()> {
        let (content, encoding) = encoded(content);
        let arguments =
            json!({ "path": path, "content": content, "encoding": encoding, "separator": "", "actor": me() });
        self.0.tool("svc_append", arguments).map(drop)
    }
    fn read(&self, path: &str) -> Answer<Vec<u8>> {
        let page = self.0.tool("svc_read", json!({ "path": path }))?;
        match (page["content"].as_str(), page["content"]["base64"].as_str()) {
            (Some(text), _) => Ok(text.as_bytes().to_vec()),
            (None, Some(encoded)) => Ok(STANDARD.decode(encoded).unwrap()),
            (None, None) => Err(format!("no content in {page}")),
        }
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        self.0.tool("svc_rename", json!({ "from": from, "to": to, "actor": me() })).map(drop)
    }
    fn remove(&self, path: &str) -> Answer<()> {
        self.0.tool("svc_delete", json!({ "path": path, "actor": me() })).map(drop)
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        let nodes = self.0.tool("svc_tree", json!({ "path": directory, "depth": 1 }))?;
        let nodes = nodes["result"].as_array().unwrap();
        Ok(nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect())
    }
    fn make_directory(&self, _: &str) -> Answer<()> {
        Ok(())
    }
}
