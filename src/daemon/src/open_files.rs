//! The limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Enough for many spaces and thousands of connections.
const ENOUGH: u64 = 65_536;

/// Raises the limit to what the system allows: the default of 1024 is less than the number of
/// concurrent connections.
pub fn allow_many() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
}
