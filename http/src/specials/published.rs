//! `/p/…`: published pages as HTML, and the files that they use. No credentials, no script.

use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, StatusCode};
use svcfs_base::{Caller, ETag, Fault, Permissions, Protocol, TreePath};
use svcfs_knowledge::files;
use svcfs_knowledge::kernel::{OperationContext, Space};
use svcfs_knowledge::publishing::{
    Audience, DocumentOptions, STYLESHEET, page_document, public_path, read_admitted, render_page, uses_asset,
};
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::AppState;
use crate::bind::etag_header;
use crate::{media, reply};

const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self' https: http:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Shared caches may serve a page for a minute after it was withdrawn.
const CACHING: &str = "public, max-age=60, must-revalidate";

/// Name of the stylesheet below `/p/`. No page has it: pages end in `.md`.
const STYLESHEET_NAME: &str = "@style.css";

/// A response body with its type and entity tag.
struct Document {
    mime: String,
    body: bytes::Bytes,
    etag: ETag,
}

/// A published page or a file that one uses. Errors: `NotFound` for everything else alike.
pub(super) async fn published(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (headers, path): (&HeaderMap, &str),
) -> Result<Response, Fault> {
    let (space, path) = match path.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
        Some((name, rest)) => (app.space(Some(name))?, rest.to_owned()),
        None => (space, path.to_owned()),
    };
    let server = Arc::clone(&app.server);
    let work = move || {
        let caller = Caller { permissions: Permissions::READ_ONLY, ..Caller::new(Protocol::Http) };
        document(&OperationContext::new(&server, &space, &caller), &path)
    };
    let document = app.blocking(Lane::Quick, work).await?;
    let etag = document.etag.to_string();
    let is_current = etag_header(headers, &IF_NONE_MATCH).is_some_and(|tags| reply::contains_etag(&tags, &etag));
    let mut response =
        if is_current { reply::empty(StatusCode::NOT_MODIFIED) } else { Response::new(document.body.into()) };
    let answer = response.headers_mut();
    media::describe(answer, &document.mime);
    if document.mime.starts_with("text/html") {
        answer.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    }
    answer.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer.insert(CACHE_CONTROL, HeaderValue::from_static(CACHING));
    answer.insert(REFERRER_POLICY, HeaderValue::from_static("strict-origin-when-cross-origin"));
    answer.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{etag}\"")) {
        answer.insert(ETAG, etag);
    }
    Ok(response)
}

fn document(cx: &OperationContext<'_>, path: &str) -> Result<Document, Fault> {
    if path == STYLESHEET_NAME {
        return Ok(Document {
            mime: "text/css; charset=utf-8".to_owned(),
            body: bytes::Bytes::from_static(STYLESHEET.as_bytes()),
            etag: ETag::from_content(STYLESHEET.as_bytes()),
        });
    }
    let path = cx.space.parse_path(path)?;
    if !path.is_page() {
        return asset(cx, &path);
    }
    let file = read_admitted(cx, &path, Audience::Published)?;
    let page = render_page(cx, &path, &file, Audience::Published);
    let canonical = cx.public_url().map(|site| format!("{}{}", site.as_str(), public_path(cx, &path)));
    let options =
        DocumentOptions { canonical, stylesheet: format!("/p/{STYLESHEET_NAME}"), ..DocumentOptions::default() };
    let html = page_document(&page, &options);
    let etag = ETag::from_content(html.as_bytes());
    Ok(Document { mime: "text/html".to_owned(), body: html.into(), etag })
}

fn asset(cx: &OperationContext<'_>, path: &TreePath) -> Result<Document, Fault> {
    if !cx.space.vfs.hidden_files().lists(path) || !uses_asset(cx, path)? {
        return Err(Fault::file_not_found(path));
    }
    let file = files::read_file(cx, path)?;
    let mime = media::of(path, &file.content);
    Ok(Document { mime, etag: file.etag, body: file.content })
}
