//! The inode face on a real disk.

mod attributes;
mod large;
mod names;
mod pending;
mod refused;
mod renaming;
mod saving;
mod still;
mod taken;

use svcfs_base::{Caller, Change, ChangeSet, Durability, Kind, PathComponent, Precondition, Protocol};

use super::*;
use crate::EntryKind;
use crate::tests::{TestSpace, at, eve};

fn ann() -> Caller {
    Caller::new(Protocol::Fuse).with_actor(svcfs_base::Actor::new("ann"))
}

fn name(text: &str) -> PathComponent {
    PathComponent::parse(text).unwrap()
}

fn open(space: &TestSpace, path: &str, mode: OpenMode) -> (NodeId, HandleId) {
    let (node, _) = space.vfs.lookup(&ann(), NodeId::ROOT, &name(path)).unwrap();
    (node, space.vfs.open_node(&ann(), node, mode).unwrap())
}

const WRITING: OpenMode = OpenMode { write: true, truncate: false };
const EMPTYING: OpenMode = OpenMode { write: true, truncate: true };

fn save(space: &TestSpace, file: &str, text: &str) {
    let (node, _, handle) = space.vfs.create(&ann(), NodeId::ROOT, &name(file), 0o644).unwrap();
    space.vfs.write_node(&ann(), handle, WriteAt::Offset(0), text.as_bytes()).unwrap();
    space.vfs.publish(&ann(), node, Durability::Soon).unwrap();
    space.vfs.release(&ann(), handle).unwrap();
}
