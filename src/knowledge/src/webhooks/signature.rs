//! Signatures of notifications, as <https://www.standardwebhooks.com> specifies them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use svcfs_base::{Fault, Seq, Timestamp, TreePath, WebhookEvent, to_hex};

use crate::kernel::random_hex;

const SECRET_PREFIX: &str = "whsec_";

/// A new secret.
pub(super) fn new_secret() -> Result<String, Fault> {
    Ok(format!("{SECRET_PREFIX}{}", random_hex::<32>()?))
}

/// The id of a notification: the same after a crash, so that receivers recognize a repetition. It
/// depends on the space, because webhooks of the settings have the same id in all spaces, and on
/// the time, because a log that is rebuilt counts from 1 again.
pub(super) fn message_id(
    (space, hook): (&str, &str),
    (seq, time): (Seq, Timestamp),
    event: WebhookEvent,
    path: &TreePath,
) -> String {
    let (seq, second) = (seq.0, time.as_second());
    let digest = Sha256::digest(format!("{space}\0{hook}\0{seq}\0{second}\0{}\0{path}", event.name()));
    format!("msg_{}", to_hex(&digest[..16]))
}

/// The id of a webhook of the settings.
pub(super) fn static_id(url: &str) -> String {
    to_hex(&Sha256::digest(format!("static\0{url}"))[..8])
}

/// The header `webhook-signature`.
pub(super) fn sign(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    // Receivers decode the secret in the same way; one that is no base64 is the key itself.
    let key = STANDARD.decode(secret.strip_prefix(SECRET_PREFIX).unwrap_or(secret));
    let key = key.unwrap_or_else(|_| secret.as_bytes().to_vec());
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&key) else { return String::new() };
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}
