use svcfs_base::Scope;

/// The access check that a request must pass before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestGuard {
    /// None: the response reveals nothing about pages.
    Open,
    /// Credentials with this scope, if authentication is enabled.
    RequiresScope(Scope),
}

impl RequestGuard {
    /// The name that documentation shows.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "none",
            Self::RequiresScope(scope) => scope.name(),
        }
    }
}
