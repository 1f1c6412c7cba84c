//! WebDAV locks: leases of the tree, which bind other protocols and survive a restart.
//!
//! dav-server implements the semantics among its clients. Every lock expires: after the time that
//! dav-server grants (ten minutes, a day if it is shared), so that a client that is gone cannot
//! block others.
//!
//! A client with the scope `propose` writes into its draft only, so its locks are granted and bind
//! no other client, and the locks of others do not bind it.

use std::fmt;
use std::time::{Duration, SystemTime};

use dav_server::davpath::DavPath;
use dav_server::ls::{DavLock, DavLockSystem, LsFuture};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use svcfs_base::{Fault, Kind, Protocol, Timestamp, TreePath};
use svcfs_vfs::{Lease, LeaseBarrier};
use uuid::Uuid;
use xmltree::{Element, EmitterConfig, Namespace, XMLNode};

use crate::context::{LockConflict, WebdavRequestContext};
use crate::file_system::path_of;
use crate::live::{DAV, dav, declare_namespace, message, text};
use crate::markup;
use crate::resolved::ResolvedResource;

/// The lifetime of a lock when the client requests none, or an infinite one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Characters that are percent-encoded in a URL path (RFC 3986 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The locks of the space of a request.
#[derive(Clone)]
pub(crate) struct WebdavLocks {
    pub(crate) context: WebdavRequestContext,
    /// The prefix of URL paths of the space.
    pub(crate) prefix: String,
}

impl fmt::Debug for WebdavLocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "locks of `{}`", self.context.space().name)
    }
}

impl WebdavLocks {
    fn webdav_leases(&self, leases: Vec<Lease>) -> impl Iterator<Item = Lease> {
        let is_proposing = self.context.is_proposing();
        leases.into_iter().filter(move |lease| lease.protocol == Protocol::WebDav && !is_proposing)
    }

    fn leases_for(&self, path: &DavPath) -> Vec<Lease> {
        path_of(path).map(|path| self.leases_at(&path)).unwrap_or_default()
    }

    /// The locks on a path.
    pub(crate) fn leases_at(&self, path: &TreePath) -> Vec<Lease> {
        self.webdav_leases(self.context.space().vfs.leases_at(path)).collect()
    }

    /// The URL path of a path for clients.
    pub(crate) fn address(&self, path: &TreePath) -> String {
        let segments: Vec<_> = path.components().map(encode_segment).collect();
        format!("{}/{}", self.prefix, segments.join("/"))
    }

    /// Shallow locks of the parent folder, which bind the names in it, if the request creates or
    /// removes this name (RFC 4918 7.4).
    fn parent_leases(&self, path: &DavPath) -> Vec<Lease> {
        path_of(path).map(|path| self.parent_leases_of(&path)).unwrap_or_default()
    }

    fn parent_leases_of(&self, path: &TreePath) -> Vec<Lease> {
        let mut leases = path.parent().map(|parent| self.leases_at(&parent)).unwrap_or_default();
        leases.retain(|lease| !lease.is_deep);
        // Usually there are none, and no lookup is needed.
        if leases.is_empty() || !self.context.changes_name(path) { Vec::new() } else { leases }
    }

    /// A lock on the path or its parent that blocks the caller. The holder of one of several shared
    /// locks may write.
    fn blocking_lease(&self, path: &TreePath, is_held: impl Fn(&Lease) -> bool) -> Option<Lease> {
        let first_of = |leases: &[Lease]| {
            let holds_one = leases.iter().any(&is_held);
            leases.iter().find(|lease| !(is_held(lease) || lease.is_shared && holds_one)).cloned()
        };
        first_of(&self.leases_at(path)).or_else(|| first_of(&self.parent_leases_of(path)))
    }

