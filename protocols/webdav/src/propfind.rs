//! PROPFIND (RFC 4918 9.1), implemented here: dav-server returns properties that were not
//! requested, omits missing ones, and returns invalid ETags.
//!
//! A listing is rendered while it is sent, so that a large folder takes little memory.

use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{self, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use svcfs_base::{Fault, TreePath};
use svcfs_work::Lane;
use xmltree::{Element, EmitterConfig, XMLNode};

use crate::context::WebdavRequestContext;
use crate::dead_properties;
use crate::file_system::{is_omitted, list_folder};
use crate::live::{DAV, PropertyName, dav, declare_namespace, text};
use crate::locks::WebdavLocks;
use crate::markup::{self, elements};
use crate::metadata::ListedResource;
use crate::request_handler::ResponseBody;
use crate::resolved::ResolvedResource;

/// Entries that are rendered in one batch, and bytes of files that are read for their hashes.
const BATCH_ENTRIES: usize = 64;
const BATCH_BYTES: u64 = 16 << 20;
const DOCUMENT_START: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:">"#;
const DOCUMENT_END: &[u8] = b"</D:multistatus>";
/// A listing with infinite depth is refused (RFC 4918 9.1.1).
const FINITE_DEPTH_ERROR: &[u8] =
    br#"<?xml version="1.0" encoding="utf-8"?><D:error xmlns:D="DAV:"><D:propfind-finite-depth/></D:error>"#;

/// The requested properties.
enum PropertySelection {
    /// The names of all properties.
    Names,
    /// All properties that RFC 4918 defines and clients have set, and these.
    All(Vec<PropertyName>),
    /// These properties.
    Named(Vec<PropertyName>),
}

/// The header `Depth`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PropfindDepth {
    Zero,
    One,
    Infinity,
}

impl PropfindDepth {
    /// Without the header, the depth is infinite.
    fn of(head: &Parts) -> Result<Self, Fault> {
        match head.headers.get("depth").map(HeaderValue::as_bytes) {
            None => Ok(Self::Infinity),
            Some(b"0") => Ok(Self::Zero),
            Some(b"1") => Ok(Self::One),
            Some(text) if text.eq_ignore_ascii_case(b"infinity") => Ok(Self::Infinity),
            Some(_) => Err(Fault::invalid("Depth", "must be 0, 1 or infinity")),
        }
    }
}

impl PropertySelection {
    /// Parses a body; an empty one requests all (RFC 4918 9.1).
    fn of(body: &[u8], is_microsoft: bool) -> Result<Self, Fault> {
        if body.is_empty() {
            return Ok(Self::All(if is_microsoft { PropertyName::microsoft().collect() } else { Vec::new() }));
        }
        let invalid = || Fault::invalid("body", "must be a `propfind` with `prop`, `allprop` or `propname` in it");
        let root = Element::parse(Cursor::new(body)).map_err(|error| Fault::invalid("body", error))?;
        if !PropertyName::of(&root).is_dav("propfind") {
            return Err(invalid());
        }
        let child = |name: &str| elements(&root).find(|child| PropertyName::of(child).is_dav(name));
        let names = |parent: &Element| elements(parent).map(PropertyName::of).collect();
        match (child("propname"), child("allprop"), child("prop")) {
            (Some(_), None, None) => Ok(Self::Names),
            (None, Some(_), None) => Ok(Self::All(child("include").map(names).unwrap_or_default())),
            (None, None, Some(named)) => Ok(Self::Named(names(named))),
            (..) => Err(invalid()),
        }
    }
}

/// Answers a PROPFIND. Errors: `Invalid` for an invalid body or depth; `NotFound`.
pub(crate) async fn answer(
    (context, locks): (&WebdavRequestContext, &WebdavLocks),
    path: TreePath,
    (head, body): (&Parts, &[u8]),
) -> Result<Response<ResponseBody>, Fault> {
    let depth = PropfindDepth::of(head)?;
    let agent = head.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let selection = PropertySelection::of(body, agent.contains("Microsoft"))?;
    let lookup_context = context.clone();
    let subjects = svcfs_listener::run_blocking(&context.protocol().lanes, Lane::Quick, move || {
        collect(&lookup_context, path, depth)
    })
    .await?;
    let Some(subjects) = subjects else {
        return Ok(reply(
            StatusCode::FORBIDDEN,
            Full::from(FINITE_DEPTH_ERROR).map_err(|never| match never {}).boxed_unsync(),
        ));
    };
    let shared = Arc::new((context.clone(), locks.clone(), selection));
    let lines = stream::iter(batches(subjects)).then(move |part| {
        let shared = Arc::clone(&shared);
        async move {
            let lanes = Arc::clone(&shared);
            svcfs_listener::run_blocking(&lanes.0.protocol().lanes, Lane::Quick, move || render(&shared, part)).await
        }
    });
    let fixed = |text: &'static [u8]| stream::once(std::future::ready(Ok(Bytes::from_static(text))));
    let body = fixed(DOCUMENT_START).chain(lines).chain(fixed(DOCUMENT_END));
    // A fault breaks the response off: a partial listing must not look complete.
    let body = body.map(|part| part.map(Frame::data).map_err(|fault: Fault| std::io::Error::other(fault.to_string())));
    Ok(reply(StatusCode::MULTI_STATUS, StreamBody::new(body).boxed_unsync()))
}

