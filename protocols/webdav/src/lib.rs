//! The WebDAV door (RFC 4918, classes 1, 2 and 3): dav-server ↔ `Vfs`.
//!
//! One rule: this crate translates and decides nothing. What is written takes the one write path, what may be seen is the tree's to say, who may do
//! what is `access`'s; the protocol's own words (conditions, locks, XML) are dav-server's, but for PROPFIND
//! ([`propfind`] says why) and what PROPPATCH sets ([`patch`]).
//!
//! That crate walks folders itself and asks for one file after the other. Folders are therefore shown to it as if they were files where it would
//! copy, move or remove them ([`asked`]), and are then copied, moved and removed whole ([`folders`]): one change set, one commit.
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

/// What every request shares.
struct WebdavServer {
    server: Arc<ServerState>,
    names: ServerNames,
    /// How clients reach it through a proxy.
    public: Option<PublicUrl>,
    lanes: Arc<Lanes>,
    etags: ETagCache,
    /// Memory for files that are on their way here.
    room: Arc<MemoryBudget>,
    /// Held while properties of a file are changed: they are read, changed and written as one.
    properties: Mutex<()>,
}

impl WebdavServer {
    fn of(server: Arc<ServerState>) -> Self {
        let public = server.settings().webdav.as_ref().and_then(|webdav| webdav.public_url.clone());
        Self {
            names: ServerNames::from_settings(&server.settings().server)
                .with_name(public.as_ref().map(PublicUrl::host)),
            public,
            server,
            lanes: Arc::default(),
            etags: ETagCache::default(),
            room: Arc::default(),
            properties: Mutex::default(),
        }
    }
}

/// Answers requests on a bound listener until `stop` is cancelled, then lets those in progress end (15 s at most).
pub async fn serve(listener: TcpListener, server: Arc<ServerState>, stop: CancellationToken) {
    let protocol = Arc::new(WebdavServer::of(server));
    svcfs_listener::serve(listener, stop, move |request, peer| {
        let protocol = Arc::clone(&protocol);
        async move { protocol.answer(request, peer).await }
    })
    .await;
}
