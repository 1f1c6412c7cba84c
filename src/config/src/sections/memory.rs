//! `[memory]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::TreePath;

/// Where agents keep what they remember.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Folder of episodes: pages at or below it count as remembered events unless their `memory_kind` says otherwise.
    pub episodes_path_prefix: String,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { episodes_path_prefix: "episodes/".to_owned() }
    }
}

impl MemoryConfig {
    /// What holds.
    pub(crate) fn resolve(self) -> Result<MemorySettings, &'static str> {
        match TreePath::parse(&self.episodes_path_prefix) {
            Ok(path) if !path.is_root() => Ok(MemorySettings { episodes_path_prefix: path }),
            Ok(_) | Err(_) => Err("names no folder of the tree; give one such as `episodes/`"),
        }
    }
}

/// Where agents keep what they remember, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySettings {
    /// Folder of episodes; never the root.
    pub episodes_path_prefix: TreePath,
}
