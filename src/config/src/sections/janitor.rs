//! `[janitor]`

use std::time::Duration;

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Scans for stale, broken and empty pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JanitorConfig {
    /// Time between two scans of the whole tree, such as `24h` or `1h 30m`; at least `1m`. A
    /// negative time, such as `-1s`, disables scans.
    pub interval: String,
    /// Days after its `reviewed` date at which a page without a date for its next review is stale.
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

/// Validated settings of the scans.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JanitorSettings {
    /// Time between two scans; none when they are disabled.
    pub interval: Option<Duration>,
    /// Days after its `reviewed` date at which a page without a date for its next review is stale.
    pub stale_days: u32,
    /// Whether to scan once when the server starts.
    pub startup_scan: bool,
}

/// With a shorter interval, a large tree would be scanned all the time.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

impl JanitorConfig {
    pub(crate) fn resolve(self) -> Result<JanitorSettings, &'static str> {
        const MESSAGE: &str = "must be a time such as `24h` or `1h 30m`, or negative (`-1s`) to disable scans";
        let duration: SignedDuration = self.interval.trim().parse().map_err(|_| MESSAGE)?;
        let interval = Duration::try_from(duration).ok();
        if interval.is_some_and(|interval| interval < MIN_INTERVAL) {
            return Err("must be at least `1m`, or negative to disable scans");
        }
        Ok(JanitorSettings { interval, stale_days: self.stale_days, startup_scan: self.startup_scan })
    }
}
