//! `[webdav]` and `[s3]`: the protocols beside HTTP that a server can speak. Who may ask is `[auth]`'s to say, for all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the tree is served over WebDAV, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WebDav {
    /// Serve every space over WebDAV, on the address of `server.host`.
    pub enabled: bool,
    /// TCP port to listen on; 0 lets the system pick a free one.
    pub port: u16,
}

impl Default for WebDav {
    fn default() -> Self {
        Self { enabled: false, port: 3335 }
    }
}

/// Whether the tree is served over S3, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct S3 {
    /// Serve every space over S3, on the address of `server.host`: a bucket of its name.
    pub enabled: bool,
    /// TCP port to listen on; 0 lets the system pick a free one.
    pub port: u16,
}

impl Default for S3 {
    fn default() -> Self {
        Self { enabled: false, port: 3334 }
    }
}

/// A protocol that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolSettings {
    /// TCP port; 0 lets the system pick a free one.
    pub port: u16,
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
            (true, told) => Ok(Some(ProtocolSettings { port: told.unwrap_or(port) })),
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
    pub(crate) fn resolve(self, flags: &ProtocolFlags) -> Result<Option<ProtocolSettings>, &'static str> {
        flags.over(self.enabled, self.port, "has no effect unless the protocol is served: add `--webdav`")
    }
}

impl S3 {
    /// What holds; none when it is not served.
    ///
    /// # Errors
    /// What is wrong with the flags.
    pub(crate) fn resolve(self, flags: &ProtocolFlags) -> Result<Option<ProtocolSettings>, &'static str> {
        flags.over(self.enabled, self.port, "has no effect unless the protocol is served: add `--s3`")
    }
}
