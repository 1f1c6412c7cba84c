//! What a request has changed.

use svcfs_base::{Fault, Timestamp};
use svcfs_store::RequestSet;

use crate::Vfs;

impl Vfs {
    /// The sets that a request asked for since a time, oldest first. Sets that are accepted and not
    /// logged yet are not among them.
    ///
    /// # Errors
    /// `Internal` when the log cannot be read.
    pub fn sets_of_request(&self, id: &[u8; 16], since: Timestamp) -> Result<Vec<RequestSet>, Fault> {
        Ok(self.core.log.sets_of_request(id, since)?)
    }
}
