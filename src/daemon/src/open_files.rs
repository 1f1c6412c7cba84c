//! How many files and connections this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// More than a server of many spaces and thousands of connections needs.
const ENOUGH: u64 = 65_536;

/// Raises the limit to what the system allows: the usual one, 1024, is fewer than the connections that are served at once.
pub fn allow_many() {
    let mut limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH));
    if limit.current.is_some_and(|current| current < most) {
        limit.current = Some(most);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "the limit of open files could not be raised");
        }
    }
}
