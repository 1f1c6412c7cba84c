//! `.svc/history/<path>/<number>-<time>-<actor>.md`: every version of a page as a file.

use std::sync::Arc;

use svcfs_base::{Fault, FileKind, PathComponent, TreePath};
use svcfs_vfs::StoredVersion;

use super::past_file::PastFile;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};

/// Fewest digits of a version's number.
const DIGITS: usize = 4;
/// Most bytes of an actor in a name.
const MAX_ACTOR_BYTES: usize = 64;
/// Most bytes of a page's extension that its versions have, too.
const MAX_EXTENSION_BYTES: usize = 16;

/// The past of a path: its versions where it is or was a file, the paths below it where it is or was a directory.
pub(super) struct HistoryFolder(pub(super) TreePath);

impl ViewNode for HistoryFolder {
    fn key(&self) -> Vec<u8> {
        format!("history {}", self.0).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&self.0))
    }

    fn find(
        &self,
        views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        if let Some(version) = self.version(views, name.as_str())? {
            return Ok(Some(version));
        }
        let path = self.0.join(name);
        let is_known = views.is_shown(&path)? || (views.vfs.is_versioned(&path) && views.vfs.has_history(&path)?);
        Ok(if is_known { Some(Arc::new(Self(path))) } else { None })
    }

    fn list(&self, views: &MountViews, _reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let below = views.directory(&self.0)?.unwrap_or_default().into_iter();
        let below = below.map(|(path, _)| ViewEntry { name: path.name().to_owned(), place: Arc::new(Self(path)) });
        let versions = self.versions_now(views)?;
        let digits = digits(&versions);
        let versions =
            versions.iter().map(|version| ViewEntry { name: self.name_of(version, digits), place: self.file(version) });
        Ok(versions.chain(below).collect())
    }
}

impl HistoryFolder {
    /// The versions as they are now, remembered for whoever looks at them next.
    fn versions_now(&self, views: &MountViews) -> Result<Arc<Vec<StoredVersion>>, Fault> {
        if self.0.is_root() {
            return Ok(Arc::default());
        }
        Ok(views.past.versions.keep(self.0.clone(), views.vfs.stored_versions(&self.0)?))
    }

    /// The version of a name, however many digits its number is written with: they become more with the versions.
    fn version(&self, views: &MountViews, name: &str) -> Result<Option<ViewNodeRef>, Fault> {
        let Some((number, _)) = name.split_once('-') else { return Ok(None) };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        let Ok(wanted) = number.parse::<usize>() else { return Ok(None) };
        let named = |versions: &[StoredVersion]| {
            let at = versions.binary_search_by_key(&wanted, |version| version.number).ok()?;
            (self.name_of(&versions[at], number.len()) == name).then(|| self.file(&versions[at]))
        };
        // A version never changes: one that was listed before is still right.
        if let Some(found) = views.past.versions.get(&self.0).and_then(|versions| named(&versions)) {
            return Ok(Some(found));
        }
        Ok(named(&self.versions_now(views)?))
    }

    fn file(&self, version: &StoredVersion) -> ViewNodeRef {
        let StoredVersion { content, time, .. } = version.clone();
        Arc::new(PastFile { content, kind: FileKind::Regular, time, path: self.0.clone() })
    }

    fn name_of(&self, version: &StoredVersion, digits: usize) -> String {
        let StoredVersion { number, author, time, .. } = version;
        let time = time.strftime("%Y%m%dT%H%M%SZ");
        format!("{number:0digits$}-{time}-{}{}", plain(author), extension(self.0.name()))
    }
}

/// How many digits make the names of these versions sort by number.
fn digits(versions: &[StoredVersion]) -> usize {
    versions.last().map_or(0, |newest| newest.number.to_string().len()).max(DIGITS)
}

/// An actor as part of a file's name that needs no quotes in a shell.
fn plain(actor: &str) -> String {
    let mut plain: String =
        actor.chars().map(|c| if c.is_alphanumeric() || "._@+-".contains(c) { c } else { '_' }).collect();
    if let Some((end, _)) = plain.char_indices().find(|(at, c)| at + c.len_utf8() > MAX_ACTOR_BYTES) {
        plain.truncate(end);
    }
    if plain.is_empty() { "unknown".to_owned() } else { plain }
}

/// The extension of a name with its dot, so that a version opens with the page's own program.
fn extension(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && (1..=MAX_EXTENSION_BYTES).contains(&extension.len()) => {
            format!(".{extension}")
        }
        Some(_) | None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_version_is_safe_in_a_shell_and_as_long_as_a_name_may_be() {
        assert_eq!(plain("agent:x"), "agent_x");
        assert_eq!(plain("Zoë / 日本"), "Zoë___日本");
        assert_eq!(plain(""), "unknown");
        assert!(plain(&"é".repeat(300)).len() <= MAX_ACTOR_BYTES);
        for (name, kept) in [
            ("a.md", ".md"),
            ("a.tar.gz", ".gz"),
            ("a", ""),
            (".bashrc", ""),
            ("a.", ""),
            ("a.what-a-long-extension", ""),
        ] {
            assert_eq!(extension(name), kept, "{name}");
        }
    }
}
