//! Periods in the form `30d`, `2w` or `6m`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use svcfs_base::Timestamp;

use super::SECONDS_PER_DAY;

/// A hundred years: longer than any history.
const MAX_DAYS: u32 = 36_500;
/// The pattern that [`TimePeriod::parse`] accepts, for the schema.
const PATTERN: &str = "^0*(([1-9][0-9]{0,3}|[12][0-9]{4}|3[0-5][0-9]{3}|36[0-4][0-9]{2}|36500)d|([1-9][0-9]{0,2}|[1-4][0-9]{3}|5[01][0-9]{2}|520[0-9]|521[0-4])w\
    |([1-9][0-9]{0,2}|1[01][0-9]{2}|120[0-9]|121[0-6])m)$";
const DEFAULT: &str = "30d";
const DEFAULT_DAYS: u32 = 30;

/// A period that ends now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimePeriod {
    text: String,
    days: u32,
}

impl TimePeriod {
    /// Parses a number of days, weeks or months of 30 days.
    ///
    /// # Errors
    /// The reason as text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "`{}` is not a valid period; use days, weeks or months, such as `30d`, `2w` or `6m`",
                svcfs_base::escape_unprintable(text)
            )
        };
        let unit = text.chars().next_back().ok_or_else(invalid)?;
        let days_per_unit = match unit {
            'd' => 1,
            'w' => 7,
            'm' => 30,
            _ => return Err(invalid()),
        };
        let number = &text[..text.len() - unit.len_utf8()];
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let days = number.parse::<u32>().ok().and_then(|number| number.checked_mul(days_per_unit));
        match days {
            Some(days @ 1..=MAX_DAYS) => Ok(Self { text: text.to_owned(), days }),
            Some(_) | None => Err(format!("`{text}` is out of range; use 1 to {MAX_DAYS} days")),
        }
    }

    /// The text it was parsed from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Number of days, at least 1.
    pub const fn days(&self) -> u32 {
        self.days
    }

    /// The start of the period if it ends at `now`.
    pub fn start_before(&self, now: Timestamp) -> Timestamp {
        let second = now.as_second().saturating_sub(i64::from(self.days) * SECONDS_PER_DAY);
        Timestamp::from_second(second).unwrap_or(Timestamp::MIN)
    }
}

impl Default for TimePeriod {
    fn default() -> Self {
        Self { text: DEFAULT.to_owned(), days: DEFAULT_DAYS }
    }
}

impl<'de> Deserialize<'de> for TimePeriod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&Cow::<'de, str>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for TimePeriod {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string", "pattern": PATTERN, "default": DEFAULT,
            "description": format!("Period up to now: days, weeks or months of 30 days, such as `30d`, `2w`, `6m`; default {DEFAULT}")
        })
    }
}
