//! Whose name a change through the mount gets.
//!
//! A change is its user's, by the name the system knows them by. A program can say that it works for somebody else: whoever is
//! named by `SVC_ACTOR` in the environment it was started with. That is an attribution and no proof, as `X-Actor` is over HTTP;
//! where it must not be believed, a user is pinned to a name.
//!
//! The environment is read from `/proc` anew each time it matters: when a file is opened for writing, at the first write of a thread through
//! a handle, and at changes of names; never when something is only read, and never when it is closed: a program that becomes another one
//! closes its handles with a lock held that its environment is read with, and would wait for us, and we for it, for ever. Why is it not remembered by process number and start time? Because a shell opens the
//! file of `SVC_ACTOR=agent:x program > page.md` and *becomes* the program then: same number, same start, another environment.
//! It costs some 25 µs, once for a save.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use nix::unistd::{Uid, User};
use parking_lot::Mutex;
use svcfs_base::Actor;

/// The variable by which a process says who it works for.
const VARIABLE: &[u8] = b"SVC_ACTOR=";

/// How much of an environment is looked at, in bytes. What a shell exports is a few thousand.
const MAX_ENVIRONMENT_BYTES: u64 = 1 << 18;

/// How long one waits for another's environment to be read. Reading it takes a lock of the other program's memory, and whoever has that
/// lock may wait for an answer of this mount: of its threads one at most waits there, and the others stay to answer.
const PATIENCE: Duration = Duration::from_millis(250);

/// Whose name the changes of a mount get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributionPolicy {
    /// Users, by number, whose changes are always another name's. What their programs say about themselves is not believed.
    pub fixed_actors: HashMap<u32, Actor>,
    /// Whether the programs of all other users may say who they work for (`SVC_ACTOR`). Only those are heard whose environment this
    /// process may read: every one as root, else those of its own user.
    pub allow_process_actor: bool,
}

impl Default for AttributionPolicy {
    /// Nobody is pinned, programs are heard.
    fn default() -> Self {
        Self { fixed_actors: HashMap::new(), allow_process_actor: true }
    }
}

/// The names of users and their programs.
pub(crate) struct ActorResolver {
    attribution: AttributionPolicy,
    /// Names by user number. A name is asked of the system once and kept as long as the mount lives.
    names: Mutex<HashMap<u32, Actor>>,
    /// Held by whoever reads an environment.
    pub(crate) reading: Mutex<()>,
}

impl ActorResolver {
    /// Names as they are attributed on one mount.
    pub(crate) fn new(attribution: AttributionPolicy) -> Self {
        Self { attribution, names: Mutex::default(), reading: Mutex::default() }
    }

    /// The name of a user; `uid-1234` for a number without a name.
    pub(crate) fn name(&self, uid: u32) -> Actor {
        if let Some(pinned) = self.attribution.fixed_actors.get(&uid) {
            return pinned.clone();
        }
        if let Some(known) = self.names.lock().get(&uid) {
            return known.clone();
        }
        // Asked without the lock: a directory service behind the user database may take its time.
        let name = match User::from_uid(Uid::from_raw(uid)) {
            Ok(Some(user)) => Actor::new(&user.name),
            Ok(None) | Err(_) if uid == 0 => Actor::new("root"),
            Ok(None) | Err(_) => Actor::new(&format!("uid-{uid}")),
        };
        self.names.lock().entry(uid).or_insert(name).clone()
    }

    /// Whose name a change gets that a thread of this user makes now.
    pub(crate) fn author(&self, uid: u32, thread: u32) -> Actor {
        let is_heard = self.attribution.allow_process_actor && !self.attribution.fixed_actors.contains_key(&uid);
        is_heard.then(|| self.said(thread)).flatten().unwrap_or_else(|| self.name(uid))
    }

    /// Who a program says it works for; none when it does not say.
    fn said(&self, thread: u32) -> Option<Actor> {
        let Some(_turn) = self.reading.try_lock_for(PATIENCE) else {
            tracing::warn!(thread, "a program cannot be asked who it works for: the memory of another one is locked");
            return None;
        };
        // Not readable: another user's program, or one that is ending and has no environment any more.
        actor_in(&environment(thread).ok()?)
    }
}

/// What a program was started with.
fn environment(thread: u32) -> io::Result<Vec<u8>> {
    let mut variables = Vec::new();
    File::open(format!("/proc/{thread}/environ"))?.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut variables)?;
    Ok(variables)
}

/// The actor an environment names (proc_pid_environ(5): variables, each ended by a null byte). The first one counts, as for
/// getenv(3); an empty one does not say anything.
pub(crate) fn actor_in(environment: &[u8]) -> Option<Actor> {
    let said = environment.split(|byte| *byte == 0).find_map(|variable| variable.strip_prefix(VARIABLE))?;
    let said = String::from_utf8_lossy(said);
    (!said.trim().is_empty()).then(|| Actor::new(&said))
}
