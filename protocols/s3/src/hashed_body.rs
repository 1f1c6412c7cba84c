//! The sums of a body, made beside the one who reads it: while one stretch of a large body is summed up, the next is on its way. An MD5 alone
//! takes as long as the disk does.

use std::sync::Arc;

use s3s::{S3Result, s3_error};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums};
use crate::context::S3RequestContext;

/// Bytes that are summed up at once. Of a body twice as many are in memory at most.
const STRETCH: usize = 1 << 20;
/// Bodies of which as many may be; of all others, and there are thousands of slow ones, few bytes wait to be summed up.
pub(crate) const AHEAD: usize = 64;
const FEW: usize = 32 << 10;

/// A body that is summed up as it comes.
pub(crate) struct HashedBody {
    asked: S3RequestContext,
    before: HashState,
    coming: Vec<u8>,
    /// Whether it is one of those that may have much in memory.
    ahead: Option<OwnedSemaphorePermit>,
}

/// What came before.
enum HashState {
    Summed(Box<ContentHasher>),
    OnItsWay(JoinHandle<S3Result<Box<ContentHasher>>>),
}

impl HashState {
    async fn summed(self) -> S3Result<Box<ContentHasher>> {
        match self {
            Self::Summed(summing) => Ok(summing),
            Self::OnItsWay(task) => task
                .await
                .map_err(|_| s3_error!(InternalError, "what came could not be summed up; nothing was written"))?,
        }
    }
}

impl HashedBody {
    pub(crate) fn new(asked: &S3RequestContext, wanted: RequestedChecksums) -> Self {
        let before = HashState::Summed(Box::new(ContentHasher::new(wanted)));
        Self { asked: asked.clone(), before, coming: Vec::new(), ahead: None }
    }

    /// Takes the next piece; waits for the stretch before it, if that is not summed up yet.
    ///
    /// # Errors
    /// Those of the server that is at its end.
    pub(crate) async fn update(mut self, piece: &[u8]) -> S3Result<Self> {
        // A copy: pieces may be of a byte each.
        self.coming.extend_from_slice(piece);
        if self.coming.len() < FEW {
            return Ok(self);
        }
        self.ahead = self.ahead.or_else(|| Arc::clone(&self.asked.protocol.ahead).try_acquire_owned().ok());
        if self.ahead.is_some() && self.coming.len() < STRETCH {
            return Ok(self);
        }
        let Self { asked, before, coming, ahead } = self;
        let mut summing = before.summed().await?;
        if coming.len() < STRETCH {
            summing.update(&coming);
            return Ok(Self { asked, before: HashState::Summed(summing), coming: Vec::new(), ahead });
        }
        let here = asked.clone();
        let task = tokio::spawn(async move {
            let work = move |_: &S3RequestContext| {
                summing.update(&coming);
                Ok(summing)
            };
            here.run("PutObject", work).await
        });
        Ok(Self { asked, before: HashState::OnItsWay(task), coming: Vec::new(), ahead })
    }

    /// The sums of what has come, to go on with elsewhere.
    ///
    /// # Errors
    /// As [`Body::update`].
    pub(crate) async fn summed(self) -> S3Result<Box<ContentHasher>> {
        let mut summing = self.before.summed().await?;
        summing.update(&self.coming);
        Ok(summing)
    }

    /// The MD5, and the sums that were wanted.
    ///
    /// # Errors
    /// As [`Body::update`].
    pub(crate) async fn finish(self) -> S3Result<([u8; 16], ContentChecksums)> {
        Ok(self.summed().await?.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksums::etag_of;
    use crate::tests::{Served, asked_of};

    #[test]
    fn of_thousands_of_slow_bodies_few_bytes_wait_to_be_summed_up_and_of_a_few_many() {
        let served = Served::new();
        let asked = asked_of(&served);
        let content: Vec<u8> = (0..STRETCH * 2).map(|at| (at / 7) as u8).collect();
        let (first, rest) = content.split_at(STRETCH - 1000);
        served.runtime.block_on(async {
            let mut slow = Vec::new();
            for _ in 0..AHEAD + 20 {
                let mut body = HashedBody::new(&asked, RequestedChecksums::default());
                for piece in first.chunks(10_000) {
                    body = body.update(piece).await.unwrap();
                }
                slow.push(body);
            }
            let waiting: Vec<_> = slow.iter().map(|body| body.coming.capacity()).collect();
            assert_eq!(waiting.iter().filter(|waiting| **waiting > 2 * FEW).count(), AHEAD, "{waiting:?}");
            for body in [slow.pop().unwrap(), slow.swap_remove(0)] {
                let (md5, _) = body.update(rest).await.unwrap().finish().await.unwrap();
                assert_eq!(crate::checksums::hex(&md5), etag_of(&content));
            }
            assert_eq!(asked.protocol.ahead.available_permits(), 1, "the one that ended gave its place back");
        });
    }
}
