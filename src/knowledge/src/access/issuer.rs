//! Identity provider and verification of its tokens (OpenID Connect Discovery 1.0, RFC 7517, RFC
//! 7519).

use std::time::{Duration, Instant};

use jsonwebtoken::errors::ErrorKind::InvalidSignature;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use svcfs_base::{Actor, Fault, Scope};
use svcfs_config::OidcSettings;
use svcfs_net::NetClient;

use super::{OAUTH_SCOPES, unauthenticated};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Keys older than this are fetched again, so that a revoked key stops working.
const REFRESH_AFTER: Duration = Duration::from_hours(1);
/// Keys that cannot be refreshed are used for at most this long.
const MAX_KEY_AGE: Duration = Duration::from_hours(24);
/// Minimum time between two fetches: tokens with invented key ids must not each cause a request.
const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);
/// Tolerated clock difference to the provider, in seconds.
const CLOCK_SKEW_SECONDS: u64 = 60;
/// Accepted signature algorithms: asymmetric ones only. With a symmetric algorithm the public key
/// would be the secret.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

#[derive(Debug)]
pub(super) struct IdentityProvider {
    settings: OidcSettings,
    client: NetClient,
    cached: RwLock<Option<ProviderKeys>>,
    last_fetch: Mutex<Option<Instant>>,
    min_fetch_interval: Duration,
}

#[derive(Debug)]
struct ProviderKeys {
    keys: JwkSet,
    fetched: Instant,
}

#[derive(Deserialize)]
struct ProviderMetadata {
    issuer: String,
    jwks_uri: String,
}

#[derive(Deserialize)]
struct TokenClaims {
    sub: String,
    #[serde(default)]
    email: Option<String>,
    #[serde(default)]
    email_verified: Option<bool>,
    /// RFC 8693: names, separated by spaces.
    #[serde(default)]
    scope: Option<ScopeClaim>,
    /// The same as some providers name it.
    #[serde(default)]
    scp: Option<ScopeClaim>,
}

/// What the names of the scopes of this program begin with.
const SCOPE_PREFIX: &str = "svc:";

/// Scopes of a token, in both forms that providers use.
#[derive(Deserialize)]
#[serde(untagged)]
enum ScopeClaim {
    Text(String),
    List(Vec<String>),
}

impl ScopeClaim {
    fn names(&self) -> Vec<&str> {
        match self {
            Self::Text(names) => names.split_ascii_whitespace().collect(),
            Self::List(names) => names.iter().map(String::as_str).collect(),
        }
    }
}

/// The largest scope that a token names; `admin` if it names none of this program.
fn scope_of(claims: [Option<&ScopeClaim>; 2]) -> Scope {
    let names: Vec<&str> = claims.into_iter().flatten().flat_map(ScopeClaim::names).collect();
    // A misspelt scope, or one of a later version, gives no more than reading.
    let is_ours = names.iter().any(|name| name.starts_with(SCOPE_PREFIX));
    let default = if is_ours { Scope::Read } else { Scope::Admin };
    let known = names.iter().filter_map(|name| OAUTH_SCOPES.iter().find(|(known, _)| known == name));
    known.map(|(_, scope)| *scope).max().unwrap_or(default)
}

impl IdentityProvider {
    pub(super) fn new(settings: OidcSettings) -> Self {
        let client = NetClient::with_timeout(REQUEST_TIMEOUT);
        Self {
            settings,
            client,
            cached: RwLock::default(),
            last_fetch: Mutex::default(),
            min_fetch_interval: MIN_FETCH_INTERVAL,
        }
    }

    /// URL of the provider.
    pub(super) fn url(&self) -> &str {
        &self.settings.issuer
    }

    #[cfg(test)]
    pub(super) fn without_fetch_interval(self) -> Self {
        Self { min_fetch_interval: Duration::ZERO, ..self }
    }

    /// Whether the keys must be fetched before this token can be verified. One request at a time
    /// refreshes old keys; others use the cached keys. A request waits only if its key is unknown.
    pub(super) fn needs_fetch(&self, token: &str) -> bool {
        let may_fetch = |last_fetch: &Option<Instant>| {
            last_fetch.is_none_or(|last_fetch| last_fetch.elapsed() >= self.min_fetch_interval)
        };
        let cached = self.cached.read();
        let Some(cached) = &*cached else { return true };
        let is_new = self.may_have_new_key(cached, token);
        match self.last_fetch.try_lock() {
            Some(last_fetch) => (is_new || cached.fetched.elapsed() >= REFRESH_AFTER) && may_fetch(&last_fetch),
            None => is_new,
        }
    }

    fn may_have_new_key(&self, cached: &ProviderKeys, token: &str) -> bool {
        let Ok(header) = jsonwebtoken::decode_header(token) else { return false };
        let Some(key) = cached.key(&header) else { return true };
        // Without key ids, only an invalid signature shows that the provider has a new key.
        header.kid.is_none()
            && self.claims(token, (&header, key), None).is_err_and(|error| *error.kind() == InvalidSignature)
    }

