//! The document that shows what the last run measured.

use std::path::Path;

use anyhow::{Context, Result};

/// Around the part of it that a run replaces.
const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// Replaces the part between the marks in a document.
///
/// # Errors
/// When it cannot be read or written, or has no marks.
pub fn replace(document: &Path, table: &str) -> Result<()> {
    let name = document.display();
    let text = std::fs::read_to_string(document).with_context(|| format!("cannot read `{name}`"))?;
    let replaced =
        between_marks(&text, table).with_context(|| format!("`{name}` has no `{BEGIN}` before an `{END}`"))?;
    std::fs::write(document, replaced).with_context(|| format!("cannot write `{name}`"))
}

fn between_marks(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{}\n\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_the_markers_is_replaced() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(between_marks(&text, "new\n"), Some(format!("a\n{BEGIN}\n\nnew\n\n{END}\nb\n")));
        assert_eq!(between_marks(&format!("{END}{BEGIN}"), "new"), None);
    }
}
