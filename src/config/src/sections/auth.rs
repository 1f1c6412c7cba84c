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

/// How a digest is told from a key in clear.
const DIGEST: &str = "sha256:";

/// Who may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuthConfig {
    /// How callers prove who they are.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// The one key of `type = "apikey"`, or `sha256:` and the 64 hexadecimal digits of its SHA-256. Better not here in clear:
    /// `api_key = "${SVC_API_KEY}"` takes it from the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub api_key: Option<SecretText>,
    /// The keys of `type = "perspace"`; `svcfs token create` makes one.
    pub api_keys: Vec<ApiKey>,
    /// The identity provider of `type = "oidc"`.
    pub oidc: OidcConfig,
}

/// An identity provider that speaks OpenID Connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OidcConfig {
    /// Its address, as it stands in the `iss` of its tokens. `/.well-known/openid-configuration` below it is fetched at the start, so it must be
    /// `https://`, or this very machine.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub issuer: String,
    /// Whom the tokens must be for: what stands in their `aud`.
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
    /// The only space it opens; all of them, and their administration, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub space: Option<String>,
    /// Name its changes are attributed to, whatever the caller says; the caller's own word when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub actor: Option<String>,
    /// What it allows.
    #[serde(default = "admin")]
    pub scope: Scope,
    /// The folder beyond which it shows and changes nothing; the whole tree when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub prefix: Option<String>,
}

const fn admin() -> Scope {
    Scope::Admin
}

/// A text that is never shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// How callers prove who they are (contract 5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthType {
    /// Everybody who can reach the server may do everything; meant for the loopback address.
    #[default]
    None,
    /// One key for everything, as `Authorization: Bearer KEY`.
    ApiKey,
    /// Several keys, each with a space, a name, a scope and a folder of its own.
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

/// How callers prove who they are, decided. Keys in clear are not kept: only their digests are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthSettings {
    /// They do not.
    None,
    /// By the one key.
    ApiKey(KeyDigest),
    /// By one of several keys; never empty.
    PerSpace(Vec<KeySettings>),
    /// By a token of an identity provider.
    Oidc(OidcSettings),
}

/// Whose tokens are taken, and which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Address of the identity provider: `https://`, or `http://` on the loopback. Letter for letter what its tokens say in `iss`.
    pub issuer: String,
    /// What the tokens must say in `aud`; never empty.
    pub client_id: String,
}

/// What a key opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// Which key.
    pub digest: KeyDigest,
    /// The only space it opens.
    pub space: Option<String>,
    /// Whose it is.
    pub actor: Option<Actor>,
    /// What it allows there.
    pub permissions: Permissions,
}

/// The SHA-256 of a key.
#[derive(Clone, Copy)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// Of a key in clear.
    #[must_use]
    pub fn from_key(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }
    /// The first `bytes` of it in hexadecimal: enough to tell keys apart in a log, not to find one.
    #[must_use]
    pub fn short_hex(&self, bytes: usize) -> String {
        self.0.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
    }
    /// The first 64 bits of it: enough to tell the requests of one key from those of another.
    #[must_use]
    pub fn short_number(&self) -> u64 {
        self.0.first_chunk().copied().map_or(0, u64::from_be_bytes)
    }
    /// As settings are written: `sha256:` and 64 hexadecimal digits.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{DIGEST}{}", self.short_hex(self.0.len()))
    }
    /// What settings say: a digest, or a key in clear.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(hex) = text.strip_prefix(DIGEST) else {
            // A header carries nothing else (RFC 6750 2.1, as widely as clients go).
            let is_sendable = text.chars().all(|c| c.is_ascii_graphic());
            return if is_sendable {
                Ok(Self::from_key(text))
            } else {
                Err("has characters that no HTTP header can carry")
            };
        };
        let byte = |at: usize| u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok();
        let is_hex = hex.len() == 64 && hex.chars().all(|c| c.is_ascii_hexdigit());
        let mut digest = [0; 32];
        for (at, slot) in digest.iter_mut().enumerate() {
            *slot = byte(at).filter(|_| is_hex).ok_or("must have 64 hexadecimal digits after `sha256:`")?;
        }
        Ok(Self(digest))
    }
}

/// In a time that does not depend on where they differ.
impl PartialEq for KeyDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for KeyDigest {}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{DIGEST}{}…", self.short_hex(4))
    }
}

