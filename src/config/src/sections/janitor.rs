//! `[janitor]`

use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the health of the tree is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JanitorConfig {
    /// Time between two scans of the whole tree, such as `24h` or `1h 30m`; at least `1m`. A negative time, such as `-1s`, ends them.
    pub interval: String,
    /// After how many days a page that was `reviewed`, and says nothing of its next review, is stale.
    #[schemars(range(min = 1, max = 36_500))]
    pub stale_days: u32,
    /// Scan once when the server starts.
    pub startup_scan: bool,
}

impl Default for JanitorConfig {
    fn default() -> Self {
        Self { interval: "24h".to_owned(), stale_days: 90, startup_scan: false }
    }
}

/// When the health of the tree is looked at, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JanitorSettings {
    /// Time between two scans; none when there are none.
    pub interval: Option<Duration>,
    /// After how many days a page that was `reviewed`, and says nothing of its next review, is stale.
    pub stale_days: u32,
    /// Whether a scan is made when the server starts.
    pub startup_scan: bool,
}

/// More often, scans would do nothing but follow each other in a large tree.
const SHORTEST: Duration = Duration::from_secs(60);

impl JanitorConfig {
    /// What holds.
    pub(crate) fn resolve(self) -> Result<JanitorSettings, &'static str> {
        const WRONG: &str = "is no time; give one such as `24h` or `1h 30m`, or a negative one such as `-1s` for never";
        let length: SignedDuration = self.interval.trim().parse().map_err(|_| WRONG)?;
        let interval = Duration::try_from(length).ok();
        if interval.is_some_and(|interval| interval < SHORTEST) {
            return Err("is less than a minute; give `1m` or more, or a negative time for never");
        }
        Ok(JanitorSettings { interval, stale_days: self.stale_days, startup_scan: self.startup_scan })
    }
}
