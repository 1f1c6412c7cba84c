//! `/api/svc/public/{token}`: a shared page, for people without credentials.
//!
//! Browsers get HTML with this page only: links to other pages are text, and neither embeds nor
//! images of the tree are shown. Other clients get the bytes of the file; those of a computed page
//! are without its stored result.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, RANGE, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::json;
use svcfs_base::Fault;
use svcfs_knowledge::kernel::OperationContext;
use svcfs_knowledge::publishing::{
    Audience, DocumentOptions, STYLESHEET_NAME, bytes_for_reader, page_document, render_page,
};
use svcfs_knowledge::shares::{ShareRefusal, open_share, reader};
use svcfs_work::Lane;
use warp::reply::Response;

use super::published::policy;
use super::raw::{self, RawFile};
use crate::app::AppState;
use crate::request_handler::SpecialRequest;
use crate::{bind, media, reply};

const PASSWORD: &str = "X-Share-Password";

const PRIVATE: &str = "private, no-store";

/// What a link shows.
enum SharedContent {
    /// Media type, body, and the policy of HTML.
    Page(&'static str, Bytes, Option<&'static str>),
    File(Box<RawFile>),
}

const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

/// The page behind a link. Errors: `NotFound` for every link that shows nothing; `RateLimited`.
pub(super) async fn shared(app: &Arc<AppState>, special: &SpecialRequest) -> Result<Response, Fault> {
    let token = special.address.parameters.first().map_or("", |(_, value)| value).to_owned();
    let password = password(&special.headers, &special.query)?;
    let (has_password, accepts_html) = (password.is_some(), accepts_html(&special.headers));
    let (server, peer, is_head) = (Arc::clone(&app.server), special.peer, special.is_head);
    let is_continued = asks_for_later_part(&special.headers);
    let work = move || match open_share(&server, (&token, password.as_deref()), peer) {
        Ok(page) => {
            // A player reads a video in many parts: that is one view.
            if !is_head && (page.path.is_page() || !is_continued) {
                page.count_view();
            }
            if !page.path.is_page() {
                let file = RawFile::of(&page.path, page.file.into())?;
                return Ok(Some(SharedContent::File(file.without_etag().into())));
            }
            let (mime, body) = if accepts_html {
                let caller = reader();
                let cx = OperationContext::new(&server, &page.space, &caller);
                let rendered = render_page(&cx, &page.path, (page.file.etag, &page.file.content), Audience::OnePage);
                let site = cx.public_url().map_or("", |site| site.path());
                let stylesheet = format!("{site}/p/{STYLESHEET_NAME}");
                let options = DocumentOptions { stylesheet, is_unlisted: true, ..Default::default() };
                (media::HTML, page_document(&rendered, &options).into())
            } else {
                (media::MARKDOWN, bytes_for_reader(&page.file.content))
            };
            let policy = accepts_html.then(|| policy(false, page.space.settings.render.external_images));
            Ok(Some(SharedContent::Page(mime, body, policy)))
        }
        Err(ShareRefusal::Password) => Ok(None),
        Err(ShareRefusal::Fault(fault)) => Err(fault),
    };
    // Verification of a password takes long; four at a time also bound its memory.
    let lane = if has_password { Lane::Slow } else { Lane::Quick };
    let mut response = match app.blocking(lane, work).await? {
        Some(SharedContent::File(file)) => raw::response(app, &special.headers, (*file, PRIVATE)),
        Some(SharedContent::Page(mime, body, policy)) => {
            let mut response = Response::new(body.into());
            media::describe(response.headers_mut(), mime);
            if let Some(policy) = policy {
                response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
            }
            response
        }
        None => {
            let mut response = reply::json(StatusCode::UNAUTHORIZED, &json!({ "error": "password required" }));
            let challenge = HeaderValue::from_static("Basic realm=\"svcfs-share\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            response
        }
    };
    let headers = response.headers_mut();
    add_privacy(headers);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Neither caches nor search engines may have what is at a share.
pub(super) fn add_privacy(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(PRIVATE));
    headers.insert(ROBOTS, HeaderValue::from_static("noindex, nofollow"));
}

/// Whether a path is that of a share.
pub(super) fn is_share_address(path: &str) -> bool {
    without_secrets(path).is_some()
}

/// Whether the client is a browser: it names HTML, and not markdown.
pub(crate) fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let types: Vec<&str> =
        accepted.flat_map(|list| list.split(',')).filter_map(|item| Some(item.split(';').next()?.trim())).collect();
    types.contains(&"text/html") && !types.contains(&"text/markdown")
}

/// Whether a request is for a part that does not begin at the start of a file.
fn asks_for_later_part(headers: &HeaderMap) -> bool {
    let range = headers.get(RANGE).and_then(|range| range.to_str().ok()).and_then(|range| range.split_once('='));
    range.is_some_and(|(_, part)| !part.trim_start().starts_with("0-"))
}

/// The password of a request: a header, the query, or Basic credentials with any name.
fn password(headers: &HeaderMap, query: &str) -> Result<Option<String>, Fault> {
    if let Some(password) = bind::header(headers, PASSWORD)? {
        return Ok(Some(password));
    }
    if let Some(password) = bind::query_value(query, "password")? {
        return Ok(Some(password));
    }
    let basic = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, encoded) = value.split_once(' ')?;
        let decoded = STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
        String::from_utf8(decoded).ok()?.split_once(':').map(|(_, password)| password.to_owned())
    });
    Ok(basic)
}

/// A path without the token of a share, and its query without a password, for logs. `None` for
/// other requests.
pub(crate) fn without_secrets(path: &str) -> Option<String> {
    let (before, token) = path.strip_prefix(svcfs_knowledge::kernel::API_PREFIX)?.rsplit_once("/public/")?;
    let is_token = !matches!(token, "" | "file" | "tree") && !before.trim_start_matches('/').contains('/');
    is_token.then(|| format!("{}{before}/public/…", svcfs_knowledge::kernel::API_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_have_no_tokens() {
        for (path, expected) in [
            ("/api/svc/public/abc", Some("/api/svc/public/…")),
            ("/api/svc/team/public/abc", Some("/api/svc/team/public/…")),
            ("/api/svc/public/file", None),
            ("/api/svc/public/tree", None),
            ("/api/svc/file", None),
            ("/public/abc", None),
        ] {
            assert_eq!(without_secrets(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn browsers_get_html_and_programs_the_bytes() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("*/*", false),
            ("text/markdown", false),
            ("text/html, text/markdown", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(accepts_html(&headers), expected, "{accept}");
        }
    }
}
