//! Tokens as an attacker would send them, beside good ones.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use svcfs_config::OidcSettings;

use super::*;

/// An identity provider: its two documents, served.
struct Provider {
    address: String,
    keys: Arc<Mutex<Value>>,
}

impl Provider {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let keys = Arc::new(Mutex::new(json!({ "keys": [] })));
        let (issuer, shown) = (address.clone(), Arc::clone(&keys));
        let serve = move || listener.incoming().flatten().for_each(|stream| answer(stream, &issuer, &shown.lock()));
        std::thread::Builder::new().name("provider".to_owned()).spawn(serve).unwrap();
        Self { address, keys }
    }

    fn shows(&self, keys: &[&Key]) {
        *self.keys.lock() = json!({ "keys": keys.iter().map(|key| &key.public).collect::<Vec<_>>() });
    }

    fn settings(&self) -> OidcSettings {
        OidcSettings { issuer: self.address.clone(), client_id: "svcfs".to_owned() }
    }

    fn issuer(&self) -> IdentityProvider {
        IdentityProvider::new(self.settings())
    }

    fn access(&self) -> AccessControl {
        AccessControl::new(AuthSettings::Oidc(self.settings()), Some(KeyDigest::from_key("local")))
    }

    /// A token as good as any, with these claims in place of its own; null takes one away.
    fn token(&self, key: &Key, other: Value) -> String {
        let now = now();
        let mut claims = json!({
            "iss": self.address, "aud": "svcfs", "sub": "7", "email": "ann@example.org", "iat": now, "exp": now + 600,
        });
        for (name, value) in other.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let header = Header { kid: key.id.map(str::to_owned), ..Header::new(key.algorithm) };
        jsonwebtoken::encode(&header, &claims, &key.secret).unwrap()
    }
}

