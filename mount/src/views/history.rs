//! `.svc/history/<path>/<number>-<time>-<actor>.md`: every version of a page as a file, also those
//! from before a rename.

use std::sync::Arc;

use svcfs_base::{Fault, FileKind, PathComponent, Protocol, TreePath};
use svcfs_vfs::StoredVersion;

use super::links::{MORE_FILE, TextFile};
use super::past_file::PastFile;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeRef, ViewReader};

const MIN_NUMBER_DIGITS: usize = 4;
const MAX_ACTOR_BYTES: usize = 64;
const MAX_EXTENSION_BYTES: usize = 16;

/// Versions of a path that is or was a file, or entries of one that is or was a directory.
pub(super) struct HistoryFolder(pub(super) TreePath);

impl ViewNode for HistoryFolder {
    fn key(&self) -> Vec<u8> {
        format!("history {}", self.0).into_bytes()
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&self.0))
    }

    fn lookup(
        &self,
        views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        if let Some(version) = self.version(views, name.as_str())? {
            return Ok(Some(version));
        }
        if name.as_str() == MORE_FILE
            && let Some(text) = missing_versions(&self.0, &self.load_versions(views)?)
        {
            return Ok(Some(Arc::new(TextFile(text))));
        }
        let path = self.0.join(name);
        let is_known = views.is_shown(&path)? || (views.vfs.is_versioned(&path) && views.vfs.has_history(&path)?);
        Ok(if is_known { Some(Arc::new(Self(path))) } else { None })
    }

    fn list(&self, views: &MountViews, _reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let entries = views.directory(&self.0)?.unwrap_or_default().into_iter();
        let entries = entries.map(|(path, _)| ViewEntry { name: path.name().to_owned(), node: Arc::new(Self(path)) });
        let versions = self.load_versions(views)?;
        let digits = digits(&versions);
        let more = missing_versions(&self.0, &versions).map(TextFile::entry);
        let versions =
            versions.iter().map(|version| ViewEntry { name: self.name_of(version, digits), node: Self::file(version) });
        Ok(versions.chain(more).chain(entries).collect())
    }
}

impl HistoryFolder {
    /// Loads the versions into the cache, for the lookups that follow a listing.
    fn load_versions(&self, views: &MountViews) -> Result<Arc<Vec<StoredVersion>>, Fault> {
        if self.0.is_root() {
            return Ok(Arc::default());
        }
        let names = views.vfs.names_of_page(&self.0, |former| views.vfs.is_visible(Protocol::Fuse, former))?;
        Ok(views.past.versions.insert(self.0.clone(), views.vfs.stored_versions_under(&names)?))
    }

    /// The version with a name, for any number of digits: it grows with the versions.
    fn version(&self, views: &MountViews, name: &str) -> Result<Option<ViewNodeRef>, Fault> {
        let Some((number, _)) = name.split_once('-') else { return Ok(None) };
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        let Ok(wanted) = number.parse::<usize>() else { return Ok(None) };
        let named = |versions: &[StoredVersion]| {
            let at = versions.binary_search_by_key(&wanted, |version| version.number).ok()?;
            (self.name_of(&versions[at], number.len()) == name).then(|| Self::file(&versions[at]))
        };
        // Versions never change, so a cached one is valid.
        if let Some(version) = views.past.versions.get(&self.0).and_then(|versions| named(&versions)) {
            return Ok(Some(version));
        }
        Ok(named(&self.load_versions(views)?))
    }

    fn file(version: &StoredVersion) -> ViewNodeRef {
        let StoredVersion { content, time, path, .. } = version.clone();
        Arc::new(PastFile { content, kind: FileKind::Regular, time, path })
    }

    fn name_of(&self, version: &StoredVersion, digits: usize) -> String {
        let StoredVersion { number, author, time, .. } = version;
        let time = time.strftime("%Y%m%dT%H%M%SZ");
        format!("{number:0digits$}-{time}-{}{}", sanitize_actor(author), extension(self.0.name()))
    }
}

/// What is missing in a list that starts with a later version than the first.
fn missing_versions(path: &TreePath, versions: &[StoredVersion]) -> Option<String> {
    let oldest = versions.first().filter(|oldest| oldest.number > 1)?;
    let (listed, missing) = (versions.len(), oldest.number - 1);
    Some(format!(
        "Only the newest {listed} versions are listed; {missing} are older. Open them under\n\
         .svc/at/TIME/{path}, where TIME is before {}\n",
        oldest.time
    ))
}

/// Digits that make the names of these versions sort by number.
fn digits(versions: &[StoredVersion]) -> usize {
    versions.last().map_or(0, |newest| newest.number.to_string().len()).max(MIN_NUMBER_DIGITS)
}

/// An actor as part of a file name that needs no quotes in a shell.
fn sanitize_actor(actor: &str) -> String {
    let mut sanitize_actor: String =
        actor.chars().map(|c| if c.is_alphanumeric() || "._@+-".contains(c) { c } else { '_' }).collect();
    if let Some((end, _)) = sanitize_actor.char_indices().find(|(at, c)| at + c.len_utf8() > MAX_ACTOR_BYTES) {
        sanitize_actor.truncate(end);
    }
    if sanitize_actor.is_empty() { "unknown".to_owned() } else { sanitize_actor }
}

/// The extension of a name with its dot, so that a version opens with the page's program.
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
    fn a_version_name_is_shell_safe_and_fits_the_name_limit() {
        assert_eq!(sanitize_actor("agent:x"), "agent_x");
        assert_eq!(sanitize_actor("Zoë / 日本"), "Zoë___日本");
        assert_eq!(sanitize_actor(""), "unknown");
        assert!(sanitize_actor(&"é".repeat(300)).len() <= MAX_ACTOR_BYTES);
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
