//! Who somebody is, by their credentials, and what these allow (contract 5, gaps.md D12).
//!
//! One rule: it fails closed. Whoever cannot be told is refused; there is no setting, empty field or failed reading of a file by which
//! a door opens up. What an operation needs stands with the operation ([`Entry::needs`](crate::kernel::Entry::needs),
//! [`Within`](crate::kernel::Within)), and is checked where all doors meet.

mod guard;
mod issuer;
#[cfg(test)]
mod issuer_tests;
mod limiter;
mod signing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::RwLock;
use svcfs_base::{Actor, Caller, Client, Fault, Kind, Permissions};
use svcfs_config::edit::key_id;
use svcfs_config::{AuthSettings, KeyDigest, KeySettings, SpaceVisibility};

pub use guard::RequestGuard;
pub use limiter::{RETRY_AFTER_KEY, RateLimitKey, RequestLimiter};
pub use signing::SigningKey;

use crate::kernel::{HttpMethod, OperationEntry};
use crate::usage;
use issuer::IdentityProvider;

/// What is read of an unlisted space by whoever knows a path (gaps.md 4.17).
const OF_UNLISTED: [&str; 3] = ["read", "peek", "section"];

/// What credentials are compared with; can be exchanged while everything runs.
#[derive(Debug)]
pub struct AccessControl {
    gate: RwLock<Arc<AuthMode>>,
    /// The key of whoever may read the server's own files.
    local: Option<KeyDigest>,
}

/// How callers are told apart.
#[derive(Debug)]
enum AuthMode {
    /// They are not.
    Open,
    ApiKey(KeyDigest),
    PerSpace(Vec<KeySettings>),
    Oidc(IdentityProvider),
}

impl AuthMode {
    fn of(settings: AuthSettings) -> Self {
        match settings {
            AuthSettings::None => Self::Open,
            AuthSettings::ApiKey(key) => Self::ApiKey(key),
            AuthSettings::PerSpace(keys) => Self::PerSpace(keys),
            AuthSettings::Oidc(settings) => Self::Oidc(IdentityProvider::new(settings)),
        }
    }
    /// Fetches what is needed from elsewhere.
    fn prepare(&self) -> Result<(), Fault> {
        match self {
            Self::Open | Self::ApiKey(_) | Self::PerSpace(_) => Ok(()),
            Self::Oidc(issuer) => issuer.ask(),
        }
    }
}

/// Who somebody is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerIdentity {
    /// Whose credentials they are; none when that is the caller's own word.
    pub actor: Option<Actor>,
    /// The only space they open.
    pub space: Option<String>,
    /// What they allow.
    pub permissions: Permissions,
    /// Which credentials they were; none where none were looked at.
    pub token: Option<KeyDigest>,
}

impl CallerIdentity {
    /// Everybody, where there is no authentication, and whoever talks to this process on its standard input.
    pub const UNRESTRICTED: Self = Self { actor: None, space: None, permissions: Permissions::FULL, token: None };

    /// Who comes without credentials to a space that lets strangers ask this of it by this method; none when it does not.
    pub fn anonymous(visibility: SpaceVisibility, entry: &OperationEntry, method: HttpMethod) -> Option<Self> {
        // What others read and looked for is no page of the space.
        let is_of_readers = usage::AREA.operations.iter().any(|other| other.name == entry.name);
        let is_reading = method == HttpMethod::Get && !entry.is_admin && !is_of_readers;
        let may = match visibility {
            SpaceVisibility::Public => is_reading,
            SpaceVisibility::Unlisted => is_reading && OF_UNLISTED.contains(&entry.name),
            SpaceVisibility::Private => false,
        };
        may.then_some(Self { permissions: Permissions::READ_ONLY, ..Self::UNRESTRICTED })
    }

    /// Checks that the server's own affairs may be looked after: not with what opens one space only.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn check_server_admin(&self) -> Result<(), Fault> {
        match &self.space {
            Some(space) => {
                let told = format!("spaces are administered with a key without a space, and this one is for `{space}`");
                Err(Fault::new(Kind::Forbidden, told))
            }
            None => Ok(()),
        }
    }

    /// Checks that a space may be entered.
    ///
    /// # Errors
    /// `Unauthenticated`: what opens other doors is no credential here.
    pub fn check_space(&self, space: &str) -> Result<(), Fault> {
        match &self.space {
            Some(only) if only != space => Err(refused("this API key is for another space")),
            Some(_) | None => Ok(()),
        }
    }

    /// The same caller, with the name and the limits that the credentials give.
    #[must_use]
    pub fn apply_to(&self, caller: Caller) -> Caller {
        let key = self.token.as_ref().map(KeyDigest::short_number).or(caller.client.key);
        Caller {
            actor: self.actor.clone().or(caller.actor),
            permissions: self.permissions.clone(),
            client: Client { key, ..caller.client },
            ..caller
        }
    }
}

