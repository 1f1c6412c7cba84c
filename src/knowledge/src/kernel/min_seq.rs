//! From when on an answer must be.

use schemars::JsonSchema;
use serde::Deserialize;

/// Answer from an index that has read the changes up to this position (the number that the `id` of an event begins with), or refuse
/// with 503
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct MinSeq(pub Option<u64>);
