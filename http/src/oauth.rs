//! OAuth 2.0 protected resource metadata (RFC 9728), with which clients of `/mcp` find the identity
//! provider, and the challenges that point to it.
//!
//! Only with `auth.type = "oidc"`: keys are given to clients by people, and need no provider.

use http::header::{HOST, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use svcfs_base::{Fault, Scope};
use svcfs_knowledge::access::OAUTH_SCOPES;

use crate::app::AppState;
use crate::mcp;

/// Path of the metadata of `/mcp`; those of the server as a whole are the same.
pub(crate) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";

/// The metadata. Errors: `NotFound` without an identity provider.
pub(crate) fn metadata(app: &AppState, headers: &HeaderMap) -> Result<Value, Fault> {
    let issuer = app.server.access().issuer();
    let issuer = issuer.ok_or_else(|| {
        Fault::not_found("this server has no identity provider (`auth.type` is not `oidc`); clients send a key")
    })?;
    let scopes: Vec<&str> = OAUTH_SCOPES.iter().map(|(name, _)| *name).collect();
    Ok(json!({
        "resource": format!("{}{}", base_url(app, headers), mcp::PATH),
        "authorization_servers": [issuer],
        "scopes_supported": scopes,
        "bearer_methods_supported": ["header"],
        "resource_name": "svcfs",
    }))
}

/// Adds the challenge to a response of `/mcp` that refuses a caller: without valid credentials, or,
/// with `missing`, without the scope that a call needs.
pub(crate) fn challenge(app: &AppState, request: &HeaderMap, missing: Option<Scope>, response: &mut HeaderMap) {
    let url = format!("{}{METADATA_PATH}{}", base_url(app, request), mcp::PATH);
    let error = match (missing, request.contains_key(http::header::AUTHORIZATION)) {
        (Some(_), _) => "error=\"insufficient_scope\", ",
        (None, true) => "error=\"invalid_token\", ",
        (None, false) => "",
    };
    let needed = missing.unwrap_or(Scope::Read);
    let scope = OAUTH_SCOPES.iter().find(|(_, scope)| *scope == needed).map_or("", |(name, _)| *name);
    let text = format!("Bearer realm=\"svcfs\", {error}scope=\"{scope}\", resource_metadata=\"{url}\"");
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.insert(WWW_AUTHENTICATE, value);
    }
}

/// The address of the server as its clients know it, without a trailing slash. Only hosts that are
/// allowed get here.
fn base_url(app: &AppState, headers: &HeaderMap) -> String {
    if let Some(url) = &app.server.settings().server.public_url {
        return url.as_str().to_owned();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    format!("http://{host}")
}
