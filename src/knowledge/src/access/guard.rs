//! What a request needs before it is looked at.

use svcfs_base::Scope;

/// What a request needs before it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestGuard {
    /// Nothing: it tells nothing of any page.
    Open,
    /// Credentials of this scope, where there is authentication.
    RequiresScope(Scope),
}

impl RequestGuard {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "none",
            Self::RequiresScope(scope) => scope.name(),
        }
    }
}
