//! `[webdav]` and `[s3]`. Their authentication is that of `[auth]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::server::PublicUrl;

/// Access over WebDAV.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebDav {
    /// Serve every space over WebDAV, on the address of `server.host`.
    pub enabled: bool,
    /// TCP port; 0 lets the system choose a free one.
    pub port: u16,
    /// URL of this server behind a proxy, such as `https://notes.example.org/dav`. The proxy must
    /// remove the path of this URL from each request. If absent: the host of `server.public_url`,
    /// without a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub public_url: Option<String>,
}

impl Default for WebDav {
    fn default() -> Self {
        Self { enabled: false, port: 3335, public_url: None }
    }
}

/// Access over S3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct S3Config {
    /// Serve every space as an S3 bucket of the same name, on the address of `server.host`.
    pub enabled: bool,
    /// TCP port; 0 lets the system choose a free one.
    pub port: u16,
}

impl Default for S3Config {
    fn default() -> Self {
        Self { enabled: false, port: 3334 }
    }
}

/// Validated settings of a protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolSettings {
    /// TCP port; 0 lets the system choose a free one.
    pub port: u16,
    /// URL behind a proxy; none when not configured.
    pub public_url: Option<PublicUrl>,
}

/// Flags of the command line for a protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtocolFlags {
    /// Whether to serve it.
    pub enabled: bool,
    /// TCP port.
    pub port: Option<u16>,
}

impl ProtocolFlags {
    /// Overrides the values of the file; none when the protocol is off. `unused` is the error for
    /// a port without the protocol.
    fn merge(&self, enabled: bool, port: u16, unused: &'static str) -> Result<Option<ProtocolSettings>, &'static str> {
        match (enabled || self.enabled, self.port) {
            (true, flag) => Ok(Some(ProtocolSettings { port: flag.unwrap_or(port), public_url: None })),
            (false, None) => Ok(None),
            (false, Some(_)) => Err(unused),
        }
    }
}

impl WebDav {
    /// Validates the settings; none when WebDAV is off.
    pub(crate) fn resolve(&self, flags: &ProtocolFlags) -> Result<Option<ProtocolSettings>, &'static str> {
        flags.merge(self.enabled, self.port, "has no effect while the protocol is off; add `--webdav`")
    }

    /// Validates the URL of clients behind a proxy.
    pub(crate) fn public_url(&self) -> Result<Option<PublicUrl>, &'static str> {
        let Some(text) = self.public_url.as_ref().filter(|text| !text.is_empty()) else { return Ok(None) };
        let url = PublicUrl::parse(text)?;
        if !url.path().is_empty() && !is_plain_prefix(url.path()) {
            return Err("must have a path of letters, digits, `-`, `_`, `.`, `~` and single `/`");
        }
        Ok(Some(url))
    }
}

impl S3Config {
    /// Validates the settings; none when S3 is off.
    pub(crate) fn resolve(self, flags: &ProtocolFlags) -> Result<Option<ProtocolSettings>, &'static str> {
        flags.merge(self.enabled, self.port, "has no effect while the protocol is off; add `--s3`")
    }
}

/// Whether a text can be the first part of URL paths: `/` and names without special characters.
#[must_use]
pub fn is_plain_prefix(text: &str) -> bool {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.~".contains(&letter);
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && name.bytes().all(is_plain);
    text.strip_prefix('/').is_some_and(|names| names.split('/').all(is_name))
}
