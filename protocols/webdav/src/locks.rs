//! Locks, as dav-server asks for them: leases of the tree, which bind other doors too and outlive the server.
//!
//! dav-server says what a lock means among its clients; how long one holds is what it allows a client (ten minutes, a day if it is shared), and
//! never for ever: whoever is gone must not keep others out.

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
use crate::live::{DAV, dav, declared, message, text};
use crate::markup;
use crate::resolved::ResolvedResource;

/// How long a lock holds whose client names no time, or asks for one without end.
const USUAL: Duration = Duration::from_secs(600);

/// What a path of an address does not carry as it is (RFC 3986 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The locks of the space that a request is for.
#[derive(Clone)]
pub(crate) struct WebdavLocks {
    pub(crate) asked: WebdavRequestContext,
    /// What begins the paths of its space.
    pub(crate) prefix: String,
}

impl fmt::Debug for WebdavLocks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "locks of `{}`", self.asked.space().name)
    }
}

impl WebdavLocks {
    fn ours(&self, leases: Vec<Lease>) -> impl Iterator<Item = Lease> {
        leases.into_iter().filter(|lease| lease.protocol == Protocol::WebDav)
    }

    fn at(&self, path: &DavPath) -> Vec<Lease> {
        path_of(path).map(|path| self.held_at(&path)).unwrap_or_default()
    }

    /// The locks that bind a path.
    pub(crate) fn held_at(&self, path: &TreePath) -> Vec<Lease> {
        self.ours(self.asked.space().vfs.leases_at(path)).collect()
    }

    /// The address of a path, as clients are told it.
    pub(crate) fn address(&self, path: &TreePath) -> String {
        let encoded: Vec<_> = path.components().map(encoded).collect();
        format!("{}/{}", self.prefix, encoded.join("/"))
    }

    /// The locks of the folder above that bind its names, not what is in it, where a name of it is made or taken away (RFC 4918 7.4).
    fn naming(&self, path: &DavPath) -> Vec<Lease> {
        path_of(path).map(|path| self.naming_of(&path)).unwrap_or_default()
    }

    fn naming_of(&self, path: &TreePath) -> Vec<Lease> {
        let mut above = path.parent().map(|above| self.held_at(&above)).unwrap_or_default();
        above.retain(|lease| !lease.is_deep);
        // Nearly always there are none, and nothing has to be looked at.
        if above.is_empty() || !self.asked.is_naming(path) { Vec::new() } else { above }
    }

    /// A lock that keeps the caller from what is at a path, of its own or among those above it; whoever holds one of several shared locks may write.
    fn another(&self, path: &TreePath, is_held: impl Fn(&Lease) -> bool) -> Option<Lease> {
        let first_of = |leases: &[Lease]| {
            let holds_one = leases.iter().any(&is_held);
            leases.iter().find(|lease| !(is_held(lease) || lease.is_shared && holds_one)).cloned()
        };
        first_of(&self.held_at(path)).or_else(|| first_of(&self.naming_of(path)))
    }

