//! Keys of objects are paths of files, letter for letter.

use svcfs_base::{Fault, Kind, TreePath};

/// The folder that the server has in every space.
pub(crate) const SERVERS: &str = ".svc";

/// What a key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParsedKey {
    /// `notes/a.md`
    File(TreePath),
    /// `notes/`: what clients make to have an empty folder.
    Folder(TreePath),
}

impl ParsedKey {
    /// Reads a key. Two keys never mean one file, so what a path would be normalised to is no key.
    ///
    /// # Errors
    /// `Invalid` and `NameTooLong` for what no path is.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let (bare, is_folder) = text.strip_suffix('/').map_or((text, false), |bare| (bare, true));
        let path = TreePath::parse(bare)?;
        if path.is_root() || path.as_str() != bare {
            let told = format!(
                "the key `{}` is no path here: it may not begin with `/`, nor have empty parts, `.` or `..`",
                svcfs_base::escape_unprintable(text)
            );
            return Err(Fault::new(Kind::Invalid, told));
        }
        Ok(if is_folder { Self::Folder(path) } else { Self::File(path) })
    }

    /// The key, as clients write it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::File(path) => path.to_string(),
            Self::Folder(path) => format!("{path}/"),
        }
    }

    /// The path.
    pub(crate) const fn path(&self) -> &TreePath {
        match self {
            Self::File(path) | Self::Folder(path) => path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_path_letter_for_letter_or_nothing() {
        let path = |text| TreePath::parse(text).unwrap();
        assert_eq!(ParsedKey::parse("a/ b.md").unwrap(), ParsedKey::File(path("a/ b.md")));
        assert_eq!(ParsedKey::parse("a/b/").unwrap(), ParsedKey::Folder(path("a/b")));
        for wrong in ["", "/", "/a", "a//b", "a//", "./a", "a/.", "a/../b", "..", "a/\0", "%2e%2e/a"] {
            assert!(ParsedKey::parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(ParsedKey::parse(&"x".repeat(300)).unwrap_err().kind(), Kind::NameTooLong);
    }
}