/// Splits a listing into batches.
fn batches(subjects: Vec<ListedResource>) -> impl Iterator<Item = Vec<ListedResource>> {
    let mut subjects = subjects.into_iter();
    std::iter::from_fn(move || {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while part.len() < BATCH_ENTRIES
            && bytes < BATCH_BYTES
            && let Some(subject) = subjects.next()
        {
            bytes += subject.metadata.attributes.size;
            part.push(subject);
        }
        Some(part).filter(|part| !part.is_empty())
    })
}

fn reply(status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Collects the resources; `None` for infinite depth on a folder.
fn collect(
    context: &WebdavRequestContext,
    path: TreePath,
    depth: PropfindDepth,
) -> Result<Option<Vec<ListedResource>>, Fault> {
    let resource = ResolvedResource::at(context, &path)?;
    let target = ListedResource {
        path: path.clone(),
        resolved_path: resource.path.clone(),
        metadata: resource.metadata(context)?,
    };
    match (depth, resource.is_folder()) {
        (PropfindDepth::Infinity, true) => return Ok(None),
        (PropfindDepth::Zero, _) | (_, false) => return Ok(Some(vec![target])),
        (PropfindDepth::One, true) => {}
    }
    drop(resource);
    let members = list_folder(context, &path)?;
    Ok(Some(std::iter::once(target).chain(members).collect()))
}

/// Renders a batch. Files are read only here, so that the response starts early.
fn render(
    (context, locks, selection): &(WebdavRequestContext, WebdavLocks, PropertySelection),
    part: Vec<ListedResource>,
) -> Result<Bytes, Fault> {
    let mut text = Vec::new();
    for subject in part {
        let outcome = subject.with_etag(context).and_then(|subject| {
            let (present, missing) = properties_of(context, locks, (selection, &subject))?;
            Ok(response(subject.href(locks), present, missing))
        });
        match outcome {
            Ok(response) => write(&mut text, response)?,
            // It was removed since.
            Err(fault) if is_omitted(&fault) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(text.into())
}

/// The requested properties that exist, and those that do not.
fn properties_of(
    context: &WebdavRequestContext,
    locks: &WebdavLocks,
    (selection, subject): (&PropertySelection, &ListedResource),
) -> Result<(Vec<Element>, Vec<Element>), Fault> {
    let live = |name: &PropertyName| subject.live_property(name, (context, locks));
    let dead = || -> Result<Vec<Element>, Fault> {
        let all = dead_properties::load(context, &subject.path)?.into_iter();
        Ok(all.filter_map(|property| markup::parse(&property.xml?)).collect())
    };
    let all_of = |names: &mut dyn Iterator<Item = PropertyName>| {
        names.filter_map(|name| live(&name).transpose()).collect::<Result<Vec<_>, Fault>>()
    };
    match selection {
        PropertySelection::Names => {
            let present =
                all_of(&mut PropertyName::all().chain(PropertyName::on_request()))?.into_iter().chain(dead()?);
            Ok((present.map(|property| PropertyName::of(&property).element(Vec::new())).collect(), Vec::new()))
        }
        PropertySelection::All(more) => {
            let mut present = all_of(&mut PropertyName::all())?;
            present.extend(dead()?);
            let is_listed = |name: &PropertyName| present.iter().any(|property| PropertyName::of(property) == *name);
            let more: Vec<PropertyName> = more.iter().filter(|name| !is_listed(name)).cloned().collect();
            present.extend(all_of(&mut more.into_iter())?);
            Ok((present, Vec::new()))
        }
        PropertySelection::Named(names) => {
            let (mut present, mut missing) = (Vec::new(), Vec::new());
            let mut dead_elements = None;
            for name in names {
                if !name.is_client_defined()
                    && let Some(property) = live(name)?
                {
                    present.push(property);
                    continue;
                }
                let dead_elements = match &dead_elements {
                    Some(dead_elements) => dead_elements,
                    None => dead_elements.insert(dead()?),
                };
                match dead_elements.iter().find(|property| PropertyName::of(property) == *name) {
                    Some(property) => present.push(property.clone()),
                    None => match live(name)?.filter(|_| name.is_client_defined()) {
                        Some(property) => present.push(property),
                        None => missing.push(name.element(Vec::new())),
                    },
                }
            }
            Ok((present, missing))
        }
    }
}

/// The response for one resource. At least one status is required (RFC 4918 14.24).
fn response(href: String, present: Vec<Element>, missing: Vec<Element>) -> Element {
    let of_status = |properties: Vec<Element>, status: &str| {
        let properties = properties.into_iter().map(XMLNode::Element).collect();
        let batches = [dav("prop", properties), text("status", format!("HTTP/1.1 {status}"))];
        dav("propstat", batches.into_iter().map(XMLNode::Element).collect())
    };
    let mut batches = vec![text("href", href)];
    if !present.is_empty() || missing.is_empty() {
        batches.push(of_status(present, "200 OK"));
    }
    if !missing.is_empty() {
        batches.push(of_status(missing, "404 Not Found"));
    }
    let mut response = dav("response", batches.into_iter().map(XMLNode::Element).collect());
    response.namespaces = Some(declare_namespace("D", DAV));
    response
}

fn write(text: &mut Vec<u8>, element: Element) -> Result<(), Fault> {
    let config = EmitterConfig::new().write_document_declaration(false);
    element.write_with_config(text, config).map_err(Fault::internal)
}
