//! A door whose user asks about history after each change.

use std::sync::Arc;

use svcfs_knowledge::kernel::Space;

use super::{Answer, Door};
use crate::space::TestSpace;

pub struct Asking {
    protocol: Box<dyn Door>,
    space: Arc<Space>,
}

impl Asking {
    pub fn new(protocol: Box<dyn Door>, space: &TestSpace) -> Self {
        Self { protocol, space: Arc::clone(space.space()) }
    }

    fn ask<T>(&self, answer: Answer<T>) -> Answer<T> {
        self.space.vfs.changes(None, 1).map_err(|fault| format!("{fault:?}"))?;
        answer
    }
}

impl Door for Asking {
    fn write(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.ask(self.protocol.write(path, content))
    }
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.ask(self.protocol.write_as_guest(path, content))
    }
    fn append(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.ask(self.protocol.append(path, content))
    }
    fn read(&self, path: &str) -> Answer<Vec<u8>> {
        self.protocol.read(path)
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        self.ask(self.protocol.rename(from, to))
    }
    fn remove(&self, path: &str) -> Answer<()> {
        self.ask(self.protocol.remove(path))
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        self.protocol.list(directory)
    }
    fn make_directory(&self, path: &str) -> Answer<()> {
        self.ask(self.protocol.make_directory(path))
    }
}
