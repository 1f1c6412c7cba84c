//! Files that are made from code and kept in git, so that a change to the public face shows up in the diff.

use std::path::Path;

use anyhow::Context;

use crate::finding::Finding;

/// A generated file.
struct Output {
    /// Relative to the workspace root.
    path: &'static str,
    /// What is in it; ends with one newline.
    make: fn() -> anyhow::Result<String>,
}

/// All of them. One line adds another.
const OUTPUTS: &[Output] = &[
    Output { path: "src/config/config.schema.json", make: || Ok(svcfs_config::schema()) },
    Output { path: "docs/configuration.md", make: || Ok(svcfs_config::render_reference()) },
    Output { path: "http/openapi.json", make: || Ok(svcfs_http::openapi::document(svcfs_knowledge::CATALOGUE)) },
    Output { path: "docs/access.md", make: || Ok(svcfs_http::access::page()) },
    Output { path: "http/tools.json", make: || Ok(svcfs_http::mcp::tools()) },
];

/// Write every file that is out of date, and say which.
#[expect(clippy::disallowed_methods, reason = "writes files of this repository, not of a knowledge root")]
pub fn write(root: &Path) -> anyhow::Result<Vec<Finding>> {
    for Output { path, make } in OUTPUTS {
        let made = make().with_context(|| format!("making `{path}`"))?;
        let is_current = current(root, path)? == made;
        if !is_current {
            std::fs::write(root.join(path), made).with_context(|| format!("writing `{path}`"))?;
        }
        println!("{path}: {}", if is_current { "is up to date" } else { "written" });
    }
    Ok(Vec::new())
}

/// Compare every file with what would be written.
pub fn compare(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for Output { path, make } in OUTPUTS {
        let made = make().with_context(|| format!("making `{path}`"))?;
        findings.extend(difference(path, &current(root, path)?, &made));
    }
    Ok(findings)
}

/// What the file holds now; nothing when it is not there.
fn current(root: &Path, path: &str) -> anyhow::Result<String> {
    match std::fs::read_to_string(root.join(path)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        outcome => outcome.with_context(|| format!("reading `{path}`")),
    }
}

/// The first line that differs, and how to mend it.
fn difference(path: &str, current: &str, made: &str) -> Option<Finding> {
    if current == made {
        return None;
    }
    let (mut old, mut new) = (current.lines(), made.lines());
    let mut line = 0;
    let (old, new) = loop {
        line += 1;
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => {}
            (old, new) => break (old, new),
        }
    };
    let shown = |text: Option<&str>| text.map_or("nothing".to_owned(), |text| format!("`{}`", text.trim()));
    let message = format!(
        "is out of date: {} should be {}; run `cargo run -p xtask -- generate` and read the difference before committing it",
        shown(old),
        shown(new)
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
        for (current, made, expected) in [
            ("1\n2\n", "1\n3\n", "a.json:2: is out of date: `2` should be `3`"),
            ("", "1\n", "a.json:1: is out of date: nothing should be `1`"),
            ("1\n2\n", "1\n", "a.json:2: is out of date: `2` should be nothing"),
        ] {
            assert_eq!(difference("a.json", current, made).unwrap().to_string(), format!("{expected}; {advice}"));
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
            let made = (output.make)().unwrap();
            assert!(made.ends_with('\n') && !made.ends_with("\n\n"), "{}", output.path);
        }
    }
}
