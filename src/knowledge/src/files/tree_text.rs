//! The tree as JSON, written while it is sent.
//!
//! Invariant: a directory is listed when it is written, so that only it and its ancestors are in
//! memory. The JSON equals that of the tree's [`FileTreeNode`](super::tree::FileTreeNode)s.

use std::sync::Arc;
use std::vec::IntoIter;

use svcfs_base::{Caller, Fault};
use svcfs_config::PublicUrl;
use svcfs_vfs::{DirectoryEntry, EntryKind, Vfs};

use super::read;
use super::tree::{self, ListingOptions, NodeType};
use crate::kernel::{JsonPieces, ListSeparator, OperationContext, PIECE_BYTES, write_json};

/// A list of nodes that is written in pieces.
pub struct TreeText {
    vfs: Arc<Vfs>,
    caller: Caller,
    public_url: Option<PublicUrl>,
    options: ListingOptions,
    has_started: bool,
    /// The directories being written, from the outermost to the innermost.
    open: Vec<OpenList>,
}

struct OpenList {
    entries: IntoIter<DirectoryEntry>,
    separator: ListSeparator,
    closing: Vec<u8>,
}

impl OpenList {
    fn new(entries: Vec<DirectoryEntry>, closing: Vec<u8>) -> Self {
        Self { entries: entries.into_iter(), separator: ListSeparator::default(), closing }
    }
}

impl TreeText {
    pub fn new(cx: &OperationContext<'_>, entries: Vec<DirectoryEntry>, options: ListingOptions) -> Self {
        Self {
            vfs: Arc::clone(&cx.space.vfs),
            caller: cx.caller.clone(),
            public_url: cx.public_url().cloned(),
            options,
            has_started: false,
            open: vec![OpenList::new(entries, b"]".to_vec())],
        }
    }

    /// Writes a node; for a directory only the part before its children, which are written next.
    fn write_node(&mut self, entry: DirectoryEntry, text: &mut Vec<u8>) -> Result<(), Fault> {
        let DirectoryEntry { path, attributes } = entry;
        text.extend_from_slice(br#"{"path":"#);
        write_json(text, &path)?;
        text.extend_from_slice(br#","name":"#);
        write_json(text, path.name())?;
        if attributes.kind == EntryKind::Directory {
            text.extend_from_slice(br#","isDir":true,"size":0,"children":["#);
            let is_listed = self.options.depth > self.open.len();
            let list_children = if is_listed {
                tree::list_children((&self.vfs, &self.caller), &path, self.options)?
            } else {
                Vec::new()
            };
            let mut closing = b"]".to_vec();
            self.write_details(&attributes, &mut closing)?;
            self.open.push(OpenList::new(list_children, closing));
            return Ok(());
        }
        text.extend_from_slice(br#","isDir":false,"size":"#);
        write_json(text, attributes.size)?;
        text.extend_from_slice(br#","children":null"#);
        if let Some(permalink) = read::permalink(self.public_url.as_ref(), &path) {
            text.extend_from_slice(br#","permalink":"#);
            write_json(text, permalink)?;
        }
        self.write_details(&attributes, text)
    }

    fn write_details(&self, attributes: &svcfs_vfs::PathAttributes, text: &mut Vec<u8>) -> Result<(), Fault> {
        if self.options.is_detailed {
            text.extend_from_slice(br#","modified":"#);
            write_json(text, read::to_timestamp(attributes.modified))?;
            text.extend_from_slice(br#","type":"#);
            write_json(text, NodeType::new(attributes))?;
        }
        text.push(b'}');
        Ok(())
    }
}

impl JsonPieces for TreeText {
    fn write_next(&mut self, text: &mut Vec<u8>) -> Result<bool, Fault> {
        let closing = text.len() + PIECE_BYTES;
        if !std::mem::replace(&mut self.has_started, true) {
            text.push(b'[');
        }
        while let Some(list) = self.open.last_mut() {
            if text.len() >= closing {
                return Ok(true);
            }
            match list.entries.next() {
                Some(entry) => {
                    list.separator.write(text);
                    self.write_node(entry, text)?;
                }
                None => {
                    text.extend_from_slice(&list.closing);
                    self.open.pop();
                }
            }
        }
        Ok(false)
    }

    fn memory_bytes(&self) -> usize {
        let entries: usize = self.open.iter().map(|list| list.entries.len()).sum();
        entries * (size_of::<DirectoryEntry>() + MEAN_PATH_BYTES)
    }
}

const MEAN_PATH_BYTES: usize = 64;
