//! What a PROPPATCH (RFC 4918 9.2) sets, as it was written, and of that what Windows says of a file: dav-server reads it without the language of
//! texts, and does nothing with times but tell that they are set.

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
    /// All that a body sets, in its order; the language of a text is said with it, wherever it was said (RFC 4918 4.3).
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

    /// Whether it has the name of a property.
    pub(crate) fn is(&self, property: &DavProp) -> bool {
        self.name == PropertyName::of_property(property)
    }

    /// Its text.
    pub(crate) fn written(&self) -> Option<String> {
        markup::written(&self.element)
    }
}

/// What Windows says of a file when it has copied it.
#[derive(Default)]
pub(crate) struct WindowsProperties {
    modified: Option<SystemTime>,
    accessed: Option<SystemTime>,
    /// What no disk keeps: it is kept as it was said.
    kept: Vec<(bool, DavProp)>,
}

impl WindowsProperties {
    /// What is said of that in a request; none where nothing is.
    ///
    /// # Errors
    /// `Invalid` for a time that is none.
    pub(crate) fn of(all: &[PropertyUpdate]) -> Result<Option<Self>, Fault> {
        let (mut said, mut is_any) = (Self::default(), false);
        for sent in all {
            let Some(name) = sent.name.of_windows() else { continue };
            let time = || {
                let text = sent.element.get_text().unwrap_or_default();
                let zoned = DateTimeParser::new().relaxed_weekday(true).parse_zoned(text.trim());
                zoned.map(|zoned| SystemTime::from(zoned.timestamp())).map_err(|error| Fault::invalid(name, error))
            };
            is_any = true;
            match name {
                "Win32LastModifiedTime" => said.modified = Some(time()?),
                "Win32LastAccessTime" => said.accessed = Some(time()?),
                _ => {
                    let xml = sent.written().map(String::into_bytes);
                    said.kept.push((true, DavProp { xml, ..sent.name.property() }));
                }
            }
        }
        Ok(is_any.then_some(said))
    }

    /// Does what dav-server told to be done, where it told that all is, and asked for nothing else beside it.
    ///
    /// # Errors
    /// `Locked` when another has taken a lock since; those of the disk.
    pub(crate) async fn keep(
        self,
        (asked, path): (&WebdavRequestContext, TreePath),
        response: Response<ResponseBody>,
    ) -> Result<Response<ResponseBody>, Fault> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(Fault::internal)?.to_bytes();
        if head.status == StatusCode::MULTI_STATUS && markup::parse(&body).is_some_and(|told| is_done(&told)) {
            let here = asked.clone();
            let keeping = move || self.keep_at(&here, &path);
            svcfs_listener::run_blocking(&asked.protocol().lanes, Lane::Quick, keeping).await?;
        }
        let body = Full::from(body).map_err(|never| match never {}).boxed_unsync();
        Ok(Response::from_parts(head, body))
    }

    fn keep_at(self, asked: &WebdavRequestContext, path: &TreePath) -> Result<(), Fault> {
        let _unlocked = WebdavLocks::check_it_again(asked, path)?;
        self.set(asked, path, Vec::new()).map(drop)
    }

    /// Sets this and other properties, whose outcomes are told.
    ///
    /// # Errors
    /// As [`properties::change`]; those of the disk.
    pub(crate) fn set(
        self,
        asked: &WebdavRequestContext,
        path: &TreePath,
        mut patch: Vec<(bool, DavProp)>,
    ) -> Result<Vec<(StatusCode, DavProp)>, Fault> {
        let others = patch.len();
        patch.extend(self.kept);
        let mut outcomes = if patch.is_empty() { Vec::new() } else { dead_properties::change(asked, path, patch)? };
        outcomes.truncate(others);
        if self.modified.is_some() || self.accessed.is_some() {
            let found = ResolvedResource::at(asked, path)?;
            let set = SetAttributes { modified: self.modified, accessed: self.accessed, ..SetAttributes::default() };
            asked.space().vfs.set_attributes(asked.caller(), found.node, set)?;
        }
        Ok(outcomes)
    }
}

/// Whether a request was done, which is done whole or not at all (RFC 4918 9.2).
fn is_done(told: &Element) -> bool {
    let texts = |parent: &Element| parent.get_text().unwrap_or_default().into_owned();
    let parts = elements(told).flat_map(elements).filter(|part| part.name == "propstat");
    let mut statuses = parts.flat_map(elements).filter(|part| part.name == "status").map(texts).peekable();
    statuses.peek().is_some() && statuses.all(|status| status.contains(" 200 "))
}
