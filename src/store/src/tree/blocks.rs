//! Reused memory for reads of large ranges.
//!
//! Fresh memory for each read costs a page fault and zeroing for every 4 KiB, and an unmap: about a
//! third of the time of a 1 MiB read over NFS.

use bytes::Bytes;
use parking_lot::Mutex;

/// Shorter blocks come from the allocator, which has them at hand.
const MIN_POOLED_BYTES: usize = 128 << 10;
/// The read sizes of HTTP and of NFS. Longer reads are rare.
const BLOCK_SIZES: [usize; 2] = [256 << 10, 1 << 20];
/// Number of free blocks retained per size.
const MAX_FREE_BLOCKS: usize = 4;

/// Free blocks, by size.
static FREE_BLOCKS: [Mutex<Vec<Vec<u8>>>; 2] = [const { Mutex::new(Vec::new()) }; 2];

/// Block contents; its memory returns to the free list on drop.
struct FileBlock {
    memory: Vec<u8>,
    length: usize,
    /// The free list it returns to.
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
        if free.len() < MAX_FREE_BLOCKS {
            free.push(memory);
        }
        // An excess block is freed after the lock is released.
    }
}

/// A block of at most `length` bytes, as far as `read` fills it.
///
/// # Errors
/// Those of `read`.
pub(super) fn read_block<E>(length: usize, read: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<Bytes, E> {
    let mut sizes = BLOCK_SIZES.into_iter().zip(&FREE_BLOCKS);
    let Some((size, free)) = sizes.find(|(size, _)| length <= *size).filter(|_| length >= MIN_POOLED_BYTES) else {
        let mut content = vec![0; length];
        let read = read(&mut content)?;
        content.truncate(read);
        return Ok(content.into());
    };
    let memory = free.lock().pop();
    let mut block = FileBlock { memory: memory.unwrap_or_else(|| vec![0; size]), length: 0, free };
    block.length = read(&mut block.memory[..length])?.min(length);
    Ok(Bytes::from_owner(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_contains_only_read_bytes_and_no_old_memory() {
        let [short, longest] = BLOCK_SIZES;
        let lengths = [
            (10, 10),
            (10, 3),
            (MIN_POOLED_BYTES, MIN_POOLED_BYTES),
            (short, short),
            (longest, 5),
            (longest, longest),
            (longest + 1, 7),
        ];
        for (length, read) in lengths {
            for byte in [1, 2] {
                let block = read_block::<()>(length, |memory| {
                    assert_eq!(memory.len(), length);
                    memory[..read].fill(byte);
                    Ok(read)
                });
                assert!(block.unwrap() == vec![byte; read], "{read} of {length}");
            }
        }
        assert_eq!(read_block(longest, |_| Err(7)).unwrap_err(), 7);
        let many: Vec<_> =
            (0..2 * MAX_FREE_BLOCKS).map(|_| read_block::<()>(longest, |memory| Ok(memory.len()))).collect();
        drop(many);
        assert!(FREE_BLOCKS.iter().all(|free| free.lock().len() <= MAX_FREE_BLOCKS));
    }
}
