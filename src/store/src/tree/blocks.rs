//! Memory for long pieces of files, used again and again.
//!
//! Why? What the allocator has from the system for each piece anew costs a fault and a page of zeros for every four KiB of it, and giving them back:
//! over NFS about a third of what reading a MiB took.

use bytes::Bytes;
use parking_lot::Mutex;

/// Shorter pieces are the allocator's, which has room for them at hand.
const LONG: usize = 128 << 10;
/// The pieces that doors ask for: over HTTP, and over NFS. What is longer is nobody's habit.
const SIZES: [usize; 2] = [256 << 10, 1 << 20];
/// So many of each stay while nobody needs them.
const SPARE: usize = 4;

/// One for each of the sizes.
static FREE: [Mutex<Vec<Vec<u8>>>; 2] = [const { Mutex::new(Vec::new()) }; 2];

/// The bytes of a piece, in memory that is given back when nobody has them any more.
struct FileBlock {
    memory: Vec<u8>,
    length: usize,
    /// Where it comes from.
    free: &'static Mutex<Vec<Vec<u8>>>,
}

impl AsRef<[u8]> for FileBlock {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl Drop for FileBlock {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        let mut free = self.free.lock();
        if free.len() < SPARE {
            free.push(memory);
        }
        // What is one too many goes without the lock.
    }
}

/// A piece of at most this length, as far as `read` fills it.
///
/// # Errors
/// Those of `read`.
pub(super) fn filled<E>(length: usize, read: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<Bytes, E> {
    let mut sizes = SIZES.into_iter().zip(&FREE);
    let Some((size, free)) = sizes.find(|(size, _)| length <= *size).filter(|_| length >= LONG) else {
        let mut content = vec![0; length];
        let read = read(&mut content)?;
        content.truncate(read);
        return Ok(content.into());
    };
    let memory = free.lock().pop();
    let mut piece = FileBlock { memory: memory.unwrap_or_else(|| vec![0; size]), length: 0, free };
    piece.length = read(&mut piece.memory[..length])?.min(length);
    Ok(Bytes::from_owner(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_what_was_read_and_nothing_of_what_its_memory_had_before() {
        let [short, longest] = SIZES;
        let lengths =
            [(10, 10), (10, 3), (LONG, LONG), (short, short), (longest, 5), (longest, longest), (longest + 1, 7)];
        for (length, read) in lengths {
            for byte in [1, 2] {
                let piece = filled::<()>(length, |memory| {
                    assert_eq!(memory.len(), length);
                    memory[..read].fill(byte);
                    Ok(read)
                });
                assert!(piece.unwrap() == vec![byte; read], "{read} of {length}");
            }
        }
        assert_eq!(filled(longest, |_| Err(7)).unwrap_err(), 7);
        let many: Vec<_> = (0..2 * SPARE).map(|_| filled::<()>(longest, |memory| Ok(memory.len()))).collect();
        drop(many);
        assert!(FREE.iter().all(|free| free.lock().len() <= SPARE));
    }
}
