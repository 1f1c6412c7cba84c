//! The two forms of a content: as the tree has it, and as git records it (`.gitattributes`).
//!
//! Invariant: outside of `History`, a content is identified by the hash of its form in the tree.
//! Where git converts nothing both hashes are equal, and nothing is looked up here. A recorded form
//! may have several forms in the tree (line ends); that on the disk comes first.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use git2::{Oid, Repository};
use svcfs_base::{CommitId, ETag, FileKind, MAX_FILE_BYTES, TreePath};

use super::read::TreeFinder;
use super::{History, HistoryResult, head_of, oid};
use crate::path_rules::{Conversion, FilterError, PathRules, is_crlf_text, smudge, store_clean};
use crate::{PathState, StoreError};

/// Converted contents, and known forms, that are cached.
const MAX_CACHED_BYTES: usize = 16 << 20;
const MAX_CACHED_FORMS: usize = 50_000;

/// How far back the blob of an outdated index entry is searched for.
const MAX_SEARCHED_COMMITS: usize = 100;

/// A path and the hash of a content.
type FormKey = (TreePath, ETag);

#[derive(Default)]
pub(super) struct KnownForms {
    /// What programs made of contents of the tree.
    cleaned: HashMap<FormKey, (Conversion, Bytes)>,
    cleaned_bytes: usize,
    /// The content of the tree that was last recorded as a blob.
    recorded: HashMap<FormKey, ETag>,
}

impl KnownForms {
    fn cleaned(&self, key: &FormKey, conversion: &Conversion) -> Option<Bytes> {
        self.cleaned.get(key).filter(|(known, _)| known == conversion).map(|(_, content)| content.clone())
    }

    fn add_cleaned(&mut self, key: FormKey, conversion: Conversion, content: Bytes) {
        if self.cleaned_bytes + content.len() > MAX_CACHED_BYTES || self.cleaned.len() >= MAX_CACHED_FORMS {
            self.cleaned.clear();
            self.cleaned_bytes = 0;
        }
        self.cleaned_bytes += content.len();
        self.cleaned.insert(key, (conversion, content));
    }

    fn add_recorded(&mut self, path: &TreePath, blob: ETag, content: ETag) {
        if self.recorded.len() >= MAX_CACHED_FORMS {
            self.recorded.clear();
        }
        self.recorded.insert((path.clone(), blob), content);
    }
}

impl History {
    /// The rules of git's own files.
    pub const fn rules(&self) -> &PathRules {
        &self.rules
    }

    /// Whether the newest commit has a path, as a file or a directory.
    pub fn is_tracked(&self, path: &TreePath) -> HistoryResult<bool> {
        self.reader(|repository| Ok(head_entry(repository, path)?.is_some()))
    }

    /// Whether git converts the file at a path.
    pub fn is_converted(&self, path: &TreePath) -> bool {
        !self.rules.conversion(path).is_identity()
    }

    /// The hash of the form that git records.
    ///
    /// # Errors
    /// `FilterFailed` when a filter cannot convert the content.
    pub fn recorded_form(&self, path: &TreePath, (kind, content): (FileKind, &[u8])) -> HistoryResult<ETag> {
        Ok(ETag::from_content(&self.clean(path, (kind, content))?))
    }

    /// Whether git records a content as this blob; false where it converts nothing.
    pub(super) fn is_clean_form(&self, path: &TreePath, content: (FileKind, &[u8]), blob: ETag) -> bool {
        self.is_converted(path) && self.recorded_form(path, content).is_ok_and(|clean| clean == blob)
    }

