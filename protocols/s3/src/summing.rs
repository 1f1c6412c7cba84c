//! The sums of a body, made beside the one who reads it: while one stretch of a large body is summed up, the next is on its way. An MD5 alone
//! takes as long as the disk does.

use s3s::{S3Result, s3_error};
use tokio::task::JoinHandle;

use crate::asked::Asked;
use crate::sums::{Summing, Sums, Wanted};

/// Bytes that are summed up at once. Of each body twice as many are in memory at most.
const STRETCH: usize = 1 << 20;

/// A body that is summed up as it comes.
pub(crate) struct Body {
    asked: Asked,
    before: Before,
    coming: Vec<u8>,
}

/// What came before.
enum Before {
    Summed(Box<Summing>),
    OnItsWay(JoinHandle<S3Result<Box<Summing>>>),
}

impl Before {
    async fn summed(self) -> S3Result<Box<Summing>> {
        match self {
            Self::Summed(summing) => Ok(summing),
            Self::OnItsWay(task) => task
                .await
                .map_err(|_| s3_error!(InternalError, "what came could not be summed up; nothing was written"))?,
        }
    }
}

impl Body {
    pub(crate) fn new(asked: &Asked, wanted: Wanted) -> Self {
        let before = Before::Summed(Box::new(Summing::new(wanted)));
        Self { asked: asked.clone(), before, coming: Vec::new() }
    }

    /// Takes the next piece; waits for the stretch before it, if that is not summed up yet.
    ///
    /// # Errors
    /// Those of the server that is at its end.
    pub(crate) async fn update(mut self, piece: &[u8]) -> S3Result<Self> {
        // A copy: pieces may be of a byte each.
        self.coming.extend_from_slice(piece);
        if self.coming.len() < STRETCH {
            return Ok(self);
        }
        let Self { asked, before, coming } = self;
        let mut summing = before.summed().await?;
        let here = asked.clone();
        let task = tokio::spawn(async move {
            let work = move |_: &Asked| {
                summing.update(&coming);
                Ok(summing)
            };
            here.run("PutObject", work).await
        });
        Ok(Self { asked, before: Before::OnItsWay(task), coming: Vec::new() })
    }

    /// The MD5, and the sums that were wanted.
    ///
    /// # Errors
    /// As [`Body::update`].
    pub(crate) async fn finish(self) -> S3Result<([u8; 16], Sums)> {
        let mut summing = self.before.summed().await?;
        summing.update(&self.coming);
        Ok(summing.finish())
    }
}
