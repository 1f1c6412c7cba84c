//! Access tokens of Google for a service account: a signed statement (JWT, RFC 7523) is exchanged
//! for a token that is valid for an hour.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use svcfs_net::{ServiceMethod, ServiceRequest};

use super::{MAX_FILE_BYTES, SETTINGS};
use crate::remote::{ApiClient, ApiError, OptionError, RetryPolicy, checked_url, option_error};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Validity of the statement, the longest that Google accepts.
const VALIDITY: Duration = Duration::from_secs(3600);
/// A token is renewed this long before its end.
const RENEWAL: Duration = Duration::from_secs(120);

/// The file that Google gives out for a service account.
#[derive(Deserialize)]
struct CredentialsFile {
    #[serde(rename = "type")]
    kind: String,
    project_id: Option<String>,
    private_key_id: Option<String>,
    private_key: Option<String>,
    client_email: Option<String>,
    token_uri: Option<String>,
}

pub(super) struct ServiceAccount {
    /// The project of the account.
    pub project: Option<String>,
    email: String,
    key: EncodingKey,
    key_id: Option<String>,
    token_url: String,
    client: ApiClient,
    token: Mutex<Option<AccessToken>>,
}

#[derive(Clone)]
struct AccessToken {
    text: String,
    renew_at: Instant,
}

#[derive(Serialize)]
struct Claims<'c> {
    iss: &'c str,
    scope: &'static str,
    aud: &'c str,
    iat: u64,
    exp: u64,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    expires_in: u64,
}

impl ServiceAccount {
    /// Reads a credentials file.
    pub fn read(path: &Path, timeout: Duration) -> Result<Self, OptionError> {
        let refused =
            |reason: String| option_error(SETTINGS, "credentials_file", format!("(`{}`) {reason}", path.display()));
        let is_large = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() > MAX_FILE_BYTES);
        if is_large {
            return Err(refused("is too large for a service account".to_owned()));
        }
        let content = std::fs::read(path).map_err(|error| refused(format!("cannot be read: {error}")))?;
        // The message of the parser may not quote the file, which has the key.
        let file: CredentialsFile = serde_json::from_slice(&content).map_err(|_| {
            refused("is no JSON file of a service account; create a key in the Google Cloud console".to_owned())
        })?;
        if file.kind != "service_account" {
            return Err(refused(format!("has the type `{}`; svcfs needs a key of a service account", file.kind)));
        }
        let missing = |field: &str| refused(format!("has no `{field}`; create a new key in the Google Cloud console"));
        let private_key = file.private_key.ok_or_else(|| missing("private_key"))?;
        let key = EncodingKey::from_rsa_pem(private_key.as_bytes())
            .map_err(|error| refused(format!("has a `private_key` that is no RSA key: {error}")))?;
        let token_url = file.token_uri.unwrap_or_else(|| "https://oauth2.googleapis.com/token".to_owned());
        let token_url = checked_url(SETTINGS, "credentials_file", &token_url)?;
        Ok(Self {
            project: file.project_id,
            email: file.client_email.ok_or_else(|| missing("client_email"))?,
            key,
            key_id: file.private_key_id,
            token_url,
            client: ApiClient::new("Google's token service", SETTINGS, timeout),
            token: Mutex::new(None),
        })
    }

    /// Adds an access token to a request.
    pub fn sign(&self, request: &mut ServiceRequest) -> Result<(), ApiError> {
        let mut token = self.token.lock();
        let text = match token.as_ref().filter(|token| Instant::now() < token.renew_at) {
            Some(token) => token.text.clone(),
            None => token.insert(self.request_token()?).text.clone(),
        };
        request.headers.push(("Authorization".to_owned(), format!("Bearer {text}")));
        Ok(())
    }

    /// The next request gets a new token.
    pub fn discard_token(&self) {
        *self.token.lock() = None;
    }

    fn request_token(&self) -> Result<AccessToken, ApiError> {
        let assertion = self.assertion(SystemTime::now())?;
        let mut client_request = self.client.empty_request(ServiceMethod::Post, &self.token_url);
        client_request.headers.retain(|(name, _)| name != "Content-Type");
        client_request.headers.push(("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
        let grant_type = percent_encoding::utf8_percent_encode(GRANT_TYPE, percent_encoding::NON_ALPHANUMERIC);
        // A JWT has only characters that a form leaves as they are.
        client_request.body = format!("grant_type={grant_type}&assertion={assertion}").into_bytes();
        let response: TokenResponse = self.client.call(&client_request, RetryPolicy::INTERACTIVE)?;
        let is_header = response.access_token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_header || response.access_token.is_empty() {
            return Err(self.client.unexpected(&self.token_url, "the token is no text for a header"));
        }
        let validity = Duration::from_secs(response.expires_in.min(24 * 3600)).saturating_sub(RENEWAL);
        Ok(AccessToken { text: response.access_token, renew_at: Instant::now() + validity })
    }

    /// The signed statement that the account asks for a token.
    fn assertion(&self, time: SystemTime) -> Result<String, ApiError> {
        let now = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let claims = Claims {
            iss: &self.email,
            scope: SCOPE,
            aud: &self.token_url,
            iat: now.as_secs(),
            exp: (now + VALIDITY).as_secs(),
        };
        let header = Header { kid: self.key_id.clone(), ..Header::new(Algorithm::RS256) };
        let failed = |error| ApiError::permanent(format!("Vertex: the request for a token cannot be signed: {error}"));
        jsonwebtoken::encode(&header, &claims, &self.key).map_err(failed)
    }
}
