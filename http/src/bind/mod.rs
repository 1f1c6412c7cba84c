//! From a request to the one JSON object an operation reads.
//!
//! One rule: no endpoint parses anything of its own. Path parameters, query and body become one object here; texts are coerced
//! by the operation's own schema; a name given twice, an unknown name and an unreadable value are refused with that name.

mod body;
mod caller;
mod form;
mod url_encoding;

pub(crate) use body::{BodyStream, MAX_BODY_BYTES, UnreadBody, read};
pub(crate) use caller::{bearer, compared, from_arguments, from_headers, header};
pub(crate) use form::is_of_file;
pub(crate) use url_encoding::{decoded, pairs};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind, MAX_PAGE_BYTES};
use svcfs_knowledge::kernel::{BodyKind, OperationInputs, Route};

/// What a request's body turned out to be.
#[derive(Debug)]
pub(crate) enum ParsedBody {
    /// Nothing is read.
    Nothing,
    /// An object; empty when there was no body.
    Json(Map<String, Value>),
    /// What becomes one input.
    Raw(Bytes),
    /// A file and its name, and the other parts of a form.
    Form { file: (String, Bytes), texts: Vec<(String, String)> },
}

/// Reads the body a route accepts.
///
/// # Errors
/// `TooLarge` over the route's limit, `Invalid` when it is not what the route accepts.
pub(crate) async fn content(route: &Route, headers: &HeaderMap, body: UnreadBody) -> Result<ParsedBody, Fault> {
    match route.body {
        BodyKind::Empty => Ok(ParsedBody::Nothing),
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

/// Builds the object an operation reads: path parameters, then query, then body.
///
/// # Errors
/// `Invalid`, naming the parameter that is unknown, given twice, in the wrong place or not of its type.
pub(crate) fn arguments(
    route: &Route,
    inputs: &OperationInputs,
    texts: impl IntoIterator<Item = (String, String)>,
    content: ParsedBody,
) -> Result<Value, Fault> {
    let mut object = Map::new();
    for (given, text) in texts {
        let field = inputs.find_parameter(&given)?;
        if !stands_in_query(route, &field.name) {
            return Err(Fault::invalid(&given, "belongs in the body, not in the query"));
        }
        field.parse_into(&mut object, &text)?;
    }
    match (content, route.body) {
        (ParsedBody::Nothing, _) => {}
        (ParsedBody::Json(members), BodyKind::Object(name)) => insert(&mut object, name, members.into())?,
        (ParsedBody::Json(members), _) => {
            inputs.check_names(&members, &[])?;
            for (name, value) in members {
                if route.path_wins && stands_in_path(route, &name) {
                    continue;
                }
                insert(&mut object, &name, value)?;
            }
        }
        (ParsedBody::Raw(bytes), BodyKind::Raw(name)) => {
            let takes_bytes = inputs.get(name).is_some_and(|field| field.accepts_bytes);
            insert(&mut object, name, raw(bytes, takes_bytes)?)?;
        }
        (ParsedBody::Form { file: (name, bytes), texts }, _) => {
            for (given, text) in texts {
                let field = inputs.find_parameter(&given)?;
                if form::is_of_file(&field.name) {
                    return Err(Fault::invalid(&given, "is taken from the part `file`"));
                }
                field.parse_into(&mut object, &text)?;
            }
            insert(&mut object, form::NAME, name.into())?;
            insert(&mut object, form::FILE, raw(bytes, true)?)?;
        }
        (ParsedBody::Raw(_), BodyKind::Empty | BodyKind::Json | BodyKind::Object(_) | BodyKind::Form) => {
            return Err(Fault::internal("a raw body was read for a route that accepts none"));
        }
    }
    Ok(object.into())
}

/// The input a body's media type sets to true, when it is the one the route waits for.
pub(crate) fn mark(route: &Route, headers: &HeaderMap) -> Option<(String, String)> {
    let (mime, input) = route.media_flag?;
    let given = headers.get(CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    given.eq_ignore_ascii_case(mime).then(|| (input.to_owned(), true.to_string()))
}

/// A raw body as an input: text, or base64 where the input takes that.
fn raw(bytes: Bytes, takes_bytes: bool) -> Result<Value, Fault> {
    match String::from_utf8(bytes.into()) {
        Ok(text) => Ok(text.into()),
        Err(error) if takes_bytes => Ok(json!({ "base64": STANDARD.encode(error.as_bytes()) })),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(Fault::new(Kind::Invalid, format!("the body is not valid UTF-8 at byte {at}; text is needed here")))
        }
    }
}

/// Whether an input of this route may be given as text outside the body.
fn stands_in_query(route: &Route, name: &str) -> bool {
    match route.body {
        BodyKind::Empty => true,
        BodyKind::Raw(field) | BodyKind::Object(field) => name != field,
        BodyKind::Json => route.query_inputs.contains(&name) || stands_in_path(route, name),
        BodyKind::Form => !form::is_of_file(name),
    }
}

fn stands_in_path(route: &Route, name: &str) -> bool {
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