    /// Fetches the keys, unless a fetch was tried less than `min_fetch_interval` ago.
    ///
    /// # Errors
    /// `Unavailable` if no keys are cached and the fetch fails: no token can be verified.
    pub(super) fn fetch_keys(&self) -> Result<(), Fault> {
        let mut last_fetch = self.last_fetch.lock();
        if last_fetch.is_some_and(|last_fetch| last_fetch.elapsed() < self.min_fetch_interval) {
            return Ok(());
        }
        *last_fetch = Some(Instant::now());
        match self.fetch() {
            Ok(keys) => {
                *self.cached.write() = Some(ProviderKeys { keys, fetched: Instant::now() });
                Ok(())
            }
            Err(error) if self.cached.read().is_some() => {
                tracing::warn!("cannot refresh the keys of the identity provider: {error}");
                Ok(())
            }
            Err(error) => Err(Fault::unavailable(format!("cannot fetch the keys of `auth.oidc.issuer`: {error}"))),
        }
    }

    fn fetch(&self) -> Result<JwkSet, String> {
        let issuer = &self.settings.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let metadata: ProviderMetadata = self.client.get_json(&url).map_err(|error| error.to_string())?;
        if metadata.issuer != *issuer {
            return Err(format!(
                "its discovery document names issuer `{}` instead of `{issuer}`",
                metadata.issuer.escape_default()
            ));
        }
        // Fetching keys without TLS would let an attacker on the network replace them.
        if issuer.starts_with("https://") && !metadata.jwks_uri.starts_with("https://") {
            return Err(format!("its `jwks_uri` is not an https address: `{}`", metadata.jwks_uri.escape_default()));
        }
        self.client.get_json(&metadata.jwks_uri).map_err(|error| error.to_string())
    }

    /// The actor that a token identifies, and its scope. `resource` is the address of this server:
    /// `aud` must be it, its `/mcp`, or the client id.
    ///
    /// # Errors
    /// `Unauthenticated` for a token that is malformed, expired, not valid yet, or issued by or for
    /// someone else; `Unavailable` while the provider's keys are unknown.
    pub(super) fn identify(&self, token: &str, resource: Option<&str>) -> Result<(Actor, Scope), Fault> {
        let cached = self.cached.read();
        let cached = cached.as_ref().filter(|cached| cached.fetched.elapsed() < MAX_KEY_AGE).ok_or_else(|| {
            Fault::unavailable("the keys of the identity provider are not available; see the server log")
        })?;
        let invalid = |why: &dyn std::fmt::Display| unauthenticated("invalid token").with_context(why.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(|error| invalid(&error))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid(&format_args!("signature algorithm {:?} is not accepted", header.alg)));
        }
        let key = cached.key(&header).ok_or_else(|| invalid(&"the provider has no such key"))?;
        let claims = self.claims(token, (&header, key), resource);
        let TokenClaims { sub, email, email_verified, scope, scp } = claims.map_err(|error| invalid(&error))?;
        // An unverified address could belong to another person.
        let email = email.filter(|email| !email.is_empty() && email_verified != Some(false));
        Ok((Actor::new(&email.unwrap_or(sub)), scope_of([scope.as_ref(), scp.as_ref()])))
    }

    fn claims(
        &self,
        token: &str,
        (header, key): (&Header, &Jwk),
        resource: Option<&str>,
    ) -> jsonwebtoken::errors::Result<TokenClaims> {
        let mut validation = Validation::new(header.alg);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&self.settings.issuer]);
        let addresses = resource.into_iter().flat_map(|url| [url.to_owned(), format!("{url}/"), format!("{url}/mcp")]);
        let audiences: Vec<String> = addresses.chain([self.settings.client_id.clone()]).collect();
        validation.set_audience(&audiences);
        validation.validate_nbf = true;
        validation.leeway = CLOCK_SKEW_SECONDS;
        Ok(jsonwebtoken::decode(token, &DecodingKey::from_jwk(key)?, &validation)?.claims)
    }
}

impl ProviderKeys {
    /// The key with the token's key id. Without a key id, the only key that fits the algorithm.
    fn key(&self, header: &Header) -> Option<&Jwk> {
        let mut candidates = self.keys.keys.iter().filter(|key| is_for(key, header.alg));
        match &header.kid {
            Some(kid) => candidates.find(|key| key.common.key_id.as_ref() == Some(kid)),
            None => candidates.next().filter(|_| candidates.next().is_none()),
        }
    }
}

/// Whether signatures with this algorithm can be made with this key.
fn is_for(key: &Jwk, algorithm: Algorithm) -> bool {
    let signs = key.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    let matches_algorithm = key.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
    let matches_family = DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == algorithm.family());
    signs && matches_algorithm && matches_family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_scope_of_this_program_gives_no_more_than_reading() {
        for (names, expected) in [
            ("", Scope::Admin),
            ("openid profile", Scope::Admin),
            ("svc:read openid svc:write", Scope::Write),
            ("openid svc:writ", Scope::Read),
            ("svc:later svc:propose", Scope::Propose),
        ] {
            let claim = ScopeClaim::Text(names.to_owned());
            assert_eq!(scope_of([None, Some(&claim)]), expected, "{names}");
        }
        assert_eq!(scope_of([None, None]), Scope::Admin);
    }
}