    /// Checks the locks of these paths and below again, immediately before a change: another client
    /// may have acquired one since. No new lock is granted until the result is dropped. Errors:
    /// `Locked`.
    pub(crate) fn recheck<'a>(
        context: &'a WebdavRequestContext,
        paths: &[&TreePath],
    ) -> Result<LeaseBarrier<'a>, Fault> {
        Self::recheck_depth(context, paths, true)
    }

    /// Like [`WebdavLocks::recheck`], for a change of the path itself but nothing below it. Errors:
    /// `Locked`.
    pub(crate) fn recheck_shallow<'a>(
        context: &'a WebdavRequestContext,
        path: &TreePath,
    ) -> Result<LeaseBarrier<'a>, Fault> {
        Self::recheck_depth(context, &[path], false)
    }

    fn recheck_depth<'a>(
        context: &'a WebdavRequestContext,
        paths: &[&TreePath],
        is_deep: bool,
    ) -> Result<LeaseBarrier<'a>, Fault> {
        let vfs = &context.space().vfs;
        let barrier = vfs.block_new_leases(paths);
        let locks = Self { context: context.clone(), prefix: String::new() };
        let blocking = |path: &&TreePath| {
            let below = || locks.webdav_leases(vfs.leases_below(path)).find(|lease| !context.holds_lease(lease));
            locks.blocking_lease(path, |lease| context.holds_lease(lease)).or_else(|| below().filter(|_| is_deep))
        };
        // The file for a LOCK request is created by the holder of the lock.
        let Some(lease) = paths.iter().filter(|_| !context.is_lock_request()).find_map(blocking) else {
            return Ok(barrier);
        };
        let message = format!("{}; nothing was written", describe(&lease));
        context.record_lock_conflict(LockConflict { lease, is_conflict: false });
        Err(Fault::new(Kind::Locked, message))
    }

    /// Converts a lease for dav-server; `requested` is the path of the request.
    fn to_dav_lock(&self, lease: &Lease, requested: &DavPath) -> DavLock {
        let mut path = DavPath::new(&self.address(&lease.path)).unwrap_or_else(|_| requested.clone());
        // A path outside of the prefix is shown unchanged.
        let _prefixed = path.set_prefix(&self.prefix);
        DavLock {
            token: lease.token.clone(),
            path: Box::new(path),
            principal: Some(lease.holder.clone()),
            owner: Element::parse(lease.note.as_bytes()).ok().map(Box::new),
            timeout_at: Some(lease.expires_at),
            timeout: Some(lease.expires_at.duration_since(SystemTime::now()).unwrap_or_default()),
            shared: lease.is_shared,
            deep: lease.is_deep,
        }
    }

    /// The body of a 423 (RFC 4918 11.3, 16): the blocking lock, and a message with its holder.
    pub(crate) fn error_body(&self, fault_message: Option<&str>) -> Option<String> {
        let conflict = self.context.lock_conflict();
        let is_conflict = conflict.as_ref().is_some_and(|conflict| conflict.is_conflict);
        // The write path may have refused the request because of a lock that dav-server did not
        // see.
        let known = || {
            let path = self.context.path()?;
            let below = self.webdav_leases(self.context.space().vfs.leases_below(path));
            self.leases_at(path).into_iter().chain(below).find(|lease| !self.context.holds_lease(lease))
        };
        let lease = conflict.map(|conflict| conflict.lease).or_else(known);
        let lock_path = lease.as_ref().map(|lease| &lease.path).or_else(|| self.context.path());
        let condition = if is_conflict { "no-conflicting-lock" } else { "lock-token-submitted" };
        let hrefs = lock_path.map(|lock_path| XMLNode::Element(text("href", self.address(lock_path))));
        let words = lease.as_ref().map(describe);
        let words = fault_message.map(str::to_owned).or(words).unwrap_or_default();
        let parts = [dav(condition, hrefs.into_iter().collect()), message(&words)];
        let mut error = dav("error", parts.into_iter().map(XMLNode::Element).collect());
        error.namespaces = Some(declare_namespace("D", DAV));
        markup::to_xml(&error)
    }

    /// Runs blocking work. A fault is recorded, and later replaces dav-server's error.
    async fn run<T, W>(&self, work: W) -> Result<T, ()>
    where
        T: Send + 'static,
        W: FnOnce(&WebdavRequestContext) -> Result<T, Fault> + Send + 'static,
    {
        self.context.run(work).await.map_err(drop)
    }

    async fn grant(&self, path: DavPath, requested_lease: Result<Lease, Fault>) -> Result<DavLock, DavLock> {
        let dav_lock = match &requested_lease {
            Ok(lease) => self.to_dav_lock(lease, &path),
            Err(_) => self.to_dav_lock(&empty_lease(), &path),
        };
        let granted = self.run(move |context| {
            let lease = requested_lease?;
            context.caller().permissions.check_path(&lease.path)?;
            if context.is_proposing() {
                return Ok(Ok(()));
            }
            context.space().vfs.acquire_lease(lease)
        });
        match granted.await {
            Ok(Ok(())) => Ok(dav_lock),
            Ok(Err(conflicts)) => {
                let first = conflicts.into_iter().next();
                first.iter().for_each(|lease| {
                    self.context.record_lock_conflict(LockConflict { lease: lease.clone(), is_conflict: true })
                });
                Err(first.map_or(dav_lock, |lease| self.to_dav_lock(&lease, &path)))
            }
            Err(()) => Err(dav_lock),
        }
    }
}

