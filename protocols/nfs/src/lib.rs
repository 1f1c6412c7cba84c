//! The NFS server (NFSv3 and MOUNT, RFC 1813, over TCP on one port): nfs3_types ↔ `Vfs`.
//!
//! Invariant: this crate only translates. Every write takes the one write path, and the tree
//! decides which paths are visible.
//!
//! It uses the messages of nfs3_server but not its server, which passes neither the client's
//! address nor its user to the file system, uses one number as handle generation and as write
//! verifier (so handles that survive a restart would make clients believe that unstable writes
//! survived it, too), binds its socket itself, answers ACCESS, FSSTAT and PATHCONF without asking
//! the file system, has one procedure for REMOVE and RMDIR, and allocates as many bytes as a client
//! announces in a record header or a string.
#![warn(missing_docs)]

mod attributes;
mod clients;
mod connection_limiter;
mod connections;
mod create_procedures;
mod dispatch;
mod error;
mod export;
mod file_handle;
mod listing;
mod mount_protocol;
mod nonblocking;
mod portmap;
mod read_procedures;
mod record_marking;
mod rejected;
mod reply_cache;
mod rpc;
mod stable_write_replay;
#[cfg(test)]
mod tests;
mod write_procedures;
mod write_sessions;
mod xdr_reader;

use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use svcfs_config::NfsSettings;
use svcfs_knowledge::kernel::ServerState;
use svcfs_work::Lanes;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use clients::ClientActors;
use export::ExportTable;
use reply_cache::ReplyCache;

pub(crate) struct NfsServer {
    server: Arc<ServerState>,
    settings: NfsSettings,
    lanes: Lanes,
    actors: ClientActors,
    /// The exported spaces, opened at the first request.
    exports: Mutex<ExportTable>,
    /// Replies to non-idempotent calls, for retransmissions.
    replies: ReplyCache,
    /// Differs for each process lifetime, because unstable writes of an earlier process are lost
    /// (RFC 1813 3.3.7).
    verifier: [u8; 8],
    /// Notified after each write, so that the file is saved later.
    write_notify: Arc<Notify>,
    /// The bound port, which the system may have chosen.
    port: OnceLock<u16>,
}

impl NfsServer {
    fn new(server: Arc<ServerState>, settings: NfsSettings) -> Arc<Self> {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Arc::new(Self {
            actors: ClientActors::new(settings.actors.clone()),
            server,
            settings,
            lanes: connections::lanes(),
            exports: Mutex::default(),
            replies: ReplyCache::default(),
            verifier: u64::try_from(started).unwrap_or_default().to_be_bytes(),
            write_notify: Arc::default(),
            port: OnceLock::new(),
        })
    }
}

/// Serves a bound listener until `stop` is cancelled, then finishes the calls in progress and saves
/// all files that are not in history yet.
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, settings: NfsSettings, stop: CancellationToken) {
    let protocol = NfsServer::new(server, settings);
    connections::serve(listener, protocol, stop).await;
}
