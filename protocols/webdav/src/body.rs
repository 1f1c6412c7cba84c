//! What comes with a request: a file, which is read as it comes, or XML, which is looked at before anything else is.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use svcfs_base::Fault;
use svcfs_listener::{BodyError, TimedBody};
use xml::reader::{EventReader, XmlEvent};

use crate::markup::{MAX_DEPTH, has_declarations};

/// Bytes of XML that a request may bring.
const MAX_XML_BYTES: usize = 64 << 10;

/// The body of a request.
pub(crate) enum RequestBody {
    /// On its way.
    Coming(TimedBody),
    /// All of it.
    Here(Option<Bytes>),
}

impl RequestBody {
    /// What is here.
    pub(crate) fn here(&self) -> &[u8] {
        match self {
            Self::Here(Some(bytes)) => bytes,
            Self::Here(None) | Self::Coming(_) => &[],
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Coming(coming) => Pin::new(coming).poll_frame(cx),
            Self::Here(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Coming(coming) => coming.size_hint(),
            Self::Here(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}

/// The body of a request by this method.
///
/// # Errors
/// `TooLarge`, and `Invalid` for one that breaks off or is no XML that anybody would send.
pub(crate) async fn content(method: &Method, body: Incoming) -> Result<RequestBody, Fault> {
    if matches!(*method, Method::PUT | Method::PATCH) {
        return Ok(RequestBody::Coming(TimedBody::new(body)));
    }
    let collected = Limited::new(body, MAX_XML_BYTES).collect().await;
    let bytes = collected.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => Fault::too_large("request body", MAX_XML_BYTES),
        false => Fault::invalid("body", format_args!("broke off: {error}")),
    })?;
    let bytes = bytes.to_bytes();
    if ["PROPFIND", "PROPPATCH", "LOCK"].contains(&method.as_str()) {
        check_form(&bytes)?;
    }
    Ok(RequestBody::Here(Some(bytes).filter(|bytes| !bytes.is_empty())))
}

/// Checks that a document declares nothing, and how deep elements lie in each other. What else is wrong is dav-server's to say.
fn check_form(bytes: &[u8]) -> Result<(), Fault> {
    // Before anybody reads it.
    if has_declarations(bytes) {
        return Err(Fault::invalid("body", "has a document type declaration (`<!DOCTYPE`); send the XML without one"));
    }
    let mut depth = 0_usize;
    for event in EventReader::new(bytes) {
        match event {
            Ok(XmlEvent::StartElement { .. }) => depth += 1,
            Ok(XmlEvent::EndElement { .. }) => depth = depth.saturating_sub(1),
            Ok(_) => {}
            Err(_) => return Ok(()),
        }
        if depth > MAX_DEPTH {
            let told = format_args!("elements lie more than {MAX_DEPTH} deep in each other");
            return Err(Fault::invalid("body", told));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_lie_in_each_other_as_deep_as_anybody_needs() {
        let nested = |depth| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(check_form(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(check_form(nested(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(check_form("<a>".repeat(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(check_form(b"").is_ok());
        assert!(check_form(b"no xml").is_ok());
    }

    #[test]
    fn a_few_lines_that_stand_for_a_terabyte_are_refused_before_they_are_read() {
        let tenfold = |(name, of): (char, char)| format!("<!ENTITY % {name} \"{}\">", format!("%{of};").repeat(10));
        let lines: String = ('b'..='l').zip('a'..).map(tenfold).collect();
        let body = format!("<!DOCTYPE x [<!ENTITY % a \"xxxxxxxxxx\">{lines}]><x/>");
        let told = check_form(body.as_bytes()).unwrap_err();
        assert!(told.message().contains("<!DOCTYPE"), "{told}");
    }
}
