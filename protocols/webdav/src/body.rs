//! The body of a request: a file, which is streamed, or XML, which is checked before it is parsed.

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

/// Largest XML body, in bytes.
const MAX_XML_BYTES: usize = 64 << 10;

/// The body of a request.
pub(crate) enum RequestBody {
    /// Streamed.
    Streaming(TimedBody),
    /// Fully received.
    Buffered(Option<Bytes>),
}

impl RequestBody {
    /// The received bytes; empty for a stream.
    pub(crate) fn buffered(&self) -> &[u8] {
        match self {
            Self::Buffered(Some(bytes)) => bytes,
            Self::Buffered(None) | Self::Streaming(_) => &[],
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Streaming(stream) => Pin::new(stream).poll_frame(cx),
            Self::Buffered(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Streaming(stream) => stream.size_hint(),
            Self::Buffered(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}

/// Receives the body for a method. Errors: `TooLarge`, and `Invalid` for an incomplete body, or XML
/// with declarations or deep nesting.
pub(crate) async fn receive(method: &Method, body: Incoming) -> Result<RequestBody, Fault> {
    if matches!(*method, Method::PUT | Method::PATCH) {
        return Ok(RequestBody::Streaming(TimedBody::new(body)));
    }
    let collected = Limited::new(body, MAX_XML_BYTES).collect().await;
    let bytes = collected.map_err(|error| match error.is::<http_body_util::LengthLimitError>() {
        true => Fault::too_large("request body", MAX_XML_BYTES),
        false => Fault::invalid("body", format_args!("is incomplete: {error}")),
    })?;
    let bytes = bytes.to_bytes();
    if ["PROPFIND", "PROPPATCH", "LOCK"].contains(&method.as_str()) {
        check_xml(&bytes)?;
    }
    Ok(RequestBody::Buffered(Some(bytes).filter(|bytes| !bytes.is_empty())))
}

/// Checks that XML has no declarations, and its nesting. Other errors are reported by dav-server.
fn check_xml(bytes: &[u8]) -> Result<(), Fault> {
    // Before the parser sees it.
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
            let message = format_args!("elements are nested more than {MAX_DEPTH} deep");
            return Err(Fault::invalid("body", message));
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
        assert!(check_xml(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(check_xml(nested(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(check_xml("<a>".repeat(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(check_xml(b"").is_ok());
        assert!(check_xml(b"no xml").is_ok());
    }

    #[test]
    fn a_small_xml_body_that_expands_hugely_is_refused_unparsed() {
        let tenfold = |(name, of): (char, char)| format!("<!ENTITY % {name} \"{}\">", format!("%{of};").repeat(10));
        let lines: String = ('b'..='l').zip('a'..).map(tenfold).collect();
        let body = format!("<!DOCTYPE x [<!ENTITY % a \"xxxxxxxxxx\">{lines}]><x/>");
        let told = check_xml(body.as_bytes()).unwrap_err();
        assert!(told.message().contains("<!DOCTYPE"), "{told}");
    }
}
