//! Entries of the audit log.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Protocol, Timestamp};

/// One request in the audit log. Entries contain no key and no page content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// When the request was answered
    pub ts: Timestamp,
    /// The protocol of the request: `http`, `mcp`, `webdav`, `s3` or `nfs`
    // Logs of earlier versions call it `door`.
    #[serde(alias = "door")]
    #[schemars(with = "String")]
    pub protocol: Protocol,
    /// Request method
    pub method: String,
    /// Request path
    pub path: String,
    /// Query string, as sent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The operation; absent when the request was refused before it was known
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The file that the request concerns, if any
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The space; absent when no space has the requested name
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// The caller: the owner of the key, else the name that the caller sent
    pub actor: String,
    /// The first 8 hexadecimal digits of the SHA-256 of the sent key, valid or not
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_hash: Option<String>,
    /// Network address of the caller
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// Status of the response
    pub status: u16,
    /// Duration in milliseconds
    pub duration_ms: u64,
    /// The request id, as in the server's log
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The `X-Space` header, as sent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_space: Option<String>,
    /// The `X-Provenance` header, as sent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// How many requests before this one are missing, because the audit log could not be written in
    /// time or at all
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_before: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
