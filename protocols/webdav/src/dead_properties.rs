//! Properties that clients give files, and that mean nothing here (RFC 4918 4: dead properties).
//!
//! They are kept in an extended attribute of the file or folder, `user.webdav.properties`, as JSON: they go with it when it is renamed and stay when
//! it is written over, by whatever door; no version has them.

use dav_server::fs::DavProp;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_vfs::SetXattrMode;

use crate::context::WebdavRequestContext;
use crate::live::PropertyName;
use crate::resolved::ResolvedResource;

const ATTRIBUTE: &[u8] = b"user.webdav.properties";

#[derive(Serialize, Deserialize)]
struct DeadProperty {
    namespace: Option<String>,
    prefix: Option<String>,
    name: String,
    xml: String,
}

impl From<DeadProperty> for DavProp {
    fn from(kept: DeadProperty) -> Self {
        let DeadProperty { namespace, prefix, name, xml } = kept;
        Self { name, prefix, namespace, xml: Some(xml.into_bytes()) }
    }
}

/// The properties of what a path leads to.
///
/// # Errors
/// `NotFound`; those of the disk.
pub(crate) fn of(asked: &WebdavRequestContext, path: &TreePath) -> Result<Vec<DavProp>, Fault> {
    let found = ResolvedResource::at(asked, path)?;
    let Some(value) = asked.space().vfs.xattr(found.node, ATTRIBUTE)? else { return Ok(Vec::new()) };
    // Whoever reaches the disk can write anything there: what is no list of properties is none.
    let kept: Vec<DeadProperty> = serde_json::from_slice(&value).unwrap_or_default();
    Ok(kept.into_iter().map(DavProp::from).collect())
}

/// Sets and removes properties: all that are given, or none.
///
/// # Errors
/// `NoSpace` when they are too many for the disk; those of [`of`].
pub(crate) fn change(
    asked: &WebdavRequestContext,
    path: &TreePath,
    patch: Vec<(bool, DavProp)>,
) -> Result<Vec<(StatusCode, DavProp)>, Fault> {
    let _alone = asked.protocol().properties.lock();
    let mut all = of(asked, path)?;
    let mut outcomes = Vec::with_capacity(patch.len());
    let mut sent: Vec<_> = asked.sent().iter().collect();
    for (is_set, property) in patch {
        let name = PropertyName::of_property(&property);
        all.retain(|other| PropertyName::of_property(other) != name);
        outcomes.push((StatusCode::OK, DavProp { xml: None, ..property.clone() }));
        if is_set {
            let as_sent = sent.iter().position(|sent| sent.is(&property)).and_then(|at| sent.remove(at).written());
            all.push(DavProp { xml: as_sent.map(String::into_bytes).or(property.xml), ..property });
        }
    }
    keep(asked, path, all)?;
    Ok(outcomes)
}

/// Gives a copy the properties of what it was made from.
///
/// # Errors
/// As [`change`].
pub(crate) fn copy(asked: &WebdavRequestContext, from: &TreePath, to: &TreePath) -> Result<(), Fault> {
    let (all, before) = match (of(asked, from), of(asked, to)) {
        (Ok(all), Ok(before)) => (all, before),
        // A link that leads nowhere has none; nor has a disk without such attributes.
        (Err(fault), _) | (_, Err(fault)) if !matches!(fault.kind(), Kind::Internal | Kind::DiskFailed) => {
            return Ok(());
        }
        (Err(fault), _) | (_, Err(fault)) => return Err(fault),
    };
    if all.is_empty() && before.is_empty() { Ok(()) } else { keep(asked, to, all) }
}

fn keep(asked: &WebdavRequestContext, path: &TreePath, all: Vec<DavProp>) -> Result<(), Fault> {
    let vfs = &asked.space().vfs;
    let found = ResolvedResource::at(asked, path)?;
    if all.is_empty() {
        return vfs.remove_xattr(found.node, ATTRIBUTE).map(drop);
    }
    let kept = all.into_iter().map(|DavProp { name, prefix, namespace, xml }| {
        let xml = String::from_utf8_lossy(&xml.unwrap_or_default()).into_owned();
        DeadProperty { namespace, prefix, name, xml }
    });
    let value = serde_json::to_vec(&kept.collect::<Vec<_>>()).map_err(Fault::internal)?;
    vfs.set_xattr(found.node, ATTRIBUTE, &value, SetXattrMode::CreateOrReplace).map(drop)
}
