//! Authentication: who a caller is, and what its credentials permit.
//!
//! Invariant: access control fails closed. A caller that cannot be identified is refused. No
//! setting, empty field or failed read of a file opens access. Each operation declares what it
//! needs ([`RequestGuard`], [`FolderScope`](crate::kernel::FolderScope)), checked where all
//! protocols meet.

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
use svcfs_base::{Actor, Caller, Client, Fault, Kind, Permissions, Scope};
use svcfs_config::edit::key_id;
use svcfs_config::{AuthSettings, KeyDigest, KeySettings, SpaceVisibility};

pub use guard::RequestGuard;
pub use limiter::{RETRY_AFTER_KEY, RateLimitKey, RequestLimiter};
pub use signing::SigningKey;

use crate::kernel::{HttpMethod, OperationEntry};
use crate::usage;
use issuer::IdentityProvider;

/// The scopes of OAuth tokens. A token that has none of them has the scope `admin`: most providers
/// know only their own scopes.
pub const OAUTH_SCOPES: [(&str, Scope); 4] = [
    ("svc:read", Scope::Read),
    ("svc:propose", Scope::Propose),
    ("svc:write", Scope::Write),
    ("svc:admin", Scope::Admin),
];

/// Operations on an unlisted space without credentials, for callers who know a page's path.
const UNLISTED_OPERATIONS: [&str; 3] = ["read", "peek", "section"];

/// Verifies credentials. The settings can be replaced while the server runs.
#[derive(Debug)]
pub struct AccessControl {
    mode: RwLock<Arc<AuthMode>>,
    /// The key in the server's own files: any process that can read them has full access.
    local: Option<KeyDigest>,
    /// The public address of the server: the `aud` of tokens that are issued for it, besides the
    /// client id.
    resource: Option<String>,
}

#[derive(Debug)]
enum AuthMode {
    Open,
    ApiKey(KeyDigest),
    PerSpace(Vec<KeySettings>),
    Oidc(IdentityProvider),
}

impl AuthMode {
    fn new(settings: AuthSettings) -> Self {
        match settings {
            AuthSettings::None => Self::Open,
            AuthSettings::ApiKey(key) => Self::ApiKey(key),
            AuthSettings::PerSpace(keys) => Self::PerSpace(keys),
            AuthSettings::Oidc(settings) => Self::Oidc(IdentityProvider::new(settings)),
        }
    }
    /// Fetches the keys of an identity provider, if the mode needs one.
    fn prepare(&self) -> Result<(), Fault> {
        match self {
            Self::Open | Self::ApiKey(_) | Self::PerSpace(_) => Ok(()),
            Self::Oidc(issuer) => issuer.fetch_keys(),
        }
    }
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The actor of the credentials; none if the caller may name itself.
    pub actor: Option<Actor>,
    /// The only space the credentials are valid for.
    pub space: Option<String>,
    /// What the credentials permit.
    pub permissions: Permissions,
    /// The digest of the credentials; none if none were checked.
    pub token: Option<KeyDigest>,
    /// Whether the limits of agents apply to all requests with these credentials.
    pub is_limited: bool,
}

impl CallerIdentity {
    /// Any caller without authentication, and the client of an MCP server on standard input.
    pub const UNRESTRICTED: Self =
        Self { actor: None, space: None, permissions: Permissions::FULL, token: None, is_limited: false };

    /// The identity of an anonymous caller, if the space's visibility permits this operation.
    pub fn anonymous(visibility: SpaceVisibility, entry: &OperationEntry, method: HttpMethod) -> Option<Self> {
        // The usage area shows what other callers read and searched for: that is not public.
        let is_usage = usage::AREA.operations.iter().any(|operation| operation.name == entry.name);
        let is_read = method == HttpMethod::Get && !entry.is_admin && !is_usage;
        let is_permitted = match visibility {
            SpaceVisibility::Public => is_read,
            SpaceVisibility::Unlisted => is_read && UNLISTED_OPERATIONS.contains(&entry.name),
            SpaceVisibility::Private => false,
        };
        is_permitted.then_some(Self { permissions: Permissions::READ_ONLY, ..Self::UNRESTRICTED })
    }

    /// Checks that these credentials may administer the server: those of a single space may not.
    pub fn check_server_admin(&self) -> Result<(), Fault> {
        match &self.space {
            Some(space) => {
                let message = format!("administering spaces needs a key without a space; this key is for `{space}`");
                Err(Fault::new(Kind::Forbidden, message))
            }
            None => Ok(()),
        }
    }

