//! `[webdav]` and `[s3]`: the protocols beside HTTP that a server can speak. Who may ask is `[auth]`'s to say, for all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::server::PublicUrl;

/// Whether the tree is served over WebDAV, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebDav {
    /// Serve every space over WebDAV, on the address of `server.host`.
    pub enabled: bool,
    /// TCP port to listen on; 0 lets the system pick a free one.
    pub port: u16,
    /// The address under which clients reach it through a proxy, such as `https://notes.example.org/dav`. The proxy takes the path of this address off the path of
    /// each request. Absent: the host of `server.public_url`, without a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub public_url: Option<String>,
}

impl Default for WebDav {
    fn default() -> Self {
        Self { enabled: false, port: 3335, public_url: None }
    }
}

/// Whether the tree is served over S3, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct S3Config {
    /// Serve every space over S3, on the address of `server.host`: a bucket of its name.
    pub enabled: bool,
    /// TCP port to listen on; 0 lets the system pick a free one.
    pub port: u16,
}

impl Default for S3Config {
    fn default() -> Self {
        Self { enabled: false, port: 3334 }
    }
}

/// A protocol that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolSettings {
    /// TCP port; 0 lets the system pick a free one.
    pub port: u16,
    /// How clients reach it through a proxy; none when it was not said.
    pub public_url: Option<PublicUrl>,
}

/// What the command line says of a protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtocolFlags {
    /// It is to be served.
    pub enabled: bool,
    /// On this port.
    pub port: Option<u16>,
}

impl ProtocolFlags {
    /// What holds, over what the file says; none when it is not served. `idle` is what is wrong with a port alone.
    fn over(&self, enabled: bool, port: u16, idle: &'static str) -> Result<Option<ProtocolSettings>, &'static str> {
        match (enabled || self.enabled, self.port) {
            (true, told) => Ok(Some(ProtocolSettings { port: told.unwrap_or(port), public_url: None })),
            (false, None) => Ok(None),
            (false, Some(_)) => Err(idle),
        }
    }
}

impl WebDav {
    /// What holds; none when it is not served.
    ///
    /// # Errors
    /// What is wrong with the flags.
    pub(crate) fn resolve(&self, flags: &ProtocolFlags) -> Result<Option<ProtocolSettings>, &'static str> {
        flags.over(self.enabled, self.port, "has no effect unless the protocol is served: add `--webdav`")
    }

    /// How clients reach it.
    ///
    /// # Errors
    /// What is wrong with it.
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
    /// What holds; none when it is not served.
    ///
    /// # Errors
    /// What is wrong with the flags.
    pub(crate) fn resolve(self, flags: &ProtocolFlags) -> Result<Option<ProtocolSettings>, &'static str> {
        flags.over(self.enabled, self.port, "has no effect unless the protocol is served: add `--s3`")
    }
}

/// Whether a text can be what addresses begin with: `/` and plain names, without anything that means something in an address.
#[must_use]
pub fn is_plain_prefix(text: &str) -> bool {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.~".contains(&letter);
    let is_name = |name: &str| !matches!(name, "" | "." | "..") && name.bytes().all(is_plain);
    text.strip_prefix('/').is_some_and(|names| names.split('/').all(is_name))
}
