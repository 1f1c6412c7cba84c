//! Who asks: the address a connection comes from, the user whom its calls name, and the name that changes get by that.
//!
//! An attribution and no proof: whoever may connect can name any user.

use std::collections::HashMap;
use std::net::IpAddr;

use nix::unistd::{Uid, User};
use parking_lot::Mutex;
use svcfs_base::{Actor, Caller};
use svcfs_config::NfsActors;

/// So many users are remembered.
const MOST_USERS: usize = 4096;

/// One who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NfsClient {
    pub(crate) address: IpAddr,
    pub(crate) user: Option<u32>,
}

/// The names of clients.
pub(crate) struct ClientActors {
    settings: NfsActors,
    /// A name is asked of the system once.
    known: Mutex<HashMap<NfsClient, Actor>>,
}

impl ClientActors {
    pub(crate) fn new(settings: NfsActors) -> Self {
        Self { settings, known: Mutex::default() }
    }

    /// Who a client is to everybody else, if nobody must be asked for that.
    pub(crate) fn known(&self, client: NfsClient) -> Option<Caller> {
        self.known.lock().get(&client).cloned().map(|actor| called(client, actor))
    }

    /// Who a client is to everybody else.
    pub(crate) fn caller(&self, client: NfsClient) -> Caller {
        self.known(client).unwrap_or_else(|| {
            // Asked without the lock: a directory service behind the user database may take its time.
            let actor = self.name(client);
            let mut known = self.known.lock();
            if known.len() >= MOST_USERS {
                known.clear();
            }
            known.insert(client, actor.clone());
            called(client, actor)
        })
    }

    /// As the settings say; a user of this machine by their name here, everybody else by number and address.
    fn name(&self, NfsClient { address, user }: NfsClient) -> Actor {
        if let Some(told) = self.settings.name(user, address) {
            return Actor::new(told);
        }
        let here = address.to_canonical().is_loopback();
        match user {
            Some(user) if here => match User::from_uid(Uid::from_raw(user)) {
                Ok(Some(known)) => Actor::new(&known.name),
                Ok(None) | Err(_) => Actor::new(&format!("uid-{user}")),
            },
            Some(user) => Actor::new(&format!("uid-{user}@{address}")),
            None if here => Actor::new("nfs"),
            None => Actor::new(&format!("nfs@{address}")),
        }
    }
}

fn called(client: NfsClient, actor: Actor) -> Caller {
    Caller { address: Some(client.address.to_canonical()), ..Caller::new(svcfs_base::Protocol::Nfs).with_actor(actor) }
}
