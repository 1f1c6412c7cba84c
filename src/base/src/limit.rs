//! Bounded counts.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// Requested number of items: `DEFAULT` when absent, at most `CAP`. Both numbers appear in the JSON
/// schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit<const DEFAULT: u32, const CAP: u32>(u32);

impl<const DEFAULT: u32, const CAP: u32> Limit<DEFAULT, CAP> {
    /// The number, at most `CAP`.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl<const DEFAULT: u32, const CAP: u32> Default for Limit<DEFAULT, CAP> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

/// Values above the cap are lowered to it; zero and negative values are refused.
impl<'de, const DEFAULT: u32, const CAP: u32> Deserialize<'de> for Limit<DEFAULT, CAP> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let requested = i64::deserialize(deserializer)?;
        if requested < 1 {
            return Err(serde::de::Error::custom(format_args!("{requested} is too small; 1 to {CAP} is allowed")));
        }
        Ok(Self(u32::try_from(requested).unwrap_or(CAP).min(CAP)))
    }
}

impl<const DEFAULT: u32, const CAP: u32> JsonSchema for Limit<DEFAULT, CAP> {
    fn schema_name() -> Cow<'static, str> {
        format!("Limit_{DEFAULT}_{CAP}").into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer", "minimum": 1, "default": DEFAULT,
            "description": format!("At most this many; {DEFAULT} when absent, lowered to {CAP} when larger")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_capped_and_never_below_one() {
        let read = |text| serde_json::from_str::<Limit<50, 500>>(text).map(Limit::get);
        assert_eq!(read("7").unwrap(), 7);
        assert_eq!(read("9999999999").unwrap(), 500);
        assert!(read("0").is_err() && read("-1").is_err());
        assert_eq!(Limit::<50, 500>::default().get(), 50);
    }
}
