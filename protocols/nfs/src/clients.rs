//! Client identity: the connection's address, the user that its calls name, and the actor under
//! which changes are recorded.
//!
//! This is attribution, not authentication: a client that may connect can name any user.

use std::collections::HashMap;
use std::net::IpAddr;

use nix::unistd::{Uid, User};
use parking_lot::Mutex;
use svcfs_base::{Actor, Caller};
use svcfs_config::NfsActors;

/// Size limit of the actor cache.
const MAX_CACHED_ACTORS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NfsClient {
    pub(crate) address: IpAddr,
    pub(crate) user: Option<u32>,
}

pub(crate) struct ClientActors {
    settings: NfsActors,
    /// Cache, because user names come from the system's user database.
    cache: Mutex<HashMap<NfsClient, Actor>>,
}

impl ClientActors {
    pub(crate) fn new(settings: NfsActors) -> Self {
        Self { settings, cache: Mutex::default() }
    }

    pub(crate) fn cached(&self, client: NfsClient) -> Option<Caller> {
        self.cache.lock().get(&client).cloned().map(|actor| caller_of(client, actor))
    }

    pub(crate) fn caller(&self, client: NfsClient) -> Caller {
        self.cached(client).unwrap_or_else(|| {
            // Resolved without the lock: a directory service may be slow.
            let actor = self.resolve(client);
            let mut cache = self.cache.lock();
            if cache.len() >= MAX_CACHED_ACTORS {
                cache.clear();
            }
            cache.insert(client, actor.clone());
            caller_of(client, actor)
        })
    }

    /// The name from the settings; for users of this machine their login name, else number and
    /// address.
    fn resolve(&self, NfsClient { address, user }: NfsClient) -> Actor {
        if let Some(name) = self.settings.name(user, address) {
            return Actor::new(name);
        }
        let is_local = address.to_canonical().is_loopback();
        match user {
            Some(user) if is_local => match User::from_uid(Uid::from_raw(user)) {
                Ok(Some(user)) => Actor::new(&user.name),
                Ok(None) | Err(_) => Actor::new(&format!("uid-{user}")),
            },
            Some(user) => Actor::new(&format!("uid-{user}@{address}")),
            None if is_local => Actor::new("nfs"),
            None => Actor::new(&format!("nfs@{address}")),
        }
    }
}

fn caller_of(client: NfsClient, actor: Actor) -> Caller {
    Caller { address: Some(client.address.to_canonical()), ..Caller::new(svcfs_base::Protocol::Nfs).with_actor(actor) }
}
