//! Schemas of pages: JSON Schema documents in `.svc/schemas/<type>.json`.
//!
//! Invariant: a schema is an ordinary versioned file. It is checked when it is written through any
//! protocol, and read again when a page of its type is written, so that a change takes effect at
//! once however it was made. An external edit can break a schema; then its pages are not checked,
//! which is reported as a lint issue of each of them.
//!
//! The frontmatter of a page with `type: X` must fit the schema X, if there is one.

mod compiled;
mod document;
mod gate;
mod operations;
mod registry;
mod report;
#[cfg(test)]
mod tests;
mod violation;

use svcfs_base::{Fault, TreePath};

pub use gate::SchemaGate;
pub use operations::AREA;
pub use registry::SchemaRegistry;
pub use report::{SchemaFindings, lint_page};
pub use violation::SchemaViolation;

const SCHEMAS_FOLDER: &str = ".svc/schemas";

/// The key of a page that selects its schema.
const TYPE_KEY: &str = "type";

const MAX_TYPE_BYTES: usize = 128;

/// A larger schema is refused.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Whether a text is the name of a type: letters, digits, `_` and `-`.
fn is_type_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_TYPE_BYTES
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// The file of a schema.
///
/// # Errors
/// `Invalid` if it is not the name of a type.
fn schema_path(name: &str) -> Result<TreePath, Fault> {
    if !is_type_name(name) {
        let displayed: String = svcfs_base::escape_unprintable(&name.chars().take(40).collect::<String>());
        let message = format!(
            "`{displayed}` is not a valid type name; use letters, digits, `_` and `-`, at most {MAX_TYPE_BYTES}"
        );
        return Err(Fault::invalid(TYPE_KEY, message));
    }
    TreePath::parse(&format!("{SCHEMAS_FOLDER}/{name}.json"))
}

/// The type whose schema is in a file; none for other files.
fn type_of_path(path: &TreePath) -> Option<&str> {
    let name = path.as_str().strip_prefix(SCHEMAS_FOLDER)?.strip_prefix('/')?;
    name.strip_suffix(".json").filter(|name| !name.contains('/'))
}
