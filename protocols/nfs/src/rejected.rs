//! Refused texts, and who goes on with them.
//!
//! One rule: nothing is mixed with a text that it does not belong to. A client neither opens nor closes a file, and does not say whether it goes on
//! with its refused text or with the page that stands: its bytes tell. What they fit in less is not what it goes on with, and where both fit it
//! goes on with its own, which is refused once more at the worst.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use nfs3_types::nfs3::nfsstat3;
use parking_lot::Mutex;
use svcfs_base::{Caller, ETag, Fault, Protocol, TreePath};
use svcfs_vfs::{HandleId, NodeId, RejectedText, Vfs};

use crate::error::{NfsError, status};
use crate::export::NfsExport;

/// A refused text is given up when nobody went on with it for so long: a copy is kept where a person finds it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// For so long whoever goes on with a text that was given up is told so. Nobody pauses for longer, and others may write as they like.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);
/// So many refusals are remembered until the client asks.
const MOST_TOLD: usize = 4096;
/// So many refused texts of a space wait for those who go on with them, and so many bytes in all of them.
const MOST_TEXTS: usize = 128;
const MOST_BYTES: u64 = 64 << 20;

/// A refused text, since when, and what it was refused with.
type PendingRejection = (RejectedText, Instant, nfsstat3);

/// The refusals of a space, by the number of the file.
#[derive(Default)]
pub(crate) struct RejectionTable {
    /// Why files were not saved, until somebody who wrote them asks.
    untold: Mutex<HashMap<u64, nfsstat3>>,
    texts: Mutex<HashMap<u64, PendingRejection>>,
    /// Those whose texts were given up, and when: nobody goes on with them.
    given_up: Mutex<HashMap<u64, (Instant, nfsstat3)>>,
}

fn remember<T>(refusals: &Mutex<HashMap<u64, T>>, number: u64, refusal: T) {
    let mut refusals = refusals.lock();
    if refusals.len() >= MOST_TOLD {
        refusals.clear();
    }
    refusals.insert(number, refusal);
}

impl RejectionTable {
    /// Why a file was not saved, told once.
    pub(crate) fn untold(&self, number: u64) -> Option<nfsstat3> {
        self.untold.lock().remove(&number)
    }

    /// Nobody waited for the answer: it is told to the next who asks.
    pub(crate) fn tell_later(&self, number: u64, fault: &Fault) {
        remember(&self.untold, number, status(fault.kind()));
    }

    /// Keeps a refused text for whoever goes on with it; gives up the oldest ones where there are too many.
    pub(crate) fn keep(&self, number: u64, text: RejectedText, fault: &Fault) {
        let mut texts = self.texts.lock();
        texts.insert(number, (text, Instant::now(), status(fault.kind())));
        let is_much = |texts: &HashMap<u64, PendingRejection>| {
            texts.len() > MOST_TEXTS || texts.values().map(|(text, ..)| text.length()).sum::<u64>() > MOST_BYTES
        };
        while is_much(&texts)
            && let Some(oldest) = texts.iter().min_by_key(|(_, (_, since, _))| *since).map(|(number, _)| *number)
        {
            self.give_up(&mut texts, oldest);
        }
    }

    fn give_up(&self, texts: &mut HashMap<u64, PendingRejection>, number: u64) {
        if let Some((.., status)) = texts.remove(&number) {
            remember(&self.given_up, number, (Instant::now(), status));
        }
    }

    /// Gives up the texts that waited for long, and says when it is time for the next.
    pub(crate) fn give_up_due(&self, now: Instant) -> Option<Instant> {
        let mut texts = self.texts.lock();
        let due: Vec<u64> =
            texts.iter().filter(|(_, (_, since, _))| *since + PATIENCE <= now).map(|(number, _)| *number).collect();
        due.into_iter().for_each(|number| self.give_up(&mut texts, number));
        texts.values().map(|(_, since, _)| *since + PATIENCE).min()
    }

    /// Whether a text waits for whoever goes on with it.
    pub(crate) fn has_text(&self, number: u64) -> bool {
        self.texts.lock().contains_key(&number)
    }

    /// Nobody goes on with what was refused: the file is written anew, or gone.
    pub(crate) fn forget(&self, number: u64) {
        self.untold.lock().remove(&number);
        self.texts.lock().remove(&number);
        self.given_up.lock().remove(&number);
    }
}

/// What a text has where something is written.
#[derive(Debug)]
struct TextSlice {
    /// How long all of the text is.
    length: u64,
    bytes: Bytes,
}

impl TextSlice {
    fn of_node(vfs: &Vfs, node: NodeId, (offset, data): (u64, &[u8])) -> Result<Self, Fault> {
        Ok(Self { length: vfs.attributes(node)?.size, bytes: vfs.read_node(node, offset, data.len())? })
    }

    /// The copy of a refused text that is kept for people; none when it is gone.
    fn of_kept(vfs: &Vfs, path: &TreePath, written: (u64, &[u8])) -> Option<Self> {
        let place = svcfs_vfs::rejected_path(path)?;
        let (node, _) = vfs.lookup_path(&Caller::new(Protocol::Internal), &place).ok()?;
        let part = Self::of_node(vfs, node, written).ok();
        vfs.forget(node, 1);
        part
    }