impl AccessControl {
    /// What these settings ask for. Whoever has the `local` key may do everything, whatever the settings: it lies where only the
    /// server's own user can read it.
    pub fn new(settings: AuthSettings, local: Option<KeyDigest>) -> Self {
        Self { gate: RwLock::new(Arc::new(AuthMode::of(settings))), local }
    }

    /// Whether everybody may do everything.
    pub fn is_open(&self) -> bool {
        matches!(**self.gate.read(), AuthMode::Open)
    }

    /// Asks for other credentials from now on. Requests in progress end as they began. Blocks while an identity provider is asked for its keys.
    ///
    /// # Errors
    /// `Unavailable` when the new settings need what cannot be had; those before hold on.
    pub fn reload(&self, settings: AuthSettings) -> Result<(), Fault> {
        let gate = AuthMode::of(settings);
        gate.prepare()?;
        *self.gate.write() = Arc::new(gate);
        Ok(())
    }

    /// Fetches what [`identify`](Self::identify) needs from elsewhere: the keys of an identity provider. Blocks for up to 20 s.
    ///
    /// # Errors
    /// `Unavailable` when it cannot be had: nobody could be let in.
    pub fn fetch_issuer_keys(&self) -> Result<(), Fault> {
        let gate = Arc::clone(&self.gate.read());
        gate.prepare()
    }

    /// Whether this token cannot be judged before [`prepare`](Self::prepare) was called again.
    pub fn needs_issuer_keys(&self, bearer: &str) -> bool {
        let gate = Arc::clone(&self.gate.read());
        match &*gate {
            AuthMode::Open | AuthMode::ApiKey(_) | AuthMode::PerSpace(_) => false,
            AuthMode::Oidc(issuer) => !self.is_local(KeyDigest::from_key(bearer)) && issuer.must_be_asked(bearer),
        }
    }

    /// Who has this bearer token.
    ///
    /// # Errors
    /// `Unauthenticated` when nobody has it, or there is none and one is asked for; `Unavailable` when that cannot be known now.
    pub fn identify(&self, bearer: Option<&str>) -> Result<CallerIdentity, Fault> {
        let gate = Arc::clone(&self.gate.read());
        if matches!(*gate, AuthMode::Open) {
            return Ok(CallerIdentity::UNRESTRICTED);
        }
        let bearer = bearer.ok_or_else(|| refused("missing bearer token"))?;
        let token = KeyDigest::from_key(bearer);
        let known = CallerIdentity { token: Some(token), ..CallerIdentity::UNRESTRICTED };
        if self.is_local(token) {
            return Ok(known);
        }
        match &*gate {
            AuthMode::ApiKey(key) if *key == token => Ok(known),
            AuthMode::PerSpace(keys) => {
                // Every key is looked at, so that the time taken tells nothing of which one it was.
                let found = keys.iter().fold(None, |found, key| if key.digest == token { Some(key) } else { found });
                let KeySettings { actor, space, permissions: reach, digest: _ } =
                    found.ok_or_else(|| refused("invalid API key"))?;
                Ok(CallerIdentity { actor: actor.clone(), space: space.clone(), permissions: reach.clone(), ..known })
            }
            AuthMode::Oidc(issuer) => Ok(CallerIdentity { actor: Some(issuer.identify(bearer)?), ..known }),
            AuthMode::ApiKey(_) | AuthMode::Open => Err(refused("invalid API key")),
        }
    }

    /// Whose key has this name, as `svcfs token list` shows it. The name is no secret: who comes by it has proved by a signature to have the key's
    /// ([`Signing`]).
    ///
    /// # Errors
    /// `Unauthenticated` where no key is called so.
    pub fn identify_by_key_id(&self, id: &str) -> Result<CallerIdentity, Fault> {
        let gate = Arc::clone(&self.gate.read());
        let unknown = || refused("no key has this name");
        match &*gate {
            AuthMode::Open => Ok(CallerIdentity::UNRESTRICTED),
            AuthMode::ApiKey(key) if key_id(key) == id => {
                Ok(CallerIdentity { token: Some(*key), ..CallerIdentity::UNRESTRICTED })
            }
            AuthMode::PerSpace(keys) => {
                let found = keys.iter().find(|key| key_id(&key.digest) == id).ok_or_else(unknown)?;
                let KeySettings { actor, space, permissions: reach, digest } = found.clone();
                Ok(CallerIdentity { actor, space, permissions: reach, token: Some(digest) })
            }
            AuthMode::ApiKey(_) | AuthMode::Oidc(_) => Err(unknown()),
        }
    }

    fn is_local(&self, token: KeyDigest) -> bool {
        self.local == Some(token)
    }
}

fn refused(told: &str) -> Fault {
    Fault::new(Kind::Unauthenticated, told)
}
