//! Names that git or its hosts refuse.

use std::borrow::Cow;

use gix_validate::path::component;
use svcfs_base::{FileKind, TreePath};

/// Protections of every platform: a repository is cloned to macOS and Windows too, and hosts check
/// with `git fsck`. Names that only Windows cannot store (`CON`, `a:b`) are no danger and allowed.
const OPTIONS: component::Options =
    component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };

/// Links with these names are refused by `git fsck`, and so by hosts on push.
const NO_SYMLINKS: [&str; 4] = [".gitmodules", ".gitattributes", ".gitignore", ".mailmap"];

/// Why git refuses one name of a path, if it does.
pub(crate) fn refusal_of_name(name: &str, is_symlink: bool) -> Option<Cow<'static, str>> {
    let mode = is_symlink.then_some(component::Mode::Symlink);
    if is_symlink && NO_SYMLINKS.iter().any(|fixed| name.eq_ignore_ascii_case(fixed)) {
        return Some(format!("git does not allow `{name}` as a symbolic link").into());
    }
    match gix_validate::path::component(name.into(), mode, OPTIONS) {
        Ok(_) => None,
        Err(component::Error::DotGitDir) => {
            Some("a name is `.git`, or a form of it that macOS or Windows treats as `.git`".into())
        }
        Err(component::Error::SymlinkedGitModules) => {
            Some("git does not allow `.gitmodules`, in any form, as a symbolic link".into())
        }
        Err(error) => Some(error.to_string().into()),
    }
}

/// Why git refuses a path, if it does. The kind is that of the last name; none for a directory.
pub fn path_refusal(path: &TreePath, kind: Option<FileKind>) -> Option<Cow<'static, str>> {
    let is_link = kind == Some(FileKind::Symlink);
    let mut names = path.components().rev();
    let last = names.next().and_then(|name| refusal_of_name(name, is_link));
    last.or_else(|| names.find_map(|name| refusal_of_name(name, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_disguise_of_git_is_refused_and_ordinary_names_are_not() {
        let zero_width = ".g\u{200c}it";
        for (name, is_refused) in [
            (".git", true),
            (".GIT", true),
            (".Git", true),
            (zero_width, true),
            ("\u{feff}.git", true),
            (".gi\u{202e}t", true),
            ("git~1", true),
            ("GIT~1", true),
            (".git ", true),
            (".git.", true),
            (".git. .", true),
            (".git::$INDEX_ALLOCATION", true),
            (".git:stream", true),
            (".gitx", false),
            ("git", false),
            ("git~2", false),
            (".gitignore", false),
            (".gitattributes", false),
            (".gitmodules", false),
            ("CON", false),
            ("a:b.md", false),
            ("what?.md", false),
            ("ends with a dot.", false),
            ("a\\b.md", false),
            ("日本.md", false),
        ] {
            assert_eq!(refusal_of_name(name, false).is_some(), is_refused, "{name:?}");
            let path = TreePath::parse(&format!("d/{name}/x.md")).unwrap();
            assert_eq!(path_refusal(&path, Some(FileKind::Regular)).is_some(), is_refused, "{path:?}");
        }
    }

    #[test]
    fn settings_of_git_must_not_be_symbolic_links() {
        for name in [".gitmodules", ".GITMODULES", "gitmod~1", ".gitattributes", ".gitignore"] {
            let path = TreePath::parse(name).unwrap();
            assert!(path_refusal(&path, Some(FileKind::Symlink)).is_some(), "{name}");
            assert!(path_refusal(&path, Some(FileKind::Regular)).is_none(), "{name}");
        }
    }
}
