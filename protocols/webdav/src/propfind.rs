//! PROPFIND (RFC 4918 9.1), answered here: dav-server's answer has what nobody asked for, leaves out what is not there, and tells ETags that are none.
//!
//! A listing is written as it is sent, some of it at a time, so that a large folder takes little memory.

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
use crate::file_system::{is_nothing, listing};
use crate::live::{DAV, PropertyName, dav, declared, text};
use crate::locks::WebdavLocks;
use crate::markup::{self, elements};
use crate::metadata::ListedResource;
use crate::request_handler::ResponseBody;
use crate::resolved::ResolvedResource;

/// Lines of a listing that are written at once, and bytes of files that are read for their hashes meanwhile.
const LINES: usize = 64;
const BYTES: u64 = 16 << 20;
const BEGIN: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:">"#;
const END: &[u8] = b"</D:multistatus>";
/// A listing of everything below is refused (RFC 4918 9.1.1).
const FINITE: &[u8] =
    br#"<?xml version="1.0" encoding="utf-8"?><D:error xmlns:D="DAV:"><D:propfind-finite-depth/></D:error>"#;

/// What a request asks for.
enum PropertySelection {
    /// The names of all there is.
    Names,
    /// All that this protocol defines and clients gave, and these.
    All(Vec<PropertyName>),
    /// These.
    These(Vec<PropertyName>),
}

/// How far down a request looks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PropfindDepth {
    Itself,
    AndMembers,
    Everything,
}

impl PropfindDepth {
    /// Everything, where a request says nothing.
    fn of(head: &Parts) -> Result<Self, Fault> {
        match head.headers.get("depth").map(HeaderValue::as_bytes) {
            None => Ok(Self::Everything),
            Some(b"0") => Ok(Self::Itself),
            Some(b"1") => Ok(Self::AndMembers),
            Some(text) if text.eq_ignore_ascii_case(b"infinity") => Ok(Self::Everything),
            Some(_) => Err(Fault::invalid("Depth", "must be 0, 1 or infinity")),
        }
    }
}

impl PropertySelection {
    /// As the body of a request says; none is all (RFC 4918 9.1).
    fn of(body: &[u8], is_microsoft: bool) -> Result<Self, Fault> {
        if body.is_empty() {
            return Ok(Self::All(if is_microsoft { PropertyName::of_microsoft().collect() } else { Vec::new() }));
        }
        let no_such = || Fault::invalid("body", "must be a `propfind` with `prop`, `allprop` or `propname` in it");
        let root = Element::parse(Cursor::new(body)).map_err(|error| Fault::invalid("body", error))?;
        if !PropertyName::of(&root).is_of_dav("propfind") {
            return Err(no_such());
        }
        let child = |name: &str| elements(&root).find(|child| PropertyName::of(child).is_of_dav(name));
        let names = |parent: &Element| elements(parent).map(PropertyName::of).collect();
        match (child("propname"), child("allprop"), child("prop")) {
            (Some(_), None, None) => Ok(Self::Names),
            (None, Some(_), None) => Ok(Self::All(child("include").map(names).unwrap_or_default())),
            (None, None, Some(these)) => Ok(Self::These(names(these))),
            (..) => Err(no_such()),
        }
    }
}

/// Answers.
///
/// # Errors
/// `Invalid` for a body or a depth that is none; `NotFound`; those of looking.
pub(crate) async fn answer(
    (asked, locks): (&WebdavRequestContext, &WebdavLocks),
    path: TreePath,
    (head, body): (&Parts, &[u8]),
) -> Result<Response<ResponseBody>, Fault> {
    let depth = PropfindDepth::of(head)?;
    let agent = head.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let wanted = PropertySelection::of(body, agent.contains("Microsoft"))?;
    let here = asked.clone();
    let looked =
        svcfs_listener::run_blocking(&asked.protocol().lanes, Lane::Quick, move || look(&here, path, depth)).await?;
    let Some(subjects) = looked else {
        return Ok(reply(StatusCode::FORBIDDEN, Full::from(FINITE).map_err(|never| match never {}).boxed_unsync()));
    };
    let told = Arc::new((asked.clone(), locks.clone(), wanted));
    let lines = stream::iter(parts(subjects)).then(move |part| {
        let told = Arc::clone(&told);
        async move {
            let lanes = Arc::clone(&told);
            svcfs_listener::run_blocking(&lanes.0.protocol().lanes, Lane::Quick, move || written(&told, part)).await
        }
    });
    let fixed = |text: &'static [u8]| stream::once(std::future::ready(Ok(Bytes::from_static(text))));
    let body = fixed(BEGIN).chain(lines).chain(fixed(END));
    // What goes wrong on the way breaks the answer off: half of a listing must not be taken for all of it.
    let body = body.map(|part| part.map(Frame::data).map_err(|fault: Fault| std::io::Error::other(fault.to_string())));
    Ok(reply(StatusCode::MULTI_STATUS, StreamBody::new(body).boxed_unsync()))
}

