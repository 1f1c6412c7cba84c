//! Files that are generated from code and stored in git, so that a change of the public interface
//! appears in the diff.

use std::path::Path;

use anyhow::Context;

use crate::finding::Finding;

/// A generated file.
struct Output {
    /// Relative to the workspace root.
    path: &'static str,
    /// Generates the content, which ends with one newline.
    make: fn() -> anyhow::Result<String>,
}

/// All generated files.
const OUTPUTS: &[Output] = &[
    Output { path: "src/config/config.schema.json", make: || Ok(svcfs_config::schema()) },
    Output { path: "docs/configuration.md", make: || Ok(svcfs_config::render_reference()) },
    Output { path: "http/openapi.json", make: || Ok(svcfs_http::openapi::document(svcfs_knowledge::CATALOGUE)) },
    Output { path: "docs/access.md", make: || Ok(svcfs_http::access::page()) },
    Output { path: "http/tools.json", make: || Ok(svcfs_http::mcp::tools()) },
];

/// Writes every file that is out of date and prints its path.
#[expect(clippy::disallowed_methods, reason = "writes files of this repository, not of a knowledge root")]
pub fn write(root: &Path) -> anyhow::Result<Vec<Finding>> {
    for Output { path, make } in OUTPUTS {
        let generated = make().with_context(|| format!("generating `{path}`"))?;
        let is_current = current(root, path)? == generated;
        if !is_current {
            std::fs::write(root.join(path), generated).with_context(|| format!("writing `{path}`"))?;
        }
        println!("{path}: {}", if is_current { "is up to date" } else { "written" });
    }
    Ok(Vec::new())
}

/// Compares every file with its generated content.
pub fn compare(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for Output { path, make } in OUTPUTS {
        let generated = make().with_context(|| format!("generating `{path}`"))?;
        findings.extend(difference(path, &current(root, path)?, &generated));
    }
    Ok(findings)
}

/// The current content of the file; empty if the file does not exist.
fn current(root: &Path, path: &str) -> anyhow::Result<String> {
    match std::fs::read_to_string(root.join(path)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        outcome => outcome.with_context(|| format!("reading `{path}`")),
    }
}

/// The first line that differs, and how to update the file.
fn difference(path: &str, current: &str, generated: &str) -> Option<Finding> {
    if current == generated {
        return None;
    }
    let (mut old, mut new) = (current.lines(), generated.lines());
    let mut line = 0;
    let (old, new) = loop {
        line += 1;
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => {}
            (old, new) => break (old, new),
        }
    };
    let quote = |text: Option<&str>| text.map_or("nothing".to_owned(), |text| format!("`{}`", text.trim()));
    let message = format!(
        "is out of date: {} should be {}; run `cargo run -p xtask -- generate` and read the difference before committing it",
        quote(old),
        quote(new)
    );
    Some(Finding::at(path, line, message))
}

#[cfg(test)]
mod tests {
    use super::{OUTPUTS, compare, difference};

    #[test]
    fn a_difference_names_its_first_line_and_both_texts() {
        assert_eq!(difference("a.json", "1\n2\n", "1\n2\n"), None);
        let advice = "run `cargo run -p xtask -- generate` and read the difference before committing it";
        for (current, generated, expected) in [
            ("1\n2\n", "1\n3\n", "a.json:2: is out of date: `2` should be `3`"),
            ("", "1\n", "a.json:1: is out of date: nothing should be `1`"),
            ("1\n2\n", "1\n", "a.json:2: is out of date: `2` should be nothing"),
        ] {
            let finding = difference("a.json", current, generated).unwrap();
            assert_eq!(finding.to_string(), format!("{expected}; {advice}"));
        }
    }

    #[test]
    fn every_output_is_missing_from_an_empty_root_and_none_fails() {
        let root = tempfile::tempdir().unwrap();
        let paths: Vec<_> = compare(root.path()).unwrap().into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, OUTPUTS.iter().map(|output| output.path).collect::<Vec<_>>());
    }

    #[test]
    fn every_output_ends_with_one_newline() {
        for output in OUTPUTS {
            let text = (output.make)().unwrap();
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{}", output.path);
        }
    }
}
