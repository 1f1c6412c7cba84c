//! Names of the users behind requests.

use std::collections::HashMap;

use nix::unistd::{Uid, User};
use parking_lot::Mutex;
use svcfs_base::Actor;

/// Names by user number. A name is asked of the system once and kept as long as the mount lives.
#[derive(Default)]
pub(crate) struct Actors(Mutex<HashMap<u32, Actor>>);

impl Actors {
    /// The name of a user; `uid-1234` for a number without a name.
    pub(crate) fn name(&self, uid: u32) -> Actor {
        if let Some(known) = self.0.lock().get(&uid) {
            return known.clone();
        }
        // Asked without the lock: a directory service behind the user database may take its time.
        let name = match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => Actor::new(&user.name),
            Ok(None) | Err(_) if uid == 0 => Actor::new("root"),
            Ok(None) | Err(_) => Actor::new(&format!("uid-{uid}")),
        };
        self.0.lock().entry(uid).or_insert(name).clone()
    }
}
