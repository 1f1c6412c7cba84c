//! Version ids.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::{CommitId, Timestamp};

/// Digits of a timestamp: enough for every year from 2001 to 2286 without padding.
const DIGITS: usize = 19;

/// Id of a version, unique in a space: the hash of its commit or, without git, the time at which it
/// was recorded, in nanoseconds since 1970 with 19 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VersionId {
    /// A git commit.
    Commit(CommitId),
    /// A version in the log, perhaps with a snapshot.
    Timestamp(Timestamp),
}

impl VersionId {
    /// The id of a version recorded at a time, with or without a commit.
    pub fn new(commit: Option<CommitId>, timestamp: Timestamp) -> Self {
        commit.map_or(Self::Timestamp(timestamp), Self::Commit)
    }

    /// The commit, if the version has one.
    pub const fn commit(self) -> Option<CommitId> {
        match self {
            Self::Commit(commit) => Some(commit),
            Self::Timestamp(_) => None,
        }
    }

    /// Parses exactly 19 decimal digits.
    pub fn parse_timestamp(text: &str) -> Option<Timestamp> {
        if text.len() != DIGITS || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Timestamp::from_nanosecond(text.parse().ok()?).ok()
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(commit) => fmt::Display::fmt(commit, formatter),
            Self::Timestamp(timestamp) => write!(formatter, "{:0DIGITS$}", timestamp.as_nanosecond()),
        }
    }
}

impl fmt::Debug for VersionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for VersionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for VersionId {
    fn schema_name() -> Cow<'static, str> {
        "VersionId".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^([0-9a-f]{40}|[0-9]{19})$",
            "description": "a git commit hash; without git, the moment in nanoseconds since 1970",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_nineteen_digits_and_is_read_back() {
        let timestamp = Timestamp::from_nanosecond(1_800_000_000_123_456_789).unwrap();
        assert_eq!(VersionId::Timestamp(timestamp).to_string(), "1800000000123456789");
        assert_eq!(VersionId::parse_timestamp("1800000000123456789"), Some(timestamp));
        assert_eq!(VersionId::Timestamp(Timestamp::from_nanosecond(7).unwrap()).to_string(), "0000000000000000007");
    }

    #[test]
    fn what_is_no_moment_is_not_taken_for_one() {
        for text in
            ["", "1", "180000000012345678", "18000000001234567890", "+800000000123456789", "180000000012345678a"]
        {
            assert_eq!(VersionId::parse_timestamp(text), None, "{text}");
        }
    }
}