fn answer(mut stream: TcpStream, issuer: &str, keys: &Value) {
    let mut line = String::new();
    let mut reader = BufReader::new(&stream);
    reader.read_line(&mut line).unwrap();
    while {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap() > 2
    } {}
    let body = match line.split(' ').nth(1).unwrap() {
        "/.well-known/openid-configuration" => json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") }),
        "/keys" => keys.clone(),
        other => panic!("asked for {other}"),
    };
    let body = body.to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

struct Key {
    id: Option<&'static str>,
    algorithm: Algorithm,
    secret: EncodingKey,
    public: Jwk,
}

impl Key {
    fn new(id: &'static str) -> Self {
        let made = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 | openssl pkcs8 -topk8 -nocrypt -outform DER";
        Self::made(id, Algorithm::ES256, made, EncodingKey::from_ec_der)
    }
    fn of_rsa(id: &'static str) -> Self {
        let made = "openssl genrsa -traditional 2048 | openssl rsa -traditional -outform DER";
        Self::made(id, Algorithm::RS256, made, EncodingKey::from_rsa_der)
    }
    fn made(id: &'static str, algorithm: Algorithm, how: &str, read: fn(&[u8]) -> EncodingKey) -> Self {
        let made = Command::new("sh").args(["-c", how]).stderr(Stdio::null()).output().unwrap();
        let secret = read(&made.stdout);
        let mut public = Jwk::from_encoding_key(&secret, algorithm).unwrap();
        public.common.key_id = Some(id.to_owned());
        Self { id: Some(id), algorithm, secret, public }
    }
}

/// Who this token makes of its bearer; the kind of the refusal otherwise, with what only the log is
/// told.
fn last_fetch(access: &AccessControl, token: &str) -> Result<String, (Kind, String)> {
    if access.needs_issuer_keys(token) {
        access.fetch_issuer_keys().map_err(|fault| (fault.kind(), fault.message().to_owned()))?;
    }
    let identity = access.identify(Some(token)).map_err(|fault| (fault.kind(), format!("{fault:?}")))?;
    assert_eq!(identity.permissions, Permissions::FULL);
    Ok(identity.actor.unwrap().as_str().to_owned())
}

fn refused_for(access: &AccessControl, token: &str) -> String {
    let (matches_family, why) = last_fetch(access, token).unwrap_err();
    assert_eq!(matches_family, Kind::Unauthenticated, "{why}");
    why
}

#[test]
fn a_provider_token_is_accepted_under_the_name_it_contains() {
    let (provider, elliptic, rsa) = (Provider::new(), Key::new("e"), Key::of_rsa("r"));
    provider.shows(&[&elliptic, &rsa]);
    let access = provider.access();
    for key in [&elliptic, &rsa] {
        assert_eq!(last_fetch(&access, &provider.token(key, json!({}))).unwrap(), "ann@example.org");
    }
    let without = provider.token(&elliptic, json!({ "email": null }));
    assert_eq!(last_fetch(&access, &without).unwrap(), "7");
    let unproved = provider.token(&elliptic, json!({ "email_verified": false }));
    assert_eq!(last_fetch(&access, &unproved).unwrap(), "7", "an address that nobody proved names nobody");
    let several = provider.token(&elliptic, json!({ "aud": ["other", "svcfs"] }));
    assert_eq!(last_fetch(&access, &several).unwrap(), "ann@example.org");
    assert_eq!(
        access.identify(Some("local")).unwrap().permissions,
        Permissions::FULL,
        "the machine's own key works on"
    );
}

#[test]
fn expired_early_foreign_or_misaddressed_tokens_are_refused() {
    let (provider, key) = (Provider::new(), Key::new("e"));
    provider.shows(&[&key]);
    let access = provider.access();
    let now = now();
    for (claims, why) in [
        (json!({ "exp": now - 120 }), "ExpiredSignature"),
        (json!({ "exp": null }), "exp"),
        (json!({ "nbf": now + 600 }), "ImmatureSignature"),
        (json!({ "aud": "other" }), "InvalidAudience"),
        (json!({ "aud": null }), "aud"),
        (json!({ "iss": "https://else.example.org" }), "InvalidIssuer"),
        (json!({ "iss": null }), "iss"),
        (json!({ "sub": null, "email": null }), "sub"),
    ] {
        let error = refused_for(&access, &provider.token(&key, claims.clone()));
        assert!(error.contains(why), "{claims}: {error}");
        assert!(error.contains("invalid token"), "{error}");
    }
    let good = provider.token(&key, json!({ "exp": now - 30, "nbf": now + 30 }));
    assert_eq!(last_fetch(&access, &good).unwrap(), "ann@example.org", "clocks differ by a minute");
}

#[test]
fn a_token_whose_signature_proves_nothing_is_refused() {
    let (provider, key, stranger) = (Provider::new(), Key::new("e"), Key::new("e"));
    provider.shows(&[&key]);
    let access = provider.access();
    refused_for(&access, &provider.token(&stranger, json!({})));
    let good = provider.token(&key, json!({}));
    let (head, rest) = good.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let nothing = encode(r#"{"alg":"none","typ":"JWT"}"#);
    // The classic: what everybody may know, taken for a secret.
    let public = serde_json::to_vec(&key.public).unwrap();
    let header = Header { kid: Some("e".to_owned()), ..Header::new(Algorithm::HS256) };
    let claims = json!({ "iss": provider.address, "aud": "svcfs", "sub": "7", "exp": now() + 600 });
    let confused = jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(&public)).unwrap();
    let of_other_kind = encode(r#"{"alg":"RS256","typ":"JWT","kid":"e"}"#);
    for bad in [
        format!("{nothing}.{body}."),
        format!("{nothing}.{body}.{signature}"),
        format!("{head}.{body}."),
        format!("{head}.{}.{signature}", encode(r#"{"sub":"root"}"#)),
        format!("{of_other_kind}.{body}.{signature}"),
        confused,
        head.to_owned(),
        "a.b.c".to_owned(),
        String::new(),
        "é".repeat(10_000),
    ] {
        refused_for(&access, &bad);
    }
}

#[test]
fn a_new_provider_key_is_accepted_and_a_retired_one_refused() {
    let (provider, old, new) = (Provider::new(), Key::new("old"), Key::new("new"));
    provider.shows(&[&old]);
    let mut access = provider.access();
    access.mode = RwLock::new(Arc::new(AuthMode::Oidc(provider.issuer().without_fetch_interval())));
    let (first, second) = (provider.token(&old, json!({})), provider.token(&new, json!({})));
    assert!(last_fetch(&access, &first).is_ok());
    refused_for(&access, &second);
    provider.shows(&[&new]);
    assert!(last_fetch(&access, &second).is_ok());
    refused_for(&access, &first);
}

#[test]
fn a_new_key_of_a_provider_without_key_ids_is_accepted() {
    let (provider, mut old, mut new) = (Provider::new(), Key::new("old"), Key::new("new"));
    for key in [&mut old, &mut new] {
        (key.id, key.public.common.key_id) = (None, None);
    }
    provider.shows(&[&old]);
    let mut access = provider.access();
    access.mode = RwLock::new(Arc::new(AuthMode::Oidc(provider.issuer().without_fetch_interval())));
    let (first, second) = (provider.token(&old, json!({})), provider.token(&new, json!({})));
    assert!(last_fetch(&access, &first).is_ok());
    provider.shows(&[&new]);
    assert!(last_fetch(&access, &second).is_ok());
    refused_for(&access, &first);
}

#[test]
fn invented_keys_do_not_become_requests_to_the_provider() {
    let (provider, key, invented) = (Provider::new(), Key::new("e"), Key::new("invented"));
    provider.shows(&[&key]);
    let access = provider.access();
    access.fetch_issuer_keys().unwrap();
    assert!(!access.needs_issuer_keys(&provider.token(&invented, json!({}))), "it was asked a moment ago");
    refused_for(&access, &provider.token(&invented, json!({})));
}

#[test]
fn an_absent_provider_blocks_logins_and_dependent_settings() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = OidcSettings { issuer: format!("http://{closed}"), client_id: "svcfs".to_owned() };
    let access = AccessControl::new(AuthSettings::Oidc(settings.clone()), None);
    let (matches_family, error) = last_fetch(&access, "a.b.c").unwrap_err();
    assert_eq!(matches_family, Kind::Unavailable);
    assert!(error.contains("auth.oidc.issuer") && error.contains(&closed.to_string()), "{error}");
    assert_eq!(access.identify(Some("a.b.c")).unwrap_err().kind(), Kind::Unavailable);

    let before = AccessControl::new(AuthSettings::ApiKey(KeyDigest::from_key("before")), None);
    assert_eq!(before.reload(AuthSettings::Oidc(settings)).unwrap_err().kind(), Kind::Unavailable);
    assert!(before.identify(Some("before")).is_ok(), "what held before holds on");
}

#[test]
fn a_provider_that_calls_itself_otherwise_is_not_believed() {
    let provider = Provider::new();
    let other = provider.address.replace("127.0.0.1", "localhost");
    let access =
        AccessControl::new(AuthSettings::Oidc(OidcSettings { issuer: other, client_id: "svcfs".to_owned() }), None);
    let fault = access.fetch_issuer_keys().unwrap_err();
    assert!(fault.message().contains("its discovery document names issuer"), "{}", fault.message());
}
