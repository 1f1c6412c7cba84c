//! The WebDAV protocol (RFC 4918, classes 1, 2 and 3): dav-server ↔ `Vfs`.
//!
//! Invariant: this crate only translates. Writes take the one write path, the tree decides what is
//! visible, `access` who may do what. Conditions, locks and XML belong to dav-server, except for
//! PROPFIND ([`propfind`]) and the values that PROPPATCH sets ([`proppatch`]).
//!
//! dav-server walks folders itself and copies, moves or removes one file after the other. For these
//! methods, folders are therefore presented to it as files ([`context`]), and copied, moved and
//! removed as a unit ([`folders`]): one change set, one commit.
#![warn(missing_docs)]

mod body;
mod conditions;
mod context;
mod dead_properties;
mod etags;
mod file;
mod file_system;
mod folder_contents;
mod folders;
mod live;
mod locks;
mod markup;
mod metadata;
mod normalize;
mod observed_state;
mod propfind;
mod proposals;
mod proppatch;
mod public_url;
mod replace;
mod replace_journal;
mod request_handler;
mod resolved;
#[cfg(test)]
mod tests;
mod unicode_names;
mod upload;

use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_config::PublicUrl;
use svcfs_knowledge::kernel::ServerState;
use svcfs_listener::{MemoryBudget, ServerNames};
use svcfs_work::Lanes;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use etags::ETagCache;
pub use replace_journal::recover_replacements;

/// The state that all requests share.
struct WebdavServer {
    server: Arc<ServerState>,
    names: ServerNames,
    /// The URL of this server behind a proxy.
    public: Option<PublicUrl>,
    lanes: Arc<Lanes>,
    etags: ETagCache,
    /// Memory for bodies in transit.
    memory: Arc<MemoryBudget>,
    /// Held during read-modify-write of the properties of a file.
    properties: Mutex<()>,
}

impl WebdavServer {
    fn new(server: Arc<ServerState>) -> Self {
        let public = server.settings().webdav.as_ref().and_then(|webdav| webdav.public_url.clone());
        Self {
            names: ServerNames::from_settings(&server.settings().server)
                .with_name(public.as_ref().map(PublicUrl::host)),
            public,
            server,
            lanes: Arc::default(),
            etags: ETagCache::default(),
            memory: Arc::default(),
            properties: Mutex::default(),
        }
    }
}

/// Answers requests on a bound listener until `stop` is cancelled; then gives the requests in
/// progress 15 s to finish.
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, stop: CancellationToken) {
    let protocol = Arc::new(WebdavServer::new(server));
    svcfs_listener::serve(listener, stop, move |connection| {
        let protocol = Arc::clone(&protocol);
        move |request| {
            let protocol = Arc::clone(&protocol);
            async move { protocol.answer(request, connection.peer).await }
        }
    })
    .await;
}
