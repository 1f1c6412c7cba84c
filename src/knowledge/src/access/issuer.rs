//! An identity provider: whose tokens it signed, and for whom (OpenID Connect Discovery 1.0, RFC 7517, RFC 7519).

use std::time::{Duration, Instant};

use jsonwebtoken::errors::ErrorKind::InvalidSignature;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use svcfs_base::{Actor, Fault};
use svcfs_config::OidcSettings;
use svcfs_net::NetClient;

use super::refused;

/// How long the provider may take for one answer (gaps.md 5).
const PATIENCE: Duration = Duration::from_secs(10);
/// The keys are fetched anew after so long, so that one which was taken back opens nothing any more.
const FRESH: Duration = Duration::from_hours(1);
/// Keys that could not be fetched anew are good for so long.
const USABLE: Duration = Duration::from_hours(24);
/// The pause between two questions to the provider: tokens with invented keys must not become requests.
const PAUSE: Duration = Duration::from_secs(10);
/// How far the provider's clock may be off, in seconds.
const CLOCK_SKEW_SECONDS: u64 = 60;
/// Signatures that are taken: those made with a key that only the provider has. With any other algorithm the public key would be the secret.
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

/// An identity provider and its keys.
#[derive(Debug)]
pub(super) struct IdentityProvider {
    settings: OidcSettings,
    client: NetClient,
    known: RwLock<Option<ProviderKeys>>,
    /// When it was asked the last time; held while it is.
    asked: Mutex<Option<Instant>>,
    /// The time between two questions.
    pause: Duration,
}

#[derive(Debug)]
struct ProviderKeys {
    keys: JwkSet,
    fetched: Instant,
}

/// What is read of the provider's description of itself.
#[derive(Deserialize)]
struct ProviderMetadata {
    issuer: String,
    jwks_uri: String,
}

/// What is read of a token beside what is validated.
#[derive(Deserialize)]
struct TokenClaims {
    sub: String,
    #[serde(default)]
    email: Option<String>,
    #[serde(default)]
    email_verified: Option<bool>,
}

impl IdentityProvider {
    pub(super) fn new(settings: OidcSettings) -> Self {
        let client = NetClient::with_timeout(PATIENCE);
        Self { settings, client, known: RwLock::default(), asked: Mutex::default(), pause: PAUSE }
    }

    #[cfg(test)]
    pub(super) fn asked_at_any_time(self) -> Self {
        Self { pause: Duration::ZERO, ..self }
    }

    /// Whether the provider is to be asked before this token is judged. One request in a while asks for keys that are fresher; those beside it go
    /// on with the keys that are known, and only a key that is not known is waited for.
    pub(super) fn must_be_asked(&self, token: &str) -> bool {
        let may_ask = |asked: &Option<Instant>| asked.is_none_or(|asked| asked.elapsed() >= self.pause);
        let known = self.known.read();
        let Some(known) = &*known else { return true };
        let is_new = self.may_be_of_a_new_key(known, token);
        match self.asked.try_lock() {
            Some(asked) => (is_new || known.fetched.elapsed() >= FRESH) && may_ask(&asked),
            None => is_new,
        }
    }

    fn may_be_of_a_new_key(&self, known: &ProviderKeys, token: &str) -> bool {
        let Ok(header) = jsonwebtoken::decode_header(token) else { return false };
        let Some(key) = known.key(&header) else { return true };
        // Nothing else tells the keys of providers apart that do not name them.
        header.kid.is_none() && self.claims(token, &header, key).is_err_and(|error| *error.kind() == InvalidSignature)
    }

    /// Fetches the keys, unless that was tried a moment ago.
    ///
    /// # Errors
    /// `Unavailable` when there are none: nobody can be let in.
    pub(super) fn ask(&self) -> Result<(), Fault> {
        let mut asked = self.asked.lock();
        if asked.is_some_and(|asked| asked.elapsed() < self.pause) {
            return Ok(());
        }
        *asked = Some(Instant::now());
        match self.fetch() {
            Ok(keys) => {
                *self.known.write() = Some(ProviderKeys { keys, fetched: Instant::now() });
                Ok(())
            }
            Err(told) if self.known.read().is_some() => {
                tracing::warn!("the keys of the identity provider could not be fetched anew: {told}");
                Ok(())
            }
            Err(told) => Err(Fault::unavailable(format!("`auth.oidc.issuer` cannot be asked for its keys: {told}"))),
        }
    }

    fn fetch(&self) -> Result<JwkSet, String> {
        let issuer = &self.settings.issuer;
        let place = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let described: ProviderMetadata = self.client.get_json(&place).map_err(|error| error.to_string())?;
        if described.issuer != *issuer {
            return Err(format!("it calls itself `{}`, and not `{issuer}`", described.issuer.escape_default()));
        }
        // Nobody on the way may give us other keys.
        if issuer.starts_with("https://") && !described.jwks_uri.starts_with("https://") {
            return Err(format!("its keys are not at an https address: `{}`", described.jwks_uri.escape_default()));
        }
        self.client.get_json(&described.jwks_uri).map_err(|error| error.to_string())
    }

    /// Whose token it is.
    ///
    /// # Errors
    /// `Unauthenticated` for one that is not whole, not ours, not yet or no longer good; `Unavailable` while the provider's keys are unknown.
    pub(super) fn identify(&self, token: &str) -> Result<Actor, Fault> {
        let known = self.known.read();
        let known = known
            .as_ref()
            .filter(|known| known.fetched.elapsed() < USABLE)
            .ok_or_else(|| Fault::unavailable("the keys of the identity provider are not known; the log says why"))?;
        let invalid = |why: &dyn std::fmt::Display| refused("invalid token").with_context(why.to_string());
        let header = jsonwebtoken::decode_header(token).map_err(|error| invalid(&error))?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(invalid(&format_args!("signatures by {:?} are not taken", header.alg)));
        }
        let key = known.key(&header).ok_or_else(|| invalid(&"the provider has no such key"))?;
        let claims = self.claims(token, &header, key);
        let TokenClaims { sub, email, email_verified } = claims.map_err(|error| invalid(&error))?;
        // An address that nobody has proved to be theirs could be anybody's.
        let email = email.filter(|email| !email.is_empty() && email_verified != Some(false));
        Ok(Actor::new(&email.unwrap_or(sub)))
    }

    fn claims(&self, token: &str, header: &Header, key: &Jwk) -> jsonwebtoken::errors::Result<TokenClaims> {
        let mut validation = Validation::new(header.alg);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.client_id]);
        validation.validate_nbf = true;
        validation.leeway = CLOCK_SKEW_SECONDS;
        Ok(jsonwebtoken::decode(token, &DecodingKey::from_jwk(key)?, &validation)?.claims)
    }
}

impl ProviderKeys {
    /// The key that a token says it was signed with; of tokens that do not say it, the only one that could be meant.
    fn key(&self, header: &Header) -> Option<&Jwk> {
        let mut fitting = self.keys.keys.iter().filter(|key| is_for(key, header.alg));
        match &header.kid {
            Some(kid) => fitting.find(|key| key.common.key_id.as_ref() == Some(kid)),
            None => fitting.next().filter(|_| fitting.next().is_none()),
        }
    }
}

/// Whether signatures by this algorithm may be made with this key.
fn is_for(key: &Jwk, algorithm: Algorithm) -> bool {
    let signs = key.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    let meant = key.common.key_algorithm.is_none_or(|meant| meant.to_string() == format!("{algorithm:?}"));
    let kind = DecodingKey::from_jwk(key).is_ok_and(|key| key.family() == algorithm.family());
    signs && meant && kind
}
