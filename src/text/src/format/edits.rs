//! Edits of a body, in groups that are applied together or not at all.

use std::ops::Range;

use super::opaque;
use crate::blocks::BodyBlocks;
use crate::changes::LineChanges;
use crate::lines::LineStarts;

pub(super) struct TextEdit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// Edits that are only right together, such as the bullets of a list.
pub(super) struct EditGroup {
    pub(super) edits: Vec<TextEdit>,
    /// A block that the edits repair when so many of its lines are new; none when all the edited
    /// lines must be new.
    repaired: Option<(Range<usize>, usize)>,
}

impl EditGroup {
    pub(super) const fn of_lines(edits: Vec<TextEdit>) -> Self {
        Self { edits, repaired: None }
    }

    /// Repairs a block that has at least `min_new` new lines.
    pub(super) fn repair(block: Range<usize>, min_new: usize, edit: TextEdit) -> Self {
        Self { edits: vec![edit], repaired: Some((block, min_new)) }
    }
}

/// A body that is formatted, with what all steps need to know of it.
pub(super) struct FormatInput<'a> {
    pub(super) body: &'a str,
    pub(super) blocks: BodyBlocks,
    /// Formulas and comments, in order.
    opaque: Vec<Range<usize>>,
    lines: LineStarts<'a>,
    /// What differs from the stored body; none when all lines are new.
    changes: Option<LineChanges>,
}

impl<'a> FormatInput<'a> {
    pub(super) fn new(stored: Option<&str>, body: &'a str) -> Self {
        let blocks = BodyBlocks::of(body);
        let opaque = opaque::find(body, &blocks);
        let changes = stored.map(|stored| LineChanges::new(stored, body));
        Self { body, blocks, opaque, lines: LineStarts::new(body), changes }
    }

    /// Whether the range overlaps code, raw HTML, a formula or a comment.
    pub(super) fn is_verbatim(&self, range: &Range<usize>) -> bool {
        self.is_opaque(range) || self.blocks.is_verbatim(range)
    }

    /// Whether the range overlaps a formula or a comment.
    fn is_opaque(&self, range: &Range<usize>) -> bool {
        let after = self.opaque.partition_point(|opaque| opaque.start < range.end.max(range.start + 1));
        after > 0 && self.opaque[after - 1].end > range.start
    }

    /// The groups that change something and may be applied, without their edits that change
    /// nothing.
    pub(super) fn permitted(&self, groups: impl IntoIterator<Item = EditGroup>) -> Vec<EditGroup> {
        let is_effective = |edit: &TextEdit| self.body.get(edit.range.clone()).is_some_and(|old| old != edit.text);
        let groups = groups.into_iter().map(|mut group| {
            group.edits.retain(is_effective);
            group
        });
        groups.filter(|group| !group.edits.is_empty() && self.is_permitted(group)).collect()
    }

    fn is_permitted(&self, group: &EditGroup) -> bool {
        if group.edits.iter().any(|edit| self.is_opaque(&edit.range)) {
            return false;
        }
        match &group.repaired {
            Some((block, min_new)) => self.new_in(block).filter(|is_new| *is_new).count() >= *min_new,
            None => group.edits.iter().all(|edit| self.new_in(&edit.range).all(|is_new| is_new)),
        }
    }

    /// For each line of the range whether it is new.
    fn new_in(&self, range: &Range<usize>) -> impl Iterator<Item = bool> {
        let first = self.lines.index_of(range.start);
        let last = self.lines.index_of(range.end.saturating_sub(1).max(range.start));
        (first..=last).map(|line| self.changes.as_ref().is_none_or(|changes| changes.is_new(line)))
    }
}

/// The edits of all groups in order, without overlapping ones.
pub(super) fn ordered(groups: &[EditGroup]) -> Vec<&TextEdit> {
    let mut edits: Vec<&TextEdit> = groups.iter().flat_map(|group| &group.edits).collect();
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut from = 0;
    edits.retain(|edit| {
        let is_free = edit.range.start >= from;
        from = if is_free { edit.range.end } else { from };
        is_free
    });
    edits
}

/// Applies edits in order.
pub(super) fn apply(body: &str, edits: &[&TextEdit]) -> String {
    let mut edited = String::with_capacity(body.len() + edits.iter().map(|edit| edit.text.len()).sum::<usize>());
    let mut from = 0;
    for edit in edits {
        edited.push_str(&body[from..edit.range.start]);
        edited.push_str(&edit.text);
        from = edit.range.end;
    }
    edited.push_str(&body[from..]);
    edited
}

/// Start of the line that contains this byte.
pub(super) fn line_start(body: &str, at: usize) -> usize {
    body[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// End of the line that contains this byte, without its line ending.
pub(super) fn line_end(body: &str, at: usize) -> usize {
    body[at..].find('\n').map_or(body.len(), |length| at + length)
}
