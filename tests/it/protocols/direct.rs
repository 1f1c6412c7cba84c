//! The vfs itself, without any protocol.

use std::sync::Arc;

use svcfs_base::{Actor, Caller, Change, Fault, TreePath};
use svcfs_knowledge::kernel::Space;

use super::{Answer, Door, GUEST};
use crate::space::{TestSpace, me};

pub struct Direct(Arc<Space>);

impl Direct {
    pub fn new(space: &TestSpace) -> Self {
        Self(Arc::clone(space.space()))
    }

    fn apply(&self, actor: &str, change: Change) -> Answer<()> {
        let caller = caller().with_actor(Actor::new(actor));
        self.0.vfs.apply(&caller, change).map(drop).map_err(told)
    }
}

fn caller() -> Caller {
    Caller::new(svcfs_base::Protocol::Cli)
}

fn told(fault: Fault) -> String {
    fault.message().to_owned()
}

fn path(text: &str) -> Answer<TreePath> {
    TreePath::parse(text).map_err(told)
}

impl Door for Direct {
    fn write(&self, at: &str, content: &[u8]) -> Answer<()> {
        self.apply(&me(), Change::put(path(at)?, content.to_vec()))
    }
    fn write_as_guest(&self, at: &str, content: &[u8]) -> Answer<()> {
        self.apply(GUEST, Change::put(path(at)?, content.to_vec()))
    }
    fn append(&self, at: &str, content: &[u8]) -> Answer<()> {
        let whole = [self.read(at)?, content.to_vec()].concat();
        self.write(at, &whole)
    }
    fn read(&self, at: &str) -> Answer<Vec<u8>> {
        self.0.vfs.read(caller().protocol, &path(at)?).map(|file| file.content.to_vec()).map_err(told)
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        self.apply(&me(), Change::rename(path(from)?, path(to)?))
    }
    fn remove(&self, at: &str) -> Answer<()> {
        self.apply(&me(), Change::remove(path(at)?))
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        let entries = self.0.vfs.list(caller().protocol, &path(directory)?).map_err(told)?;
        let names = entries.iter().map(|entry| entry.path.name().to_owned());
        Ok(names.filter(|name| !name.starts_with('.')).collect())
    }
    fn make_directory(&self, at: &str) -> Answer<()> {
        self.apply(&me(), Change::MakeDir { path: path(at)? })
    }
}
