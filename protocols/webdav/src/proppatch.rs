//! The values of a PROPPATCH (RFC 4918 9.2), as sent, and the file attributes that Windows sets:
//! dav-server drops the language of texts, and reports times as set without setting them.

use std::time::SystemTime;

use dav_server::fs::DavProp;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use jiff::fmt::rfc2822::DateTimeParser;
use svcfs_base::{Fault, TreePath};
use svcfs_vfs::SetAttributes;
use svcfs_work::Lane;
use xmltree::Element;

use crate::context::WebdavRequestContext;
use crate::dead_properties;
use crate::live::PropertyName;
use crate::locks::WebdavLocks;
use crate::markup::{self, LANGUAGE, elements};
use crate::request_handler::ResponseBody;
use crate::resolved::ResolvedResource;

/// A property that is set.
pub(crate) struct PropertyUpdate {
    name: PropertyName,
    element: Element,
}

impl PropertyUpdate {
    /// All properties that a body sets, in order. A language applies to them wherever it is
    /// declared (RFC 4918 4.3).
    pub(crate) fn all(body: &[u8]) -> Vec<Self> {
        let Some(root) = markup::parse(body) else { return Vec::new() };
        let mut all = Vec::new();
        for set in elements(&root).filter(|child| child.name == "set") {
            for properties in elements(set).filter(|child| child.name == "prop") {
                let language = [properties, set, &root].into_iter().find_map(|around| around.attributes.get(LANGUAGE));
                all.extend(elements(properties).map(|property| {
                    let mut element = property.clone();
                    if let Some(language) = language {
                        element.attributes.entry(LANGUAGE.to_owned()).or_insert_with(|| language.clone());
                    }
                    Self { name: PropertyName::of(property), element }
                }));
            }
        }
        all
    }

    /// Whether the names are equal.
    pub(crate) fn is(&self, property: &DavProp) -> bool {
        self.name == PropertyName::of_property(property)
    }

    pub(crate) fn to_xml(&self) -> Option<String> {
        markup::to_xml(&self.element)
    }
}

/// The file attributes that Windows sets after a copy.
#[derive(Default)]
pub(crate) struct WindowsProperties {
    modified: Option<SystemTime>,
    accessed: Option<SystemTime>,
    /// Attributes that no file system stores: they are stored as properties.
    stored: Vec<(bool, DavProp)>,
}

impl WindowsProperties {
    /// The file attributes in a request; `None` if there are none. Errors: `Invalid` for an invalid
    /// time.
    pub(crate) fn of(all: &[PropertyUpdate]) -> Result<Option<Self>, Fault> {
        let (mut properties, mut is_any) = (Self::default(), false);
        for update in all {
            let Some(name) = update.name.windows_name() else { continue };
            let time = || {
                let text = update.element.get_text().unwrap_or_default();
                let zoned = DateTimeParser::new().relaxed_weekday(true).parse_zoned(text.trim());
                zoned.map(|zoned| SystemTime::from(zoned.timestamp())).map_err(|error| Fault::invalid(name, error))
            };
            is_any = true;
            match name {
                "Win32LastModifiedTime" => properties.modified = Some(time()?),
                "Win32LastAccessTime" => properties.accessed = Some(time()?),
                _ => {
                    let xml = update.to_xml().map(String::into_bytes);
                    properties.stored.push((true, DavProp { xml, ..update.name.property() }));
                }
            }
        }
        Ok(is_any.then_some(properties))
    }

    /// Applies the attributes, if dav-server reported success and had no other properties to set.
    /// Errors: `Locked` when another client has acquired a lock since.
    pub(crate) async fn apply_after(
        self,
        (context, path): (&WebdavRequestContext, TreePath),
        response: Response<ResponseBody>,
    ) -> Result<Response<ResponseBody>, Fault> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(Fault::internal)?.to_bytes();
        if head.status == StatusCode::MULTI_STATUS && markup::parse(&body).is_some_and(|answer| is_success(&answer)) {
            let task_context = context.clone();
            let apply = move || self.apply(&task_context, &path);
            svcfs_listener::run_blocking(&context.protocol().lanes, Lane::Quick, apply).await?;
        }
        let body = Full::from(body).map_err(|never| match never {}).boxed_unsync();
        Ok(Response::from_parts(head, body))
    }

    fn apply(self, context: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
        let _barrier = WebdavLocks::recheck_shallow(context, path)?;
        self.set(context, path, Vec::new()).map(drop)
    }

    /// Sets the attributes together with other properties; returns the outcomes of the others.
    /// Errors: as [`dead_properties::update`].
    pub(crate) fn set(
        self,
        context: &WebdavRequestContext,
        path: &TreePath,
        mut patch: Vec<(bool, DavProp)>,
    ) -> Result<Vec<(StatusCode, DavProp)>, Fault> {
        let other_count = patch.len();
        if context.is_proposing() {
            // Windows reports a failed copy if it cannot set the times; a draft has those of its
            // changes. Properties of other clients are refused.
            return if patch.is_empty() { Ok(Vec::new()) } else { dead_properties::update(context, path, patch) };
        }
        patch.extend(self.stored);
        let mut outcomes = if patch.is_empty() { Vec::new() } else { dead_properties::update(context, path, patch)? };
        outcomes.truncate(other_count);
        if self.modified.is_some() || self.accessed.is_some() {
            let resource = ResolvedResource::at(context, path)?;
            let set = SetAttributes { modified: self.modified, accessed: self.accessed, ..SetAttributes::default() };
            context.space().vfs.set_attributes(context.caller(), resource.node(context)?, set)?;
        }
        Ok(outcomes)
    }
}

/// Whether a request succeeded; it is atomic (RFC 4918 9.2).
fn is_success(answer: &Element) -> bool {
    let texts = |parent: &Element| parent.get_text().unwrap_or_default().into_owned();
    let parts = elements(answer).flat_map(elements).filter(|part| part.name == "propstat");
    let mut statuses = parts.flat_map(elements).filter(|part| part.name == "status").map(texts).peekable();
    statuses.peek().is_some() && statuses.all(|status| status.contains(" 200 "))
}