    /// Looks at the locks of these paths once more, before something is done to them: another client may have taken one since. None is given to
    /// anybody there until what this gives is dropped.
    ///
    /// # Errors
    /// `Locked`.
    pub(crate) fn check_again<'a>(
        asked: &'a WebdavRequestContext,
        paths: &[&TreePath],
    ) -> Result<LeaseBarrier<'a>, Fault> {
        Self::look_again(asked, paths, true)
    }

    /// The same for what is done to a path itself, and to nothing below it.
    ///
    /// # Errors
    /// `Locked`.
    pub(crate) fn check_it_again<'a>(
        asked: &'a WebdavRequestContext,
        path: &TreePath,
    ) -> Result<LeaseBarrier<'a>, Fault> {
        Self::look_again(asked, &[path], false)
    }

    fn look_again<'a>(
        asked: &'a WebdavRequestContext,
        paths: &[&TreePath],
        is_deep: bool,
    ) -> Result<LeaseBarrier<'a>, Fault> {
        let vfs = &asked.space().vfs;
        let none_begins = vfs.block_new_leases(paths);
        let locks = Self { asked: asked.clone(), prefix: String::new() };
        let other = |path: &&TreePath| {
            let below = || locks.ours(vfs.leases_below(path)).find(|lease| !asked.holds(lease));
            locks.another(path, |lease| asked.holds(lease)).or_else(|| below().filter(|_| is_deep))
        };
        // What is made for a lock is made by whoever has just taken it.
        let Some(lease) = paths.iter().filter(|_| !asked.is_lock()).find_map(other) else { return Ok(none_begins) };
        let told = format!("{}; nothing was written", in_words(&lease));
        asked.met(LockConflict { lease, is_conflict: false });
        Err(Fault::new(Kind::Locked, told))
    }

    /// A lease in dav-server's words, which somebody asked for who was `asked` about this path.
    fn shown(&self, lease: &Lease, asked: &DavPath) -> DavLock {
        let mut path = DavPath::new(&self.address(&lease.path)).unwrap_or_else(|_| asked.clone());
        // A path without it is told as it is.
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

    /// The body of a 423 (RFC 4918 11.3, 16): which lock stands in the way, and in words whose it is.
    pub(crate) fn refusal(&self, told: Option<&str>) -> Option<String> {
        let met = self.asked.obstacle();
        let is_conflict = met.as_ref().is_some_and(|met| met.is_conflict);
        // What the tree refused by itself, it refused for a lock that it knows.
        let known = || {
            let path = self.asked.path()?;
            let below = self.ours(self.asked.space().vfs.leases_below(path));
            self.held_at(path).into_iter().chain(below).find(|lease| !self.asked.holds(lease))
        };
        let lease = met.map(|met| met.lease).or_else(known);
        let place = lease.as_ref().map(|lease| &lease.path).or_else(|| self.asked.path());
        let condition = if is_conflict { "no-conflicting-lock" } else { "lock-token-submitted" };
        let hrefs = place.map(|place| XMLNode::Element(text("href", self.address(place))));
        let words = lease.as_ref().map(in_words);
        let words = told.map(str::to_owned).or(words).unwrap_or_default();
        let parts = [dav(condition, hrefs.into_iter().collect()), message(&words)];
        let mut error = dav("error", parts.into_iter().map(XMLNode::Element).collect());
        error.namespaces = Some(declared("D", DAV));
        markup::written(&error)
    }

    /// Does what waits for the disk; what went wrong is noted, and told instead of dav-server's word for it.
    async fn run<T, W>(&self, work: W) -> Result<T, ()>
    where
        T: Send + 'static,
        W: FnOnce(&WebdavRequestContext) -> Result<T, Fault> + Send + 'static,
    {
        self.asked.run(work).await.map_err(drop)
    }

    async fn grant(&self, path: DavPath, wanted: Result<Lease, Fault>) -> Result<DavLock, DavLock> {
        let shown = match &wanted {
            Ok(lease) => self.shown(lease, &path),
            Err(_) => self.shown(&nothing(), &path),
        };
        let granted = self.run(move |asked| {
            let lease = wanted?;
            asked.caller().permissions.check_path(&lease.path)?;
            asked.space().vfs.acquire_lease(lease)
        });
        match granted.await {
            Ok(Ok(())) => Ok(shown),
            Ok(Err(others)) => {
                let first = others.into_iter().next();
                first.iter().for_each(|lease| self.asked.met(LockConflict { lease: lease.clone(), is_conflict: true }));
                Err(first.map_or(shown, |lease| self.shown(&lease, &path)))
            }
            Err(()) => Err(shown),
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
        if let Some(other) = self.naming(path).into_iter().find(|lease| !self.asked.holds(lease)) {
            // The lock would make a file, whose name another's lock binds.
            let shown = self.shown(&other, path);
            self.asked.met(LockConflict { lease: other, is_conflict: false });
            return Box::pin(std::future::ready(Err(shown)));
        }
        let until = self.asked.space().vfs.lease_expiry(timeout.unwrap_or(USUAL));
        let wanted = path_of(path).and_then(|path| {
            Ok(Lease {
                token: Uuid::new_v4().urn().to_string(),
                path,
                is_deep,
                is_shared,
                protocol: Protocol::WebDav,
                holder: principal.unwrap_or_default().to_owned(),
                note: owner.map(written).transpose()?.unwrap_or_default(),
                expires_at: until,
            })
        });
        Box::pin(self.grant(path.clone(), wanted))
    }

    fn unlock(&self, path: &DavPath, token: &str) -> LsFuture<'_, Result<(), ()>> {
        let (path, token) = (path_of(path), token.to_owned());
        Box::pin(async move {
            let unlocked = move |asked: &WebdavRequestContext| {
                let path = path?;
                check_holder(asked, &path, &token)?;
                asked.space().vfs.end_lease(&path, &token)
            };
            let ended = self.run(unlocked).await?;
            if ended { Ok(()) } else { Err(()) }
        })
    }

    fn refresh(&self, path: &DavPath, token: &str, timeout: Option<Duration>) -> LsFuture<'_, Result<DavLock, ()>> {
        let until = self.asked.space().vfs.lease_expiry(timeout.unwrap_or(USUAL));
        let (asked, path, token) = (path.clone(), path_of(path), token.to_owned());
        Box::pin(async move {
            let refreshed = move |asked: &WebdavRequestContext| {
                let path = path?;
                check_holder(asked, &path, &token)?;
                asked.space().vfs.renew_lease(&path, &token, until)
            };
            let renewed = self.run(refreshed).await?;
            renewed.map(|lease| self.shown(&lease, &asked)).ok_or(())
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
        let checked = if ignore_principal {
            // A condition of the client: that a lock of this token is held here. One that has ended meanwhile is not.
            let here = self.at(path);
            let holds_one = here.iter().any(is_held);
            if holds_one { Ok(()) } else { Err(self.shown(here.first().unwrap_or(&nothing()), path)) }
        } else {
            // Of what lies below, nothing may be another's.
            let place = path_of(path).ok();
            let below = || {
                let below = place.as_ref().filter(|_| deep).map(|path| self.asked.space().vfs.leases_below(path));
                self.ours(below.unwrap_or_default()).find(|lease| !is_held(lease))
            };
            let other = place.as_ref().and_then(|path| self.another(path, is_held)).or_else(below);
            other.map_or(Ok(()), |lease| {
                let shown = self.shown(&lease, path);
                self.asked.met(LockConflict { lease, is_conflict: false });
                Err(shown)
            })
        };
        Box::pin(std::future::ready(checked))
    }

    fn discover(&self, path: &DavPath) -> LsFuture<'_, Vec<DavLock>> {
        let shown = self.at(path).iter().map(|lease| self.shown(lease, path)).collect();
        Box::pin(std::future::ready(shown))
    }

    fn delete(&self, path: &DavPath) -> LsFuture<'_, Result<(), ()>> {
        let path = path_of(path);
        let ended = move |asked: &WebdavRequestContext| {
            let path = path?;
            // What is to be replaced may stand in the end: see [`replacing`].
            if asked.is_about_to_replace(&path) { Ok(()) } else { end_below(asked, &path, |_| true) }
        };
        Box::pin(async move { self.run(ended).await })
    }
}

