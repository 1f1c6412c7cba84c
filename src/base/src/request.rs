//! Requests that a client may send again.

use std::fmt;
use std::sync::Arc;

use crate::Fault;

/// Maximum length of a request id.
const MAX_KEY_BYTES: usize = 128;

/// The id that a client gave to a request, so that it can send the request again without doing it
/// twice (`Idempotency-Key`, `request_id`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey(Arc<str>);

impl RequestKey {
    /// Parses an id: 1 to 128 printable ASCII characters. `field` is its name in errors.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Fault> {
        let is_printable = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if text.trim().is_empty() || text.len() > MAX_KEY_BYTES || !is_printable {
            let advice = "must have 1 to 128 printable ASCII characters; use a new UUID for each new request";
            return Err(Fault::invalid(field, advice));
        }
        Ok(Self(text.into()))
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request that its client may send again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientRequest {
    /// Its id.
    pub key: RequestKey,
    /// What the log records of it; none before the request is run.
    pub mark: Option<RequestMark>,
}

impl From<RequestKey> for ClientRequest {
    fn from(key: RequestKey) -> Self {
        Self { key, mark: None }
    }
}

/// Identifies a request in the log: hashes of who sent it with which id, and of what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestMark {
    /// Hash of the caller and the request id.
    pub id: [u8; 16],
    /// Hash of the operation and its arguments.
    pub content: [u8; 16],
}

impl RequestMark {
    /// The stored form.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.id);
        bytes[16..].copy_from_slice(&self.content);
        bytes
    }
    /// Parses the stored form; none for another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, content) = bytes.split_first_chunk()?;
        Some(Self { id: *id, content: content.try_into().ok()? })
    }
}

impl fmt::Debug for RequestMark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", crate::to_hex(&self.id[..6]), crate::to_hex(&self.content[..6]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_short_printable_text() {
        for text in ["1", "8e03978e-40d5-43dd-bc93-6894a57f9324", "run 7: write", &"x".repeat(128)] {
            assert_eq!(RequestKey::parse("request_id", text).unwrap().as_str(), text);
        }
        for text in ["", "  ", "a\nb", "é", "\u{7f}", &"x".repeat(129)] {
            let refused = RequestKey::parse("request_id", text).unwrap_err();
            assert!(refused.message().starts_with("`request_id`: must have"), "{text:?}: {refused}");
        }
    }

    #[test]
    fn a_mark_is_stored_in_32_bytes() {
        let mark = RequestMark { id: [1; 16], content: [2; 16] };
        assert_eq!(RequestMark::from_bytes(&mark.to_bytes()), Some(mark));
        for length in [0, 16, 31, 33] {
            assert_eq!(RequestMark::from_bytes(&vec![0; length]), None, "{length}");
        }
    }
}
