//! The author of a change made through the mount.
//!
//! The author is the user, by account name. A program can name another actor in `SVC_ACTOR` of the
//! environment it was started with. That is an attribution and no proof, like `X-Actor` over HTTP;
//! where it must not be trusted, map the user to a fixed actor.
//!
//! The environment is read from `/proc` each time it is needed: at an open for writing, at the
//! first write of a thread through a handle, and at changes of names. Never for reads, and never at
//! a close: during execve(2) a program closes its handles while it holds the lock under which its
//! environment is read, which would deadlock. It is not cached by process number and start time:
//! with `SVC_ACTOR=agent:x program > page.md` the shell opens the file and then becomes the
//! program, with the same number and start time and another environment. Reading costs about 25 µs
//! per save.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use nix::unistd::{Uid, User};
use parking_lot::Mutex;
use svcfs_base::Actor;

const ACTOR_VARIABLE: &[u8] = b"SVC_ACTOR=";

/// Maximum bytes read of an environment. A typical shell exports a few thousand.
const MAX_ENVIRONMENT_BYTES: u64 = 1 << 18;

/// Timeout for reading an environment. The read takes a lock of the other program's memory, whose
/// owner may wait for a reply of this mount: at most one thread waits there, the others keep
/// serving.
const READ_TIMEOUT: Duration = Duration::from_millis(250);

/// How changes of a mount are attributed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributionPolicy {
    /// Users, by uid, whose changes always get a fixed actor. `SVC_ACTOR` of their programs is
    /// ignored.
    pub fixed_actors: HashMap<u32, Actor>,
    /// Whether programs of all other users may set `SVC_ACTOR`. Works for programs whose
    /// environment this process may read: all as root, else those of its own user.
    pub allow_process_actor: bool,
}

impl Default for AttributionPolicy {
    /// No fixed actors; `SVC_ACTOR` is used.
    fn default() -> Self {
        Self { fixed_actors: HashMap::new(), allow_process_actor: true }
    }
}

/// Resolves users and programs to actors.
pub(crate) struct ActorResolver {
    attribution: AttributionPolicy,
    /// Account names by uid, cached as long as the mount lives.
    names: Mutex<HashMap<u32, Actor>>,
    /// Serializes reads of environments.
    pub(crate) read_lock: Mutex<()>,
}

impl ActorResolver {
    pub(crate) fn new(attribution: AttributionPolicy) -> Self {
        Self { attribution, names: Mutex::default(), read_lock: Mutex::default() }
    }

    /// The actor of a user; `uid-1234` for a uid without a name.
    pub(crate) fn name(&self, uid: u32) -> Actor {
        if let Some(fixed) = self.attribution.fixed_actors.get(&uid) {
            return fixed.clone();
        }
        if let Some(cached) = self.names.lock().get(&uid) {
            return cached.clone();
        }
        // Resolved without the lock: the user database may be a slow directory service.
        let name = match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => Actor::new(&user.name),
            Ok(None) | Err(_) if uid == 0 => Actor::new("root"),
            Ok(None) | Err(_) => Actor::new(&format!("uid-{uid}")),
        };
        self.names.lock().entry(uid).or_insert(name).clone()
    }

    /// The author of a change that a thread of this user makes now.
    pub(crate) fn author(&self, uid: u32, thread: u32) -> Actor {
        let may_name_actor = self.attribution.allow_process_actor && !self.attribution.fixed_actors.contains_key(&uid);
        may_name_actor.then(|| self.process_actor(thread)).flatten().unwrap_or_else(|| self.name(uid))
    }

    /// The actor in `SVC_ACTOR` of a program, if it is set.
    fn process_actor(&self, thread: u32) -> Option<Actor> {
        let Some(_guard) = self.read_lock.try_lock_for(READ_TIMEOUT) else {
            tracing::warn!(thread, "SVC_ACTOR is ignored for one change: another program's memory is locked");
            return None;
        };
        // Unreadable for another user's program, or one that is exiting.
        actor_in(&environment(thread).ok()?)
    }
}

fn environment(thread: u32) -> io::Result<Vec<u8>> {
    let mut variables = Vec::new();
    File::open(format!("/proc/{thread}/environ"))?.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut variables)?;
    Ok(variables)
}

/// The actor in an environment (proc_pid_environ(5): variables, each ended by a null byte). The
/// first one counts, as for getenv(3); an empty one is ignored.
pub(crate) fn actor_in(environment: &[u8]) -> Option<Actor> {
    let value = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(ACTOR_VARIABLE))?;
    let value = String::from_utf8_lossy(value);
    (!value.trim().is_empty()).then(|| Actor::new(&value))
}
