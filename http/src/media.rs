//! Content types, and what goes with them.

use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue};
use svcfs_base::TreePath;

/// The type of pages.
pub(crate) const MARKDOWN: &str = "text/markdown; charset=utf-8";
/// The type of text that has no better one.
pub(crate) const PLAIN: &str = "text/plain; charset=utf-8";
/// The type of JSON answers.
pub(crate) const JSON: &str = "application/json";

/// The type of event streams.
pub(crate) const EVENTS: &str = "text/event-stream";

/// The type of bytes nothing is known of.
const BYTES: &str = "application/octet-stream";

/// The content type of a file: by its extension, else text when it is text. More is not guessed: a browser that is told a wrong
/// type shows what its author did not mean.
pub(crate) fn of(path: &TreePath, content: &[u8]) -> String {
    of_path(path).unwrap_or_else(|| of_content(std::str::from_utf8(content).is_ok()))
}

/// The content type of what no path tells of.
pub(crate) fn of_content(is_text: bool) -> String {
    if is_text { PLAIN } else { BYTES }.to_owned()
}

/// The content type of a file that is too large to be looked at: by its extension alone.
pub(crate) fn of_large(path: &TreePath) -> String {
    of_path(path).unwrap_or_else(|| of_content(false))
}

/// The content type that goes with a path's extension; none when the extension is unknown or missing.
pub(crate) fn of_path(path: &TreePath) -> Option<String> {
    if path.is_page() {
        return Some(MARKDOWN.to_owned());
    }
    let mime = mime_guess::from_path(path.as_str()).first_raw()?;
    let is_text = mime.starts_with("text/") || mime == "application/json" || mime == "application/javascript";
    Some(if is_text { format!("{mime}; charset=utf-8") } else { mime.to_owned() })
}

/// Sets the content type of stored content, and keeps a browser from running it: stored pages come from many hands, and a
/// script among them would speak with the rights of whoever looks.
pub(crate) fn describe(headers: &mut HeaderMap, mime: &str) {
    let value = HeaderValue::from_str(mime).unwrap_or(HeaderValue::from_static(BYTES));
    headers.insert(CONTENT_TYPE, value);
    let policy = match mime.split(';').next().unwrap_or_default() {
        "image/svg+xml" => "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'",
        "text/html" | "application/xhtml+xml" | "text/xml" | "application/xml" => {
            "sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'; frame-ancestors 'self'"
        }
        _ => "frame-ancestors 'self'",
    };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
}
