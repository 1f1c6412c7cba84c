//! Dead properties (RFC 4918 4): set by clients, without a meaning for the server.
//!
//! They are stored as JSON in the extended attribute `user.webdav.properties` of the file or
//! folder: they follow a rename, survive an overwrite through any protocol, and are in no version.

use dav_server::fs::DavProp;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_vfs::SetXattrMode;

use crate::context::WebdavRequestContext;
use crate::live::PropertyName;
use crate::resolved::ResolvedResource;

const XATTR_NAME: &[u8] = b"user.webdav.properties";

#[derive(Serialize, Deserialize)]
struct DeadProperty {
    namespace: Option<String>,
    prefix: Option<String>,
    name: String,
    xml: String,
}

impl From<DeadProperty> for DavProp {
    fn from(stored: DeadProperty) -> Self {
        let DeadProperty { namespace, prefix, name, xml } = stored;
        Self { name, prefix, namespace, xml: Some(xml.into_bytes()) }
    }
}

/// The properties of a path. Errors: `NotFound`.
pub(crate) fn load(context: &WebdavRequestContext, path: &TreePath) -> Result<Vec<DavProp>, Fault> {
    let resource = ResolvedResource::at(context, path)?;
    // A draft has no properties.
    let Some(node) = resource.draftless_node() else { return Ok(Vec::new()) };
    let Some(value) = context.space().vfs.xattr(node, XATTR_NAME)? else { return Ok(Vec::new()) };
    // The attribute may come from another program: invalid content is ignored.
    let stored: Vec<DeadProperty> = serde_json::from_slice(&value).unwrap_or_default();
    Ok(stored.into_iter().map(DavProp::from).collect())
}

/// Sets and removes properties: all or none. Errors: `NoSpace` when they do not fit; those of
/// [`load`].
pub(crate) fn update(
    context: &WebdavRequestContext,
    path: &TreePath,
    patch: Vec<(bool, DavProp)>,
) -> Result<Vec<(StatusCode, DavProp)>, Fault> {
    let _guard = context.protocol().properties.lock();
    let mut all = load(context, path)?;
    let mut outcomes = Vec::with_capacity(patch.len());
    let mut sent: Vec<_> = context.property_updates().iter().collect();
    for (is_set, property) in patch {
        let name = PropertyName::of_property(&property);
        all.retain(|other| PropertyName::of_property(other) != name);
        outcomes.push((StatusCode::OK, DavProp { xml: None, ..property.clone() }));
        if is_set {
            let as_sent = sent.iter().position(|sent| sent.is(&property)).and_then(|at| sent.remove(at).to_xml());
            all.push(DavProp { xml: as_sent.map(String::into_bytes).or(property.xml), ..property });
        }
    }
    store(context, path, all)?;
    Ok(outcomes)
}

/// Copies the properties of a resource.
pub(crate) fn copy(context: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    if context.is_proposing() {
        return Ok(());
    }
    let (all, before) = match (load(context, from), load(context, to)) {
        (Ok(all), Ok(before)) => (all, before),
        // A dangling link has no properties, nor has a file system without extended attributes.
        (Err(fault), _) | (_, Err(fault)) if !matches!(fault.kind(), Kind::Internal | Kind::DiskFailed) => {
            return Ok(());
        }
        (Err(fault), _) | (_, Err(fault)) => return Err(fault),
    };
    if all.is_empty() && before.is_empty() { Ok(()) } else { store(context, to, all) }
}

fn store(context: &WebdavRequestContext, path: &TreePath, all: Vec<DavProp>) -> Result<(), Fault> {
    let (vfs, caller) = (&context.space().vfs, context.caller());
    let resource = ResolvedResource::at(context, path)?;
    let node = resource.node(context)?;
    if all.is_empty() {
        return vfs.remove_xattr(caller, node, XATTR_NAME).map(drop);
    }
    let stored = all.into_iter().map(|DavProp { name, prefix, namespace, xml }| {
        let xml = String::from_utf8_lossy(&xml.unwrap_or_default()).into_owned();
        DeadProperty { namespace, prefix, name, xml }
    });
    let value = serde_json::to_vec(&stored.collect::<Vec<_>>()).map_err(Fault::internal)?;
    vfs.set_xattr(caller, node, (XATTR_NAME, &value), SetXattrMode::CreateOrReplace).map(drop)
}