impl AuthConfig {
    /// What holds. Whatever is missing is complained about, never taken for "open" (gaps.md D12); so is what would have no effect.
    pub(crate) fn resolve(self, complain: &mut dyn FnMut(&str, &str)) -> Option<AuthSettings> {
        let Self { kind, api_key, api_keys, oidc } = self;
        let api_key = api_key.filter(|SecretText(key)| !key.is_empty());
        let idle = [
            (
                "auth.api_key",
                AuthType::ApiKey,
                api_key.is_some(),
                "has no effect without `auth.type = \"apikey\"`; set that, or remove the key",
            ),
            (
                "auth.api_keys",
                AuthType::PerSpace,
                !api_keys.is_empty(),
                "have no effect without `auth.type = \"perspace\"`; set that, or remove the keys",
            ),
            (
                "auth.oidc",
                AuthType::Oidc,
                oidc != OidcConfig::default(),
                "has no effect without `auth.type = \"oidc\"`; set that, or remove the section",
            ),
        ];
        let mut idle = idle.into_iter().filter(|(_, needed, is_there, _)| *is_there && *needed != kind).peekable();
        if idle.peek().is_some() {
            idle.for_each(|(key, _, _, told)| complain(key, told));
            return None;
        }
        match (kind, api_key) {
            (AuthType::None, _) => Some(AuthSettings::None),
            (AuthType::ApiKey, Some(SecretText(key))) => {
                let digest = KeyDigest::parse(&key).map_err(|told| complain("auth.api_key", told)).ok()?;
                Some(AuthSettings::ApiKey(digest))
            }
            (AuthType::ApiKey, None) => {
                let told = "is missing or empty; `auth.type = \"apikey\"` needs the key, and nobody is let in without";
                complain("auth.api_key", told);
                None
            }
            (AuthType::PerSpace, _) if api_keys.is_empty() => {
                let told =
                    "are missing; `auth.type = \"perspace\"` needs at least one key: `svcfs token create` makes one";
                complain("auth.api_keys", told);
                None
            }
            (AuthType::PerSpace, _) => resolve_keys(api_keys, complain).map(AuthSettings::PerSpace),
            (AuthType::Oidc, _) => oidc.resolve(complain).map(AuthSettings::Oidc),
        }
    }
}

impl OidcConfig {
    fn resolve(self, complain: &mut dyn FnMut(&str, &str)) -> Option<OidcSettings> {
        let Self { issuer, client_id } = self;
        let issuer_fault = issuer_fault(&issuer);
        if let Some(told) = issuer_fault {
            complain("auth.oidc.issuer", told);
        }
        if client_id.is_empty() {
            complain(
                "auth.oidc.client_id",
                "is missing or empty; a token for anybody else would open this server, too",
            );
        }
        (issuer_fault.is_none() && !client_id.is_empty()).then_some(OidcSettings { issuer, client_id })
    }
}

/// What is wrong with the address of an identity provider (OpenID Connect Discovery 1.0, section 3).
fn issuer_fault(issuer: &str) -> Option<&'static str> {
    if issuer.is_empty() {
        return Some("is missing or empty; `auth.type = \"oidc\"` needs the address of the identity provider");
    }
    let Ok(url) = PublicUrl::parse(issuer) else {
        return Some("is no address; write it like `https://id.example.org`, as it stands in the `iss` of its tokens");
    };
    let host = url.host().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    // Keys that came in clear may be anybody's.
    (!issuer.starts_with("https://") && !is_here).then_some("must begin with `https://`, unless it is on this machine")
}

fn resolve_keys(keys: Vec<ApiKey>, complain: &mut dyn FnMut(&str, &str)) -> Option<Vec<KeySettings>> {
    let count = keys.len();
    let mut resolved: Vec<KeySettings> = Vec::with_capacity(count);
    for (index, ApiKey { key: SecretText(key), space, actor, scope, prefix }) in keys.into_iter().enumerate() {
        let mut wrong = |field: &str, told: &str| complain(&format!("auth.api_keys[{index}].{field}"), told);
        let digest = match KeyDigest::parse(&key) {
            _ if key.is_empty() => {
                wrong("key", "is missing or empty; an entry without a key would let nobody or everybody in");
                continue;
            }
            Err(told) => {
                wrong("key", told);
                continue;
            }
            Ok(digest) => digest,
        };
        if resolved.iter().any(|other| other.digest == digest) {
            wrong("key", "is the key of an earlier entry, too; which of them holds would be a guess");
            continue;
        }
        let folder = match prefix.as_deref().map(TreePath::parse) {
            None => None,
            Some(Ok(folder)) => Some(folder).filter(|folder| !folder.is_root()),
            Some(Err(fault)) => {
                wrong("prefix", &format!("is no folder: {fault}"));
                continue;
            }
        };
        let space = space.filter(|space| !space.is_empty());
        let actor = actor.filter(|actor| !actor.is_empty()).map(|actor| Actor::new(&actor));
        resolved.push(KeySettings { digest, space, actor, permissions: Permissions { scope, folder } });
    }
    (resolved.len() == count).then_some(resolved)
}
