//! `[memory]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::TreePath;

/// Memory of agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Folder of episodes: pages in it are remembered events unless their `memory_kind` says
    /// otherwise.
    pub episodes_path_prefix: String,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self { episodes_path_prefix: "episodes/".to_owned() }
    }
}

impl MemoryConfig {
    pub(crate) fn resolve(self) -> Result<MemorySettings, &'static str> {
        match TreePath::parse(&self.episodes_path_prefix) {
            Ok(path) if !path.is_root() => Ok(MemorySettings { episodes_path_prefix: path }),
            Ok(_) | Err(_) => Err("must be a folder of the tree, such as `episodes/`"),
        }
    }
}

/// Validated settings of the memory of agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySettings {
    /// Folder of episodes; never the root.
    pub episodes_path_prefix: TreePath,
}
