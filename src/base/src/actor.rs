//! Callers, their names and their protocols.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{ClientRequest, Permissions, Precondition, RequestMark};

const MAX_ACTOR_BYTES: usize = 256;

/// The name to which a change is attributed; becomes the git author (`X-Actor`).
///
/// Control characters and the `<` and `>` that delimit an e-mail in git are removed, surrounding
/// white space is trimmed, and the name is cut at 256 bytes. If nothing remains that a git
/// signature accepts, the name is `anonymous`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(Arc<str>);

impl Actor {
    /// Cleans an untrusted name; never fails.
    pub fn new(text: &str) -> Self {
        let mut cleaned: String = text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
        if let Some((end, _)) = cleaned.char_indices().find(|(at, c)| at + c.len_utf8() > MAX_ACTOR_BYTES) {
            cleaned.truncate(end);
        }
        // git trims these from both ends of a name; a name of nothing else would be empty.
        let name = cleaned.trim_matches(|c: char| c.is_whitespace() || ".,:;\"\\'".contains(c));
        Self(if name.is_empty() { "anonymous" } else { name }.into())
    }
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", &*self.0)
    }
}

impl Serialize for Actor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Actor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::new(&Cow::<'de, str>::deserialize(deserializer)?))
    }
}

/// Deserializes a name that selects what is read or changed. Unlike an author it must not be empty:
/// an empty name would select what callers without a name did.
///
/// # Errors
/// If the name is empty.
pub fn deserialize_selected_actor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Actor>, D::Error> {
    let Some(text) = Option::<Cow<'de, str>>::deserialize(deserializer)? else { return Ok(None) };
    let actor = Actor::new(&text);
    if actor == Actor::new("") && text.trim() != actor.as_str() {
        return Err(serde::de::Error::custom("must be the name of an actor; leave it out to select all"));
    }
    Ok(Some(actor))
}

impl JsonSchema for Actor {
    fn schema_name() -> Cow<'static, str> {
        "Actor".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "Name the change is attributed to; becomes the commit author" })
    }
}

/// Origin of a change: `type:id` of the `X-Provenance` header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Type of origin, such as `run`.
    pub kind: String,
    /// Id, such as `249`.
    pub id: String,
}

impl Provenance {
    /// Splits at the first `:`; none unless both parts have text.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        let (kind, id) = (kind.trim(), id.trim());
        let clean = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
        (clean(kind) && clean(id)).then(|| Self { kind: kind.to_owned(), id: id.to_owned() })
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.kind, self.id)
    }
}

/// The protocol through which a caller connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// REST.
    Http,
    /// Agent tools.
    Mcp,
    /// The kernel mount.
    Fuse,
    /// A kernel mount on another machine, which uses the REST interface.
    Remote,
    /// NFSv3.
    Nfs,
    /// WebDAV.
    WebDav,
    /// S3.
    S3,
    /// A command of the `svcfs` program.
    Cli,
    /// An external edit, made in the root itself.
    Direct,
    /// svcfs itself.
    Internal,
}

impl Protocol {
    /// All protocols.
    pub const ALL: &'static [Self] = &[
        Self::Http,
        Self::Mcp,
        Self::Fuse,
        Self::Remote,
        Self::Nfs,
        Self::WebDav,
        Self::S3,
        Self::Cli,
        Self::Direct,
        Self::Internal,
    ];
    /// Parses a name, as [`Protocol::name`] gives it.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|protocol| protocol.name() == name)
    }
    /// The name in settings (`lint.format_protocols`), logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::Fuse => "fuse",
            Self::Remote => "remote",
            Self::Nfs => "nfs",
            Self::WebDav => "webdav",
            Self::S3 => "s3",
            Self::Cli => "cli",
            Self::Direct => "direct",
            Self::Internal => "internal",
        }
    }
    /// The actor of a caller that sends no name.
    pub const fn default_actor(self) -> &'static str {
        match self {
            Self::Http => "anonymous",
            Self::Mcp => "mcp-agent",
            Self::Fuse | Self::Remote => "fuse",
            Self::Nfs => "nfs",
            Self::WebDav => "webdav",
            Self::S3 => "s3",
            Self::Cli => "cli",
            Self::Direct => "fswatch",
            Self::Internal => "svc",
        }
    }
    /// Whether the protocol transfers files: the stored bytes are exactly those that were written.
    pub const fn is_filesystem(self) -> bool {
        match self {
            Self::Fuse | Self::Nfs | Self::WebDav | Self::S3 | Self::Direct => true,
            // A remote mount uses operations, which resolve links and format pages.
            Self::Remote | Self::Http | Self::Mcp | Self::Cli | Self::Internal => false,
        }
    }
    /// Whether the protocol serves knowledge and not every file: hidden files and files that git
    /// ignores do not exist for it.
    pub const fn serves_knowledge_only(self) -> bool {
        match self {
            Self::Http | Self::Mcp | Self::Cli => true,
            Self::Fuse | Self::Remote | Self::Nfs | Self::WebDav | Self::S3 | Self::Direct | Self::Internal => false,
        }
    }
}

