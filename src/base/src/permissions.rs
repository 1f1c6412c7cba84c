//! What a caller's credentials allow.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, TreePath};

/// What a key may do (gaps.md 5); each may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read, search and ask.
    Read,
    /// Also change pages.
    Write,
    /// Also change the server: its spaces, who sees them.
    Admin,
}

impl Scope {
    /// The scope as it is written in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What a caller's credentials allow: how much, and where in the tree.
///
/// It travels with the [`Caller`](crate::Caller), so that whatever the door, what it forbids is refused where the thing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// How much.
    pub scope: Scope,
    /// The folder beyond which nothing is seen or changed; none for the whole tree.
    pub folder: Option<TreePath>,
}

impl Permissions {
    /// Everything, everywhere: who is on this machine, and everybody where there is no authentication.
    pub const FULL: Self = Self { scope: Scope::Admin, folder: None };
    /// Reading, everywhere: who comes to a public space without credentials.
    pub const READ_ONLY: Self = Self { scope: Scope::Read, folder: None };

    /// The directory that everything that may be seen lies below: the folder, else the root of the tree.
    pub fn visible_root(&self) -> TreePath {
        self.folder.clone().unwrap_or_else(TreePath::root)
    }
    /// Whether a path may be seen at all.
    pub fn covers(&self, path: &TreePath) -> bool {
        self.folder.as_ref().is_none_or(|folder| path.is_under(folder))
    }
    /// Checks that a path may be seen at all.
    ///
    /// # Errors
    /// `Forbidden`, with the contract's words (gaps.md 5).
    pub fn check_path(&self, path: &TreePath) -> Result<(), Fault> {
        match &self.folder {
            Some(folder) if !path.is_under(folder) => {
                let told = format!("path outside key scope: `{path}`; this key is limited to `{folder}`");
                Err(Fault::new(Kind::Forbidden, told))
            }
            Some(_) | None => Ok(()),
        }
    }
    /// The message of a commit, as far as it may be told: one over several paths may name any of them, so that whoever is limited to a
    /// folder is told none.
    pub fn redact_message(&self, message: String) -> String {
        if self.folder.is_none() { message } else { String::new() }
    }
    /// Checks that something that needs this scope may be done; `what` is the operation.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn check_scope(&self, needed: Scope, what: &str) -> Result<(), Fault> {
        if self.scope >= needed {
            return Ok(());
        }
        let told = match self.scope {
            Scope::Read => format!("read-only token cannot perform `{what}`, which needs the scope `{needed}`"),
            Scope::Write | Scope::Admin => {
                format!("a token of scope `{}` cannot perform `{what}`, which needs the scope `{needed}`", self.scope)
            }
        };
        Err(Fault::new(Kind::Forbidden, told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn a_folder_key_excludes_neighbours_with_the_same_name_prefix() {
        let reach = Permissions { scope: Scope::Write, folder: Some(path("docs")) };
        for (text, is_seen) in
            [("docs", true), ("docs/a.md", true), ("docs2/a.md", false), ("", false), ("a.md", false)]
        {
            assert_eq!(reach.covers(&path(text)), is_seen, "{text}");
            assert_eq!(reach.check_path(&path(text)).is_ok(), is_seen, "{text}");
        }
        assert!(Permissions::FULL.covers(&path("anything")));
    }

    #[test]
    fn a_scope_holds_those_below_it() {
        for (scope, allowed) in [(Scope::Read, 1), (Scope::Write, 2), (Scope::Admin, 3)] {
            let reach = Permissions { scope, folder: None };
            let scopes = [Scope::Read, Scope::Write, Scope::Admin];
            assert_eq!(
                scopes.iter().filter(|needed| reach.check_scope(**needed, "x").is_ok()).count(),
                allowed,
                "{scope}"
            );
        }
        let told = Permissions::READ_ONLY.check_scope(Scope::Write, "PUT").unwrap_err();
        assert!(told.message().starts_with("read-only token cannot perform"), "{told}");
    }
}
