//! Read-your-writes token: the minimum index position of an answer.

use schemars::JsonSchema;
use serde::Deserialize;

/// Answer only when all changes up to this position are indexed, else 503. The position is the
/// number at the start of an event's `id`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct MinSeq(pub Option<u64>);
