//! `[links]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Links between pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinksConfig {
    /// Frontmatter keys whose values name pages, one or a list, such as `[[a page]]` or `a page`.
    /// They are links like those in the text. `depends_on` and `blocked_by` always are.
    pub typed_fields: Vec<String>,
    /// Update links in the same commit when a page is renamed through a mount, NFS or WebDAV; `POST
    /// /rename` always does. Only for a rename from a page name to a page name: not for backups
    /// (`a.md~`), names that begin with a dot, and folders.
    pub update_on_rename: bool,
    /// Which of several files of one name a link means: "nearest" the one in the nearest folder,
    /// "shortest" the one in the folder of the page, else the one with the shortest path, as
    /// Obsidian does. A path from the root always means that file.
    pub resolution: LinkResolution,
}

/// Which of several files of one name a link means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkResolution {
    /// The one in the nearest folder.
    #[default]
    Nearest,
    /// The one in the folder of the page, else the one with the shortest path.
    Shortest,
}

impl LinksConfig {
    /// Frontmatter keys that name the pages which must be finished before a task.
    pub const DEPENDENCY_FIELDS: [&str; 2] = ["depends_on", "blocked_by"];

    /// All keys whose values are links: the configured ones and [`Self::DEPENDENCY_FIELDS`].
    #[must_use]
    pub fn link_fields(&self) -> Vec<String> {
        let mut keys = self.typed_fields.clone();
        let missing = Self::DEPENDENCY_FIELDS.iter().filter(|key| !self.typed_fields.iter().any(|field| field == *key));
        keys.extend(missing.map(|key| (*key).to_owned()));
        keys
    }
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self {
            typed_fields: vec!["contradicts".to_owned()],
            update_on_rename: false,
            resolution: LinkResolution::default(),
        }
    }
}
