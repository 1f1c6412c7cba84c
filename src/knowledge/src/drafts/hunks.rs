//! The changes of a draft as numbered hunks.
//!
//! Invariant: hunks are numbered over the draft in path order, and by line within a page. The
//! numbers stay while the draft does not change; its ETag says whether it has.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Actor, DraftPage, Fault, TreePath};
use svcfs_store::{changed_lines, unified_diff};
use svcfs_vfs::{DraftContents, DraftView};

use crate::merge::apply_changes;

/// Unchanged lines that are shown before and after a change.
const CONTEXT_LINES: usize = 3;

/// What a draft does with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PageChange {
    /// The page is new.
    Added,
    /// The page has another content.
    Modified,
    /// The page is removed.
    Removed,
}

/// A change of consecutive lines of a page that can be accepted by itself. A new or removed page
/// and a file that is not text are one hunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DraftHunk {
    /// Number in the draft, from 1
    pub id: usize,
    /// The page
    pub path: TreePath,
    /// Last author of the page in the draft
    pub author: Actor,
    /// What the draft does with the page
    pub change: PageChange,
    /// First changed line of the version that the draft is based on, from 1
    pub base_start: usize,
    /// Number of these lines that are replaced; 0 if lines are only added before `base_start`
    pub base_lines: usize,
    /// First changed line in the draft, from 1
    pub draft_start: usize,
    /// Number of these lines
    pub draft_lines: usize,
    /// The change in unified format, with three lines of context
    pub text: String,
}

/// A page of a draft with its contents and hunks.
pub struct ChangedPage {
    pub path: TreePath,
    pub page: DraftPage,
    pub contents: DraftContents,
    pub hunks: Vec<DraftHunk>,
}

/// The pages with their contents and hunks.
///
/// # Errors
/// If the contents cannot be read.
pub fn changed_pages(view: &DraftView<'_>, pages: Vec<(TreePath, DraftPage)>) -> Result<Vec<ChangedPage>, Fault> {
    let mut next_id = 1;
    let mut changed = Vec::with_capacity(pages.len());
    for (path, page) in pages {
        let contents = view.contents(&path)?;
        let hunks = page_hunks(&path, &page, &contents, next_id);
        next_id += hunks.len();
        changed.push(ChangedPage { path, page, contents, hunks });
    }
    Ok(changed)
}

/// The changes of pages in git's unified format.
///
/// # Errors
/// If git cannot compare two contents.
pub fn unified(pages: &[ChangedPage]) -> Result<String, Fault> {
    let mut text = String::new();
    for ChangedPage { path, contents, .. } in pages {
        text.push_str(&unified_diff(path, contents.base.as_deref(), contents.content.as_deref())?);
    }
    Ok(text)
}

impl ChangedPage {
    /// The base with the selected hunks; none if all are selected, which is the page of the draft.
    pub fn base_with(&self, selected: &BTreeSet<usize>) -> Option<Bytes> {
        if self.hunks.iter().all(|hunk| selected.contains(&hunk.id)) {
            return None;
        }
        // Only modified texts have several hunks.
        let base = std::str::from_utf8(self.contents.base.as_deref()?).ok()?;
        let draft = std::str::from_utf8(self.contents.content.as_deref()?).ok()?;
        let taken = self.hunks.iter().filter(|hunk| selected.contains(&hunk.id));
        Some(apply_changes(base, draft, taken.map(DraftHunk::lines)).into())
    }
}

impl DraftHunk {
    /// The lines of the base and of the draft.
    fn lines(&self) -> (Range<usize>, Range<usize>) {
        let (base, draft) = (self.base_start - 1, self.draft_start - 1);
        (base..base + self.base_lines, draft..draft + self.draft_lines)
    }
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn page_hunks(path: &TreePath, page: &DraftPage, contents: &DraftContents, first_id: usize) -> Vec<DraftHunk> {
    let change = match (&contents.base, &contents.content) {
        (None, _) => PageChange::Added,
        (_, None) => PageChange::Removed,
        (Some(_), Some(_)) => PageChange::Modified,
    };
    let (base, draft) = (contents.base.as_deref().unwrap_or_default(), contents.content.as_deref().unwrap_or_default());
    let hunk = |id, (in_base, in_draft): (Range<usize>, Range<usize>), text| DraftHunk {
        id,
        path: path.clone(),
        author: page.author.clone(),
        change,
        base_start: in_base.start + 1,
        base_lines: in_base.len(),
        draft_start: in_draft.start + 1,
        draft_lines: in_draft.len(),
        text,
    };
    let (Ok(base), Ok(draft)) = (std::str::from_utf8(base), std::str::from_utf8(draft)) else {
        return vec![hunk(first_id, (0..0, 0..0), "the contents are not text\n".to_owned())];
    };
    let (base_lines, draft_lines) = (lines(base), lines(draft));
    let changed = match change {
        PageChange::Modified => changed_lines(base, draft),
        PageChange::Added | PageChange::Removed => vec![(0..base_lines.len(), 0..draft_lines.len())],
    };
    let numbered = changed.into_iter().enumerate();
    numbered
        .map(|(at, range)| hunk(first_id + at, range.clone(), hunk_text((&base_lines, &draft_lines), range)))
        .collect()
}

/// A hunk in unified format.
fn hunk_text((base, draft): (&[&str], &[&str]), (in_base, in_draft): (Range<usize>, Range<usize>)) -> String {
    let before = CONTEXT_LINES.min(in_base.start);
    let after = CONTEXT_LINES.min(base.len() - in_base.end);
    // As in git, an empty range is named by the line before it.
    let range =
        |start: usize, count: usize| if count == 0 { format!("{start},0") } else { format!("{},{count}", start + 1) };
    // The context is that of the base: the draft may have fewer lines before the hunk.
    let (base_start, draft_start) = (in_base.start - before, in_draft.start.saturating_sub(before));
    let (base_count, draft_count) = (in_base.len() + before + after, in_draft.len() + before + after);
    let mut text = format!("@@ -{} +{} @@\n", range(base_start, base_count), range(draft_start, draft_count));
    let mut add = |sign: char, lines: &[&str]| {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    add(' ', &base[base_start..in_base.start]);
    add('-', &base[in_base.clone()]);
    add('+', &draft[in_draft]);
    add(' ', &base[in_base.end..in_base.end + after]);
    text
}