/// Does what takes the place of what is at a path, where something is to. A lock belongs to an address and not to what stands there (RFC 4918 6.1, 7.6): it
/// stays where something stands afterwards, and ends where nothing does any more, once that is done. A client that saves by `MOVE` goes on with the lock it has.
///
/// # Errors
/// Those of the work.
pub(crate) fn replacing(
    asked: &WebdavRequestContext,
    path: &TreePath,
    work: impl FnOnce() -> Result<(), Fault>,
) -> Result<(), Fault> {
    let is_replaced = asked.is_about_to_replace(path);
    work()?;
    let is_unmapped = |lease: &Lease| matches!(ResolvedResource::itself(asked, &lease.path), Err(fault) if fault.kind() == Kind::NotFound);
    if is_replaced && let Err(error) = end_below(asked, path, is_unmapped) {
        tracing::warn!(page.path = %path, ?error, "the locks of what was replaced are still there");
    }
    Ok(())
}

/// Ends the locks of what is taken away, at a path and below it, as far as they are `over`: those under which that is done. Another's that was taken since
/// stays.
fn end_below(asked: &WebdavRequestContext, path: &TreePath, is_over: impl Fn(&Lease) -> bool) -> Result<(), Fault> {
    let vfs = &asked.space().vfs;
    let locks = WebdavLocks { asked: asked.clone(), prefix: String::new() };
    let mut gone = locks.held_at(path);
    gone.retain(|lease| lease.path == *path);
    gone.extend(locks.ours(vfs.leases_below(path)));
    let is_done_under =
        |lease: &Lease| lease.is_shared && locks.held_at(&lease.path).iter().any(|other| asked.holds(other));
    // Looked at before any of them ends: what is shared is so with those that are held.
    gone.retain(|lease| (asked.holds(lease) || is_done_under(lease)) && is_over(lease));
    gone.iter().try_for_each(|lease| vfs.end_lease(&lease.path, &lease.token).map(drop))
}

/// Refuses to do anything to the lock of another: whoever asks for the locks of a file is told their tokens, and a token alone proves nothing
/// (RFC 4918 6.4).
fn check_holder(asked: &WebdavRequestContext, path: &TreePath, token: &str) -> Result<(), Fault> {
    let caller = asked.caller().actor().to_string();
    match asked.space().vfs.leases_at(path).into_iter().find(|lease| lease.token == token) {
        Some(lease) if lease.holder != caller => {
            let told = format!("`{path}` is locked by {}, who alone may end or renew that", lease.holder);
            Err(Fault::new(Kind::Forbidden, told))
        }
        Some(_) | None => Ok(()),
    }
}

/// What is locked, by whom and until when.
fn in_words(Lease { path, holder, expires_at: until, .. }: &Lease) -> String {
    let what = if path.is_root() { "the whole space".to_owned() } else { format!("`{path}`") };
    let until = Timestamp::try_from(*until).map(|until| format!("{until:.0}")).unwrap_or_default();
    format!("{what} is locked by `{holder}` until {until}")
}

/// A lock of nobody, where dav-server wants to be shown the one that stands in the way.
fn nothing() -> Lease {
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

/// A name as addresses have it.
pub(crate) fn encoded(part: &str) -> String {
    utf8_percent_encode(part, RESERVED).to_string()
}

/// What a client says of itself, as text.
fn written(owner: &Element) -> Result<String, Fault> {
    let mut text = Vec::new();
    let config = EmitterConfig::new().write_document_declaration(false);
    // dav-server gives it the prefix of its own answers, which stands for nothing outside of them.
    let mut owner = owner.clone();
    owner.namespaces.get_or_insert_with(Namespace::empty).force_put("D", "DAV:");
    owner.write_with_config(&mut text, config).map_err(|error| Fault::invalid("owner", error))?;
    String::from_utf8(text).map_err(Fault::internal)
}
