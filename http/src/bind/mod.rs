//! Conversion of a request to the JSON object that an operation takes.
//!
//! Invariant: no endpoint parses its own input. Path parameters, query and body become one object
//! here, and texts are converted by the schema of the operation. Duplicate names, unknown names and
//! invalid values are refused, naming the parameter.

mod body;
mod caller;
mod form;
mod url_encoding;

pub(crate) use body::{BodyStream, MAX_BODY_BYTES, UnreadBody, read};
pub(crate) use caller::{bearer, etag_header, from_arguments, from_headers, header};
pub(crate) use form::is_file_input;
pub(crate) use url_encoding::{parse_query, percent_decode, query_value};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind, MAX_PAGE_BYTES};
use svcfs_knowledge::kernel::{BodyKind, OperationInputs, Route};

/// A parsed body.
#[derive(Debug)]
pub(crate) enum ParsedBody {
    /// The route takes none.
    NoBody,
    /// An object; empty when there was no body.
    Json(Map<String, Value>),
    /// The value of one input.
    Raw(Bytes),
    /// A file with its name, and the other parts of a form.
    Form { file: (String, Bytes), texts: Vec<(String, String)> },
}

/// Reads the body that a route accepts. Errors: `TooLarge` over the route's limit, `Invalid` when
/// it does not have the accepted form.
pub(crate) async fn read_body(route: &Route, headers: &HeaderMap, body: UnreadBody) -> Result<ParsedBody, Fault> {
    match route.body {
        BodyKind::Empty => Ok(ParsedBody::NoBody),
        BodyKind::Json => {
            let bytes = read(body, MAX_BODY_BYTES, "the body").await?;
            json_object(&bytes).map(ParsedBody::Json)
        }
        BodyKind::Object(_) => {
            let bytes = read(body, MAX_BODY_BYTES, "the body").await?;
            if bytes.trim_ascii().is_empty() {
                return Err(Fault::new(Kind::Invalid, "the body must be a JSON object"));
            }
            json_object(&bytes).map(ParsedBody::Json)
        }
        BodyKind::Raw(_) => read(body, MAX_PAGE_BYTES, "file").await.map(ParsedBody::Raw),
        BodyKind::Form => {
            let bytes = read(body, MAX_BODY_BYTES, "the body").await?;
            form::read(headers, bytes).await
        }
    }
}

fn json_object(bytes: &[u8]) -> Result<Map<String, Value>, Fault> {
    if bytes.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Fault::new(Kind::Invalid, "the body must be a JSON object")),
        Err(error) => Err(Fault::new(Kind::Invalid, format!("the body is not valid JSON: {error}"))),
    }
}

/// Builds the input object from path parameters, query and body. Errors: `Invalid`, naming a
/// parameter that is unknown, duplicate, in the wrong place or not of its type.
pub(crate) fn arguments(
    route: &Route,
    inputs: &OperationInputs,
    texts: impl IntoIterator<Item = (String, String)>,
    content: ParsedBody,
) -> Result<Value, Fault> {
    let mut object = Map::new();
    for (given, text) in texts {
        let field = inputs.find_parameter(&given)?;
        if !is_query_input(route, &field.name) {
            return Err(Fault::invalid(&given, "belongs in the body, not in the query"));
        }
        field.parse_into(&mut object, &text)?;
    }
    match (content, route.body) {
        (ParsedBody::NoBody, _) => {}
        (ParsedBody::Json(members), BodyKind::Object(name)) => insert(&mut object, name, members.into())?,
        (ParsedBody::Json(members), _) => {
            inputs.check_names(&members, &[])?;
            for (name, value) in members {
                if route.path_wins && is_path_input(route, &name) {
                    continue;
                }
                insert(&mut object, &name, value)?;
            }
        }
        (ParsedBody::Raw(bytes), BodyKind::Raw(name)) => {
            let takes_bytes = inputs.get(name).is_some_and(|field| field.accepts_bytes);
            insert(&mut object, name, raw_value(bytes, takes_bytes)?)?;
        }
        (ParsedBody::Form { file: (name, bytes), texts }, _) => {
            for (given, text) in texts {
                let field = inputs.find_parameter(&given)?;
                if form::is_file_input(&field.name) {
                    return Err(Fault::invalid(&given, "is taken from the part `file`"));
                }
                field.parse_into(&mut object, &text)?;
            }
            insert(&mut object, form::NAME, name.into())?;
            insert(&mut object, form::FILE, raw_value(bytes, true)?)?;
        }
        (ParsedBody::Raw(_), BodyKind::Empty | BodyKind::Json | BodyKind::Object(_) | BodyKind::Form) => {
            return Err(Fault::internal("a raw body was read for a route that accepts none"));
        }
    }
    Ok(object.into())
}

/// The input that the body's media type sets to true, if it is the one of the route.
pub(crate) fn media_flag(route: &Route, headers: &HeaderMap) -> Option<(String, String)> {
    let (mime, input) = route.media_flag?;
    let given = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    given.eq_ignore_ascii_case(mime).then(|| (input.to_owned(), true.to_string()))
}

/// A raw body as input: text, or base64 if the input accepts bytes.
fn raw_value(bytes: Bytes, takes_bytes: bool) -> Result<Value, Fault> {
    match String::from_utf8(bytes.into()) {
        Ok(text) => Ok(text.into()),
        Err(error) if takes_bytes => Ok(json!({ "base64": STANDARD.encode(error.as_bytes()) })),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(Fault::new(Kind::Invalid, format!("the body is not valid UTF-8 at byte {at}; text is needed here")))
        }
    }
}

/// Whether an input of this route is a path or query parameter.
fn is_query_input(route: &Route, name: &str) -> bool {
    match route.body {
        BodyKind::Empty => true,
        BodyKind::Raw(field) | BodyKind::Object(field) => name != field,
        BodyKind::Json => route.query_inputs.contains(&name) || is_path_input(route, name),
        BodyKind::Form => !form::is_file_input(name),
    }
}

fn is_path_input(route: &Route, name: &str) -> bool {
    route.path.split(['{', '}']).skip(1).step_by(2).any(|parameter| parameter == name)
}

fn insert(object: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), Fault> {
    match object.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(Fault::invalid(name, "is given twice")),
    }
}

#[cfg(test)]
mod tests;
