//! Live properties (RFC 4918 15), as XML elements.

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
const SVCFS: &str = "urn:svcfs:";
const MICROSOFT: &str = "urn:schemas-microsoft-com:";

/// The prefix for properties without a namespace, or of a foreign one.
const OTHER_PREFIX: &str = "R";

/// The live properties in `allprop` (RFC 4918 9.1, 14.2).
const ALLPROP: [&str; 8] = [
    "creationdate",
    "getcontentlength",
    "getcontenttype",
    "getetag",
    "getlastmodified",
    "lockdiscovery",
    "resourcetype",
    "supportedlock",
];
/// Returned only on request: they are expensive, or specific to one client.
const ON_REQUEST: [(&str, &str); 3] =
    [(DAV, "quota-available-bytes"), (DAV, "quota-used-bytes"), (APACHE, "executable")];
const MICROSOFT_NAMES: [&str; 4] =
    ["Win32CreationTime", "Win32FileAttributes", "Win32LastAccessTime", "Win32LastModifiedTime"];

/// The qualified name of a property.
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
    /// An empty property of this name.
    pub(crate) fn property(&self) -> DavProp {
        DavProp { name: self.name.clone(), prefix: None, namespace: self.namespace.clone(), xml: None }
    }
    /// The name of a Windows file attribute, if it is one.
    pub(crate) fn windows_name(&self) -> Option<&'static str> {
        let is_microsoft = self.namespace.as_deref() == Some(MICROSOFT);
        MICROSOFT_NAMES.into_iter().find(|name| is_microsoft && *name == self.name)
    }
    /// Whether the value that a client set wins over the live value, because no file system stores
    /// it.
    pub(crate) fn is_client_defined(&self) -> bool {
        matches!(self.windows_name(), Some("Win32CreationTime" | "Win32FileAttributes"))
    }
    pub(crate) fn is_dav(&self, name: &str) -> bool {
        self.namespace.as_deref() == Some(DAV) && self.name == name
    }
    /// Those in `allprop`.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        ALLPROP.into_iter().map(|name| Self::new(DAV, name))
    }
    /// Those that are returned only on request.
    pub(crate) fn on_request() -> impl Iterator<Item = Self> {
        ON_REQUEST.into_iter().map(|(namespace, name)| Self::new(namespace, name))
    }
    /// Those that Windows expects in a listing.
    pub(crate) fn microsoft() -> impl Iterator<Item = Self> {
        MICROSOFT_NAMES.into_iter().map(|name| Self::new(MICROSOFT, name))
    }

    /// An element of this name.
    pub(crate) fn element(&self, children: Vec<XMLNode>) -> Element {
        let mut element = Element::new(&self.name);
        element.children = children;
        match self.namespace.as_deref() {
            Some(DAV) => with_namespace(element, "D", DAV, false),
            Some(namespace) => with_namespace(element, OTHER_PREFIX, namespace, true),
            None => element,
        }
    }
}

fn with_namespace(mut element: Element, prefix: &str, namespace: &str, declares: bool) -> Element {
    element.prefix = Some(prefix.to_owned());
    element.namespace = Some(namespace.to_owned());
    element.namespaces = declares.then(|| declare_namespace(prefix, namespace));
    element
}

