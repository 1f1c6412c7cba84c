//! Forms with a file, as sent by browsers and `curl -F` (RFC 7578).

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use svcfs_base::{Fault, Kind};

use super::{ParsedBody, json_object};
use crate::media;

/// The part with the file, and the input for it.
pub(super) const FILE: &str = "file";
/// The input for the file's name.
pub(super) const NAME: &str = "name";
/// Maximum size of other parts, in bytes: a path.
const MAX_TEXT_BYTES: usize = 4_096;
/// Maximum number of other parts.
const MAX_PARTS: usize = 16;

/// Whether an input comes from the file part.
pub(crate) fn is_file_input(input: &str) -> bool {
    input == FILE || input == NAME
}

/// Parses a form, or a JSON object instead. Errors: `Invalid`, naming the part that is missing,
/// duplicate, too long or not text.
pub(super) async fn read(headers: &HeaderMap, body: Bytes) -> Result<ParsedBody, Fault> {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(media::JSON)) {
        return json_object(&body).map(ParsedBody::Json);
    }
    let boundary = multer::parse_boundary(kind).map_err(|_| {
        Fault::invalid(
            "Content-Type",
            "must be `multipart/form-data` with a boundary; `curl -F file=@picture.png` sends that",
        )
    })?;
    let mut form = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let (mut file, mut texts) = (None, Vec::new());
    let parse_error = |error: multer::Error| Fault::new(Kind::Invalid, format!("the form cannot be read: {error}"));
    while let Some(part) = form.next_field().await.map_err(parse_error)? {
        let name = part.name().unwrap_or_default().to_owned();
        if name != FILE {
            if texts.len() == MAX_PARTS {
                return Err(Fault::new(Kind::Invalid, format!("the form has more than {MAX_PARTS} parts")));
            }
            let bytes = part.bytes().await.map_err(parse_error)?;
            let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= MAX_TEXT_BYTES);
            let text = text.ok_or_else(|| {
                Fault::invalid(&name, format_args!("must be a text of at most {MAX_TEXT_BYTES} bytes"))
            })?;
            texts.push((name, text.to_owned()));
        } else if file.is_some() {
            return Err(Fault::invalid(FILE, "is given twice; send one file at a time"));
        } else {
            let file_name = part.file_name().unwrap_or_default().to_owned();
            file = Some((file_name, part.bytes().await.map_err(parse_error)?));
        }
    }
    let file =
        file.ok_or_else(|| Fault::new(Kind::Invalid, "file is required: a part of that name, with a file name"))?;
    Ok(ParsedBody::Form { file, texts })
}