impl DavLockSystem for WebdavLocks {
    fn lock(
        &self,
        path: &DavPath,
        principal: Option<&str>,
        owner: Option<&Element>,
        timeout: Option<Duration>,
        is_shared: bool,
        is_deep: bool,
    ) -> LsFuture<'_, Result<DavLock, DavLock>> {
        if let Some(blocking) = self.parent_leases(path).into_iter().find(|lease| !self.context.holds_lease(lease)) {
            // The request would create a file, whose name another client's lock protects.
            let dav_lock = self.to_dav_lock(&blocking, path);
            self.context.record_lock_conflict(LockConflict { lease: blocking, is_conflict: false });
            return Box::pin(std::future::ready(Err(dav_lock)));
        }
        let until = self.context.space().vfs.lease_expiry(timeout.unwrap_or(DEFAULT_TIMEOUT));
        let requested_lease = path_of(path).and_then(|path| {
            Ok(Lease {
                token: Uuid::new_v4().urn().to_string(),
                path,
                is_deep,
                is_shared,
                protocol: Protocol::WebDav,
                holder: principal.unwrap_or_default().to_owned(),
                note: owner.map(to_xml).transpose()?.unwrap_or_default(),
                expires_at: until,
            })
        });
        Box::pin(self.grant(path.clone(), requested_lease))
    }

    fn unlock(&self, path: &DavPath, token: &str) -> LsFuture<'_, Result<(), ()>> {
        let (path, token) = (path_of(path), token.to_owned());
        Box::pin(async move {
            let end_lease = move |context: &WebdavRequestContext| {
                let path = path?;
                if context.is_proposing() {
                    return Ok(true);
                }
                check_holder(context, &path, &token)?;
                context.space().vfs.end_lease(&path, &token)
            };
            let ended = self.run(end_lease).await?;
            if ended { Ok(()) } else { Err(()) }
        })
    }

    fn refresh(&self, path: &DavPath, token: &str, timeout: Option<Duration>) -> LsFuture<'_, Result<DavLock, ()>> {
        let until = self.context.space().vfs.lease_expiry(timeout.unwrap_or(DEFAULT_TIMEOUT));
        let (requested, path, token) = (path.clone(), path_of(path), token.to_owned());
        Box::pin(async move {
            let renew = move |context: &WebdavRequestContext| {
                let path = path?;
                if context.is_proposing() {
                    return Ok(Some(Lease { token, path, expires_at: until, ..empty_lease() }));
                }
                check_holder(context, &path, &token)?;
                context.space().vfs.renew_lease(&path, &token, until)
            };
            let renewed = self.run(renew).await?;
            renewed.map(|lease| self.to_dav_lock(&lease, &requested)).ok_or(())
        })
    }

    fn check(
        &self,
        path: &DavPath,
        principal: Option<&str>,
        ignore_principal: bool,
        deep: bool,
        submitted_tokens: &[String],
    ) -> LsFuture<'_, Result<(), DavLock>> {
        let is_held = |lease: &Lease| {
            submitted_tokens.contains(&lease.token) && (ignore_principal || principal == Some(&lease.holder))
        };
        let checked = if self.context.is_proposing() {
            Ok(())
        } else if ignore_principal {
            // A condition of the client: that it holds a lock here with this token. An expired lock
            // does not count.
            let leases = self.leases_for(path);
            let holds_one = leases.iter().any(is_held);
            if holds_one { Ok(()) } else { Err(self.to_dav_lock(leases.first().unwrap_or(&empty_lease()), path)) }
        } else {
            // A lock of another client below the path blocks, too.
            let tree_path = path_of(path).ok();
            let below = || {
                let below = tree_path.as_ref().filter(|_| deep).map(|path| self.context.space().vfs.leases_below(path));
                self.webdav_leases(below.unwrap_or_default()).find(|lease| !is_held(lease))
            };
            let blocking = tree_path.as_ref().and_then(|path| self.blocking_lease(path, is_held)).or_else(below);
            blocking.map_or(Ok(()), |lease| {
                let dav_lock = self.to_dav_lock(&lease, path);
                self.context.record_lock_conflict(LockConflict { lease, is_conflict: false });
                Err(dav_lock)
            })
        };
        Box::pin(std::future::ready(checked))
    }

    fn discover(&self, path: &DavPath) -> LsFuture<'_, Vec<DavLock>> {
        let dav_locks = self.leases_for(path).iter().map(|lease| self.to_dav_lock(lease, path)).collect();
        Box::pin(std::future::ready(dav_locks))
    }

    fn delete(&self, path: &DavPath) -> LsFuture<'_, Result<(), ()>> {
        let path = path_of(path);
        let end = move |context: &WebdavRequestContext| {
            let path = path?;
            // What replaces the path may be there afterwards: see [`run_replacing`].
            if context.will_replace(&path) { Ok(()) } else { end_leases(context, &path, |_| true) }
        };
        Box::pin(async move { self.run(end).await })
    }
}

