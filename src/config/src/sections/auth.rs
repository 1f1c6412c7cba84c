//! `[auth]`

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use svcfs_base::{Actor, Reach, Scope, TreePath};

/// How a digest is told from a key in clear.
const DIGEST: &str = "sha256:";

/// Who may ask.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Auth {
    /// How callers prove who they are.
    #[serde(rename = "type")]
    pub kind: AuthType,
    /// The one key of `type = "apikey"`, or `sha256:` and the 64 hexadecimal digits of its SHA-256. Better not here in clear:
    /// `api_key = "${SVC_API_KEY}"` takes it from the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub api_key: Option<Secret>,
    /// The keys of `type = "perspace"`; `svcfs token create` makes one.
    pub api_keys: Vec<ApiKey>,
}

/// One key of `type = "perspace"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApiKey {
    /// The key, or `sha256:` and the 64 hexadecimal digits of its SHA-256
    #[serde(default)]
    #[schemars(with = "String")]
    pub key: Secret,
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
pub(crate) struct Secret(pub String);

impl fmt::Debug for Secret {
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
    pub reach: Reach,
}

/// The SHA-256 of a key.
#[derive(Clone, Copy)]
pub struct KeyDigest([u8; 32]);

impl KeyDigest {
    /// Of a key in clear.
    #[must_use]
    pub fn of(key: &str) -> Self {
        Self(Sha256::digest(key.as_bytes()).into())
    }
    /// The first `bytes` of it in hexadecimal: enough to tell keys apart in a log, not to find one.
    #[must_use]
    pub fn short(&self, bytes: usize) -> String {
        self.0.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
    }
    /// As settings are written: `sha256:` and 64 hexadecimal digits.
    #[must_use]
    pub fn written(&self) -> String {
        format!("{DIGEST}{}", self.short(self.0.len()))
    }
    /// What settings say: a digest, or a key in clear.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let Some(hex) = text.strip_prefix(DIGEST) else {
            // A header carries nothing else (RFC 6750 2.1, as widely as clients go).
            let is_sendable = text.chars().all(|c| c.is_ascii_graphic());
            return if is_sendable { Ok(Self::of(text)) } else { Err("has characters that no HTTP header can carry") };
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
        write!(formatter, "{DIGEST}{}…", self.short(4))
    }
}

impl Auth {
    /// What holds. Whatever is missing is complained about, never taken for "open" (gaps.md D12).
    pub(crate) fn resolve(self, complain: &mut dyn FnMut(&str, &str)) -> Option<AuthSettings> {
        let Self { kind, api_key, api_keys } = self;
        let api_key = api_key.filter(|Secret(key)| !key.is_empty());
        match (kind, api_key, api_keys.is_empty()) {
            (AuthType::None, None, true) => Some(AuthSettings::None),
            (AuthType::None | AuthType::PerSpace, Some(_), _) => {
                complain("auth.api_key", "has no effect without `auth.type = \"apikey\"`; set that, or remove the key");
                None
            }
            (AuthType::None | AuthType::ApiKey, _, false) => {
                complain(
                    "auth.api_keys",
                    "have no effect without `auth.type = \"perspace\"`; set that, or remove the keys",
                );
                None
            }
            (AuthType::ApiKey, None, true) => {
                let told = "is missing or empty; `auth.type = \"apikey\"` needs the key, and nobody is let in without";
                complain("auth.api_key", told);
                None
            }
            (AuthType::ApiKey, Some(Secret(key)), true) => {
                let digest = KeyDigest::parse(&key).map_err(|told| complain("auth.api_key", told)).ok()?;
                Some(AuthSettings::ApiKey(digest))
            }
            (AuthType::PerSpace, None, true) => {
                let told =
                    "are missing; `auth.type = \"perspace\"` needs at least one key: `svcfs token create` makes one";
                complain("auth.api_keys", told);
                None
            }
            (AuthType::PerSpace, None, false) => resolve_keys(api_keys, complain).map(AuthSettings::PerSpace),
        }
    }
}

fn resolve_keys(keys: Vec<ApiKey>, complain: &mut dyn FnMut(&str, &str)) -> Option<Vec<KeySettings>> {
    let count = keys.len();
    let mut resolved: Vec<KeySettings> = Vec::with_capacity(count);
    for (index, ApiKey { key: Secret(key), space, actor, scope, prefix }) in keys.into_iter().enumerate() {
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
        resolved.push(KeySettings { digest, space, actor, reach: Reach { scope, folder } });
    }
    (resolved.len() == count).then_some(resolved)
}
