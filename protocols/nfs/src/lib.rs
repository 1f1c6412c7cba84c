//! The NFS door (NFSv3 and MOUNT, RFC 1813, over TCP on one port): nfs3_types ↔ `Vfs`.
//!
//! One rule: this crate translates and decides nothing. What is written takes the one write path, what may be seen is the tree's to say.
//!
//! Why is it not built on nfs3_server, whose messages it speaks? Because that server hands its file system neither the client's address nor its
//! user, takes one number for the generation of handles and for the write verifier (handles that survive a restart would make clients believe
//! that unstable writes survived it, too), binds its socket itself, answers ACCESS, FSSTAT and PATHCONF without asking, has one procedure
//! for REMOVE and RMDIR, and has room made for as many bytes as a client announces, in the head of a record and in every string.
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

/// What every request shares.
pub(crate) struct NfsServer {
    server: Arc<ServerState>,
    settings: NfsSettings,
    lanes: Lanes,
    names: ClientActors,
    /// The spaces that were asked for, with what this protocol keeps of each.
    exports: Mutex<ExportTable>,
    /// Of changes that must not be made twice when a client asks again.
    replies: ReplyCache,
    /// Another one for each life of the server: unstable writes of another life are lost (RFC 1813 3.3.7).
    verifier: [u8; 8],
    /// Told when a file was written that will be due one day.
    written: Arc<Notify>,
    /// The port that it is served on, which the system may have picked.
    port: OnceLock<u16>,
}

impl NfsServer {
    fn new(server: Arc<ServerState>, settings: NfsSettings) -> Arc<Self> {
        let life = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Arc::new(Self {
            names: ClientActors::new(settings.actors.clone()),
            server,
            settings,
            lanes: connections::lanes(),
            exports: Mutex::default(),
            replies: ReplyCache::default(),
            verifier: u64::try_from(life).unwrap_or_default().to_be_bytes(),
            written: Arc::default(),
            port: OnceLock::new(),
        })
    }
}

/// Answers requests on a bound listener until `stop` is cancelled, then lets those in progress end and saves what is not in history yet.
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, settings: NfsSettings, stop: CancellationToken) {
    let protocol = NfsServer::new(server, settings);
    connections::serve(listener, protocol, stop).await;
}