/// A namespace declaration.
pub(crate) fn declare_namespace(prefix: &str, namespace: &str) -> Namespace {
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

/// A message for people.
pub(crate) fn message(words: &str) -> Element {
    PropertyName::new(SVCFS, "message").element(vec![XMLNode::Text(words.to_owned())])
}

fn container(name: &str, elements: impl IntoIterator<Item = Element>) -> Element {
    dav(name, elements.into_iter().map(XMLNode::Element).collect())
}

impl ListedResource {
    /// Adds the hash of the content, if it may be requested.
    pub(crate) fn with_etag(self, context: &WebdavRequestContext) -> Result<Self, Fault> {
        let metadata = match self.metadata.etag {
            Some(_) => self.metadata,
            None => resolved::metadata(context, &self.resolved_path, self.metadata.attributes)?,
        };
        Ok(Self { metadata, ..self })
    }

    fn is_folder(&self) -> bool {
        self.metadata.attributes.kind == EntryKind::Directory
    }

    /// The URL path.
    pub(crate) fn href(&self, locks: &WebdavLocks) -> String {
        let address = locks.address(&self.path);
        if self.is_folder() && !address.ends_with('/') { format!("{address}/") } else { address }
    }

    /// A live property; `None` if the resource does not have it.
    pub(crate) fn live_property(
        &self,
        name: &PropertyName,
        (context, locks): (&WebdavRequestContext, &WebdavLocks),
    ) -> Result<Option<Element>, Fault> {
        let attributes = &self.metadata.attributes;
        let is_folder = self.is_folder();
        // No creation time survives a save.
        let created = attributes.changed.min(attributes.modified);
        let value = match (name.namespace.as_deref(), name.name.as_str()) {
            (Some(DAV), "creationdate") => format_time(created, "%Y-%m-%dT%H:%M:%SZ"),
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
                let active_locks = locks.leases_at(&self.path).into_iter().map(|lease| active_lock(&lease, locks));
                return Ok(Some(container("lockdiscovery", active_locks)));
            }
            (Some(DAV), "quota-available-bytes") => Some(disk_usage(context)?.1.to_string()),
            (Some(DAV), "quota-used-bytes") if self.path.is_root() => Some(disk_usage(context)?.0.to_string()),
            (Some(DAV), "quota-used-bytes") => Some(attributes.size.to_string()),
            (Some(APACHE), "executable") if !is_folder => {
                Some(if attributes.mode & 0o100 != 0 { "T" } else { "F" }.to_owned())
            }
            (Some(MICROSOFT), "Win32CreationTime") => http_date(created),
            (Some(MICROSOFT), "Win32LastAccessTime") => http_date(attributes.accessed),
            (Some(MICROSOFT), "Win32LastModifiedTime") => http_date(attributes.modified),
            (Some(MICROSOFT), "Win32FileAttributes") => Some(windows_attributes(&self.path, is_folder)),
            _ => None,
        };
        Ok(value.map(|value| name.element(vec![XMLNode::Text(value)])))
    }
}

/// As in GET responses.
fn content_type(path: &TreePath, is_folder: bool) -> String {
    if is_folder {
        return "httpd/unix-directory".to_owned();
    }
    mime_guess::from_path(path.name()).first_raw().unwrap_or("application/octet-stream").to_owned()
}

/// File attributes of Windows: hidden, directory, archive ([MS-FSCC] 2.6).
fn windows_attributes(path: &TreePath, is_folder: bool) -> String {
    let hidden = if is_hidden_name(path.name()) { 0x02 } else { 0 };
    let kind = if is_folder { 0x10 } else { 0x20 };
    format!("{:08x}", hidden | kind)
}

/// Used and available bytes of the disk.
fn disk_usage(context: &WebdavRequestContext) -> Result<(u64, u64), Fault> {
    let disk = context.space().vfs.disk_space()?;
    let block = u64::from(disk.block_size);
    let used = disk.blocks.saturating_sub(disk.free).saturating_mul(block);
    Ok((used, disk.available.saturating_mul(block)))
}

fn http_date(time: SystemTime) -> Option<String> {
    format_time(time, "%a, %d %b %Y %H:%M:%S GMT")
}

/// A time in UTC; `None` if it is out of range.
fn format_time(time: SystemTime, format: &str) -> Option<String> {
    let time = Timestamp::try_from(time).ok()?.to_zoned(TimeZone::UTC);
    Some(time.strftime(format).to_string())
}

fn scope(is_shared: bool) -> Element {
    container("lockscope", [dav(if is_shared { "shared" } else { "exclusive" }, Vec::new())])
}

fn write_lock() -> Element {
    container("locktype", [dav("write", Vec::new())])
}

fn supported() -> Element {
    container("supportedlock", [false, true].map(|is_shared| container("lockentry", [scope(is_shared), write_lock()])))
}

/// An active lock (RFC 4918 14.1).
fn active_lock(lease: &Lease, locks: &WebdavLocks) -> Element {
    let remaining = lease.expires_at.duration_since(SystemTime::now()).unwrap_or_default();
    let owner = Element::parse(lease.note.as_bytes()).ok();
    let href = |address: &str| text("href", address);
    let parts = [
        write_lock(),
        scope(lease.is_shared),
        text("depth", if lease.is_deep { "infinity" } else { "0" }),
        text("timeout", format!("Second-{}", remaining.as_secs())),
        container("locktoken", [href(&lease.token)]),
        container("lockroot", [href(&locks.address(&lease.path))]),
    ];
    container("activelock", parts.into_iter().chain(owner))
}
