//! The S3 protocol: s3s ↔ `Vfs`. A space is a bucket, a file is an object, its history are the
//! versions.
//!
//! Invariant: this crate only translates. Writes take the one write path, the tree decides what is
//! visible, `access` who may do what; signatures, routes and XML belong to s3s.
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

use svcfs_base::TreePath;
use svcfs_knowledge::kernel::ServerState;
use svcfs_listener::{MemoryBudget, ServerNames};
use svcfs_work::{KeyedLocks, Lanes};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use chunked_body::ChunkStorage;
use etags::ETagStore;
use inflight::InFlightCompletions;
use removal_cache::RemovalCache;

/// A path in the space of this name.
type ObjectPath = (String, TreePath);

/// The state that all requests share.
struct S3Server {
    server: Arc<ServerState>,
    names: ServerNames,
    lanes: Arc<Lanes>,
    etags: ETagStore,
    removals: RemovalCache,
    /// Memory for bodies in transit.
    memory: Arc<MemoryBudget>,
    /// Slots for bodies that are hashed in large blocks.
    hash_slots: Arc<Semaphore>,
    /// Multipart uploads that are being completed.
    completions: Arc<InFlightCompletions>,
    /// Objects that are being written. Content and metadata are in two places on disk, and must
    /// come from the same write.
    object_locks: KeyedLocks<ObjectPath>,
}

impl S3Server {
    fn new(server: Arc<ServerState>) -> Self {
        Self {
            names: ServerNames::from_settings(&server.settings().server),
            server,
            lanes: Arc::default(),
            etags: ETagStore::default(),
            removals: RemovalCache::default(),
            memory: Arc::default(),
            hash_slots: Arc::new(Semaphore::new(hashed_body::MAX_LARGE_BLOCK_BODIES)),
            completions: Arc::default(),
            object_locks: KeyedLocks::default(),
        }
    }

    /// Storage for chunks. It is in the primary space: the target is not known before s3s has read
    /// the request.
    fn chunk_storage(&self) -> ChunkStorage {
        let folder = self.server.primary().vfs.state_directory();
        ChunkStorage { memory: Arc::clone(&self.memory), lanes: Arc::clone(&self.lanes), folder }
    }
}

/// Answers requests on a bound listener until `stop` is cancelled; then gives the requests in
/// progress 15 s to finish.
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, stop: CancellationToken) {
    let protocol = Arc::new(S3Server::new(server));
    let service = match request_handler::service(&protocol) {
        Ok(service) => Arc::new(service),
        Err(fault) => {
            tracing::error!(error = ?fault, "S3 could not start");
            return;
        }
    };
    let expiring = tokio::spawn(multipart_upload::expire(Arc::clone(&protocol), stop.clone()));
    svcfs_listener::serve(listener, stop, move |connection| {
        let (protocol, service) = (Arc::clone(&protocol), Arc::clone(&service));
        move |request| {
            let (protocol, service) = (Arc::clone(&protocol), Arc::clone(&service));
            async move { request_handler::answer(&protocol, &service, (request, connection.peer)).await }
        }
    })
    .await;
    if let Err(error) = expiring.await {
        tracing::error!(%error, "the task that removes expired uploads failed");
    }
}
