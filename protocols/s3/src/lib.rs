//! The S3 door: s3s ↔ `Vfs`. A space is a bucket, a file is an object, history are its versions.
//!
//! One rule: this crate translates and decides nothing. What is written takes the one write path, what may be seen is the tree's to say, who may do
//! what is `access`'s; signatures, routes and XML are s3s's.
#![warn(missing_docs)]

mod answer;
mod asked;
mod beside;
mod beyond;
mod buckets;
mod completing;
mod conditions;
mod credentials;
mod described;
mod etags;
mod found;
mod hosts;
mod keeping;
mod key;
mod lengths;
mod listed;
mod listing;
mod normalized;
mod object;
mod operations;
mod parts;
mod pending;
mod pieces;
mod reading;
mod record;
mod refusal;
mod removed;
mod removing;
mod signed;
mod staged;
mod summing;
mod sums;
mod tagging;
#[cfg(test)]
mod tests;
mod token;
mod upload;
mod uploads;
mod versions;
mod whole;
mod writing;

use std::sync::Arc;

use svcfs_knowledge::kernel::ServerState;
use svcfs_listener::{MemoryBudget, ServerNames};
use svcfs_work::Lanes;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use completing::InFlightCompletions;
use etags::ETagStore;
use keeping::ObjectLocks;
use pieces::ChunkStorage;
use removed::RemovalCache;

/// What every request shares.
struct S3Server {
    server: Arc<ServerState>,
    names: ServerNames,
    lanes: Arc<Lanes>,
    etags: ETagStore,
    removals: RemovalCache,
    /// Memory for files that are on their way here.
    room: Arc<MemoryBudget>,
    /// Bodies that may be summed up in long stretches.
    ahead: Arc<Semaphore>,
    /// Uploads in parts that are being completed.
    completing: Arc<InFlightCompletions>,
    /// Objects that are being written, with what is said of them.
    keeping: ObjectLocks,
}

impl S3Server {
    fn of(server: Arc<ServerState>) -> Self {
        Self {
            names: ServerNames::of(&server.settings().server),
            server,
            lanes: Arc::default(),
            etags: ETagStore::default(),
            removals: RemovalCache::default(),
            room: Arc::default(),
            ahead: Arc::new(Semaphore::new(summing::AHEAD)),
            completing: Arc::default(),
            keeping: ObjectLocks::default(),
        }
    }

    /// What bodies in pieces are gathered with, whichever space they are for: nobody knows yet.
    fn place(&self) -> ChunkStorage {
        let folder = self.server.primary().vfs.state_directory();
        ChunkStorage { room: Arc::clone(&self.room), lanes: Arc::clone(&self.lanes), folder }
    }
}

/// Answers requests on a bound listener until `stop` is cancelled, then lets those in progress end (15 s at most).
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, stop: CancellationToken) {
    let door = Arc::new(S3Server::of(server));
    let service = match answer::service(&door) {
        Ok(service) => Arc::new(service),
        Err(fault) => {
            tracing::error!(error = ?fault, "S3 cannot be served");
            return;
        }
    };
    let expiring = tokio::spawn(uploads::expire(Arc::clone(&door), stop.clone()));
    svcfs_listener::serve(listener, stop, move |request, peer| {
        let (door, service) = (Arc::clone(&door), Arc::clone(&service));
        async move { answer::answer(&door, &service, (request, peer)).await }
    })
    .await;
    if let Err(error) = expiring.await {
        tracing::error!(%error, "the task that removes what is left of uploads died");
    }
}
