//! Append-only pages: `append_only: true` in the frontmatter.
//!
//! Invariant: through every protocol such a page can only grow, at its end or at the end of a
//! section. It is neither removed nor renamed. Only a privileged caller may remove the key, and
//! with it the protection. An external edit cannot be refused: it is reported as a lint issue.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;
use svcfs_base::{Caller, ETag, Fault, Kind, Scope, TreePath};
use svcfs_index::Index;
use svcfs_text::append_only::{APPEND_ONLY_KEY, check_addition, is_append_only};
use svcfs_text::lint::{LintIssue, LintRule};
use svcfs_vfs::{EXTERNAL_EDIT_TRAILER, ProposedFile, StoredContent, WriteGate};

use crate::kernel::Space;
use crate::lint::severities;

/// Number of versions in which external edits are looked for.
const MAX_VERSIONS: usize = 20;

const ADVICE: &str = "text can be added at the end of the page or of a section; an admin key can remove \
                      `append_only` from its frontmatter (without authentication: `force=true`, on a mount: root)";

/// Refuses changes of append-only pages that are no additions.
#[derive(Default)]
pub struct AppendOnlyGate {
    /// Finds the pages below a renamed directory; not set while the space is being opened.
    index: Arc<OnceLock<Arc<Index>>>,
}

impl AppendOnlyGate {
    /// Where to set the index of the space.
    pub fn index(&self) -> Arc<OnceLock<Arc<Index>>> {
        Arc::clone(&self.index)
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

    fn check_directory(&self, _caller: &Caller, directory: &TreePath) -> Result<(), Fault> {
        let Some(index) = self.index.get() else { return Ok(()) };
        let pages = index.pages_with_keys(&[APPEND_ONLY_KEY])?;
        let is_protected = |metadata: &Value| metadata.get(APPEND_ONLY_KEY) == Some(&Value::Bool(true));
        match pages.into_iter().find(|page| page.path.is_under(directory) && is_protected(&page.metadata)) {
            Some(page) => Err(refusal(&page.path, format_args!("its directory `{directory}` cannot be renamed"))),
            None => Ok(()),
        }
    }
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
