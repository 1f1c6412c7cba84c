//! The three-way merge of a page, for all operations that bring two versions together: saves with
//! `on_conflict=merge`, drafts and undo.
//!
//! Invariant: bodies are merged as `git merge-file` does it, because git compares the lines
//! (`svcfs_store::changed_lines`); frontmatter is merged key by key (`svcfs_text::merge`).

#[cfg(test)]
mod tests;

use std::ops::Range;

use svcfs_base::TreePath;
pub use svcfs_text::merge::{MergeConflict, MergedPage};

/// Maximum number of conflicts that a message names.
const MAX_NAMED_CONFLICTS: usize = 5;

/// The first of some conflicts, and how many others there are.
#[must_use]
pub fn name_conflicts<C>(conflicts: &[C], name: impl Fn(&C) -> String) -> String {
    let mut names: Vec<String> = conflicts.iter().take(MAX_NAMED_CONFLICTS).map(name).collect();
    if conflicts.len() > MAX_NAMED_CONFLICTS {
        names.push(format!("and {} more", conflicts.len() - MAX_NAMED_CONFLICTS));
    }
    names.join(", ")
}

/// Where a conflict is: `lines 3-5`, or ``key `status` (line 2)``.
#[must_use]
pub fn place_of(conflict: &MergeConflict) -> String {
    let MergeConflict { key, start, end, .. } = conflict;
    let lines = match () {
        () if end < start => format!("before line {start}"),
        () if end == start => format!("line {start}"),
        () => format!("lines {start}-{end}"),
    };
    key.as_ref().map_or(lines.clone(), |key| format!("key `{key}` ({lines})"))
}

/// The old text with some of the changes between two texts: ranges of lines of both, in order.
#[must_use]
pub fn apply_changes(old: &str, new: &str, changes: impl IntoIterator<Item = (Range<usize>, Range<usize>)>) -> String {
    let [old, new] = [old, new].map(|text| text.split_inclusive('\n').collect::<Vec<_>>());
    let (mut text, mut at) = (String::new(), 0);
    for (in_old, in_new) in changes {
        text.extend(old[at..in_old.start].iter().copied());
        text.extend(new[in_new].iter().copied());
        at = in_old.end;
    }
    text.extend(old[at..].iter().copied());
    text
}

/// Merges two texts of a file: of a page with its frontmatter, of other files by lines.
#[must_use]
pub fn merge_file(path: &TreePath, base: &str, ours: &str, theirs: &str) -> MergedPage {
    if path.is_page() { merge_page(base, ours, theirs) } else { merge_text(base, ours, theirs) }
}

/// Merges two texts of a page that were made from the same base. The merged text has that of `ours`
/// where both sides changed the same; each such place is a conflict.
///
/// For a merge of a branch, `ours` is what is stored now and `theirs` the branch. To undo a change,
/// `base` is the page after that change, `ours` the page now, and `theirs` the page before the
/// change.
#[must_use]
pub fn merge_page(base: &str, ours: &str, theirs: &str) -> MergedPage {
    svcfs_text::merge::merge_page((base, ours, theirs), svcfs_store::changed_lines)
}

/// Merges two texts without frontmatter by lines.
#[must_use]
pub fn merge_text(base: &str, ours: &str, theirs: &str) -> MergedPage {
    svcfs_text::merge::merge_text((base, ours, theirs), svcfs_store::changed_lines)
}
