//! Claims: cooperative write leases on pages.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{Actor, Timestamp, TreePath};

/// A write lease on a page, held by an actor for a limited time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Claim {
    /// The claimed page
    pub path: TreePath,
    /// The holder
    pub claimed_by: Actor,
    /// When it was claimed
    pub claimed_at: Timestamp,
    /// When the lease ends unless it is renewed
    pub expires_at: Timestamp,
    /// Number of the lease; it only grows in its space. Send it with writes (`X-Claim-Fence`, or
    /// `fence` of a tool), so that they are refused after the lease has ended
    pub fence: u64,
    /// The number of this attempt at the task, from 1; 0 for other pages
    #[serde(skip)]
    pub attempt: u32,
}

impl Claim {
    /// Whether the lease has ended.
    pub fn has_lapsed(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }
    /// The record in answers.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
