//! Properties that the server knows by itself (RFC 4918 15: live properties), as elements of an answer.

use std::time::SystemTime;

use dav_server::fs::DavProp;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use svcfs_base::{Fault, TreePath, is_hidden_name};
use svcfs_vfs::{EntryKind, Lease};
use xmltree::{Element, Namespace, XMLNode};

use crate::context::WebdavRequestContext;
use crate::locks::WebdavLocks;
use crate::metadata::ListedResource;
use crate::resolved;

pub(crate) const DAV: &str = "DAV:";
const APACHE: &str = "http://apache.org/dav/props/";
const OURS: &str = "urn:svcfs:";
const MICROSOFT: &str = "urn:schemas-microsoft-com:";

/// What a property without a namespace, or of somebody else's, is called in an answer.
const OTHERS: &str = "R";

/// The live properties that `allprop` tells (RFC 4918 9.1, 14.2).
const ALL: [&str; 8] = [
    "creationdate",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "lockdiscovery",
    "resourcetype",
    "supportedlock",
];
/// Those that are told to whoever asks by name: they cost something, or mean something to one client only.
const ASKED_FOR: [(&str, &str); 3] =
    [(DAV, "quota-available-bytes"), (DAV, "quota-used-bytes"), (APACHE, "executable")];
const OF_MICROSOFT: [&str; 4] =
    ["Win32CreationTime", "Win32FileAttributes", "Win32LastAccessTime", "Win32LastModifiedTime"];

/// The name of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PropertyName {
    namespace: Option<String>,
    name: String,
}

impl PropertyName {
    fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), name: name.to_owned() }
    }
    pub(crate) fn of(element: &Element) -> Self {
        let namespace = element.namespace.clone().filter(|namespace| !namespace.is_empty());
        Self { namespace, name: element.name.clone() }
    }
    pub(crate) fn of_property(property: &DavProp) -> Self {
        let namespace = property.namespace.clone().filter(|namespace| !namespace.is_empty());
        Self { namespace, name: property.name.clone() }
    }
    /// A property of this name, with nothing in it.
    pub(crate) fn property(&self) -> DavProp {
        DavProp { name: self.name.clone(), prefix: None, namespace: self.namespace.clone(), xml: None }
    }
    /// Its name, where Windows gives that to what it says of files.
    pub(crate) fn of_windows(&self) -> Option<&'static str> {
        let is_theirs = self.namespace.as_deref() == Some(MICROSOFT);
        OF_MICROSOFT.into_iter().find(|name| is_theirs && *name == self.name)
    }
    /// Whether what a client said stands before what the server knows: no disk keeps it.
    pub(crate) fn is_as_said(&self) -> bool {
        matches!(self.of_windows(), Some("Win32CreationTime" | "Win32FileAttributes"))
    }
    pub(crate) fn is_of_dav(&self, name: &str) -> bool {
        self.namespace.as_deref() == Some(DAV) && self.name == name
    }
    /// Those that `allprop` tells.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ALL.into_iter().map(|name| Self::new(DAV, name))
    }
    /// Those that are told only to whoever asks for them.
    pub(crate) fn asked_for() -> impl Iterator<Item = Self> {
        ASKED_FOR.into_iter().map(|(namespace, name)| Self::new(namespace, name))
    }
    /// Those that Windows expects in a listing.
    pub(crate) fn of_microsoft() -> impl Iterator<Item = Self> {
        OF_MICROSOFT.into_iter().map(|name| Self::new(MICROSOFT, name))
    }

    /// An element of this name, with what is in it.
    pub(crate) fn element(&self, children: Vec<XMLNode>) -> Element {
        let mut element = Element::new(&self.name);
        element.children = children;
        match self.namespace.as_deref() {
            Some(DAV) => named(element, "D", DAV, false),
            Some(namespace) => named(element, OTHERS, namespace, true),
            None => element,
        }
    }
}

fn named(mut element: Element, prefix: &str, namespace: &str, declares: bool) -> Element {
    element.prefix = Some(prefix.to_owned());
    element.namespace = Some(namespace.to_owned());
    element.namespaces = declares.then(|| declared(prefix, namespace));
    element
}

/// The namespace that a prefix stands for.
pub(crate) fn declared(prefix: &str, namespace: &str) -> Namespace {
    let mut namespaces = Namespace::empty();
    namespaces.put(prefix, namespace);
    namespaces
}

/// An element of this protocol.
pub(crate) fn dav(name: &str, children: Vec<XMLNode>) -> Element {
    PropertyName::new(DAV, name).element(children)
}

/// An element of this protocol with a text.
pub(crate) fn text(name: &str, text: impl Into<String>) -> Element {
    dav(name, vec![XMLNode::Text(text.into())])
}

/// Words for people, beside what a program is told.
pub(crate) fn message(words: &str) -> Element {
    PropertyName::new(OURS, "message").element(vec![XMLNode::Text(words.to_owned())])
}

fn within(name: &str, elements: impl IntoIterator<Item = Element>) -> Element {
    dav(name, elements.into_iter().map(XMLNode::Element).collect())
}

impl ListedResource {
    /// The same with the hash of its content, where that may be asked for.
    ///
    /// # Errors
    /// Those of reading it.
    pub(crate) fn read(self, asked: &WebdavRequestContext) -> Result<Self, Fault> {
        let metadata = match self.metadata.etag {
            Some(_) => self.metadata,
            None => resolved::metadata(asked, &self.place, self.metadata.attributes)?,
        };
        Ok(Self { metadata, ..self })
    }

