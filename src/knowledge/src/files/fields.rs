//! Edits of the frontmatter of a text.

use serde_json::Value;
use svcfs_base::{Fault, Kind};
use svcfs_text::frontmatter;

/// Sets keys of the frontmatter.
///
/// # Errors
/// `Invalid` for frontmatter that cannot be changed safely.
pub fn set_fields(text: &str, fields: &[(&str, Value)]) -> Result<String, Fault> {
    fields.iter().try_fold(text.to_owned(), |text, (key, value)| {
        frontmatter::set(&text, key, value).map_err(|error| Fault::new(Kind::Invalid, error.to_string()))
    })
}

/// A text that can get frontmatter of its own: a body that begins like frontmatter stays a body.
pub fn with_frontmatter(body: &str) -> String {
    format!("---\n---\n\n{}\n", body.trim_matches(['\n', '\r']))
}
