//! An identity provider, for as long as a test: its two documents, and tokens that it signs.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

const MADE: &str =
    "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 | openssl pkcs8 -topk8 -nocrypt -outform DER";

/// A provider with one key.
pub(super) struct Issuer {
    address: String,
    secret: EncodingKey,
}

impl Issuer {
    pub(super) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let secret = key();
        let public = Jwk::from_encoding_key(&secret, Algorithm::ES256).unwrap();
        let described = json!({ "issuer": address, "jwks_uri": format!("{address}/keys") });
        let keys = json!({ "keys": [public] });
        let serve = move || listener.incoming().flatten().for_each(|stream| answer(stream, &described, &keys));
        std::thread::Builder::new().name("provider".to_owned()).spawn(serve).unwrap();
        Self { address, secret }
    }

    /// The settings of a server that trusts it.
    pub(super) fn config(&self) -> String {
        format!("[auth]\ntype = \"oidc\"\noidc = {{ issuer = \"{}\", client_id = \"svcfs\" }}\n", self.address)
    }

    /// A good token, with these claims in place of its own.
    pub(super) fn token(&self, other: Value) -> String {
        self.signed(other, &self.secret)
    }

    /// The same by somebody who is not the provider.
    pub(super) fn forged(&self) -> String {
        self.signed(json!({}), &key())
    }

    fn signed(&self, other: Value, secret: &EncodingKey) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut claims = json!({ "iss": self.address, "aud": "svcfs", "sub": "7", "exp": now + 600 });
        for (name, value) in other.as_object().unwrap() {
            claims[name] = value.clone();
        }
        jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, secret).unwrap()
    }
}

fn key() -> EncodingKey {
    let made = Command::new("sh").args(["-c", MADE]).stderr(Stdio::null()).output().unwrap();
    EncodingKey::from_ec_der(&made.stdout)
}

fn answer(mut stream: TcpStream, described: &Value, keys: &Value) {
    let mut line = String::new();
    let mut reader = BufReader::new(&stream);
    reader.read_line(&mut line).unwrap();
    while {
        let mut header = String::new();
        reader.read_line(&mut header).unwrap() > 2
    } {}
    let body = if line.contains("/.well-known/") { described } else { keys }.to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
}
