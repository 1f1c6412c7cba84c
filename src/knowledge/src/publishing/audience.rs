//! Who may see which pages.

use serde_json::{Map, Value};

/// Which pages a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// All that the caller may read.
    Caller,
    /// Pages with `published: true`.
    Published,
    /// Pages with `visibility: public`.
    Public,
    /// The page itself and nothing else.
    OnePage,
}

impl Audience {
    /// Whether this audience is served a page with this frontmatter directly.
    pub(crate) fn admits(self, frontmatter: &Map<String, Value>) -> bool {
        match self {
            Self::Caller => true,
            Self::Published => frontmatter.get("published") == Some(&Value::Bool(true)),
            Self::Public => frontmatter.get("visibility").and_then(Value::as_str) == Some("public"),
            Self::OnePage => false,
        }
    }
}
