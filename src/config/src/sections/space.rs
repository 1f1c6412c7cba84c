//! `[space]` and `[[spaces]]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Access to this space.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SpaceConfig {
    /// Access without credentials while authentication is on.
    pub visibility: SpaceVisibility,
}

/// Access to a space without credentials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpaceVisibility {
    /// No access.
    #[default]
    Private,
    /// Pages can be read by their exact path, not listed.
    Unlisted,
    /// All pages can be read.
    Public,
}

impl SpaceVisibility {
    /// Name in settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Unlisted => "unlisted",
            Self::Public => "public",
        }
    }
}

/// An additional space of the server. Its own settings are in `.svc/config.toml` of its root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtherSpace {
    /// Name in URLs and in `X-Svc-Space`.
    #[serde(default)]
    pub name: String,
    /// Absolute path of its root. A missing directory is not created: the space answers 503, as
    /// when its disk is not mounted.
    #[serde(default)]
    pub root: String,
    /// Access without credentials while authentication is on. Overrides `space.visibility` of the
    /// space; requests cannot change it. If absent: the setting of the space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SpaceVisibility")]
    pub visibility: Option<SpaceVisibility>,
}

/// A validated additional space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceSettings {
    /// Name.
    pub name: String,
    /// Absolute path of its root.
    pub root: PathBuf,
    /// Access without credentials; none for the setting of the space.
    pub visibility: Option<SpaceVisibility>,
}

impl OtherSpace {
    /// Validates the space; on error, returns the field and the message.
    pub(crate) fn resolve(self) -> Result<SpaceSettings, (&'static str, &'static str)> {
        let Self { name, root, visibility } = self;
        if let Some(message) = space_name_error(&name) {
            return Err(("name", message));
        }
        let root = PathBuf::from(root);
        if !root.is_absolute() {
            return Err(("root", "is missing or a relative path; give the absolute path of the space's directory"));
        }
        Ok(SpaceSettings { name, root, visibility })
    }
}

/// The error in a name of a space, if any. Names appear in URLs, headers and logs.
#[must_use]
pub fn space_name_error(name: &str) -> Option<&'static str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 {
        return Some("must have 1 to 64 characters");
    }
    (!name.chars().all(is_allowed)).then_some("may contain only letters, digits, `-` and `_`")
}
