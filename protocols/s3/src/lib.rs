//! The S3 door: s3s ↔ `Vfs`. A space is a bucket, a file is an object, history are its versions.
//!
//! One rule: this crate translates and decides nothing. What is written takes the one write path, what may be seen is the tree's to say, who may do
//! what is `access`'s; signatures, routes and XML are s3s's.
#![warn(missing_docs)]

mod buckets;
mod checksums;
mod chunked_body;
mod conditions;
mod context;
mod continuation_token;
mod credentials;
mod delete_objects;
mod error;
mod etags;
mod get_object;
mod hashed_body;
mod hosts;
mod inflight;
mod key;
mod key_walk;
mod list_objects;
mod list_uploads;
mod multipart_checksum;
mod multipart_upload;
mod normalize;
mod object;
mod object_locks;
mod object_metadata;
mod operations;
mod part_lengths;
mod part_store;
mod put_object;
mod received_body;
mod removal_cache;
mod request_handler;
mod resolved;
mod response_info;
mod signature_check;
mod staged_body;
mod staged_upload;
mod tagging;
#[cfg(test)]
mod tests;
mod unsupported;
mod versions;

use std::sync::Arc;

use svcfs_knowledge::kernel::ServerState;
use svcfs_listener::{MemoryBudget, ServerNames};
use svcfs_work::Lanes;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use chunked_body::ChunkStorage;
use etags::ETagStore;
use inflight::InFlightCompletions;
use object_locks::ObjectLocks;
use removal_cache::RemovalCache;

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
            names: ServerNames::from_settings(&server.settings().server),
            server,
            lanes: Arc::default(),
            etags: ETagStore::default(),
            removals: RemovalCache::default(),
            room: Arc::default(),
            ahead: Arc::new(Semaphore::new(hashed_body::AHEAD)),
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
    let protocol = Arc::new(S3Server::of(server));
    let service = match request_handler::service(&protocol) {
        Ok(service) => Arc::new(service),
        Err(fault) => {
            tracing::error!(error = ?fault, "S3 cannot be served");
            return;
        }
    };
    let expiring = tokio::spawn(multipart_upload::expire(Arc::clone(&protocol), stop.clone()));
    svcfs_listener::serve(listener, stop, move |request, peer| {
        let (protocol, service) = (Arc::clone(&protocol), Arc::clone(&service));
        async move { request_handler::answer(&protocol, &service, (request, peer)).await }
    })
    .await;
    if let Err(error) = expiring.await {
        tracing::error!(%error, "the task that removes what is left of uploads died");
    }
}
