//! Drafts: changes that a person reviews before they are merged into the tree.

use std::fmt;

use crate::{Actor, CommitId, ETag, Seq, Timestamp};

/// Names a draft: eight hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftId(pub u32);

impl DraftId {
    /// Parses an id as [`fmt::Display`] writes it.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_id = text.len() == 8 && text.bytes().all(is_digit);
        u32::from_str_radix(text, 16).ok().filter(|_| is_id).map(Self)
    }
    /// The git branch with the content of the draft.
    pub fn branch(self) -> String {
        format!("draft/{self}")
    }
}

impl fmt::Display for DraftId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", self.0)
    }
}

/// An open draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Its name.
    pub id: DraftId,
    /// The actor that opened it.
    pub actor: Actor,
    /// When it was opened.
    pub created_at: Timestamp,
    /// The newest commit when it was opened.
    pub base_commit: Option<CommitId>,
    /// The position of the log when it was opened.
    pub base_seq: Seq,
}

/// A page that a draft changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftPage {
    /// The version of the tree when the draft first changed the page; none if there was no page.
    pub base: Option<ETag>,
    /// The content in the draft; none when the draft removes the page.
    pub etag: Option<ETag>,
    /// Length of that content in bytes.
    pub size: u64,
    /// The last actor that changed it in the draft.
    pub author: Actor,
    /// When that was.
    pub changed_at: Timestamp,
}

/// What a draft does to a directory. git has no empty directories, so neither is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DraftDirectory {
    /// It exists, also without files.
    Made,
    /// It exists only while it has files.
    Removed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_eight_digits_and_is_no_path() {
        assert_eq!(DraftId::parse("00c0ffee"), Some(DraftId(0x00c0_ffee)));
        assert_eq!(DraftId(0x00c0_ffee).branch(), "draft/00c0ffee");
        for text in ["", "c0ffee", "00C0FFEE", "../../ab", "+0c0ffee", "00c0ffee0", "00c0ff e", "é0c0ffe", "0x00c0ff"]
        {
            assert_eq!(DraftId::parse(text), None, "{text:?}");
        }
    }
}
