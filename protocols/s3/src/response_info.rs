//! Completes responses: request id, server id, and the resource in errors.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{HeaderName, Response, StatusCode};
use s3s::Body;
use uuid::Uuid;

/// Request id and server id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const HOST: &str = "svcfs";
/// The end tag of an error.
const ERROR_END_TAG: &str = "</Error>";

/// The request of a response.
pub(crate) struct ResponseInfo {
    /// The requested path.
    pub(crate) resource: String,
    /// Whether a successful response may contain a file.
    pub(crate) may_be_file: bool,
}

impl ResponseInfo {
    /// Adds the ids, and makes XML well-formed.
    pub(crate) fn complete(self, mut response: Response<Body>) -> Response<Body> {
        let id = Uuid::new_v4().simple().to_string().to_uppercase();
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response.headers_mut().insert(HOST_ID, HeaderValue::from_static(HOST));
        let status = response.status();
        if status == StatusCode::NOT_MODIFIED {
            // A 304 has no body (RFC 9110 15.4.5).
            response.headers_mut().remove(CONTENT_TYPE);
            response.headers_mut().remove(CONTENT_LENGTH);
            *response.body_mut() = Body::empty();
            return response;
        }
        let is_error = status.is_client_error() || status.is_server_error();
        if !is_error && self.may_be_file {
            return response;
        }
        let is_xml =
            response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/xml"));
        let Some(body) = is_xml.then(|| response.body().bytes()).flatten() else { return response };
        let Ok(text) = std::str::from_utf8(&body) else { return response };
        let mut text = well_formed(text);
        if is_error && let Some(at) = text.rfind(ERROR_END_TAG) {
            let resource = escaped(&self.resource);
            // s3s has these elements, but never fills them.
            text.insert_str(
                at,
                &format!("<Resource>{resource}</Resource><RequestId>{id}</RequestId><HostId>{HOST}</HostId>"),
            );
        }
        if response.headers().contains_key(CONTENT_LENGTH) {
            response.headers_mut().insert(CONTENT_LENGTH, text.len().into());
        }
        *response.body_mut() = Body::from(text);
        response
    }
}

/// Whether XML 1.0 allows a character (section 2.2).
pub(crate) fn is_xml_char(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

/// Replaces characters that XML does not allow, and escapes carriage returns, which a parser would
/// normalize.
fn well_formed(document: &str) -> String {
    let mut text = String::with_capacity(document.len() + 256);
    for character in document.chars() {
        match character {
            '\r' => text.push_str("&#13;"),
            character if is_xml_char(character) => text.push(character),
            _ => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    text
}

fn escaped(text: &str) -> String {
    well_formed(&text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_carry_is_not_sent() {
        assert_eq!(well_formed("a\u{1}b\u{ffff}\r\n\té"), "a\u{fffd}b\u{fffd}&#13;\n\té");
        assert_eq!(escaped("/a<b>&c"), "/a&lt;b&gt;&amp;c");
    }
}