/// Identifies one of several mounts, so that a mount recognises its own changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginId(pub u64);

/// The client that sent a request, as far as its protocol identifies one. A search must see earlier
/// writes of its own client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// A hash of its key.
    pub key: Option<u64>,
    /// The number of its connection, unique in this process.
    pub connection: Option<u64>,
}

/// The caller of an operation. Attribution and preconditions are here, never in the input of an
/// operation.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The protocol of the request.
    pub protocol: Protocol,
    /// The mount, if the protocol has several.
    pub origin: Option<OriginId>,
    /// The name that the caller sent, if any.
    pub actor: Option<Actor>,
    /// Whether the name is that of the credentials, which no input of an operation can replace.
    pub is_actor_fixed: bool,
    /// The network address, for protocols without another identity of the client.
    pub address: Option<IpAddr>,
    /// The origin that the caller sent, if any.
    pub provenance: Option<Provenance>,
    /// Condition on the written page (`If-Match`, `If-None-Match`).
    pub precondition: Precondition,
    /// Number of the lease under which the caller writes (`X-Claim-Fence`), if it names one.
    pub claim_fence: Option<u64>,
    /// The request, if its client gave it an id and may send it again.
    pub request: Option<Arc<ClientRequest>>,
    /// What the credentials allow.
    pub permissions: Permissions,
    /// Whether the limits of agents apply.
    pub is_limited: bool,
    /// Whether the caller may end the protection of an append-only page: root on a mount, and a
    /// request with `force` to a server without authentication. Admin keys may, too.
    pub may_unlock: bool,
    /// Whether the caller accepts that others which depend on the change cannot be used any more
    /// (`force`).
    pub is_forced: bool,
    /// The client that sent the request.
    pub client: Client,
}

impl Caller {
    /// A caller without name, origin or precondition, with all permissions.
    pub const fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            origin: None,
            actor: None,
            is_actor_fixed: false,
            address: None,
            provenance: None,
            precondition: Precondition::Any,
            claim_fence: None,
            request: None,
            permissions: Permissions::FULL,
            is_limited: false,
            may_unlock: false,
            is_forced: false,
            client: Client { key: None, connection: None },
        }
    }
    /// The same caller with a name.
    #[must_use]
    pub fn with_actor(mut self, actor: Actor) -> Self {
        self.actor = Some(actor);
        self
    }
    /// The same caller with the name that the input of an operation has, if any. The name of
    /// credentials remains.
    #[must_use]
    pub fn with_input_actor(mut self, actor: Option<Actor>) -> Self {
        if !self.is_actor_fixed {
            self.actor = actor.or(self.actor);
        }
        self
    }
    /// The same caller through one of several mounts.
    #[must_use]
    pub const fn with_origin(mut self, origin: OriginId) -> Self {
        self.origin = Some(origin);
        self
    }
    /// The server that writes for this caller: under the same name, with all permissions.
    #[must_use]
    pub fn as_server(&self) -> Self {
        Self { protocol: Protocol::Internal, permissions: Permissions::FULL, ..self.clone() }
    }
    /// What the log records of a request that its client may send again.
    pub fn request_mark(&self) -> Option<RequestMark> {
        self.request.as_ref()?.mark
    }
    /// The name to which changes are attributed: the sent one, else the default of the protocol.
    pub fn actor(&self) -> Actor {
        self.actor.clone().unwrap_or_else(|| Actor::new(self.protocol.default_actor()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_actor_is_always_a_name_git_accepts() {
        for (given, cleaned) in [
            ("  agent:x \n", "agent:x"),
            ("a\tb\u{7f}", "ab"),
            ("Eve <eve@example.org>", "Eve eve@example.org"),
            ("", "anonymous"),
            (" .,; ", "anonymous"),
            ("Zoë 日本", "Zoë 日本"),
        ] {
            assert_eq!(Actor::new(given).as_str(), cleaned, "{given:?}");
        }
        assert_eq!(Actor::new(&"é".repeat(300)).as_str().len(), 256);
    }

    #[test]
    fn provenance_needs_both_halves() {
        assert_eq!(Provenance::parse("run: 249:b").unwrap().to_string(), "run:249:b");
        for text in ["", "run", ":1", "run:", " : ", "run:\n"] {
            assert_eq!(Provenance::parse(text), None, "{text:?}");
        }
    }
}
