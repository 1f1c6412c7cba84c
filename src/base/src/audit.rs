//! What is kept of who asked for what.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Protocol, Timestamp};

/// One request as the audit log keeps it (contract 4.17, gaps.md 4.17). No key and no content is ever in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// When it was answered
    pub ts: Timestamp,
    /// The protocol of the request: `http`, `mcp`, `webdav`, `s3` or `nfs`
    // Logs of earlier versions call it `door`.
    #[serde(alias = "door")]
    #[schemars(with = "String")]
    pub protocol: Protocol,
    /// Its method
    pub method: String,
    /// Its path
    pub path: String,
    /// Its query, as it was sent
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The operation it led to; absent when it was refused before that was known
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The file it was about, where it was about one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The space it was for; absent when there is none of its name
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Who asked: the owner of the key, else the caller's own word
    pub actor: String,
    /// The first 8 hexadecimal digits of the SHA-256 of the key that was sent, right or wrong
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_hash: Option<String>,
    /// The address it came from
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpAddr>,
    /// What it was answered
    pub status: u16,
    /// How long that took, in milliseconds
    pub duration_ms: u64,
    /// The id under which the server's log tells of it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// `X-Space` of the request, where it had one: the caller's own word
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_space: Option<String>,
    /// `X-Provenance` of the request, where it had one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// How many requests just before this one could not be kept, because the log could not be written fast enough, or at all
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_before: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
