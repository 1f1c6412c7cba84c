//! Append-only pages: `append_only: true` in the frontmatter.
//!
//! Invariant: through every protocol such a page can only grow, at its end or at the end of a
//! section. It is neither removed nor renamed. Only a privileged caller may remove the key, and
//! with it the protection. An external edit cannot be refused: it is reported as a lint issue.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use svcfs_base::{Caller, ETag, Fault, Kind, Scope, Seq, TreePath};
use svcfs_text::append_only::{APPEND_ONLY_KEY, check_addition, is_append_only};
use svcfs_text::lint::{LintIssue, LintRule};
use svcfs_vfs::{EXTERNAL_EDIT_TRAILER, ProposedFile, ReadPresent, StoredContent, WriteGate};

use crate::kernel::{AttachedSpace, Space};
use crate::lint::severities;

/// Number of versions in which external edits are looked for.
const MAX_VERSIONS: usize = 20;

const ADVICE: &str = "text can be added at the end of the page or of a section; an admin key can remove \
                      `append_only` from its frontmatter (without authentication: `force=true`, on a mount: root)";

/// Refuses changes of append-only pages that are no additions.
#[derive(Clone, Default)]
pub struct AppendOnlyGate {
    /// Finds the pages below a renamed directory; not set while the space is being opened.
    space: AttachedSpace,
}

impl AppendOnlyGate {
    /// Gives the gate the space whose index and feed it reads.
    pub fn attach(&self, space: &Arc<Space>) {
        self.space.attach(space);
    }
}

impl WriteGate for AppendOnlyGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        let path = &proposal.path;
        let Some(old) = proposal.old_content.as_deref().and_then(|old| protected_text(path, old)) else {
            return Ok(());
        };
        let new = String::from_utf8_lossy(&proposal.content);
        if may_unlock(caller) && !is_append_only(&new) {
            return Ok(());
        }
        check_addition(&old, &new).map_err(|error| refusal(path, error))
    }

    fn check_removal(&self, _caller: &Caller, path: &TreePath, content: &Bytes) -> Result<(), Fault> {
        match protected_text(path, content) {
            Some(_) => Err(refusal(path, "it cannot be removed, renamed or replaced")),
            None => Ok(()),
        }
    }

    fn check_directory(&self, _caller: &Caller, directory: &TreePath, read: ReadPresent<'_>) -> Result<(), Fault> {
        let Some(space) = self.space.get() else { return Ok(()) };
        let refused =
            |page: &TreePath| Err(refusal(page, format_args!("its directory `{directory}` cannot be renamed")));
        // Read first: what is indexed meanwhile is read again.
        let unindexed = unindexed_pages(&space, directory)?;
        for page in &unindexed {
            if read(page)?.is_some_and(|content| protected_text(page, &content).is_some()) {
                return refused(page);
            }
        }
        let is_protected = |metadata: &Value| metadata.get(APPEND_ONLY_KEY) == Some(&Value::Bool(true));
        let indexed = space.index.pages_with_keys(&[APPEND_ONLY_KEY])?.into_iter();
        let mut indexed = indexed.filter(|page| page.path.is_under(directory) && !unindexed.contains(&page.path));
        indexed.find(|page| is_protected(&page.metadata)).map_or(Ok(()), |page| refused(&page.path))
    }
}

/// The pages below a directory that have changed since they were indexed.
fn unindexed_pages(space: &Space, directory: &TreePath) -> Result<BTreeSet<TreePath>, Fault> {
    let (mut position, mut pages) = (Seq(space.index_watermark.level()), BTreeSet::new());
    space.vfs.feed().follow(&mut position, |event| {
        let paths = event.changes.iter().map(|change| &change.path);
        pages.extend(paths.filter(|path| path.is_page() && path.is_under(directory)).cloned());
        Ok(())
    })?;
    Ok(pages)
}

/// The text of an append-only page; none for other files.
fn protected_text<'c>(path: &TreePath, content: &'c [u8]) -> Option<Cow<'c, str>> {
    let text = path.is_page().then(|| String::from_utf8_lossy(content))?;
    is_append_only(&text).then_some(text)
}

fn may_unlock(caller: &Caller) -> bool {
    caller.may_unlock || caller.client.key.is_some() && caller.permissions.scope >= Scope::Admin
}

fn refusal(path: &TreePath, why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::NotAllowed, format!("`{path}` is append-only: {why}; {ADVICE}")).with_detail("path", path.as_str())
}

/// The issue of an external edit that changed an append-only page, among its last versions.
///
/// # Errors
/// `Internal` when the log cannot be read.
pub fn external_rewrite(space: &Space, path: &TreePath) -> Result<Option<LintIssue>, Fault> {
    // Fast path: a page that never had the key; one that lost it was reported when it did.
    let is_protected = |content: &Bytes| protected_text(path, content).is_some();
    if !space.vfs.read(svcfs_base::Protocol::Internal, path).is_ok_and(|file| is_protected(&file.content)) {
        return Ok(None);
    }
    let versions = space.vfs.versions(path)?;
    for pair in versions.windows(2).take(MAX_VERSIONS) {
        let [newer, older] = pair else { continue };
        if !newer.message.contains(EXTERNAL_EDIT_TRAILER) {
            continue;
        }
        let read = |version: &svcfs_vfs::PageVersion| space.vfs.read_version(path, &version.hash.to_string());
        let (Ok(old), Ok(new)) = (read(older), read(newer)) else { continue };
        if let Some(issue) = rewrite_issue(space, &old, &String::from_utf8_lossy(&new)) {
            let message = format!("{} (version {})", issue.message, newer.hash);
            return Ok(Some(LintIssue { message, ..issue }));
        }
    }
    Ok(None)
}

/// The issue of an external edit that replaced an append-only page by `text`.
pub fn rewrite_of(space: &Space, old: ETag, text: &str) -> Option<LintIssue> {
    rewrite_issue(space, &space.vfs.stored_content(&StoredContent::Blob(old)).ok()?, text)
}

fn rewrite_issue(space: &Space, old: &[u8], new: &str) -> Option<LintIssue> {
    let severity = severities(&space.settings.lint.rules).of(LintRule::AppendOnlyViolation)?;
    let old = std::str::from_utf8(old).ok().filter(|old| is_append_only(old))?;
    let error = check_addition(old, new).err()?;
    let message = format!("an edit beside the server changed this append-only page: {error}");
    Some(LintIssue { rule: LintRule::AppendOnlyViolation, line: error.line(), column: 1, message, severity })
}
