//! `[links]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What leads from one page to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinksConfig {
    /// Keys of the frontmatter whose values name pages, one or a list, such as `[[a page]]` or `a page`: they are links like those of
    /// the text. `depends_on` and `blocked_by` always are.
    pub typed_fields: Vec<String>,
    /// Whether links follow a page that is renamed through a mount, NFS or WebDAV, in the same commit, as they follow a rename by
    /// `POST /rename` without it. Only from the name of a page to that of a page: a backup (`a.md~`), a name that begins with a dot and a
    /// folder take no links along.
    pub update_on_rename: bool,
}

impl LinksConfig {
    /// Keys of the frontmatter that name the pages which must be finished before a task.
    pub const DEPENDENCY_FIELDS: [&str; 2] = ["depends_on", "blocked_by"];

    /// Every key whose values are links: those that were said to be, and those that are so by what they mean.
    #[must_use]
    pub fn link_fields(&self) -> Vec<String> {
        let mut keys = self.typed_fields.clone();
        let others = Self::DEPENDENCY_FIELDS.iter().filter(|key| !self.typed_fields.iter().any(|named| named == *key));
        keys.extend(others.map(|key| (*key).to_owned()));
        keys
    }
}

impl Default for LinksConfig {
    fn default() -> Self {
        Self { typed_fields: vec!["contradicts".to_owned()], update_on_rename: false }
    }
}
