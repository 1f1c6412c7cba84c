//! Percent-decoding, strictly to UTF-8.

use percent_encoding::percent_decode_str;
use svcfs_base::{Fault, Kind};

/// Decodes a path segment. Errors: `Invalid` when it is not UTF-8: lossy decoding could name
/// another page.
pub(crate) fn percent_decode(text: &str) -> Result<String, Fault> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| {
        let text = text.escape_default();
        Fault::new(Kind::Invalid, format!("`{text}` is not valid UTF-8 once percent-decoded"))
    })
}

/// Splits a query into names and values. (The `url` crate replaces invalid UTF-8 instead of
/// refusing it.) Errors: `Invalid` when a name or value is not UTF-8.
pub(crate) fn parse_query(query: &str) -> Result<Vec<(String, String)>, Fault> {
    let decode = |text: &str| percent_decode(&text.replace('+', " "));
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        })
        .collect()
}

/// The first value of a name in a query. Errors: those of [`parse_query`].
pub(crate) fn query_value(query: &str, name: &str) -> Result<Option<String>, Fault> {
    Ok(parse_query(query)?.into_iter().find(|(found, _)| found == name).map(|(_, value)| value))
}
