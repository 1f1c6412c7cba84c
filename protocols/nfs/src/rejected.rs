//! Rejected texts, and the writes that continue them.
//!
//! Invariant: a write is never mixed into a text that it was not made for. NFS has no open and
//! close, so a client does not say whether it continues its rejected text or the current page. The
//! written bytes decide: they belong to the text from which they differ less. On a tie they belong
//! to the rejected text, which at worst is rejected again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs3_types::nfs3::nfsstat3;
use parking_lot::Mutex;
use svcfs_base::{Caller, ETag, Fault, Protocol, TreePath};
use svcfs_vfs::{HandleId, NodeId, RejectedText, Vfs};

use crate::error::{NfsError, status};
use crate::export::NfsExport;

/// A rejected text expires after this time without a write; its copy under `.svc/rejected` stays.
pub(crate) const RESUME_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long a write that continues an expired text gets the error again. No client pauses for
/// longer, and other writes are accepted.
const EXPIRED_TTL: Duration = Duration::from_secs(60 * 60);
/// Number of unreported rejections that are remembered.
const MAX_UNREPORTED: usize = 4096;
/// Number and total bytes of the rejected texts of a space that can be continued.
const MAX_TEXTS: usize = 128;
const MAX_TEXT_BYTES: u64 = 64 << 20;

/// A rejected text, the time, and the status.
type PendingRejection = (RejectedText, Instant, nfsstat3);

#[derive(Default)]
pub(crate) struct RejectionTable {
    /// Statuses of failed saves, until a client asks.
    unreported: Mutex<HashMap<u64, nfsstat3>>,
    texts: Mutex<HashMap<u64, PendingRejection>>,
    /// Texts that expired, and when: they cannot be continued.
    expired: Mutex<HashMap<u64, (Instant, nfsstat3)>>,
}

fn remember<T>(map: &Mutex<HashMap<u64, T>>, inode: u64, error: T) {
    let mut map = map.lock();
    if map.len() >= MAX_UNREPORTED {
        map.clear();
    }
    map.insert(inode, error);
}

impl RejectionTable {
    /// Takes the status of a failed save, to be reported once.
    pub(crate) fn take_unreported(&self, inode: u64) -> Option<nfsstat3> {
        self.unreported.lock().remove(&inode)
    }

    /// Stores the error of an asynchronous save for the next client that asks.
    pub(crate) fn report_later(&self, inode: u64, fault: &Fault) {
        remember(&self.unreported, inode, status(fault.kind()));
    }

    /// Stores a rejected text so that it can be continued; the oldest ones expire beyond the
    /// limits.
    pub(crate) fn store(&self, inode: u64, text: RejectedText, fault: &Fault) {
        let mut texts = self.texts.lock();
        texts.insert(inode, (text, Instant::now(), status(fault.kind())));
        let is_over_limit = |texts: &HashMap<u64, PendingRejection>| {
            texts.len() > MAX_TEXTS || texts.values().map(|(text, ..)| text.length()).sum::<u64>() > MAX_TEXT_BYTES
        };
        while is_over_limit(&texts)
            && let Some(oldest) = texts.iter().min_by_key(|(_, (_, since, _))| *since).map(|(inode, _)| *inode)
        {
            self.expire(&mut texts, oldest);
        }
    }

    fn expire(&self, texts: &mut HashMap<u64, PendingRejection>, inode: u64) {
        if let Some((.., status)) = texts.remove(&inode) {
            remember(&self.expired, inode, (Instant::now(), status));
        }
    }

    /// Expires old texts and returns when the next one is due.
    pub(crate) fn expire_due(&self, now: Instant) -> Option<Instant> {
        let mut texts = self.texts.lock();
        let due_inodes: Vec<u64> =
            texts.iter().filter(|(_, (_, since, _))| *since + RESUME_TIMEOUT <= now).map(|(inode, _)| *inode).collect();
        due_inodes.into_iter().for_each(|inode| self.expire(&mut texts, inode));
        texts.values().map(|(_, since, _)| *since + RESUME_TIMEOUT).min()
    }

    pub(crate) fn has_text(&self, inode: u64) -> bool {
        self.texts.lock().contains_key(&inode)
    }

    /// Forgets all rejections of a file that is rewritten or removed.
    pub(crate) fn forget(&self, inode: u64) {
        self.unreported.lock().remove(&inode);
        self.texts.lock().remove(&inode);
        self.expired.lock().remove(&inode);
    }
}

/// The part of a text that a write replaces.
#[derive(Debug)]
struct TextSlice {
    length: u64,
    bytes: Bytes,
}

impl TextSlice {
    fn of_node(vfs: &Vfs, node: NodeId, (offset, data): (u64, &[u8])) -> Result<Self, Fault> {
        Ok(Self { length: vfs.attributes(node)?.size, bytes: vfs.read_node(node, offset, data.len())? })
    }

    /// The copy under `.svc/rejected`; `None` when it was removed.
    fn of_stored_copy(vfs: &Vfs, path: &TreePath, written: (u64, &[u8])) -> Option<Self> {
        let copy_path = svcfs_vfs::rejected_path(path)?;
        let (node, _) = vfs.lookup_path(&Caller::new(Protocol::Internal), &copy_path).ok()?;
        let slice = Self::of_node(vfs, node, written).ok();
        vfs.forget(node, 1);
        slice
    }

