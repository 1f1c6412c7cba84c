//! Media types, and the headers that depend on them.

use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue};
use svcfs_base::TreePath;

/// Pages.
pub(crate) const MARKDOWN: &str = "text/markdown; charset=utf-8";
/// Text of unknown type.
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
/// JSON responses.
pub(crate) const JSON: &str = "application/json";

/// HTML.
pub(crate) const HTML: &str = "text/html; charset=utf-8";

/// Event streams.
pub(crate) const EVENTS: &str = "text/event-stream";

/// Bytes of unknown type.
const BYTES: &str = "application/octet-stream";

/// The type of a file: by its extension, else plain text if it is UTF-8. Nothing more is guessed,
/// because browsers misinterpret content with a wrong type.
pub(crate) fn of(path: &TreePath, content: &[u8]) -> String {
    of_path(path).unwrap_or_else(|| of_content(std::str::from_utf8(content).is_ok()))
}

/// The type of content with an unknown extension.
pub(crate) fn of_content(is_text: bool) -> String {
    if is_text { PLAIN } else { BYTES }.to_owned()
}

/// The type of a file too large to be checked for UTF-8: by its extension only.
pub(crate) fn of_large(path: &TreePath) -> String {
    of_path(path).unwrap_or_else(|| of_content(false))
}

/// The type of a path's extension; `None` when it is unknown or missing.
pub(crate) fn of_path(path: &TreePath) -> Option<String> {
    if path.is_page() {
        return Some(MARKDOWN.to_owned());
    }
    let mime = mime_guess::from_path(path.as_str()).first_raw()?;
    let is_text = mime.starts_with("text/") || mime == "application/json" || mime == "application/javascript";
    Some(if is_text { format!("{mime}; charset=utf-8") } else { mime.to_owned() })
}

/// A media type without parameters.
pub(crate) fn without_parameters(mime: &str) -> &str {
    mime.split(';').next().unwrap_or_default()
}

/// Sets the type of stored content, and a policy that keeps browsers from running it: scripts in
/// pages of other authors would have the rights of the reader.
pub(crate) fn describe(headers: &mut HeaderMap, mime: &str) {
    let value = HeaderValue::from_str(mime).unwrap_or(HeaderValue::from_static(BYTES));
    headers.insert(CONTENT_TYPE, value);
    let policy = match without_parameters(mime) {
        "image/svg+xml" => "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
        "text/html" | "application/xhtml+xml" | "text/xml" | "application/xml" => {
            "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
        }
        _ => "frame-ancestors 'self'",
    };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
}
