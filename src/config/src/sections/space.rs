//! `[space]` and `[[spaces]]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who sees this space.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SpaceConfig {
    /// Who may read it without credentials, where there is authentication.
    pub visibility: SpaceVisibility,
}

/// Who may read a space without credentials (contract 2.14).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpaceVisibility {
    /// Nobody.
    #[default]
    Private,
    /// Whoever knows the path of a page.
    Unlisted,
    /// Everybody.
    Public,
}

impl SpaceVisibility {
    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Unlisted => "unlisted",
            Self::Public => "public",
        }
    }
}

/// One more space of the server. Its own settings are in `.svc/config.toml` of its root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OtherSpace {
    /// Its name in URLs and in `X-Svc-Space`.
    #[serde(default)]
    pub name: String,
    /// Its directory, by absolute path. One that is not there is not made: the space answers 503, as when its disk is not mounted.
    #[serde(default)]
    pub root: String,
    /// Who may read it without credentials, where there is authentication: beats `space.visibility` of its own settings, and no request
    /// changes it. Its own settings hold when this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SpaceVisibility")]
    pub visibility: Option<SpaceVisibility>,
}

/// One more space of the server, decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceSettings {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub root: PathBuf,
    /// Who may read it without credentials; none for what its own settings say.
    pub visibility: Option<SpaceVisibility>,
}

impl OtherSpace {
    /// What holds, or the field that is wrong and why.
    pub(crate) fn resolve(self) -> Result<SpaceSettings, (&'static str, &'static str)> {
        let Self { name, root, visibility } = self;
        if let Some(told) = space_name_error(&name) {
            return Err(("name", told));
        }
        let root = PathBuf::from(root);
        if !root.is_absolute() {
            return Err(("root", "is missing or a relative path; give the absolute path of the space's directory"));
        }
        Ok(SpaceSettings { name, root, visibility })
    }
}

/// What is wrong with a space's name, if anything is: it stands in URLs, in a header and in logs.
#[must_use]
pub fn space_name_error(name: &str) -> Option<&'static str> {
    let is_sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 {
        return Some("must have 1 to 64 characters");
    }
    (!name.chars().all(is_sound)).then_some("may have letters, digits, `-` and `_` only")
}
