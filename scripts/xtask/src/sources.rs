//! The Rust files of the workspace: their length and their names.

use std::path::Path;

use anyhow::Context;

use crate::finding::Finding;

/// A Rust file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Relative to the workspace root, with `/`.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl SourceFile {
    /// All Rust files below `root`, sorted by path; skips `target` and folders with a leading dot.
    pub fn all(root: &Path) -> anyhow::Result<Vec<Self>> {
        let mut files = Vec::new();
        collect(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    /// The name without folders.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Whether it has only tests.
    pub fn is_test(&self) -> bool {
        self.name() == "tests.rs" || self.path.split('/').any(|folder| folder == "tests")
    }
}

/// The name of the function whose definition starts on a line.
pub fn function_name(line: &str) -> Option<&str> {
    let rest = line.trim_start().trim_start_matches("pub ").trim_start_matches("async ").strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

fn collect(folder: &Path, below: &str, files: &mut Vec<SourceFile>) -> anyhow::Result<()> {
    for entry in folder.read_dir().with_context(|| format!("reading `{}`", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{below}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() && name != "target" && !name.starts_with('.') {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() && name.ends_with(".rs") {
            let text = std::fs::read_to_string(entry.path()).with_context(|| format!("reading `{path}`"))?;
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}

/// Lines that a file may have.
const MAX_LINES: usize = 500;
/// Lines that a file of tests may have.
const MAX_TEST_LINES: usize = 800;

/// Names without meaning: the code of such a file belongs to its callers.
const VAGUE_NAMES: &[&str] = &["utils.rs", "util.rs", "helpers.rs", "helper.rs", "common.rs", "misc.rs", "types.rs"];

/// Files that are too long or have a vague name.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let (lines, max) = (file.text.lines().count(), if file.is_test() { MAX_TEST_LINES } else { MAX_LINES });
        if lines > max {
            let message = format!("has {lines} lines, {max} is the limit; split it by subject");
            findings.push(Finding::about(&file.path, message));
        }
        let name = file.name();
        let folder = file.path.rsplit('/').nth(1).map(|folder| format!("{folder}.rs"));
        if VAGUE_NAMES.contains(&name) || (name == "mod.rs" && folder.is_some_and(|name| VAGUE_NAMES.contains(&&*name)))
        {
            findings.push(Finding::about(&file.path, "has a vague name; name it after its content"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{SourceFile, check};

    fn file(path: &str, lines: usize) -> SourceFile {
        SourceFile { path: path.to_owned(), text: "x\n".repeat(lines) }
    }

    #[test]
    fn length_is_limited_and_tests_may_be_longer() {
        let fine = [file("src/a.rs", 500), file("src/tests.rs", 800), file("tests/it/main.rs", 800)];
        assert_eq!(check(&fine), []);
        let long = [file("src/a.rs", 501), file("src/a/tests.rs", 801)];
        let messages: Vec<_> = check(&long).iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "src/a.rs: has 501 lines, 500 is the limit; split it by subject",
                "src/a/tests.rs: has 801 lines, 800 is the limit; split it by subject",
            ]
        );
    }

    #[test]
    fn vague_names_of_files_and_folders_are_found() {
        let files = [file("src/utils.rs", 1), file("src/common/mod.rs", 1), file("src/path/mod.rs", 1)];
        let paths: Vec<_> = check(&files).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["src/utils.rs", "src/common/mod.rs"]);
    }

    #[test]
    fn files_are_found_below_a_root_but_not_in_target() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/src", "target/debug", ".git"] {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
            std::fs::File::create(root.path().join(path).join("x.rs")).unwrap();
        }
        let paths: Vec<_> = SourceFile::all(root.path()).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(paths, ["a/src/x.rs"]);
    }
}
