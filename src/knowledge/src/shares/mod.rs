//! Shares: links that show one page to people without credentials.
//!
//! Invariant: an unknown, revoked or expired link and one whose page is gone look alike. A share
//! follows renames of its page, and ends with its removal through any protocol. A page that is
//! removed beside the server is shown again when it is back.

mod follower;
mod operations;
mod password;
mod registry;
#[cfg(test)]
mod tests;
mod writer;

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use svcfs_base::{Caller, Fault, Kind, Permissions, Protocol, TreePath, network_prefix};
use svcfs_config::RateLimitSettings;
use svcfs_vfs::FileView;

use crate::access::{RateLimitKey, RequestLimiter};
use crate::files;
use crate::kernel::{OperationContext, ServerState, Space};

pub use operations::AREA;
pub use registry::ShareRegistry;
pub use writer::ShareWriter;

/// Attempts per minute for a share from an address: passwords that were not right before.
const ATTEMPTS_PER_MINUTE: NonZeroU32 = NonZeroU32::new(30).expect("not zero");

/// Limits guessing of passwords, for each share and address: behind a proxy, all readers may have
/// its address. Links need no limit: their tokens have 256 random bits.
pub struct GuessLimiter(RequestLimiter);

impl Default for GuessLimiter {
    fn default() -> Self {
        let settings = RateLimitSettings { requests_per_minute: ATTEMPTS_PER_MINUTE, burst_size: ATTEMPTS_PER_MINUTE };
        Self(RequestLimiter::new(settings))
    }
}

impl GuessLimiter {
    fn count(&self, share: &str, address: Option<IpAddr>) -> Result<(), Fault> {
        let key = |address| RateLimitKey::Share(share.to_owned(), network_prefix(address));
        address.map_or(Ok(()), |address| self.0.count(&key(address)))
    }
}

/// A page behind a link.
pub struct SharedPage {
    /// Its space.
    pub space: Arc<Space>,
    /// Its path.
    pub path: TreePath,
    /// Its content.
    pub file: FileView,
    /// The id of the share.
    id: String,
}

impl SharedPage {
    /// Counts that the page is shown.
    pub fn count_view(&self) {
        self.space.shares.count_view(&self.id);
    }
}

/// Why a link shows nothing.
pub enum ShareRefusal {
    /// A password is needed, or it is wrong.
    Password,
    /// Another reason.
    Fault(Fault),
}

impl From<Fault> for ShareRefusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// The fault of every link that shows nothing.
pub fn link_not_found() -> Fault {
    Fault::new(Kind::NotFound, "link not found or expired")
}

/// The caller that reads for people with a link.
#[must_use]
pub fn reader() -> Caller {
    Caller { permissions: Permissions::READ_ONLY, ..Caller::new(Protocol::Http) }
}

/// The page behind a link. The first verification of a right password takes some time.
///
/// # Errors
/// `NotFound` for a link that shows nothing; `RateLimited` after too many passwords.
pub fn open_share(
    server: &ServerState,
    (token, password): (&str, Option<&str>),
    address: Option<IpAddr>,
) -> Result<SharedPage, ShareRefusal> {
    let now = server.now();
    let spaces = server.spaces().list_open();
    let found = spaces.into_iter().find_map(|space| Some((space.shares.find(token, now)?, space)));
    let (share, space) = found.ok_or_else(link_not_found)?;
    if let Some(hash) = &share.password_hash {
        let password = password.ok_or(ShareRefusal::Password)?;
        if !space.shares.was_right(&share.id, password) {
            server.guess_limiter().count(&share.id, address)?;
            if !password::is_password(password, hash) {
                return Err(ShareRefusal::Password);
            }
            space.shares.add_right_password(&share.id, password);
        }
    }
    let caller = reader();
    let file = read_page(&OperationContext::new(server, &space, &caller), &share.path)
        .map_err(|fault| if fault.kind() == Kind::NotFound { link_not_found() } else { fault })?;
    Ok(SharedPage { space, path: share.path, file, id: share.id })
}

/// Refuses hidden files.
fn check_is_listed(cx: &OperationContext<'_>, path: &TreePath) -> Result<(), Fault> {
    let is_listed = cx.space.vfs.hidden_files().lists(path) && !path.is_hidden();
    if is_listed { Ok(()) } else { Err(Fault::file_not_found(path)) }
}

/// Reads a file that can be shared: not hidden, and not through a symbolic link, which could lead
/// out of the folder of the key that shared it.
///
/// # Errors
/// `NotFound`.
fn read_page(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    check_is_listed(cx, path)?;
    let is_plain = cx.space.vfs.resolve_links(Protocol::Http, path).is_ok_and(|target| target == *path);
    if !is_plain {
        return Err(Fault::file_not_found(path));
    }
    files::read_file(cx, path)
}
