//! Saves that meet: a save whose base is no longer the current version.
//!
//! The server merges it with the current version when they do not overlap. The file then has a text
//! that the program did not send and does not know: what the program saves next is based on the
//! text that it sent (`read_versions`). Overlapping saves are rejected, also if both made the same
//! change.

use bytes::Bytes;
use fuser::INodeNo;
use svcfs_base::{ETag, Fault, Kind, TreePath};
use svcfs_text::merge::merge_page;

use super::client::{ExpectedVersion, VersionedContent};
use super::nodes::SharedFile;
use super::tree::RemoteTree;
use super::writeback::ChangeAuthor;

/// Attempts to save a text that was merged here, while other clients keep changing the file.
const MAX_ATTEMPTS: u32 = 5;

/// How a save was stored.
pub(super) enum SavedVersion {
    /// As this version; a server that formats may have changed the text.
    AsSent(ETag),
    /// With changes by others.
    Merged,
}

impl RemoteTree {
    /// Sends a save, merged with the current version if its base is an older one.
    ///
    /// # Errors
    /// `Conflict` when both changed the same lines, and when the base is unknown to the server;
    /// those of the request.
    pub(super) fn save(
        &self,
        author: &ChangeAuthor,
        path: &TreePath,
        bytes: &Bytes,
        base: ExpectedVersion,
    ) -> Result<SavedVersion, Fault> {
        if base == ExpectedVersion::Absent
            && let Some((set_aside, read)) = author.process.and_then(|it| self.read_versions.take_set_aside(it, path))
            && let Ok(theirs) = self.content(&set_aside, None)
        {
            // The server takes the file back, so that it has a version to merge with.
            self.client.write(&author.name, path, &theirs.bytes, base)?;
            self.cache.record_own_change(path, None);
            return self.merge_known(author, path, bytes, (Some(read), overlap(path)));
        }
        if let (ExpectedVersion::Version(read), Some(process)) = (base, author.process)
            && let Some(sent_text) = self.read_versions.sent_text(process, path, read)
        {
            return self.save_after_merge(author, path, (&sent_text, bytes));
        }
        let refusal = match self.client.write(&author.name, path, bytes, base) {
            Ok(etag) => return Ok(SavedVersion::AsSent(etag)),
            Err(fault) => fault,
        };
        match base {
            ExpectedVersion::Version(base) if refusal.kind() == Kind::Conflict => {
                self.merge_save(author, path, bytes, (base, refusal))
            }
            ExpectedVersion::Version(_) | ExpectedVersion::Absent => Err(refusal),
        }
    }

    /// Whether a file has changes that the process, which has read it, does not know.
    ///
    /// # Errors
    /// Those of the request.
    pub(super) fn has_unread_changes(&self, author: &ChangeAuthor, path: &TreePath) -> Result<bool, Fault> {
        let Some(process) = author.process else { return Ok(false) };
        match self.read_versions.version(process, path) {
            Some(read) => Ok(self.version(path)? != read),
            None => Ok(false),
        }
    }

    /// Merges a text with the current version, from what the process knows: the text it sent, or a
    /// version that it has read.
    fn merge_known(
        &self,
        author: &ChangeAuthor,
        path: &TreePath,
        bytes: &Bytes,
        (read, refusal): (Option<ETag>, Fault),
    ) -> Result<SavedVersion, Fault> {
        let Some(read) = read else { return Err(refusal) };
        match author.process.and_then(|process| self.read_versions.sent_text(process, path, read)) {
            Some(sent_text) => self.save_after_merge(author, path, (&sent_text, bytes)),
            None => self.merge_save(author, path, bytes, (read, refusal)),
        }
    }

    /// Sends a save again that was refused because of its base.
    fn merge_save(
        &self,
        author: &ChangeAuthor,
        path: &TreePath,
        bytes: &Bytes,
        (base, refusal): (ETag, Fault),
    ) -> Result<SavedVersion, Fault> {
        match self.client.write_merged(&author.name, path, bytes, base) {
            Ok(etag) if etag == ETag::from_content(bytes) => Ok(SavedVersion::AsSent(etag)),
            Ok(_) => Ok(SavedVersion::Merged),
            // An older server does not merge.
            Err(fault) if fault.kind() == Kind::Invalid => Err(refusal),
            Err(fault) => Err(fault),
        }
    }