    /// The contents that git records for edits; none for edits that are recorded as they are.
    pub(super) fn clean_edits<'e>(
        &self,
        edits: &[super::FileEdit<'e>],
    ) -> HistoryResult<Vec<super::commit::CleanContent<'e>>> {
        let clean = |edit: &super::FileEdit<'e>| match edit {
            super::FileEdit::Write { path, kind, content } => match self.clean(path, (*kind, content))? {
                Cow::Borrowed(_) => Ok(None),
                Cow::Owned(clean) => {
                    let mut forms = self.forms.lock();
                    forms.add_recorded(path, ETag::from_content(&clean), ETag::from_content(content));
                    Ok(Some(Cow::Owned(clean)))
                }
            },
            super::FileEdit::Reuse { .. } | super::FileEdit::Remove { .. } => Ok(None),
        };
        edits.iter().map(clean).collect()
    }

    fn clean<'c>(&self, path: &TreePath, (kind, content): (FileKind, &'c [u8])) -> HistoryResult<Cow<'c, [u8]>> {
        if kind == FileKind::Symlink {
            return Ok(Cow::Borrowed(content));
        }
        let conversion = self.rules.conversion(path);
        if conversion.is_identity() {
            return Ok(Cow::Borrowed(content));
        }
        if !conversion.needs_git(content) {
            return Ok(conversion.clean_line_ends(content, || self.has_recorded_crlf(path, &conversion)));
        }
        let key = (path.clone(), ETag::from_content(content));
        if let Some(clean) = self.forms.lock().cleaned(&key, &conversion) {
            return Ok(Cow::Owned(clean.to_vec()));
        }
        let id = store_clean(&self.root, path, content).map_err(|error| filter_failed(path, error))?;
        let id = Oid::from_str(&id)?;
        let clean = self.reader(|repository| Ok(Bytes::copy_from_slice(repository.find_blob(id)?.content())))?;
        self.forms.lock().add_cleaned(key, conversion, clean.clone());
        Ok(Cow::Owned(clean.to_vec()))
    }

    /// Whether the newest commit has a text with CRLF at a path: git does not convert it again.
    fn has_recorded_crlf(&self, path: &TreePath, conversion: &Conversion) -> bool {
        let recorded = || {
            self.reader(|repository| {
                let entry = head_entry(repository, path)?;
                Ok(entry.is_some_and(|id| repository.find_blob(id).is_ok_and(|blob| is_crlf_text(blob.content()))))
            })
        };
        conversion.depends_on_recorded() && recorded().unwrap_or(false)
    }

    /// The form in the tree of a recorded content.
    ///
    /// # Errors
    /// `FilterFailed` when a filter cannot convert it.
    pub fn smudge(&self, path: &TreePath, (kind, blob): (FileKind, ETag), content: Bytes) -> HistoryResult<Bytes> {
        let conversion = self.rules.conversion(path);
        if kind == FileKind::Symlink || conversion.is_identity() {
            return Ok(content);
        }
        if conversion.needs_git(&content) {
            let smudged = smudge(&self.root, path, &blob.to_string());
            return Ok(smudged.map_err(|error| filter_failed(path, error))?.into());
        }
        Ok(match conversion.smudge_line_ends(&content) {
            Cow::Borrowed(_) => content,
            Cow::Owned(smudged) => smudged.into(),
        })
    }

    /// The content of a file of a commit, as the tree would have it; none without the file.
    ///
    /// # Errors
    /// `Git` when it exists but cannot be read; `FilterFailed` when a filter cannot convert it.
    pub fn read_file(&self, commit: CommitId, path: &TreePath) -> HistoryResult<Option<Bytes>> {
        let Some((blob, kind)) = self.leaf(commit, path)? else { return Ok(None) };
        self.read_blob(blob)?.map(|content| self.smudge(path, (kind, blob), content)).transpose()
    }

    /// The states of paths, with the hashes of their contents in the tree.
    pub fn tree_states(&self, paths: &[&TreePath], states: Vec<PathState>) -> Vec<PathState> {
        let in_tree = |(path, state): (&&TreePath, PathState)| {
            state.map(|(blob, kind)| (self.tree_form(path, blob, Some(kind)), kind))
        };
        paths.iter().zip(states).map(in_tree).collect()
    }

    /// The hash of the content in the tree that is recorded as a blob: that of the file on the disk
    /// if it is recorded like this, else of the content last recorded, else what git would check
    /// out.
    pub(crate) fn tree_form(&self, path: &TreePath, blob: ETag, kind: Option<FileKind>) -> ETag {
        let Some(kind) = kind.filter(|kind| *kind != FileKind::Symlink) else { return blob };
        if !self.is_converted(path) {
            return blob;
        }
        let on_disk = read_regular(&self.root.join(path.as_str()));
        let etag_on_disk = on_disk.as_ref().map(|content| ETag::from_content(content));
        if let (Some(content), Some(etag)) = (&on_disk, etag_on_disk)
            && self.recorded_form(path, (kind, content)).is_ok_and(|clean| clean == blob)
        {
            return etag;
        }
        // Unless the attributes have changed since, and the file is recorded otherwise now.
        if let Some(known) =
            self.forms.lock().recorded.get(&(path.clone(), blob)).filter(|known| Some(**known) != etag_on_disk)
        {
            return *known;
        }
        let smudged = self
            .read_blob(blob)
            .and_then(|content| content.map(|content| self.smudge(path, (kind, blob), content)).transpose());
        smudged.ok().flatten().map_or(blob, |content| ETag::from_content(&content))
    }

    /// Whether one of the newest commits has this blob at a path that git converts: then the log,
    /// which has the hashes of the tree, may not know it.
    pub(super) fn was_recorded(&self, path: &TreePath, blob: ETag) -> HistoryResult<bool> {
        if !self.is_converted(path) {
            return Ok(false);
        }
        let Some(head) = self.head()? else { return Ok(false) };
        let wanted = Oid::from_bytes(blob.as_bytes())?;
        self.reader(|repository| {
            let mut next = Some(repository.find_commit(oid(head)?)?);
            for _ in 0..MAX_SEARCHED_COMMITS {
                let Some(commit) = next else { break };
                let entry = TreeFinder::new(repository, commit.tree()?).entry(path)?;
                if entry.is_some_and(|(id, _)| id == wanted) {
                    return Ok(true);
                }
                next = commit.parents().next();
            }
            Ok(false)
        })
    }
}

/// The object that the newest commit has at a path: a file or a directory.
fn head_entry(repository: &Repository, path: &TreePath) -> HistoryResult<Option<Oid>> {
    let Some(head) = head_of(repository)? else { return Ok(None) };
    let tree = repository.find_commit(oid(head)?)?.tree()?;
    Ok(TreeFinder::new(repository, tree).entry(path)?.map(|(id, _)| id))
}

/// A file of the tree, if it can have versions.
fn read_regular(file: &Path) -> Option<Vec<u8>> {
    let stat = std::fs::symlink_metadata(file).ok()?;
    if !stat.is_file() || stat.len() > MAX_FILE_BYTES as u64 {
        return None;
    }
    std::fs::read(file).ok()
}

fn filter_failed(path: &TreePath, FilterError(reason): FilterError) -> StoreError {
    StoreError::FilterFailed { path: path.clone(), reason }
}
