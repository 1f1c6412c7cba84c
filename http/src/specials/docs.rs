//! `/api/openapi.json` and the documentation browser, which is embedded and works offline.

use std::sync::Arc;

use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, LOCATION};
use svcfs_base::Fault;
use utoipa_swagger_ui::Config;
use warp::reply::Response;

use crate::app::AppState;
use crate::{media, reply};

/// The browser may run its own scripts and send requests to this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The OpenAPI document.
pub(super) fn openapi(app: &AppState) -> Response {
    let mut response = Response::new(app.openapi().into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media::JSON));
    response
}

/// Redirects to the documentation browser. The target is relative: a proxy can serve everything
/// below a path.
pub(super) fn redirect(location: &'static str) -> Response {
    let mut response = reply::empty(StatusCode::MOVED_PERMANENTLY);
    let to = HeaderValue::from_static(location);
    response.headers_mut().insert(LOCATION, to);
    response
}

/// A file of the documentation browser. Errors: `NotFound` when there is none of that name.
pub(super) fn file(name: &str) -> Result<Response, Fault> {
    // By default it sends the document to a validator on the internet and has a bar for loading
    // other documents.
    let config = Config::from("../openapi.json").validator_url("none").use_base_layout().try_it_out_enabled(true);
    let config = Arc::new(config.display_request_duration(true));
    let part = utoipa_swagger_ui::serve(name, config).map_err(|error| Fault::internal(error.to_string()))?;
    let part =
        part.ok_or_else(|| Fault::not_found(format!("not found: `{}`", svcfs_base::escape_unprintable(name))))?;
    let mut response = Response::new(part.bytes.into_owned().into());
    let headers = response.headers_mut();
    if let Ok(mime) = HeaderValue::from_str(&part.content_type) {
        headers.insert(CONTENT_TYPE, mime);
    }
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    if part.gzpipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Ok(response)
}
