//! The tree as text, written while it is sent.
//!
//! Invariant: a directory is listed when its turn comes, and only the directories above it are in memory with it. The text is that of
//! the [`Node`](super::tree::Node)s of the same tree.

use std::sync::Arc;
use std::vec::IntoIter;

use svcfs_base::{Fault, Protocol};
use svcfs_config::PublicUrl;
use svcfs_vfs::{DirectoryEntry, EntryKind, Vfs};

use super::read;
use super::tree::{self, ListingOptions, NodeType};
use crate::kernel::{JsonPieces, ListSeparator, OperationContext, PIECE_BYTES, write_json};

/// A list of nodes that is written piece by piece.
pub struct TreeText {
    vfs: Arc<Vfs>,
    protocol: Protocol,
    site: Option<PublicUrl>,
    shown: ListingOptions,
    has_begun: bool,
    /// The directories whose nodes are being written, each inside the one before it.
    open: Vec<OpenList>,
}

/// The nodes of a directory that are not written yet.
struct OpenList {
    entries: IntoIter<DirectoryEntry>,
    separator: ListSeparator,
    /// What is written after the last of them.
    end: Vec<u8>,
}

impl OpenList {
    fn of(entries: Vec<DirectoryEntry>, end: Vec<u8>) -> Self {
        Self { entries: entries.into_iter(), separator: ListSeparator::default(), end }
    }
}

impl TreeText {
    /// The text of a list of these entries.
    pub fn of(cx: &OperationContext<'_>, entries: Vec<DirectoryEntry>, shown: ListingOptions) -> Self {
        Self {
            vfs: Arc::clone(&cx.space.vfs),
            protocol: cx.caller.protocol,
            site: cx.public_url().cloned(),
            shown,
            has_begun: false,
            open: vec![OpenList::of(entries, b"]".to_vec())],
        }
    }

    /// Writes a node; of a directory what comes before the nodes inside, which are written next.
    fn write_node(&mut self, entry: DirectoryEntry, text: &mut Vec<u8>) -> Result<(), Fault> {
        let DirectoryEntry { path, attributes } = entry;
        text.extend_from_slice(br#"{"path":"#);
        write_json(text, &path)?;
        text.extend_from_slice(br#","name":"#);
        write_json(text, path.name())?;
        if attributes.kind == EntryKind::Directory {
            text.extend_from_slice(br#","isDir":true,"size":0,"children":["#);
            let is_listed = self.shown.depth > self.open.len();
            let inside =
                if is_listed { tree::inside(&self.vfs, self.protocol, &path, self.shown)? } else { Vec::new() };
            let mut end = b"]".to_vec();
            self.write_details(&attributes, &mut end)?;
            self.open.push(OpenList::of(inside, end));
            return Ok(());
        }
        text.extend_from_slice(br#","isDir":false,"size":"#);
        write_json(text, attributes.size)?;
        text.extend_from_slice(br#","children":null"#);
        if let Some(permalink) = read::permalink(self.site.as_ref(), &path) {
            text.extend_from_slice(br#","permalink":"#);
            write_json(text, permalink)?;
        }
        self.write_details(&attributes, text)
    }

    /// Writes what only details have, and the end of the node.
    fn write_details(&self, attributes: &svcfs_vfs::PathAttributes, text: &mut Vec<u8>) -> Result<(), Fault> {
        if self.shown.is_detailed {
            text.extend_from_slice(br#","modified":"#);
            write_json(text, read::to_timestamp(attributes.modified))?;
            text.extend_from_slice(br#","type":"#);
            write_json(text, NodeType::of(attributes))?;
        }
        text.push(b'}');
        Ok(())
    }
}

impl JsonPieces for TreeText {
    fn write_next(&mut self, text: &mut Vec<u8>) -> Result<bool, Fault> {
        let end = text.len() + PIECE_BYTES;
        if !std::mem::replace(&mut self.has_begun, true) {
            text.push(b'[');
        }
        while let Some(list) = self.open.last_mut() {
            if text.len() >= end {
                return Ok(true);
            }
            match list.entries.next() {
                Some(entry) => {
                    list.separator.write(text);
                    self.write_node(entry, text)?;
                }
                None => {
                    text.extend_from_slice(&list.end);
                    self.open.pop();
                }
            }
        }
        Ok(false)
    }

    fn memory_bytes(&self) -> usize {
        let entries: usize = self.open.iter().map(|list| list.entries.len()).sum();
        entries * (size_of::<DirectoryEntry>() + MEAN_PATH)
    }
}

/// Bytes that the path of an entry takes, about.
const MEAN_PATH: usize = 64;