    /// Checks that the credentials are valid for a space.
    ///
    /// # Errors
    /// `Unauthenticated`, as for an unknown key.
    pub fn check_space(&self, space: &str) -> Result<(), Fault> {
        match &self.space {
            Some(only) if only != space => Err(unauthenticated("this API key is for another space")),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether these are credentials of an administrator, to whom no limits of agents apply.
    pub fn is_admin_key(&self) -> bool {
        self.token.is_some() && self.permissions.scope == Scope::Admin
    }

    /// The same caller, with the actor and the permissions of these credentials.
    #[must_use]
    pub fn apply_to(&self, caller: Caller) -> Caller {
        let key = self.token.as_ref().map(KeyDigest::short_number).or(caller.client.key);
        Caller {
            actor: self.actor.clone().or(caller.actor),
            is_actor_fixed: self.actor.is_some(),
            permissions: self.permissions.clone(),
            is_limited: self.is_limited,
            client: Client { key, ..caller.client },
            ..caller
        }
    }
}

impl AccessControl {
    /// Access control with these settings. The `local` key always has full access: only the
    /// server's own user can read the file with it.
    pub fn new(settings: AuthSettings, local: Option<KeyDigest>) -> Self {
        Self { mode: RwLock::new(Arc::new(AuthMode::new(settings))), local, resource: None }
    }

    /// The same for a server with this public address.
    #[must_use]
    pub(crate) fn with_resource(self, public_url: Option<&str>) -> Self {
        Self { resource: public_url.map(str::to_owned), ..self }
    }

    /// The identity provider; none in other modes.
    pub fn issuer(&self) -> Option<String> {
        match &**self.mode.read() {
            AuthMode::Oidc(issuer) => Some(issuer.url().to_owned()),
            AuthMode::Open | AuthMode::ApiKey(_) | AuthMode::PerSpace(_) => None,
        }
    }

    /// Whether there is no authentication.
    pub fn is_open(&self) -> bool {
        matches!(**self.mode.read(), AuthMode::Open)
    }

    /// Replaces the settings. Requests in progress keep the old ones. Blocks while the keys of an
    /// identity provider are fetched.
    ///
    /// # Errors
    /// `Unavailable` if the keys cannot be fetched; the previous settings stay active.
    pub fn reload(&self, settings: AuthSettings) -> Result<(), Fault> {
        let mode = AuthMode::new(settings);
        mode.prepare()?;
        *self.mode.write() = Arc::new(mode);
        Ok(())
    }

    /// Fetches the keys of the identity provider, if [`identify`](Self::identify) needs them.
    /// Blocks for up to 20 s.
    ///
    /// # Errors
    /// `Unavailable` if they cannot be fetched: no caller could be identified.
    pub fn fetch_issuer_keys(&self) -> Result<(), Fault> {
        let mode = Arc::clone(&self.mode.read());
        mode.prepare()
    }

    /// Whether [`fetch_issuer_keys`](Self::fetch_issuer_keys) must be called first to verify this
    /// token.
    pub fn needs_issuer_keys(&self, bearer: &str) -> bool {
        let mode = Arc::clone(&self.mode.read());
        match &*mode {
            AuthMode::Open | AuthMode::ApiKey(_) | AuthMode::PerSpace(_) => false,
            AuthMode::Oidc(issuer) => !self.is_local(KeyDigest::from_key(bearer)) && issuer.needs_fetch(bearer),
        }
    }

    /// Identifies the caller with this bearer token.
    ///
    /// # Errors
    /// `Unauthenticated` for an unknown or missing token; `Unavailable` if verification is not
    /// possible.
    pub fn identify(&self, bearer: Option<&str>) -> Result<CallerIdentity, Fault> {
        let mode = Arc::clone(&self.mode.read());
        if matches!(*mode, AuthMode::Open) {
            return Ok(CallerIdentity::UNRESTRICTED);
        }
        let bearer = bearer.ok_or_else(|| unauthenticated("missing bearer token"))?;
        let token = KeyDigest::from_key(bearer);
        let identity = CallerIdentity { token: Some(token), ..CallerIdentity::UNRESTRICTED };
        if self.is_local(token) {
            return Ok(identity);
        }
        match &*mode {
            AuthMode::ApiKey(key) if *key == token => Ok(identity),
            AuthMode::PerSpace(keys) => {
                // Constant time: every key is compared, so that timing does not reveal the match.
                let key = keys.iter().fold(None, |hit, key| if key.digest == token { Some(key) } else { hit });
                let KeySettings { actor, space, permissions, digest: _, is_limited } =
                    key.ok_or_else(|| unauthenticated("invalid API key"))?;
                Ok(CallerIdentity {
                    actor: actor.clone(),
                    space: space.clone(),
                    permissions: permissions.clone(),
                    is_limited: *is_limited,
                    ..identity
                })
            }
            AuthMode::Oidc(issuer) => {
                let (actor, scope) = issuer.identify(bearer, self.resource.as_deref())?;
                let permissions = Permissions { scope, ..Permissions::FULL };
                Ok(CallerIdentity { actor: Some(actor), permissions, ..identity })
            }
            AuthMode::ApiKey(_) | AuthMode::Open => Err(unauthenticated("invalid API key")),
        }
    }

    /// Identifies the caller by key id, as `svcfs token list` shows it. The id is not secret: the
    /// caller has proved by a signature that it has the derived secret ([`SigningKey`]).
    ///
    /// # Errors
    /// `Unauthenticated` if no key has this id.
    pub fn identify_by_key_id(&self, id: &str) -> Result<CallerIdentity, Fault> {
        let mode = Arc::clone(&self.mode.read());
        let unknown = || unauthenticated("no key has this id");
        match &*mode {
            AuthMode::Open => Ok(CallerIdentity::UNRESTRICTED),
            AuthMode::ApiKey(key) if key_id(key) == id => {
                Ok(CallerIdentity { token: Some(*key), ..CallerIdentity::UNRESTRICTED })
            }
            AuthMode::PerSpace(keys) => {
                let key = keys.iter().find(|key| key_id(&key.digest) == id).ok_or_else(unknown)?;
                let KeySettings { actor, space, permissions, digest, is_limited } = key.clone();
                Ok(CallerIdentity { actor, space, permissions, token: Some(digest), is_limited })
            }
            AuthMode::ApiKey(_) | AuthMode::Oidc(_) => Err(unknown()),
        }
    }

    fn is_local(&self, token: KeyDigest) -> bool {
        self.local == Some(token)
    }
}

fn unauthenticated(message: &str) -> Fault {
    Fault::new(Kind::Unauthenticated, message)
}
