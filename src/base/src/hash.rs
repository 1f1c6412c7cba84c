//! Content hashes, commit ids and log positions.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha1::{Digest, Sha1};

use crate::Fault;

/// Bytes as lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

macro_rules! hash_type {
    ($(#[doc = $doc:literal])* $type:ident, $what:literal) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type([u8; 20]);

        impl $type {
            /// The hash as 20 raw bytes.
            pub const fn as_bytes(&self) -> &[u8; 20] {
                &self.0
            }
            /// From 20 raw bytes, as stored.
            pub const fn from_bytes(bytes: [u8; 20]) -> Self {
                Self(bytes)
            }
            /// From exactly 40 hexadecimal digits.
            pub fn from_hex(text: &str) -> Option<Self> {
                if text.len() != 40 || !text.is_ascii() {
                    return None;
                }
                let mut bytes = [0; 20];
                for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
                    *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
                }
                Some(Self(bytes))
            }
        }
        impl TryFrom<&[u8]> for $type {
            type Error = std::array::TryFromSliceError;
            fn try_from(bytes: &[u8]) -> Result<Self, Self::Error> {
                Ok(Self(bytes.try_into()?))
            }
        }
        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }
        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<'de, str>::deserialize(deserializer)?;
                Self::from_hex(&text).ok_or_else(|| de::Error::custom(concat!("not ", $what, ": 40 hexadecimal digits are needed")))
            }
        }
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": "^[0-9a-f]{40}$", "description": $what })
            }
        }
    };
}

hash_type!(
    /// The git blob id of a file's content.
    ETag, "a git blob hash");
hash_type!(
    /// The id of a git commit.
    CommitId, "a git commit hash");

impl ETag {
    /// The id of a git blob with this content: `sha1("blob " + length + NUL + content)`.
    pub fn from_content(content: &[u8]) -> Self {
        let mut hashing = ETagHasher::with_length(content.len() as u64);
        hashing.update(content);
        hashing.finish()
    }
    /// Parses one entity tag of an `If-Match` or `If-None-Match` header; quotes and a weak mark are
    /// optional.
    ///
    /// # Errors
    /// `Invalid`, naming `header`, when it is not 40 hexadecimal digits.
    pub fn parse(header: &str, text: &str) -> Result<Self, Fault> {
        let bare = text.trim().trim_start_matches("W/").trim_matches('"');
        Self::from_hex(bare).ok_or_else(|| {
            Fault::invalid(
                header,
                format_args!(
                    "`{}` is not an ETag of this server: 40 hexadecimal digits are needed",
                    crate::escape_unprintable(text)
                ),
            )
        })
    }
}

/// Computes the [`ETag`] of a content that arrives in parts.
pub struct ETagHasher(Sha1);

impl ETagHasher {
    /// For a content of this length in bytes.
    pub fn with_length(length: u64) -> Self {
        let mut hasher = Sha1::new();
        hasher.update(format!("blob {length}\0").as_bytes());
        Self(hasher)
    }
    /// Adds the next part.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }
    /// The ETag after all parts.
    pub fn finish(self) -> ETag {
        ETag(self.0.finalize().into())
    }
}

/// A position in the change log: 1 for the first change set of a space, then consecutive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_is_what_git_hash_object_prints() {
        assert_eq!(ETag::from_content(b"").to_string(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(ETag::from_content(b"hello\n").to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn an_etag_is_read_with_and_without_quotes() {
        let etag = ETag::from_content(b"x");
        for text in [format!("{etag}"), format!("\"{etag}\""), format!("W/\"{etag}\""), format!(" {etag} ")] {
            assert_eq!(ETag::parse("If-Match", &text).unwrap(), etag);
        }
        let fault = ETag::parse("If-Match", "nonsense").unwrap_err();
        assert!(fault.message().starts_with("`If-Match`: "), "{fault}");
    }
}