    fn of_refused(text: &RejectedText, (offset, data): (u64, &[u8])) -> Result<Self, Fault> {
        Ok(Self { length: text.length(), bytes: text.read(offset, data.len())? })
    }

    /// In how many bytes it is another than what is written there.
    fn differing(&self, data: &[u8]) -> usize {
        self.bytes.iter().zip(data).filter(|(there, written)| there != written).count()
    }
}

/// Whether a write goes on with the page that stands, and not with the text that was refused.
fn is_of_standing(standing: &TextSlice, refused: &TextSlice, (offset, data): (u64, &[u8])) -> bool {
    // Clients leave no holes.
    if offset > standing.length || offset > refused.length {
        return offset <= standing.length;
    }
    let end = offset + data.len() as u64;
    let is_part = end <= standing.length && (offset, end) != (0, standing.length);
    if is_part && standing.differing(data) == 0 {
        // Nobody writes what is there.
        return false;
    }
    standing.differing(data) < refused.differing(data)
}

impl NfsExport {
    /// A file that was just opened goes on with its refused text, when what is about to be written does. What that text began from, then, where it keeps
    /// to that.
    ///
    /// # Errors
    /// `Conflict` when others are writing the file; why it was refused, when the text was given up.
    pub(crate) fn goes_on(
        &self,
        (number, path): (u64, &TreePath),
        (node, handle): (NodeId, HandleId),
        written: (u64, &[u8]),
    ) -> Result<Option<Option<ETag>>, NfsError> {
        let waiting = self.refused.texts.lock().remove(&number);
        let Some((text, since, status)) = waiting else {
            return self.is_not_given_up((number, path), node, written).map(|()| None);
        };
        let outcome = TextSlice::of_refused(&text, written).and_then(|refused| {
            let standing = TextSlice::of_node(self.vfs(), node, written)?;
            Ok(is_of_standing(&standing, &refused, written))
        });
        let (fault, text) = match outcome {
            // What was not told is told yet, to whoever asks next.
            Ok(true) => return Ok(None),
            Ok(false) => match self.vfs().reattach(handle, text) {
                Ok(base) => {
                    // Judged anew, whole.
                    self.refused.untold(number);
                    return Ok(Some(base));
                }
                Err(refused) => refused,
            },
            Err(fault) => (fault, text),
        };
        self.refused.texts.lock().insert(number, (text, since, status));
        Err(fault.into())
    }

    fn is_not_given_up(
        &self,
        (number, path): (u64, &TreePath),
        node: NodeId,
        written: (u64, &[u8]),
    ) -> Result<(), NfsError> {
        let Some((when, status)) = self.refused.given_up.lock().get(&number).copied() else { return Ok(()) };
        if when.elapsed() < REMEMBERED
            && let Some(kept) = TextSlice::of_kept(self.vfs(), path, written)
            && !is_of_standing(&TextSlice::of_node(self.vfs(), node, written)?, &kept, written)
        {
            return Err(status.into());
        }
        self.refused.given_up.lock().remove(&number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{TextSlice, is_of_standing};

    /// Whether a write goes on with a page that stands and not with another text that was refused.
    fn goes_on(standing: &'static str, refused: &'static str, offset: usize, data: &str) -> bool {
        let part = |text: &'static str| {
            let range = offset.min(text.len())..(offset + data.len()).min(text.len());
            TextSlice { length: text.len() as u64, bytes: text[range].into() }
        };
        is_of_standing(&part(standing), &part(refused), (offset as u64, data.as_bytes()))
    }

    #[test]
    fn a_write_goes_on_with_the_text_that_it_fits_in() {
        let (standing, refused) = ("# Page\n\none\ntwo\n", "# Mine\n```\n");
        assert!(!goes_on(standing, refused, 11, "ls\n"), "at the end of what was refused");
        assert!(goes_on(standing, refused, 16, "three\n"), "at the end of the page, where the other would get a hole");
        assert!(!goes_on("# P\n", refused, 11, "ls\n"), "where the page would get a hole");
        assert!(!goes_on("# P\n", refused, 50, "ls\n"), "where both would");
        assert!(!goes_on(standing, refused, 0, "# Mine\n```\nls\n```\n"), "all of what was refused, and more");
        assert!(goes_on(standing, refused, 0, "# Page\n\none\ntwo\nthree\n"), "all of the page, and more");
        assert!(goes_on(standing, refused, 0, standing), "all of the page as it is");
        assert!(!goes_on("", refused, 0, "# Mine\n```\nls\n"), "an empty page has nothing that it fits in");
        assert!(!goes_on("title: A", "title: [", 7, "A"), "nobody writes what is there");
        assert!(
            !goes_on("one\n", "two\n", 4, "three\n"),
            "both fit: what was refused is refused once more at the worst"
        );
        assert!(!goes_on("longer page", "page", 3, ""), "a length that both have");
        assert!(goes_on("longer page", "page", 8, ""), "one that the page has");
    }
}