    /// Saves the text of a program whose last save was merged: no version has that text, so the
    /// merge is done here.
    fn save_after_merge(
        &self,
        author: &ChangeAuthor,
        path: &TreePath,
        (sent_text, bytes): (&Bytes, &Bytes),
    ) -> Result<SavedVersion, Fault> {
        let mut attempts = 0;
        loop {
            let current = self.content(path, None).map_err(|fault| match fault.kind() {
                Kind::NotFound => Fault::edit_conflict(path, None),
                _ => fault,
            })?;
            let texts = [sent_text, bytes, &current.bytes].map(|text| std::str::from_utf8(text));
            let [Ok(base), Ok(ours), Ok(theirs)] = texts else { return Err(overlap(path)) };
            let merged = merge_page((base, ours, theirs), svcfs_vfs::changed_lines);
            if merged.has_same_changes || !merged.conflicts.is_empty() {
                return Err(overlap(path));
            }
            let base = ExpectedVersion::Version(current.etag);
            match self.client.write(&author.name, path, merged.text.as_bytes(), base) {
                Ok(etag) if etag == ETag::from_content(bytes) => return Ok(SavedVersion::AsSent(etag)),
                Ok(_) => return Ok(SavedVersion::Merged),
                Err(fault) if fault.kind() == Kind::Conflict && attempts < MAX_ATTEMPTS => {
                    self.cache.record_own_change(path, None);
                    attempts += 1;
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    pub(super) fn record_merged(
        &self,
        author: &ChangeAuthor,
        (inode, path): (INodeNo, &TreePath),
        shared: &mut SharedFile,
        sent_text: Bytes,
    ) {
        tracing::info!(%path, "a save was merged with changes by others");
        self.nodes.remove_local_file(path);
        self.rejected.discard(path);
        shared.rejection = None;
        if let Some(process) = author.process {
            self.read_versions.record_merge(process, path, sent_text);
        }
        self.nodes.record_merge(inode);
        // Fetched again when it is read, also by the kernel.
        self.cache.record_own_change(path, None);
        self.drop_parent_listing(path);
        self.cache.on_created(path);
    }

    /// Merges a file into the one that it could not replace, and removes it; if they overlap, its
    /// text is stored.
    pub(super) fn merge_rename(
        &self,
        author: &ChangeAuthor,
        (from, to): (&TreePath, &TreePath),
        content: Option<VersionedContent>,
        (replaced, refusal): (Option<ETag>, Fault),
    ) -> Result<(), Fault> {
        let content = match content.map_or_else(|| self.content(from, None), Ok) {
            Ok(content) => content,
            Err(error) => {
                // It still exists under its old name.
                tracing::warn!(%from, %to, %error, "cannot read the text of a rejected rename");
                return Err(refusal);
            }
        };
        let saved = self.merge_known(author, to, &content.bytes, (replaced, refusal));
        if let Err(fault) = saved {
            if let Some(process) = author.process {
                self.read_versions.forget(process, to);
            }
            self.store_rejected(to, &content.bytes, &fault);
            self.drop_parent_listing(to);
            return Err(fault);
        }
        if let Err(error) = self.client.remove(&author.name, from, Some(content.etag)) {
            tracing::warn!(%from, %to, %error, "a file is merged into another one, and cannot be removed");
        }
        if let Some(process) = author.process {
            self.read_versions.record_merge(process, to, content.bytes);
        }
        for path in [from, to] {
            self.cache.record_own_change(path, None);
            self.drop_parent_listing(path);
        }
        self.nodes.rename(from, to);
        self.rejected.discard(to);
        Ok(())
    }
}

fn overlap(path: &TreePath) -> Fault {
    let message =
        format!("conflict: `{path}` was changed by others in the same lines since it was read; read it again");
    Fault::new(Kind::Conflict, message)
}