    fn of_rejected(text: &RejectedText, (offset, data): (u64, &[u8])) -> Result<Self, Fault> {
        Ok(Self { length: text.length(), bytes: text.read(offset, data.len())? })
    }

    fn count_differences(&self, data: &[u8]) -> usize {
        self.bytes.iter().zip(data).filter(|(current_byte, written)| current_byte != written).count()
    }
}

/// Whether a write continues the current page, and not the rejected text.
fn continues_current(current: &TextSlice, rejected: &TextSlice, (offset, data): (u64, &[u8])) -> bool {
    // Clients do not leave holes.
    if offset > current.length || offset > rejected.length {
        return offset <= current.length;
    }
    let end = offset + data.len() as u64;
    let is_overwrite = end <= current.length && (offset, end) != (0, current.length);
    if is_overwrite && current.count_differences(data) == 0 {
        // Clients do not write what the page already contains.
        return false;
    }
    current.count_differences(data) < rejected.count_differences(data)
}

impl NfsExport {
    /// Continues the rejected text of a file that was just opened, if the write belongs to it.
    /// Returns the base version of the text then, with which the next save is checked. Errors:
    /// `Conflict` when others are writing the file; the status of the rejection when the text has
    /// expired.
    pub(crate) fn resume_rejected(
        &self,
        (inode, path): (u64, &TreePath),
        (node, handle): (NodeId, HandleId),
        written: (u64, &[u8]),
    ) -> Result<Option<Option<ETag>>, NfsError> {
        let pending = self.rejections.texts.lock().remove(&inode);
        let Some((text, since, status)) = pending else {
            return self.check_not_expired((inode, path), node, written).map(|()| None);
        };
        let outcome = TextSlice::of_rejected(&text, written).and_then(|rejected| {
            let current = TextSlice::of_node(self.vfs(), node, written)?;
            Ok(continues_current(&current, &rejected, written))
        });
        let (fault, text) = match outcome {
            // An unreported status stays for the next client that asks.
            Ok(true) => return Ok(None),
            Ok(false) => match self.vfs().reattach(handle, text) {
                Ok(base) => {
                    // The full text is checked again.
                    self.rejections.take_unreported(inode);
                    return Ok(Some(base));
                }
                Err(rejected) => rejected,
            },
            Err(fault) => (fault, text),
        };
        self.rejections.texts.lock().insert(inode, (text, since, status));
        Err(fault.into())
    }

    fn check_not_expired(
        &self,
        (inode, path): (u64, &TreePath),
        node: NodeId,
        written: (u64, &[u8]),
    ) -> Result<(), NfsError> {
        let Some((when, status)) = self.rejections.expired.lock().get(&inode).copied() else { return Ok(()) };
        if when.elapsed() < EXPIRED_TTL
            && let Some(copy) = TextSlice::of_stored_copy(self.vfs(), path, written)
            && !continues_current(&TextSlice::of_node(self.vfs(), node, written)?, &copy, written)
        {
            return Err(status.into());
        }
        self.rejections.expired.lock().remove(&inode);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{TextSlice, continues_current};

    /// Whether a write continues the current page and not the rejected text.
    fn resume_rejected(current: &'static str, rejected: &'static str, offset: usize, data: &str) -> bool {
        let slice = |text: &'static str| {
            let range = offset.min(text.len())..(offset + data.len()).min(text.len());
            TextSlice { length: text.len() as u64, bytes: text[range].into() }
        };
        continues_current(&slice(current), &slice(rejected), (offset as u64, data.as_bytes()))
    }

    /// Shows: NFS-8
    #[test]
    fn a_write_goes_on_with_the_text_that_it_fits_in() {
        let (current, rejected) = ("# Page\n\none\ntwo\n", "# Mine\n```\n");
        assert!(!resume_rejected(current, rejected, 11, "ls\n"), "at the end of what was refused");
        assert!(
            resume_rejected(current, rejected, 16, "three\n"),
            "at the end of the page, where the other would get a hole"
        );
        assert!(!resume_rejected("# P\n", rejected, 11, "ls\n"), "where the page would get a hole");
        assert!(!resume_rejected("# P\n", rejected, 50, "ls\n"), "where both would");
        assert!(!resume_rejected(current, rejected, 0, "# Mine\n```\nls\n```\n"), "all of what was refused, and more");
        assert!(resume_rejected(current, rejected, 0, "# Page\n\none\ntwo\nthree\n"), "all of the page, and more");
        assert!(resume_rejected(current, rejected, 0, current), "all of the page as it is");
        assert!(!resume_rejected("", rejected, 0, "# Mine\n```\nls\n"), "an empty page has nothing that it fits in");
        assert!(!resume_rejected("title: A", "title: [", 7, "A"), "nobody writes what is there");
        assert!(
            !resume_rejected("one\n", "two\n", 4, "three\n"),
            "both fit: what was refused is refused once more at the worst"
        );
        assert!(!resume_rejected("longer page", "page", 3, ""), "a length that both have");
        assert!(resume_rejected("longer page", "page", 8, ""), "one that the page has");
    }
}
