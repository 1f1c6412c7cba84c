//! Which files with hidden names the APIs serve.

use std::fmt;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::{TreePath, is_hidden_name};
use crate::Fault;

/// The directory of settings and instructions, whose files the APIs serve by their own rules.
const CONTROL_DIRECTORY: &str = ".svc";

/// Hidden files, and the exceptions of the setting `files.serve_hidden`.
///
/// A path is hidden if one of its components is ([`is_hidden_name`]). REST, MCP, search and export
/// leave such files out: they are for programs (`.env`, `.obsidian/`) and not knowledge. File
/// protocols show them, because editors need them.
#[derive(Clone, Default)]
pub struct HiddenFiles {
    patterns: Vec<String>,
    exceptions: GlobSet,
    /// The directories above exceptions, which listings must show: literal ends of patterns, and
    /// how many hidden names each has.
    parents: GlobSet,
    parent_hidden_names: Vec<usize>,
}

impl fmt::Debug for HiddenFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("HiddenFiles").field(&self.patterns).finish()
    }
}

impl PartialEq for HiddenFiles {
    fn eq(&self, other: &Self) -> bool {
        self.patterns == other.patterns
    }
}

impl Eq for HiddenFiles {}

impl HiddenFiles {
    /// Compiles globs over paths. A directory that matches includes everything below it.
    ///
    /// # Errors
    /// `Invalid` for a glob that cannot be compiled, naming it.
    pub fn new(patterns: &[String]) -> Result<Self, Fault> {
        let (mut exceptions, mut parents) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let mut parent_hidden_names = Vec::new();
        for pattern in patterns {
            exceptions.add(compile(pattern)?);
            for (at, _) in pattern.match_indices('/') {
                let parent = &pattern[..at];
                let name = parent.rsplit('/').next().unwrap_or_default();
                if !is_literal(name) {
                    continue;
                }
                parents.add(compile(parent)?);
                parent_hidden_names.push(parent.split('/').filter(|name| is_hidden_name(name)).count());
            }
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|error| Fault::invalid("files.serve_hidden", error));
        Ok(Self {
            patterns: patterns.to_vec(),
            exceptions: build(exceptions)?,
            parents: build(parents)?,
            parent_hidden_names,
        })
    }

    /// The globs.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether the APIs must not serve a path. The files of `.svc/` have their own rules.
    pub fn hides(&self, path: &TreePath) -> bool {
        let skipped = usize::from(path.components().next() == Some(CONTROL_DIRECTORY));
        let hidden_names = path.components().skip(skipped).filter(|name| is_hidden_name(name)).count();
        hidden_names > 0 && !self.is_exception(path) && !self.is_parent(path, hidden_names)
    }

    /// Whether a file is knowledge: not hidden, or an exception. The files of `.svc/` never are.
    pub fn lists(&self, path: &TreePath) -> bool {
        !path.is_hidden() || path.components().next() != Some(CONTROL_DIRECTORY) && self.is_exception(path)
    }

    /// Whether listings for readers show a name: not hidden, or (the way to) an exception.
    pub fn lists_name(&self, path: &TreePath) -> bool {
        !is_hidden_name(path.name()) || path.components().next() != Some(CONTROL_DIRECTORY) && !self.hides(path)
    }

    /// Whether a glob matches a path or a directory above it.
    fn is_exception(&self, path: &TreePath) -> bool {
        !self.exceptions.is_empty()
            && std::iter::once(path.clone())
                .chain(path.ancestors().filter(|directory| !directory.is_root()))
                .any(|path| self.exceptions.is_match(path.as_str()))
    }

    /// Whether exceptions may be below a path. Wildcards do not stand for hidden names here:
    /// otherwise `*/x` would show `.env`.
    fn is_parent(&self, path: &TreePath, hidden_names: usize) -> bool {
        let matches = self.parents.matches(path.as_str());
        matches.into_iter().any(|parent| self.parent_hidden_names[parent] == hidden_names)
    }
}

fn compile(pattern: &str) -> Result<Glob, Fault> {
    let to_fault =
        |error: globset::Error| Fault::invalid("files.serve_hidden", format_args!("`{pattern}`: {}", error.kind()));
    GlobBuilder::new(pattern).literal_separator(true).build().map_err(to_fault)
}

fn is_literal(name: &str) -> bool {
    !name.is_empty() && !name.contains(['*', '?', '[', '{', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn hidden_paths_are_served_only_as_exceptions() {
        let hides = |patterns: &[&str], text: &str| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            HiddenFiles::new(&patterns).unwrap().hides(&path(text))
        };
        for (patterns, hidden, served) in [
            (
                &[][..],
                &[".env", ".git/x", "a/.env", ".a/b.md", "a/.svc/x.md", ".svc/.x", "...", ".github"][..],
                &["", "a.md", "..md", ".svc", ".svc/rules.md", "a/b..md"][..],
            ),
            (&[".env"], &["a/.env", ".env.local"], &[".env"]),
            (&["**/.env"], &[".envrc"], &[".env", "a/b/.env"]),
            (&[".github/**"], &[".env", "a/.github/x"], &[".github", ".github/x", ".github/a/b.md"]),
            (&[".github"], &[".env"], &[".github", ".github/x", ".github/a/.b"]),
            (
                &[".github/workflows/*.yml"],
                &[".github/x.md", ".github/workflows/.x", ".github/workflows/a/b.yml"],
                &[".github", ".github/workflows", ".github/workflows/a.yml"],
            ),
            (&["*/x/.a"], &[".env", ".aws/x", "x/.b"], &["b/x/.a", "b/x"]),
            (&["**/.obsidian/snippets/*"], &[".obsidian/app.json"], &["v/.obsidian", "v/.obsidian/snippets/a.css"]),
            (&[".*/x"], &[".env"], &[".env/x"]),
            (&["**"], &[], &[".env", "a/.b/c"]),
        ] {
            for text in hidden {
                assert!(hides(patterns, text), "{patterns:?} hides {text}");
            }
            for text in served {
                assert!(!hides(patterns, text), "{patterns:?} serves {text}");
            }
        }
    }

    #[test]
    fn only_exceptions_outside_the_control_directory_are_knowledge() {
        let all = HiddenFiles::new(&["**".to_owned()]).unwrap();
        let none = HiddenFiles::default();
        for (text, with_all, with_none) in [
            ("a.md", true, true),
            ("..md", true, true),
            (".a/b.md", true, false),
            (".svc/rules.md", false, false),
            (".svc/rejected/.a/b.md", false, false),
        ] {
            assert_eq!((all.lists(&path(text)), none.lists(&path(text))), (with_all, with_none), "{text}");
        }
    }

    #[test]
    fn a_bad_glob_is_named() {
        let fault = HiddenFiles::new(&["a[".to_owned()]).unwrap_err();
        assert!(fault.message().starts_with("`files.serve_hidden`: `a[`: "), "{fault}");
    }
}