    fn is_folder(&self) -> bool {
        self.metadata.attributes.kind == EntryKind::Directory
    }

    /// Its address.
    pub(crate) fn href(&self, locks: &WebdavLocks) -> String {
        let address = locks.address(&self.path);
        if self.is_folder() && !address.ends_with('/') { format!("{address}/") } else { address }
    }

    /// A live property; none where it has no such one.
    ///
    /// # Errors
    /// Those of asking the disk.
    pub(crate) fn live(
        &self,
        name: &PropertyName,
        (asked, locks): (&WebdavRequestContext, &WebdavLocks),
    ) -> Result<Option<Element>, Fault> {
        let attributes = &self.metadata.attributes;
        let is_folder = self.is_folder();
        // There is no time of making that survives a save.
        let made = attributes.changed.min(attributes.modified);
        let told = match (name.namespace.as_deref(), name.name.as_str()) {
            (Some(DAV), "creationdate") => written(made, "%Y-%m-%dT%H:%M:%SZ"),
            (Some(DAV), "getcontentlength") => (!is_folder).then(|| attributes.size.to_string()),
            (Some(DAV), "getcontenttype") => Some(content_type(&self.path, is_folder)),
            (Some(DAV), "getetag") => self.metadata.etag.as_ref().map(|etag| format!("\"{etag}\"")),
            (Some(DAV), "getlastmodified") => http_date(attributes.modified),
            (Some(DAV), "resourcetype") => {
                let kinds = is_folder.then(|| XMLNode::Element(dav("collection", Vec::new())));
                return Ok(Some(name.element(kinds.into_iter().collect())));
            }
            (Some(DAV), "supportedlock") => return Ok(Some(supported())),
            (Some(DAV), "lockdiscovery") => {
                let held = locks.held_at(&self.path).into_iter().map(|lease| active(&lease, locks));
                return Ok(Some(within("lockdiscovery", held)));
            }
            (Some(DAV), "quota-available-bytes") => Some(room(asked)?.1.to_string()),
            (Some(DAV), "quota-used-bytes") if self.path.is_root() => Some(room(asked)?.0.to_string()),
            (Some(DAV), "quota-used-bytes") => Some(attributes.size.to_string()),
            (Some(APACHE), "executable") if !is_folder => {
                Some(if attributes.mode & 0o100 != 0 { "T" } else { "F" }.to_owned())
            }
            (Some(MICROSOFT), "Win32CreationTime") => http_date(made),
            (Some(MICROSOFT), "Win32LastAccessTime") => http_date(attributes.accessed),
            (Some(MICROSOFT), "Win32LastModifiedTime") => http_date(attributes.modified),
            (Some(MICROSOFT), "Win32FileAttributes") => Some(win32(&self.path, is_folder)),
            _ => None,
        };
        Ok(told.map(|told| name.element(vec![XMLNode::Text(told)])))
    }
}

/// The same as GET says.
fn content_type(path: &TreePath, is_folder: bool) -> String {
    if is_folder {
        return "httpd/unix-directory".to_owned();
    }
    mime_guess::from_path(path.name()).first_raw().unwrap_or("application/octet-stream").to_owned()
}

/// File attributes of Windows: hidden, directory, archive ([MS-FSCC] 2.6).
fn win32(path: &TreePath, is_folder: bool) -> String {
    let hidden = if is_hidden_name(path.name()) { 0x02 } else { 0 };
    let kind = if is_folder { 0x10 } else { 0x20 };
    format!("{:08x}", hidden | kind)
}

/// Bytes of the disk that are used, and that are left.
fn room(asked: &WebdavRequestContext) -> Result<(u64, u64), Fault> {
    let disk = asked.space().vfs.disk_space()?;
    let block = u64::from(disk.block_size);
    let used = disk.blocks.saturating_sub(disk.free).saturating_mul(block);
    Ok((used, disk.available.saturating_mul(block)))
}

fn http_date(time: SystemTime) -> Option<String> {
    written(time, "%a, %d %b %Y %H:%M:%S GMT")
}

/// A time in UTC; none of one beyond all calendars.
fn written(time: SystemTime, format: &str) -> Option<String> {
    let time = Timestamp::try_from(time).ok()?.to_zoned(TimeZone::UTC);
    Some(time.strftime(format).to_string())
}

fn scope(is_shared: bool) -> Element {
    within("lockscope", [dav(if is_shared { "shared" } else { "exclusive" }, Vec::new())])
}

fn write_lock() -> Element {
    within("locktype", [dav("write", Vec::new())])
}

fn supported() -> Element {
    within("supportedlock", [false, true].map(|is_shared| within("lockentry", [scope(is_shared), write_lock()])))
}

/// A lock that holds (RFC 4918 14.1).
fn active(lease: &Lease, locks: &WebdavLocks) -> Element {
    let left = lease.expires_at.duration_since(SystemTime::now()).unwrap_or_default();
    let owner = Element::parse(lease.note.as_bytes()).ok();
    let href = |address: &str| text("href", address);
    let parts = [
        write_lock(),
        scope(lease.is_shared),
        text("depth", if lease.is_deep { "infinity" } else { "0" }),
        text("timeout", format!("Second-{}", left.as_secs())),
        within("locktoken", [href(&lease.token)]),
        within("lockroot", [href(&locks.address(&lease.path))]),
    ];
    within("activelock", parts.into_iter().chain(owner))
}
