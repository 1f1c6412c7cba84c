//! Unpublished bytes of a node.
//!
//! One rule: they are in memory while they can be recorded, and in a file of the root's disk once they are too many for that.

use std::ops::Range;

use bytes::Bytes;
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES};
use svcfs_store::{Draft, WorkTree};

use crate::view::blocks_of;

/// The longest file that can be recorded, in bytes.
pub(crate) const RECORDED: u64 = MAX_FILE_BYTES as u64;

/// Bytes that a node will have.
#[derive(Debug)]
pub(crate) enum Body {
    /// At most [`RECORDED`].
    Memory(Vec<u8>),
    /// Any number, on the disk.
    Disk { draft: Draft, length: u64 },
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Memory(bytes.into())
    }
}

impl Body {
    /// No bytes.
    pub(crate) const fn empty() -> Self {
        Self::Memory(Vec::new())
    }

    /// How many there are.
    pub(crate) const fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk { length, .. } => *length,
        }
    }

    /// Room they take or will take on the disk, in blocks of 512 bytes.
    pub(crate) fn blocks(&self) -> Result<u64, Fault> {
        match self {
            Self::Memory(bytes) => Ok(blocks_of(bytes.len() as u64)),
            Self::Disk { draft, .. } => Ok(draft.file().stat()?.blocks),
        }
    }

    /// Bytes at an offset; fewer at the end.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Bytes, Fault> {
        match self {
            Self::Memory(bytes) => Ok(Bytes::copy_from_slice(&bytes[part(bytes, offset, length as u64)])),
            Self::Disk { draft, .. } => Ok(draft.file().read_at(offset, length)?),
        }
    }

    /// Writes at an offset.
    pub(crate) fn write(&mut self, tree: &WorkTree, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let end = offset.checked_add(data.len() as u64).ok_or_else(too_far)?;
        if end > self.length() {
            self.resize(tree, end)?;
        }
        match self {
            Self::Memory(bytes) => {
                let range = part(bytes, offset, data.len() as u64);
                bytes[range].copy_from_slice(data);
            }
            Self::Disk { draft, .. } => draft.file().write_at(offset, data)?,
        }
        Ok(())
    }

    /// Gives them another length; what is new is zeros.
    pub(crate) fn resize(&mut self, tree: &WorkTree, size: u64) -> Result<(), Fault> {
        if let Self::Memory(bytes) = self {
            if let Some(size) = usize::try_from(size).ok().filter(|size| *size <= MAX_FILE_BYTES) {
                bytes.resize(size, 0);
                return Ok(());
            }
            let draft = tree.draft()?;
            draft.file().write_at(0, bytes)?;
            *self = Self::Disk { length: bytes.len() as u64, draft };
        }
        if let Self::Disk { draft, length } = self {
            if i64::try_from(size).is_err() {
                return Err(too_far());
            }
            draft.file().resize(size)?;
            *length = size;
        }
        Ok(())
    }

    /// Makes a part zeros, as far as there are bytes.
    pub(crate) fn zero(&mut self, offset: u64, length: u64) -> Result<(), Fault> {
        match self {
            Self::Memory(bytes) => {
                let range = part(bytes, offset, length);
                bytes[range].fill(0);
            }
            Self::Disk { draft, length: whole } => {
                let end = offset.saturating_add(length).min(*whole);
                draft.file().zero(offset, end.saturating_sub(offset))?;
            }
        }
        Ok(())
    }

    /// All of them, when they can be recorded.
    pub(crate) fn recorded(&self) -> Result<Option<Bytes>, Fault> {
        match usize::try_from(self.length()).ok().filter(|length| *length <= MAX_FILE_BYTES) {
            Some(length) => Ok(Some(self.read(0, length)?)),
            None => Ok(None),
        }
    }
}

/// The range of a part, as far as there are bytes.
pub(super) fn part(bytes: &[u8], offset: u64, length: u64) -> Range<usize> {
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    position(offset)..position(offset.saturating_add(length))
}

fn too_far() -> Fault {
    Fault::new(Kind::TooLarge, "no file is as long as that")
}
