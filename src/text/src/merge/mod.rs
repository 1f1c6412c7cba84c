//! The three-way merge of a page: what two writers made of the same version becomes one text.
//!
//! The body is merged by lines, the frontmatter key by key, so that two writers who change
//! different keys of neighbouring lines do not collide. Where both changed the same, the text of
//! `ours` remains and the place is a conflict. A page whose frontmatter cannot be parsed in one of
//! the three texts is merged by lines as a whole.
//!
//! A byte order mark and the kind of line ends are properties of the whole page: a side that
//! changed only those changed no line.

mod frontmatter;
mod lines;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

pub use lines::{ChangedLines, LineDiff, MergedLines, merge_lines};

use crate::frontmatter::BYTE_ORDER_MARK;

/// A merged page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedPage {
    /// The merged text, with the text of `ours` in place of each conflict.
    pub text: String,
    /// What both sides changed differently, in the order of the page; empty when the merge is
    /// complete.
    pub conflicts: Vec<MergeConflict>,
    /// Whether both sides made some change alike. It is no conflict, but two writers who count in a
    /// page, or take a task, must know.
    pub has_same_changes: bool,
}

/// A place that both sides changed differently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MergeConflict {
    /// The key of the frontmatter; absent for lines of the body
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// First line of the conflict in `ours`, from 1
    pub start: usize,
    /// Last line of the conflict in `ours`; `start - 1` if `ours` has no line there
    pub end: usize,
    /// The text in the version that both started from
    pub base: String,
    /// The text in `ours`
    pub ours: String,
    /// The text in `theirs`
    pub theirs: String,
}

/// Merges two texts of a page, `ours` and `theirs`, that were made from the same base, the first
/// text. `diff` compares lines.
#[must_use]
pub fn merge_page(texts: (&str, &str, &str), diff: LineDiff) -> MergedPage {
    merge_with(texts, |texts| frontmatter::merge(texts, diff).unwrap_or_else(|| merge_body(texts, 1, diff)))
}

/// The same for a text without frontmatter.
#[must_use]
pub fn merge_text(texts: (&str, &str, &str), diff: LineDiff) -> MergedPage {
    merge_with(texts, |texts| merge_body(texts, 1, diff))
}

/// Merges texts with the same line ends and without byte order marks.
fn merge_with(
    (base, ours, theirs): (&str, &str, &str),
    merge: impl FnOnce((&str, &str, &str)) -> MergedPage,
) -> MergedPage {
    let texts = [base, ours, theirs];
    let mark = pick(texts.map(|text| text.starts_with(BYTE_ORDER_MARK)));
    let texts = texts.map(|text| text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
    let line_ends = merged_line_ends(texts);
    let [base, ours, theirs] = match line_ends {
        Some(_) => texts.map(|text| Cow::Owned(text.replace("\r\n", "\n"))),
        None => texts.map(Cow::Borrowed),
    };
    let MergedPage { mut text, conflicts, has_same_changes } = merge((&base, &ours, &theirs));
    if line_ends == Some(LineEnds::CrLf) {
        text = text.replace('\n', "\r\n");
    }
    if mark {
        text.insert(0, BYTE_ORDER_MARK);
    }
    MergedPage { text, conflicts, has_same_changes }
}

/// Merges texts by lines; `first_line` is the number of the first line of `ours` in its page.
fn merge_body(texts: (&str, &str, &str), first_line: usize, diff: LineDiff) -> MergedPage {
    let mut page = MergedPage { text: String::new(), conflicts: Vec::new(), has_same_changes: false };
    for part in merge_lines(texts, diff) {
        match part {
            MergedLines::Agreed(text) => {
                page.text.push_str(text);
                page.has_same_changes = true;
            }
            MergedLines::Resolved(text) => page.text.push_str(text),
            MergedLines::Conflict { lines, base, ours, theirs } => {
                page.text.push_str(ours);
                page.conflicts.push(MergeConflict {
                    key: None,
                    start: first_line + lines.start,
                    end: first_line + lines.end - 1,
                    base: base.to_owned(),
                    ours: ours.to_owned(),
                    theirs: theirs.to_owned(),
                });
            }
        }
    }
    page
}

/// The value of the side that changed it; that of `ours` when both did.
fn pick<T: PartialEq>([base, ours, theirs]: [T; 3]) -> T {
    if ours == base { theirs } else { ours }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Lf,
    CrLf,
}

impl LineEnds {
    /// None for a text with both kinds. A text of one line has those of the others.
    fn of(text: &str) -> Option<Option<Self>> {
        let (all, long) = (text.matches('\n').count(), text.matches("\r\n").count());
        match long {
            _ if all == 0 => Some(None),
            0 => Some(Some(Self::Lf)),
            long if long == all => Some(Some(Self::CrLf)),
            _ => None,
        }
    }
}

/// The line ends of the merged text, if the texts have different ones and none has both kinds.
fn merged_line_ends([base, ours, theirs]: [&str; 3]) -> Option<LineEnds> {
    let [base, ours, theirs] = [LineEnds::of(base)?, LineEnds::of(ours)?, LineEnds::of(theirs)?];
    let base = base.or(ours).or(theirs)?;
    let [ours, theirs] = [ours, theirs].map(|side| side.unwrap_or(base));
    (ours != base || theirs != base).then(|| pick([base, ours, theirs]))
}