/// Runs work that may replace a path. A lock belongs to the URL, not to the resource (RFC 4918 6.1,
/// 7.6): it stays where something exists afterwards, and ends elsewhere. So a client that saves by
/// `MOVE` keeps its lock.
pub(crate) fn run_replacing(
    context: &WebdavRequestContext,
    path: &TreePath,
    work: impl FnOnce() -> Result<(), Fault>,
) -> Result<(), Fault> {
    let is_replaced = context.will_replace(path);
    work()?;
    let is_unmapped = |lease: &Lease| matches!(ResolvedResource::at_no_follow(context, &lease.path), Err(fault) if fault.kind() == Kind::NotFound);
    if is_replaced && let Err(error) = end_leases(context, path, is_unmapped) {
        tracing::warn!(page.path = %path, ?error, "could not end the locks of the replaced resources");
    }
    Ok(())
}

/// Ends the locks at a path and below it that match `should_end` and under which the caller acted.
/// A lock that another client has acquired since stays.
fn end_leases(
    context: &WebdavRequestContext,
    path: &TreePath,
    should_end: impl Fn(&Lease) -> bool,
) -> Result<(), Fault> {
    let vfs = &context.space().vfs;
    let locks = WebdavLocks { context: context.clone(), prefix: String::new() };
    let mut ended = locks.leases_at(path);
    ended.retain(|lease| lease.path == *path);
    ended.extend(locks.webdav_leases(vfs.leases_below(path)));
    let is_shared_with_held = |lease: &Lease| {
        lease.is_shared && locks.leases_at(&lease.path).iter().any(|blocking| context.holds_lease(blocking))
    };
    // Before any of them ends: a shared lock counts only next to a held one.
    ended.retain(|lease| (context.holds_lease(lease) || is_shared_with_held(lease)) && should_end(lease));
    ended.iter().try_for_each(|lease| vfs.end_lease(&lease.path, &lease.token).map(drop))
}

/// Refuses to end or renew a lock of another client: tokens are public, so a token alone proves
/// nothing (RFC 4918 6.4).
fn check_holder(context: &WebdavRequestContext, path: &TreePath, token: &str) -> Result<(), Fault> {
    let caller = context.caller().actor().to_string();
    match context.space().vfs.leases_at(path).into_iter().find(|lease| lease.token == token) {
        Some(lease) if lease.holder != caller => {
            let message = format!("`{path}` is locked by {}; only the holder may end or renew the lock", lease.holder);
            Err(Fault::new(Kind::Forbidden, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Describes a lock: path, holder and expiry.
fn describe(Lease { path, holder, expires_at: until, .. }: &Lease) -> String {
    let subject = if path.is_root() { "the whole space".to_owned() } else { format!("`{path}`") };
    let until = Timestamp::try_from(*until).map(|until| format!("{until:.0}")).unwrap_or_default();
    format!("{subject} is locked by `{holder}` until {until}")
}

/// An empty lease, where dav-server requires one.
fn empty_lease() -> Lease {
    Lease {
        token: String::new(),
        path: TreePath::root(),
        is_deep: false,
        is_shared: false,
        protocol: Protocol::WebDav,
        holder: String::new(),
        note: String::new(),
        expires_at: SystemTime::UNIX_EPOCH,
    }
}

/// Percent-encodes a path segment.
pub(crate) fn encode_segment(part: &str) -> String {
    utf8_percent_encode(part, RESERVED).to_string()
}

/// The owner element of a client as text.
fn to_xml(owner: &Element) -> Result<String, Fault> {
    let mut text = Vec::new();
    let config = EmitterConfig::new().write_document_declaration(false);
    // dav-server uses a prefix that is declared only in its own responses.
    let mut owner = owner.clone();
    owner.namespaces.get_or_insert_with(Namespace::empty).force_put("D", "DAV:");
    owner.write_with_config(&mut text, config).map_err(|error| Fault::invalid("owner", error))?;
    String::from_utf8(text).map_err(Fault::internal)
}