/// A listing in parts, each of which is written at once.
fn parts(subjects: Vec<ListedResource>) -> impl Iterator<Item = Vec<ListedResource>> {
    let mut subjects = subjects.into_iter();
    std::iter::from_fn(move || {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while part.len() < LINES
            && bytes < BYTES
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

/// What is told of; nothing for everything below a folder.
fn look(
    asked: &WebdavRequestContext,
    path: TreePath,
    depth: PropfindDepth,
) -> Result<Option<Vec<ListedResource>>, Fault> {
    let found = ResolvedResource::at(asked, &path)?;
    let itself = ListedResource { path: path.clone(), place: found.path.clone(), metadata: found.metadata(asked)? };
    match (depth, found.is_folder()) {
        (PropfindDepth::Everything, true) => return Ok(None),
        (PropfindDepth::Itself, _) | (_, false) => return Ok(Some(vec![itself])),
        (PropfindDepth::AndMembers, true) => {}
    }
    drop(found);
    let members = listing(asked, &path)?;
    Ok(Some(std::iter::once(itself).chain(members).collect()))
}

/// Lines of a listing. Files are read here and no sooner: a listing begins before all of them are.
fn written(
    (asked, locks, wanted): &(WebdavRequestContext, WebdavLocks, PropertySelection),
    part: Vec<ListedResource>,
) -> Result<Bytes, Fault> {
    let mut text = Vec::new();
    for subject in part {
        let told = subject.read(asked).and_then(|subject| {
            let (there, missing) = properties_of(asked, locks, (wanted, &subject))?;
            Ok(response(subject.href(locks), there, missing))
        });
        match told {
            Ok(response) => write(&mut text, response)?,
            // It went while it was told of.
            Err(fault) if is_nothing(&fault) => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(text.into())
}

/// What a file or folder has of what is wanted, and what it has not.
fn properties_of(
    asked: &WebdavRequestContext,
    locks: &WebdavLocks,
    (wanted, subject): (&PropertySelection, &ListedResource),
) -> Result<(Vec<Element>, Vec<Element>), Fault> {
    let live = |name: &PropertyName| subject.live(name, (asked, locks));
    let dead = || -> Result<Vec<Element>, Fault> {
        let all = dead_properties::of(asked, &subject.path)?.into_iter();
        Ok(all.filter_map(|property| markup::parse(&property.xml?)).collect())
    };
    let all_of = |names: &mut dyn Iterator<Item = PropertyName>| {
        names.filter_map(|name| live(&name).transpose()).collect::<Result<Vec<_>, Fault>>()
    };
    match wanted {
        PropertySelection::Names => {
            let there = all_of(&mut PropertyName::all().chain(PropertyName::asked_for()))?.into_iter().chain(dead()?);
            Ok((there.map(|property| PropertyName::of(&property).element(Vec::new())).collect(), Vec::new()))
        }
        PropertySelection::All(more) => {
            let mut there = all_of(&mut PropertyName::all())?;
            there.extend(dead()?);
            let is_told = |name: &PropertyName| there.iter().any(|property| PropertyName::of(property) == *name);
            let more: Vec<PropertyName> = more.iter().filter(|name| !is_told(name)).cloned().collect();
            there.extend(all_of(&mut more.into_iter())?);
            Ok((there, Vec::new()))
        }
        PropertySelection::These(names) => {
            let (mut there, mut missing) = (Vec::new(), Vec::new());
            let mut given = None;
            for name in names {
                if !name.is_as_said()
                    && let Some(property) = live(name)?
                {
                    there.push(property);
                    continue;
                }
                let given = match &given {
                    Some(given) => given,
                    None => given.insert(dead()?),
                };
                match given.iter().find(|property| PropertyName::of(property) == *name) {
                    Some(property) => there.push(property.clone()),
                    None => match live(name)?.filter(|_| name.is_as_said()) {
                        Some(property) => there.push(property),
                        None => missing.push(name.element(Vec::new())),
                    },
                }
            }
            Ok((there, missing))
        }
    }
}

/// What is told of one file or folder. At least one status is told (RFC 4918 14.24).
fn response(href: String, there: Vec<Element>, missing: Vec<Element>) -> Element {
    let of_status = |properties: Vec<Element>, status: &str| {
        let properties = properties.into_iter().map(XMLNode::Element).collect();
        let parts = [dav("prop", properties), text("status", format!("HTTP/1.1 {status}"))];
        dav("propstat", parts.into_iter().map(XMLNode::Element).collect())
    };
    let mut parts = vec![text("href", href)];
    if !there.is_empty() || missing.is_empty() {
        parts.push(of_status(there, "200 OK"));
    }
    if !missing.is_empty() {
        parts.push(of_status(missing, "404 Not Found"));
    }
    let mut response = dav("response", parts.into_iter().map(XMLNode::Element).collect());
    response.namespaces = Some(declared("D", DAV));
    response
}

fn write(text: &mut Vec<u8>, element: Element) -> Result<(), Fault> {
    let config = EmitterConfig::new().write_document_declaration(false);
    element.write_with_config(text, config).map_err(Fault::internal)
}
