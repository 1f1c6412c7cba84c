//! A long body on its way to the disk: one thread writes a block, another hashes it, and the next block is received meanwhile. An MD5 takes longer than
//! all the rest.

use std::sync::Arc;

use s3s::S3Result;
use svcfs_base::Fault;
use svcfs_listener::{BlockBuffer, BlockSink, PipelineStage};

use crate::checksums::{ContentChecksums, ContentHasher};
use crate::context::S3RequestContext;
use crate::error::refuse;

/// A body that is written to `S` and hashed.
pub(crate) struct StagedBody<S: BlockSink> {
    blocks: BlockBuffer,
    hashes: PipelineStage<Box<ContentHasher>>,
    sink: PipelineStage<S>,
    /// What is asked for, in messages.
    operation: &'static str,
}

impl BlockSink for Box<ContentHasher> {
    fn write_block(&mut self, block: &[u8]) -> Result<(), Fault> {
        self.update(block);
        Ok(())
    }
}

impl<S: BlockSink> StagedBody<S> {
    /// Begins behind what `sink` and `summing` have already.
    pub(crate) fn new(
        asked: &S3RequestContext,
        operation: &'static str,
        (sink, summing): (S, Box<ContentHasher>),
    ) -> Self {
        let (lanes, blocks) = (&asked.protocol.lanes, BlockBuffer::new(&asked.protocol.room));
        Self { blocks, hashes: PipelineStage::new(lanes, summing), sink: PipelineStage::new(lanes, sink), operation }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) async fn push(&mut self, mut piece: &[u8]) -> S3Result<()> {
        while let Some(block) = self.blocks.push(&mut piece) {
            self.write_block(block).await?;
        }
        Ok(())
    }

    async fn write_block(&mut self, block: Arc<Vec<u8>>) -> S3Result<()> {
        self.sink.write(Arc::clone(&block)).await.map_err(|fault| refuse(fault, self.operation))?;
        self.hashes.write(block).await.map_err(|fault| refuse(fault, self.operation))
    }

    /// What all of it was written to, its MD5, and the checksums that were wanted.
    ///
    /// # Errors
    /// Those of the disk.
    pub(crate) async fn finish(mut self) -> S3Result<(S, [u8; 16], ContentChecksums)> {
        if let Some(block) = self.blocks.take_partial() {
            self.write_block(block).await?;
        }
        let operation = self.operation;
        let sink = self.sink.finish().await.map_err(|fault| refuse(fault, operation))?;
        let (md5, sums) = self.hashes.finish().await.map_err(|fault| refuse(fault, operation))?.finish();
        Ok((sink, md5, sums))
    }
}
