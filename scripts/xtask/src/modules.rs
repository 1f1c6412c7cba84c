//! Rust files that no `mod` line names: they are neither compiled nor run.

use std::collections::{BTreeSet, HashMap};

use crate::finding::Finding;
use crate::metadata::Package;
use crate::sources::SourceFile;

/// Files that cannot be reached from the root of any target.
pub fn check(files: &[SourceFile], packages: &[Package]) -> Vec<Finding> {
    let by_path: HashMap<&str, &SourceFile> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let roots: BTreeSet<&str> = packages.iter().flat_map(|package| &package.targets).map(String::as_str).collect();
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut pending: Vec<&str> = roots.iter().copied().collect();
    while let Some(path) = pending.pop() {
        let Some(file) = by_path.get(path) else { continue };
        if !reached.insert(&file.path) {
            continue;
        }
        for module in modules(&file.text) {
            let candidates = module.files(path, roots.contains(path));
            pending
                .extend(candidates.iter().filter_map(|path| by_path.get(path.as_str())).map(|file| file.path.as_str()));
        }
    }
    let unreachable = files.iter().filter(|file| !reached.contains(file.path.as_str()));
    unreachable
        .map(|file| {
            Finding::about(
                &file.path,
                "is not named by any `mod` line, so it is never compiled; add one or delete the file",
            )
        })
        .collect()
}

/// A `mod name;` line.
struct Module<'a> {
    name: &'a str,
    /// From a `#[path = "…"]` above it.
    path: Option<&'a str>,
}

impl Module<'_> {
    /// Possible paths of its file, for the file with the `mod` line.
    fn files(&self, parent: &str, parent_is_root: bool) -> Vec<String> {
        let (folder, file) = parent.rsplit_once('/').map_or(("", parent), |(folder, file)| (folder, file));
        let stem = file.trim_end_matches(".rs");
        let beside = |path: &str| {
            if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
        };
        match self.path {
            Some(path) => vec![beside(path)],
            None if parent_is_root || stem == "mod" => {
                vec![beside(&format!("{}.rs", self.name)), beside(&format!("{}/mod.rs", self.name))]
            }
            None => vec![beside(&format!("{stem}/{}.rs", self.name)), beside(&format!("{stem}/{}/mod.rs", self.name))],
        }
    }
}

/// The `mod name;` lines of a file, in the form that rustfmt gives them.
fn modules(text: &str) -> Vec<Module<'_>> {
    let mut declarations = Vec::new();
    let mut path = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.split('"').next();
        } else if let Some(name) = module_name(line) {
            declarations.push(Module { name, path: path.take() });
        }
    }
    declarations
}

/// The name in `mod name;`, with any visibility.
fn module_name(line: &str) -> Option<&str> {
    let declaration = match line.strip_prefix("pub") {
        Some(rest) => rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(rest, |(_, rest)| rest),
        None => line,
    };
    let name = declaration.trim_start().strip_prefix("mod ")?.strip_suffix(';')?;
    (!name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::{check, module_name};
    use crate::metadata::Package;
    use crate::sources::SourceFile;

    fn unreachable(files: &[(&str, &str)]) -> Vec<String> {
        let package = Package {
            name: "a".to_owned(),
            manifest: "a/Cargo.toml".to_owned(),
            dependencies: Vec::new(),
            targets: vec!["a/src/lib.rs".to_owned(), "a/it/main.rs".to_owned()],
        };
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        check(&files, &[package]).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn modules_are_followed_from_targets_in_both_file_layouts() {
        let files = [
            ("a/src/lib.rs", "mod one;\npub(crate) mod two;\n#[path = \"odd/name.rs\"]\nmod three;\n"),
            ("a/src/one.rs", "#[cfg(test)]\nmod tests;\n"),
            ("a/src/one/tests.rs", ""),
            ("a/src/two/mod.rs", "mod tests;\n"),
            ("a/src/two/tests.rs", ""),
            ("a/src/odd/name.rs", ""),
            ("a/it/main.rs", "mod scenarios;\n"),
            ("a/it/scenarios/mod.rs", "mod rename;\n"),
            ("a/it/scenarios/rename.rs", ""),
        ];
        assert_eq!(unreachable(&files), [""; 0]);
    }

    #[test]
    fn a_test_file_without_a_mod_line_is_found() {
        let files = [("a/src/lib.rs", "mod one;\n"), ("a/src/one.rs", "// mod tests;\n"), ("a/src/one/tests.rs", "")];
        assert_eq!(unreachable(&files), ["a/src/one/tests.rs"]);
    }

    #[test]
    fn only_module_lines_without_a_body_name_a_file() {
        assert_eq!(module_name("mod a;"), Some("a"));
        assert_eq!(module_name("pub mod a_1;"), Some("a_1"));
        assert_eq!(module_name("pub(in crate::b) mod a;"), Some("a"));
        for other in ["mod a {", "// mod a;", "model a;", "mod ;", "use a::mod;", "pub fn a();"] {
            assert_eq!(module_name(other), None, "{other}");
        }
    }
}
