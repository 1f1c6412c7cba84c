//! `[auth]`

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use svcfs_base::{Actor, Permissions, Scope, TreePath};

use super::server::PublicUrl;
use crate::edit::key_id;

/// Prefix that distinguishes a digest from a plain-text key.
const DIGEST_PREFIX: &str = "sha256:";

/// Authentication of callers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuthConfig {
    /// Type of authentication.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// The key of `type = "apikey"`, or `sha256:` and the 64 hexadecimal digits of its SHA-256.
    /// Avoid plain text here: `api_key = "${SVC_API_KEY}"` reads it from the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub api_key: Option<SecretText>,
    /// The keys of `type = "perspace"`; create one with `svcfs token create`.
    pub api_keys: Vec<ApiKey>,
    /// The identity provider of `type = "oidc"`.
    pub oidc: OidcConfig,
}

/// An OpenID Connect identity provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OidcConfig {
    /// Issuer URL, exactly as in the `iss` of the tokens. The server fetches
    /// `/.well-known/openid-configuration` below it at start, so it must be `https://` or a
    /// loopback address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub issuer: String,
    /// Client id: the required `aud` of the tokens.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_id: String,
}

/// One key of `type = "perspace"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKey {
    /// The key, or `sha256:` and the 64 hexadecimal digits of its SHA-256
    #[serde(default)]
    #[schemars(with = "String")]
    pub key: SecretText,
    /// The only space that the key permits. If absent: all spaces, and their administration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub space: Option<String>,
    /// Author of changes made with this key, whatever name the caller sends. If absent: the name
    /// that the caller sends; for scope `propose`, the id of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub actor: Option<String>,
    /// Permitted operations: `read`, `propose`, `write` or `admin`.
    #[serde(default = "admin")]
    pub scope: Scope,
    /// Restrict the key to this folder. If absent: the whole tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub prefix: Option<String>,
    /// Apply `[agents.limits]` to all requests with this key, and not only to agent tools; not for
    /// scope `admin`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limits: bool,
}

const fn admin() -> Scope {
    Scope::Admin
}

/// A text that is never displayed.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// Type of authentication.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// No authentication: every client that reaches the server has all permissions. Use it with the
    /// loopback address only.
    #[default]
    None,
    /// One key with all permissions, sent as `Authorization: Bearer KEY`.
    ApiKey,
    /// Several keys, each with its own space, actor, scope and folder.
    PerSpace,
    /// Tokens of an identity provider.
    Oidc,
}

impl FromStr for AuthType {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        use serde::de::{IntoDeserializer, value::Error, value::StrDeserializer};
        let text: StrDeserializer<'_, Error> = text.into_deserializer();
        Self::deserialize(text).map_err(|_| "choose one of `none`, `apikey`, `perspace`, `oidc`")
    }
}

/// Validated authentication settings. Holds digests, never plain-text keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthSettings {
    /// No authentication.
    None,
    /// One key.
    ApiKey(KeyDigest),
    /// Several keys; never empty.
    PerSpace(Vec<KeySettings>),
    /// Tokens of an identity provider.
    Oidc(OidcSettings),
}

/// Identity provider and accepted tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// URL of the identity provider: `https://`, or `http://` on the loopback; must equal the `iss`
    /// of tokens.
    pub issuer: String,
    /// Required `aud` of tokens; never empty.
    pub client_id: String,
}

/// Permissions of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// SHA-256 of the key.
    pub digest: KeyDigest,
    /// The only space that it permits.
    pub space: Option<String>,
    /// Author of its changes.
    pub actor: Option<Actor>,
    /// Permissions in the space.
    pub permissions: Permissions,
    /// Whether the limits of agents apply to all its requests.
    pub is_limited: bool,
}

/// The SHA-256 of a key.
#[derive(Clone, Copy)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// Hashes a plain-text key.
    #[must_use]
    pub fn from_key(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }
    /// The first `bytes` in hexadecimal: identifies a key in a log without revealing it.
    #[must_use]
    pub fn short_hex(&self, bytes: usize) -> String {
        svcfs_base::to_hex(&self.0[..bytes.min(self.0.len())])
    }
    /// The first 64 bits: identifies the requests of one key.
    #[must_use]
    pub fn short_number(&self) -> u64 {
        self.0.first_chunk().copied().map_or(0, u64::from_be_bytes)
    }
    /// The form in settings: `sha256:` and 64 hexadecimal digits.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{DIGEST_PREFIX}{}", self.short_hex(self.0.len()))
    }
    /// Parses a digest or a plain-text key.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(hex) = text.strip_prefix(DIGEST_PREFIX) else {
            // Clients send keys in a header (RFC 6750 2.1, but any visible ASCII character).
            let is_sendable = text.chars().all(|c| c.is_ascii_graphic());
            return if is_sendable {
                Ok(Self::from_key(text))
            } else {
                Err("contains characters that an HTTP header cannot carry; use visible ASCII characters")
            };
        };
        let byte = |index: usize| u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok();
        let is_hex = hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit());
        let mut digest = [0; 32];
        for (index, slot) in digest.iter_mut().enumerate() {
            *slot = byte(index).filter(|_| is_hex).ok_or("must have 64 hexadecimal digits after `sha256:`")?;
        }
        Ok(Self(digest))
    }
}

