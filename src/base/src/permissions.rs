//! What credentials allow.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Fault, Kind, TreePath};

/// The scope of a key; each scope includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Read, search and query.
    Read,
    /// Also change pages in a draft, which others review.
    Propose,
    /// Also change pages.
    Write,
    /// Also change the server: spaces and their visibility.
    Admin,
}

impl Scope {
    /// The name of the scope in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Propose => "propose",
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

/// What the credentials of a caller allow: a scope, and a part of the tree.
///
/// The permissions travel with the [`Caller`](crate::Caller); they are checked where the change or
/// read happens, for every protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// The scope.
    pub scope: Scope,
    /// The folder to which the key is limited; none for the complete tree.
    pub folder: Option<TreePath>,
}

impl Permissions {
    /// Everything: local callers, and all callers without authentication.
    pub const FULL: Self = Self { scope: Scope::Admin, folder: None };
    /// Reading everything: callers of a public space without credentials.
    pub const READ_ONLY: Self = Self { scope: Scope::Read, folder: None };

    /// Whether changes of pages go into a draft.
    pub fn is_proposing(&self) -> bool {
        self.scope == Scope::Propose
    }
    /// The directory that contains everything visible: the folder, else the root of the tree.
    pub fn visible_root(&self) -> TreePath {
        self.folder.clone().unwrap_or_else(TreePath::root)
    }
    /// Whether a path is visible.
    pub fn covers(&self, path: &TreePath) -> bool {
        self.folder.as_ref().is_none_or(|folder| path.is_under(folder))
    }
    /// Checks that a path is visible.
    ///
    /// # Errors
    /// `Forbidden`, naming path and folder.
    pub fn check_path(&self, path: &TreePath) -> Result<(), Fault> {
        match &self.folder {
            Some(folder) if !path.is_under(folder) => {
                let message = format!("path outside key scope: `{path}`; this key is limited to `{folder}`");
                Err(Fault::new(Kind::Forbidden, message))
            }
            Some(_) | None => Ok(()),
        }
    }
    /// The message of a commit, if the caller may read it. A commit can name paths outside the
    /// folder of a limited key, so such a key gets none.
    pub fn redact_message(&self, message: String) -> String {
        if self.folder.is_none() { message } else { String::new() }
    }
    /// Checks that the scope allows `what`, the name of the operation.
    ///
    /// # Errors
    /// `Forbidden`, naming the operation and the scope that it needs.
    pub fn check_scope(&self, needed: Scope, what: &str) -> Result<(), Fault> {
        if self.scope >= needed {
            return Ok(());
        }
        let message = match self.scope {
            Scope::Read => format!("read-only token cannot perform `{what}`, which needs the scope `{needed}`"),
            Scope::Propose | Scope::Write | Scope::Admin => {
                format!("a token of scope `{}` cannot perform `{what}`, which needs the scope `{needed}`", self.scope)
            }
        };
        Err(Fault::new(Kind::Forbidden, message))
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
        for (scope, allowed) in [(Scope::Read, 1), (Scope::Propose, 2), (Scope::Write, 3), (Scope::Admin, 4)] {
            let reach = Permissions { scope, folder: None };
            let scopes = [Scope::Read, Scope::Propose, Scope::Write, Scope::Admin];
            assert_eq!(
                scopes.iter().filter(|needed| reach.check_scope(**needed, "x").is_ok()).count(),
                allowed,
                "{scope}"
            );
        }
        let message = Permissions::READ_ONLY.check_scope(Scope::Write, "PUT").unwrap_err();
        assert!(message.message().starts_with("read-only token cannot perform"), "{message}");
    }
}
