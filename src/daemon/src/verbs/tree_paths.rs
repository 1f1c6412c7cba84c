//! Paths on the command line as paths of the tree.
//!
//! As in git: inside the root or one of its mounts a path is relative to the current directory, and
//! what is printed is, too. Elsewhere it is relative to the top of the tree. An absolute path must
//! be inside the root or a mount.

use std::path::{Component, Path, PathBuf};

use crate::failure::{CommandFailure, ExitStatus};
use crate::presence;

/// Where the tree is on this machine, and the current directory in it.
#[derive(Debug, Default)]
pub struct TreePaths {
    /// The root and its mounts, without links; empty for a server elsewhere.
    directories: Vec<PathBuf>,
    /// The current directory as a path of the tree; empty at the top and outside.
    current: String,
}

impl TreePaths {
    /// Of a root, seen as one of its spaces if that is named.
    pub fn of_root(root: &Path, space: Option<&str>) -> Self {
        let announced = presence::announced(root);
        let root_space = announced.as_ref().and_then(|served| served.space.as_deref()).unwrap_or(presence::FIRST);
        let space = space.unwrap_or(root_space);
        let is_root = space == root_space;
        let mounts = announced.iter().flat_map(|served| &served.mounts);
        let shows_space = |given: Option<&str>| given.map_or(is_root, |given| given == space);
        let mounts = mounts.filter(|mount| shows_space(mount.flags.space.as_deref()));
        let mut directories: Vec<PathBuf> = mounts.map(|mount| mount.mountpoint.clone()).collect();
        if is_root {
            directories.extend(root.canonicalize());
        }
        let current = std::env::current_dir().unwrap_or_default();
        Self::new(directories, &current)
    }

    /// Of directories that show the tree, with the current directory.
    fn new(directories: Vec<PathBuf>, current: &Path) -> Self {
        let mut paths = Self { directories, current: String::new() };
        paths.current = paths.inside(current).unwrap_or_default();
        paths
    }

    /// The current directory as a path of the tree; empty at the top and outside.
    pub fn current(&self) -> &str {
        &self.current
    }

    /// The path of the tree for a path on the command line; empty for the top.
    ///
    /// # Errors
    /// `Usage` when it is not inside the tree.
    pub fn resolve(&self, text: &str) -> Result<String, CommandFailure> {
        let usage = |message: String| Err(CommandFailure::saying(ExitStatus::Usage, message));
        if text.is_empty() {
            return usage("the path is empty; `.` is the current directory".to_owned());
        }
        // As `svcfs call tree` calls the top of the tree.
        if text == "/" {
            return Ok(String::new());
        }
        if !text.starts_with('/') {
            return match join(&self.current, text) {
                Some(path) => Ok(path),
                None => usage(format!("`{text}` is above the top of the knowledge base")),
            };
        }
        let path = Path::new(text);
        let real = || self.inside(&without_links(path)?).or_else(|| self.inside(&path.canonicalize().ok()?));
        match self.inside(path).or_else(real) {
            Some(path) => Ok(path),
            None => usage(self.outside(text)),
        }
    }

    /// A path of the tree as [`resolve`](Self::resolve) takes it.
    pub fn shown(&self, path: &str) -> String {
        if self.current.is_empty() {
            return path.to_owned();
        }
        let mut from = self.current.split('/').peekable();
        let mut to = path.split('/').peekable();
        while let (Some(directory), Some(name)) = (from.peek(), to.peek())
            && directory == name
        {
            from.next();
            to.next();
        }
        let parts: Vec<&str> = from.map(|_| "..").chain(to).collect();
        if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
    }

    /// The path of the tree for an absolute path; none outside.
    fn inside(&self, path: &Path) -> Option<String> {
        let rest = self.directories.iter().find_map(|directory| path.strip_prefix(directory).ok())?;
        join("", rest.to_str()?)
    }

    fn outside(&self, text: &str) -> String {
        let relative = text.trim_start_matches('/');
        match self.directories.last() {
            Some(directory) => format!(
                "`{text}` is outside the knowledge base `{}`; give a path relative to it, such as `{relative}`, or \
                 choose another knowledge base with --root",
                directory.display()
            ),
            None => format!("`{text}` is not a path of the server; give one relative to the top, such as `{relative}`"),
        }
    }
}

/// Joins paths; none above the top. A final `/` is lost.
fn join(directory: &str, text: &str) -> Option<String> {
    let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in Path::new(text).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(parts.join("/"))
}

/// The path with the links of its existing directories resolved. The last component may itself be
/// a link of the tree.
fn without_links(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?;
    let parent = path.parent()?;
    let resolved = parent.canonicalize().ok().or_else(|| without_links(parent))?;
    Some(resolved.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(current: &str) -> TreePaths {
        TreePaths::new(vec!["/srv/notes.mnt".into(), "/srv/notes".into()], Path::new(current))
    }

    #[test]
    fn paths_are_relative_to_the_current_directory_inside_root_and_mounts() {
        for (current, text, expected) in [
            ("/srv/notes", "a.md", Some("a.md")),
            ("/srv/notes/sub", "a.md", Some("sub/a.md")),
            ("/srv/notes.mnt/sub/deep", "../a.md", Some("sub/a.md")),
            ("/srv/notes.mnt/sub", "../../a.md", None),
            ("/srv/notes/sub", ".", Some("sub")),
            ("/srv/notes/sub", "/", Some("")),
            ("/srv/notes/sub", "/srv/notes.mnt/b//c.md", Some("b/c.md")),
            ("/srv/notes/sub", "/srv/notes", Some("")),
            ("/srv/notes/sub", "/srv/notes2/a.md", None),
            ("/srv/notes/sub", "", None),
            ("/home/ann", "sub/./a.md", Some("sub/a.md")),
            ("/home/ann", "../a.md", None),
            ("/home/ann", "/srv/notes/../notes/a.md", None),
            ("/home/ann", "/etc/passwd", None),
            ("/home/ann", "sub/", Some("sub")),
        ] {
            assert_eq!(paths(current).resolve(text).ok().as_deref(), expected, "{text} in {current}");
        }
    }

    #[test]
    fn an_absolute_path_outside_is_refused_with_what_to_do() {
        let message = paths("/home/ann").resolve("/etc/passwd").unwrap_err().message(false);
        assert!(
            message.contains("outside the knowledge base `/srv/notes`") && message.contains("`etc/passwd`"),
            "{message}"
        );
        let message = TreePaths::default().resolve("/etc/passwd").unwrap_err().message(false);
        assert!(message.contains("not a path of the server"), "{message}");
    }

    #[test]
    fn what_is_shown_can_be_typed_again() {
        for current in ["/srv/notes", "/srv/notes/a", "/srv/notes/a/b", "/srv/notes/x", "/tmp"] {
            for path in ["a/b/c.md", "a.md", "a/b", "x/y.md", "ab/c.md"] {
                let paths = paths(current);
                assert_eq!(paths.resolve(&paths.shown(path)).unwrap(), path, "{path} in {current}");
            }
        }
        assert_eq!(paths("/srv/notes/a/b").shown("a/c.md"), "../c.md");
    }

    #[test]
    fn links_outside_the_tree_are_resolved() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap().join("notes");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&root, place.path().join("link")).unwrap();
        let paths = TreePaths::new(vec![root], Path::new("/"));
        for (given, expected) in [("link/new/page.md", "new/page.md"), ("link", ""), ("link/../notes/a.md", "a.md")] {
            let given = place.path().join(given);
            assert_eq!(paths.resolve(given.to_str().unwrap()).unwrap(), expected, "{given:?}");
        }
    }
}