/// Constant-time comparison.
impl PartialEq for KeyDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyDigest {}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{DIGEST_PREFIX}{}…", self.short_hex(4))
    }
}

impl AuthConfig {
    /// Validates the settings. A missing value is an error, never "no authentication"; a value
    /// without effect is an error too.
    pub(crate) fn resolve(self, report: &mut dyn FnMut(&str, &str)) -> Option<AuthSettings> {
        let Self { kind, api_key, api_keys, oidc } = self;
        let api_key = api_key.filter(|SecretText(key)| !key.is_empty());
        let keys = [
            ("auth.api_key", AuthType::ApiKey, "apikey", api_key.is_some()),
            ("auth.api_keys", AuthType::PerSpace, "perspace", !api_keys.is_empty()),
            ("auth.oidc", AuthType::Oidc, "oidc", oidc != OidcConfig::default()),
        ];
        let mut unused = keys.into_iter().filter(|(_, required, _, is_set)| *is_set && *required != kind).peekable();
        if unused.peek().is_some() {
            unused.for_each(|(key, _, name, _)| {
                report(key, &format!("has no effect without `auth.type = \"{name}\"`; set that, or remove it"));
            });
            return None;
        }
        match (kind, api_key) {
            (AuthType::None, _) => Some(AuthSettings::None),
            (AuthType::ApiKey, Some(SecretText(key))) => {
                let digest = KeyDigest::parse(&key).map_err(|message| report("auth.api_key", message)).ok()?;
                Some(AuthSettings::ApiKey(digest))
            }
            (AuthType::ApiKey, None) => {
                report("auth.api_key", "is missing or empty; `auth.type = \"apikey\"` requires a key");
                None
            }
            (AuthType::PerSpace, _) if api_keys.is_empty() => {
                report(
                    "auth.api_keys",
                    "is empty; `auth.type = \"perspace\"` requires a key: run `svcfs token create`",
                );
                None
            }
            (AuthType::PerSpace, _) => resolve_keys(api_keys, report).map(AuthSettings::PerSpace),
            (AuthType::Oidc, _) => oidc.resolve(report).map(AuthSettings::Oidc),
        }
    }
}

impl OidcConfig {
    fn resolve(self, report: &mut dyn FnMut(&str, &str)) -> Option<OidcSettings> {
        let Self { issuer, client_id } = self;
        let issuer_error = issuer_error(&issuer);
        if let Some(message) = issuer_error {
            report("auth.oidc.issuer", message);
        }
        if client_id.is_empty() {
            report(
                "auth.oidc.client_id",
                "is missing or empty; without it, tokens for other clients would be accepted",
            );
        }
        (issuer_error.is_none() && !client_id.is_empty()).then_some(OidcSettings { issuer, client_id })
    }
}

/// The error in the URL of an identity provider (OpenID Connect Discovery 1.0, section 3).
fn issuer_error(issuer: &str) -> Option<&'static str> {
    if issuer.is_empty() {
        return Some("is missing or empty; `auth.type = \"oidc\"` requires the URL of the identity provider");
    }
    let Ok(url) = PublicUrl::parse(issuer) else {
        return Some("is not a URL; write it like `https://id.example.org`, exactly as in the `iss` of its tokens");
    };
    let host = url.host().trim_matches(['[', ']']);
    let is_loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    // Signing keys received without TLS could be forged.
    (!issuer.starts_with("https://") && !is_loopback)
        .then_some("must begin with `https://`, except for a loopback address")
}

fn resolve_keys(keys: Vec<ApiKey>, report: &mut dyn FnMut(&str, &str)) -> Option<Vec<KeySettings>> {
    let count = keys.len();
    let mut resolved: Vec<KeySettings> = Vec::with_capacity(count);
    for (index, ApiKey { key: SecretText(key), space, actor, scope, prefix, limits }) in keys.into_iter().enumerate() {
        let mut report_field = |field: &str, message: &str| report(&format!("auth.api_keys[{index}].{field}"), message);
        let digest = match KeyDigest::parse(&key) {
            _ if key.is_empty() => {
                report_field("key", "is missing or empty; set a key, or remove the entry");
                continue;
            }
            Err(message) => {
                report_field("key", message);
                continue;
            }
            Ok(digest) => digest,
        };
        if resolved.iter().any(|earlier| earlier.digest == digest) {
            report_field("key", "is also the key of an earlier entry; remove one of them");
            continue;
        }
        let folder = match prefix.as_deref().map(TreePath::parse) {
            None => None,
            Some(Ok(folder)) => Some(folder).filter(|folder| !folder.is_root()),
            Some(Err(error)) => {
                report_field("prefix", &format!("is not a valid folder: {error}"));
                continue;
            }
        };
        if limits && scope == Scope::Admin {
            report_field("limits", "has no effect on a key of scope `admin`; choose another `scope`, or remove it");
            continue;
        }
        let space = space.filter(|space| !space.is_empty());
        let actor = actor.filter(|actor| !actor.is_empty()).map(|actor| Actor::new(&actor));
        // The actor names the draft into which the key writes: a client may not choose it.
        let actor = actor.or_else(|| (scope == Scope::Propose).then(|| Actor::new(&key_id(&digest))));
        let permissions = Permissions { scope, folder };
        resolved.push(KeySettings { digest, space, actor, permissions, is_limited: limits });
    }
    (resolved.len() == count).then_some(resolved)
}
