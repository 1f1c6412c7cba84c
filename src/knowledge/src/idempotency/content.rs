//! The hash of what a request asks for.

use serde_json::Value;
use sha2::{Digest, Sha256};
use svcfs_base::Caller;

/// The first 16 bytes of a hash: enough, because a client can only deceive itself.
pub(super) fn first_half(hasher: Sha256) -> [u8; 16] {
    let digest: [u8; 32] = hasher.finalize().into();
    digest.first_chunk().copied().unwrap_or_default()
}

/// The hash of an operation, its arguments and what the caller requires. The order of members does
/// not matter. Contents are hashed where they are, without a copy. The id of the request is part of
/// it and not stored, so that a stored hash does not help to guess arguments, such as a password.
pub(super) fn hash(operation: &str, caller: &Caller, arguments: &Value) -> [u8; 16] {
    let mut hasher = Hasher(Sha256::new());
    let Caller { precondition, claim_fence, provenance, is_forced, request, .. } = caller;
    let provenance = provenance.as_ref().map(ToString::to_string);
    hasher.add(request.as_ref().map_or("", |request| request.key.as_str()).as_bytes());
    hasher.add(operation.as_bytes());
    hasher.add(format!("{precondition:?} {claim_fence:?} {provenance:?} {is_forced}").as_bytes());
    add_value(&mut hasher, arguments);
    first_half(hasher.0)
}

struct Hasher(Sha256);

impl Hasher {
    fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }
}

/// Adds a value; one byte names its type, and lists and objects have their length.
fn add_value(hasher: &mut Hasher, value: &Value) {
    match value {
        Value::Null => hasher.add(b"n"),
        Value::Bool(flag) => hasher.add(if *flag { b"t" } else { b"f" }),
        Value::Number(number) => {
            hasher.add(b"#");
            hasher.add(number.to_string().as_bytes());
        }
        Value::String(text) => {
            hasher.add(b"s");
            hasher.add(text.as_bytes());
        }
        Value::Array(items) => {
            hasher.add(b"[");
            hasher.add(&(items.len() as u64).to_be_bytes());
            items.iter().for_each(|item| add_value(hasher, item));
        }
        Value::Object(members) => {
            hasher.add(b"{");
            hasher.add(&(members.len() as u64).to_be_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            for (name, member) in members {
                hasher.add(name.as_bytes());
                add_value(hasher, member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svcfs_base::{Precondition, Protocol};

    use super::*;

    #[test]
    fn different_requests_have_different_hashes() {
        let caller = Caller::new(Protocol::Mcp);
        let conditional = Caller { precondition: Precondition::Present, ..caller.clone() };
        let hashes = [
            hash("write", &caller, &json!({ "path": "a", "content": "b" })),
            hash("append", &caller, &json!({ "path": "a", "content": "b" })),
            hash("write", &conditional, &json!({ "path": "a", "content": "b" })),
            hash("write", &caller, &json!({ "path": "ab", "content": "" })),
            hash("write", &caller, &json!({ "path": "a", "content": null })),
            hash("write", &caller, &json!({ "path": ["a", "content", "b"] })),
            hash("write", &caller, &json!({ "path": [["a"], "content", "b"] })),
            hash("write", &caller, &json!({ "path": "a", "content": 1 })),
            hash("write", &caller, &json!({ "path": "a", "content": "1" })),
            hash("write", &caller, &json!({ "path": "a", "content": true })),
        ];
        for (index, one) in hashes.iter().enumerate() {
            assert!(!hashes[index + 1..].contains(one), "{index}");
        }
        let reordered = hash("write", &caller, &json!({ "content": "b", "path": "a" }));
        assert_eq!(reordered, hashes[0], "the order of members does not matter");
    }
}
