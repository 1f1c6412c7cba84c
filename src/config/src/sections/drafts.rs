//! `[drafts]`

use std::time::Duration;

use super::parse_time;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Drafts: pages that are changed beside the tree and merged after a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DraftsConfig {
    /// Serve drafts. They need `versioning.strategy = "git"`.
    pub enabled: bool,
    /// Maximum number of open drafts of a space.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_active: usize,
    /// Discard drafts that were not changed for this time, such as `30d` or `12h`; at least `1m`.
    /// Empty or `0` never discards one.
    pub auto_discard: String,
}

impl Default for DraftsConfig {
    fn default() -> Self {
        Self { enabled: true, max_active: 10, auto_discard: String::new() }
    }
}

/// Validated settings of drafts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftSettings {
    /// Whether drafts are served.
    pub enabled: bool,
    /// Maximum number of open drafts.
    pub max_active: usize,
    /// The time after which an unchanged draft is discarded; none for never.
    pub auto_discard: Option<Duration>,
}

impl DraftsConfig {
    pub(crate) fn resolve(self) -> Result<DraftSettings, &'static str> {
        const MESSAGE: &str =
            "must be a time such as `30d` or `12h`, at least `1m`; empty or `0` never discards a draft";
        let text = self.auto_discard.trim();
        let auto_discard = if text.is_empty() || text == "0" {
            None
        } else {
            let duration = parse_time(text).ok_or(MESSAGE)?;
            match duration.as_secs() {
                0 if duration.is_zero() => None,
                0..60 => return Err(MESSAGE),
                60.. => Some(duration),
            }
        };
        Ok(DraftSettings { enabled: self.enabled, max_active: self.max_active, auto_discard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_a_draft_is_discarded() {
        let resolve = |text: &str| {
            let config = DraftsConfig { auto_discard: text.to_owned(), ..DraftsConfig::default() };
            config.resolve().map(|settings| settings.auto_discard.map(|time| time.as_secs()))
        };
        for (text, seconds) in [
            ("", None),
            (" ", None),
            ("0", None),
            ("0s", None),
            ("1m", Some(60)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("2w", Some(1_209_600)),
            ("1d 12h", Some(129_600)),
        ] {
            assert_eq!(resolve(text), Ok(seconds), "{text:?}");
        }
        for text in ["59s", "-1h", "soon", "3", "1 month", "9999999999999d"] {
            assert!(resolve(text).is_err(), "{text:?}");
        }
    }
}
