//! Hashes a body on another thread: while one block of a large body is hashed, the next is
//! received. MD5 alone takes as long as the disk.

use std::sync::Arc;

use s3s::{S3Result, s3_error};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums};
use crate::context::S3RequestContext;

/// Bytes hashed in one go. At most two blocks of a body are in memory.
const BLOCK_BYTES: usize = 1 << 20;
/// Bodies with such large blocks; all others, among them thousands of slow ones, collect few bytes.
pub(crate) const MAX_LARGE_BLOCK_BODIES: usize = 64;
const SMALL_BLOCK_BYTES: usize = 32 << 10;

/// A body that is hashed as it arrives.
pub(crate) struct HashedBody {
    context: S3RequestContext,
    state: HashState,
    buffer: Vec<u8>,
    /// The slot of a body with large blocks.
    slot: Option<OwnedSemaphorePermit>,
}

/// The hash of the bytes so far.
enum HashState {
    Ready(Box<ContentHasher>),
    Running(JoinHandle<S3Result<Box<ContentHasher>>>),
}

impl HashState {
    async fn into_hasher(self) -> S3Result<Box<ContentHasher>> {
        match self {
            Self::Ready(hasher) => Ok(hasher),
            Self::Running(task) => {
                task.await.map_err(|_| s3_error!(InternalError, "could not hash the body; nothing was written"))?
            }
        }
    }
}

impl HashedBody {
    pub(crate) fn new(context: &S3RequestContext, wanted: RequestedChecksums) -> Self {
        let state = HashState::Ready(Box::new(ContentHasher::new(wanted)));
        Self { context: context.clone(), state, buffer: Vec::new(), slot: None }
    }

    /// Takes the next piece; waits until the block before it is hashed. Errors: `InternalError`
    /// when hashing failed.
    pub(crate) async fn update(mut self, piece: &[u8]) -> S3Result<Self> {
        // Copied, because pieces may be tiny.
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() < SMALL_BLOCK_BYTES {
            return Ok(self);
        }
        self.slot = self.slot.or_else(|| Arc::clone(&self.context.protocol.hash_slots).try_acquire_owned().ok());
        if self.slot.is_some() && self.buffer.len() < BLOCK_BYTES {
            return Ok(self);
        }
        let Self { context, state, buffer, slot } = self;
        let mut hasher = state.into_hasher().await?;
        if buffer.len() < BLOCK_BYTES {
            hasher.update(&buffer);
            return Ok(Self { context, state: HashState::Ready(hasher), buffer: Vec::new(), slot });
        }
        let task_context = context.clone();
        let task = tokio::spawn(async move {
            let work = move |_: &S3RequestContext| {
                hasher.update(&buffer);
                Ok(hasher)
            };
            task_context.run("PutObject", work).await
        });
        Ok(Self { context, state: HashState::Running(task), buffer: Vec::new(), slot })
    }

    /// The hasher with all bytes so far.
    pub(crate) async fn into_hasher(self) -> S3Result<Box<ContentHasher>> {
        let mut hasher = self.state.into_hasher().await?;
        hasher.update(&self.buffer);
        Ok(hasher)
    }

    /// The MD5, and the requested checksums.
    pub(crate) async fn finish(self) -> S3Result<([u8; 16], ContentChecksums)> {
        Ok(self.into_hasher().await?.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksums::etag_of;
    use crate::tests::{Served, asked_of};

    #[test]
    fn many_slow_bodies_buffer_few_unhashed_bytes_each() {
        let served = Served::new();
        let context = asked_of(&served);
        let content: Vec<u8> = (0..BLOCK_BYTES * 2).map(|at| (at / 7) as u8).collect();
        let (first, rest) = content.split_at(BLOCK_BYTES - 1000);
        served.runtime.block_on(async {
            let mut slow = Vec::new();
            for _ in 0..MAX_LARGE_BLOCK_BODIES + 20 {
                let mut body = HashedBody::new(&context, RequestedChecksums::default());
                for piece in first.chunks(10_000) {
                    body = body.update(piece).await.unwrap();
                }
                slow.push(body);
            }
            let waiting: Vec<_> = slow.iter().map(|body| body.buffer.capacity()).collect();
            assert_eq!(
                waiting.iter().filter(|waiting| **waiting > 2 * SMALL_BLOCK_BYTES).count(),
                MAX_LARGE_BLOCK_BODIES,
                "{waiting:?}"
            );
            for body in [slow.pop().unwrap(), slow.swap_remove(0)] {
                let (md5, _) = body.update(rest).await.unwrap().finish().await.unwrap();
                assert_eq!(crate::checksums::hex(&md5), etag_of(&content));
            }
            assert_eq!(context.protocol.hash_slots.available_permits(), 1, "the one that ended gave its place back");
        });
    }
}
