//! Object keys are file paths, byte for byte.

use svcfs_base::{Fault, Kind, TreePath};

/// The server's own folder in every space.
pub(crate) const SERVER_FOLDER: &str = ".svc";

/// A parsed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParsedKey {
    /// `notes/a.md`
    File(TreePath),
    /// `notes/`: the marker that clients create for an empty folder.
    Folder(TreePath),
}

impl ParsedKey {
    /// Parses a key. Two keys never name one file, so a path that would be normalized is refused.
    /// Errors: `Invalid`, `NameTooLong` when it is not a path.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let (bare, is_folder) = text.strip_suffix('/').map_or((text, false), |bare| (bare, true));
        let path = TreePath::parse(bare)?;
        if path.is_root() || path.as_str() != bare {
            let message = format!(
                "the key `{}` is not a valid path: it must not start with `/` or have empty, `.` or `..` parts",
                svcfs_base::escape_unprintable(text)
            );
            return Err(Fault::new(Kind::Invalid, message));
        }
        Ok(if is_folder { Self::Folder(path) } else { Self::File(path) })
    }

    /// The key as clients write it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::File(path) => path.to_string(),
            Self::Folder(path) => format!("{path}/"),
        }
    }

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
