//! The length of a lease, as a Go duration.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Minimum; a shorter lease is raised to it.
const MIN: Duration = Duration::from_secs(60);
const DEFAULT: Duration = Duration::from_secs(30 * 60);
const MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Units with their length in nanoseconds.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3_600e9)];

/// The length of a lease: 1 minute to 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseDuration(Duration);

impl LeaseDuration {
    /// The length.
    pub const fn get(self) -> Duration {
        self.0
    }
    /// Parses a Go duration, such as `30m` or `1h30m`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const MESSAGE: &str = "must be a time such as `30m` or `1h30m`, from `1m` to `24h`";
        let length = parse_duration(text, MESSAGE)?;
        if length > MAX {
            return Err("must be `24h` at most; renew the claim before it ends");
        }
        Ok(Self(length.max(MIN)))
    }
}

/// Parses a Go duration of more than 0, such as `30m` or `1h30m`.
///
/// # Errors
/// `message` for other texts; that it must be more than 0.
pub fn parse_duration(text: &str, message: &'static str) -> Result<Duration, &'static str> {
    let text = text.trim();
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return Err(message);
    }
    let mut nanoseconds: f64 = if rest == "0" { 0.0 } else { -1.0 };
    while !rest.is_empty() && rest != "0" {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(message)?;
        let number: f64 = rest[..number_end].parse().map_err(|_| message)?;
        rest = &rest[number_end..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let (_, length) = UNITS.iter().find(|(unit, _)| *unit == &rest[..unit_end]).ok_or(message)?;
        nanoseconds = nanoseconds.max(0.0) + number * length;
        rest = &rest[unit_end..];
        if rest == "0" {
            return Err(message);
        }
    }
    if is_negative || nanoseconds <= 0.0 {
        return Err("must be more than 0, such as `30m`");
    }
    Ok(Duration::try_from_secs_f64(nanoseconds / 1e9).unwrap_or(Duration::MAX))
}

impl Default for LeaseDuration {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl<'de> Deserialize<'de> for LeaseDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Cow::<'de, str>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl serde::Serialize for LeaseDuration {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{}m", self.0.as_secs() / 60))
    }
}

impl JsonSchema for LeaseDuration {
    fn schema_name() -> Cow<'static, str> {
        "LeaseDuration".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Length of the lease, such as `30m` or `1h30m`: at least 1m (less is raised), at most 24h"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go_within_the_limits() {
        let seconds = |text| LeaseDuration::parse(text).map(|lease| lease.get().as_secs());
        for (text, expected) in [
            ("30m", 1_800),
            ("1h30m", 5_400),
            ("1.5h", 5_400),
            (" 90s ", 90),
            ("+2m0s", 120),
            ("30s", 60),
            ("1ns", 60),
            ("24h", 86_400),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        let garbage = "must be a time such as `30m` or `1h30m`, from `1m` to `24h`";
        for text in ["", "x", "30", "30 m", "m", "1h 30m", "1.2.3m", "1d", "1m0", "۳m", "NaNs", "infs", "--1m"] {
            assert_eq!(seconds(text), Err(garbage), "{text}");
        }
        for text in ["0", "-0", "0s", "-30m", "0h0m"] {
            assert_eq!(seconds(text), Err("must be more than 0, such as `30m`"), "{text}");
        }
        for text in ["25h", "24h1ns", "99999999999999999999h"] {
            assert!(seconds(text).unwrap_err().starts_with("must be `24h` at most"), "{text}");
        }
        assert!(seconds(&"9".repeat(400)).is_err());
    }
}
