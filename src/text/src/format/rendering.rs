//! Comparison of the rendered page before and after edits.

use std::ops::Range;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd};

use super::edits::{EditGroup, FormatInput, TextEdit, apply, ordered};
use crate::structure::OPTIONS;

/// Extensions of other renderers. A page must stay the same with and without them.
const OTHER_OPTIONS: Options = OPTIONS
    .union(Options::ENABLE_MATH)
    .union(Options::ENABLE_DEFINITION_LIST)
    .union(Options::ENABLE_HEADING_ATTRIBUTES);

/// Maximum number of attempts to apply the edits that change nothing visible.
const MAX_ATTEMPTS: usize = 4;

/// What may differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tolerance {
    Nothing,
    /// The contents of table cells.
    Cells,
    /// The blocks that are edited.
    EditedBlocks,
}

/// Applies the permitted groups that leave the rendered page as it is; none when nothing changes.
///
/// All groups of a top-level block are discarded when that block would differ.
pub(super) fn apply_verified(
    input: &FormatInput<'_>,
    groups: impl IntoIterator<Item = EditGroup>,
    tolerance: Tolerance,
) -> Option<String> {
    let mut groups = input.permitted(groups);
    if groups.is_empty() {
        return None;
    }
    let before = [OPTIONS, OTHER_OPTIONS].map(|options| (options, render(input.body, options, tolerance)));
    for _ in 0..MAX_ATTEMPTS {
        let edits = ordered(&groups);
        let after = apply(input.body, &edits);
        let differing = before
            .iter()
            .flat_map(|(options, before)| find_differing(before, &render(&after, *options, tolerance), &edits));
        let differing = if tolerance == Tolerance::EditedBlocks {
            let edited = RangeSet::new(edits.iter().map(|edit| edit.range.clone()));
            RangeSet::new(differing.filter(|block| !edited.touches(block)))
        } else {
            RangeSet::new(differing)
        };
        if differing.0.is_empty() {
            return Some(after);
        }
        let count = groups.len();
        groups.retain(|group| !group.edits.iter().any(|edit| differing.touches(&edit.range)));
        if groups.is_empty() || groups.len() == count {
            return None;
        }
    }
    None
}

/// Ranges in order, joined where they touch.
struct RangeSet(Vec<Range<usize>>);

impl RangeSet {
    fn new(ranges: impl Iterator<Item = Range<usize>>) -> Self {
        let mut ranges: Vec<Range<usize>> = ranges.collect();
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match joined.last_mut().filter(|last| last.end >= range.start) {
                Some(last) => last.end = last.end.max(range.end),
                None => joined.push(range),
            }
        }
        Self(joined)
    }

    fn touches(&self, range: &Range<usize>) -> bool {
        let after = self.0.partition_point(|other| other.start <= range.end);
        after > 0 && self.0[after - 1].end >= range.start
    }
}

/// A top-level block of a rendered page.
#[derive(Default)]
struct RenderedBlock<'a> {
    range: Range<usize>,
    events: Vec<Event<'a>>,
    /// Text that the next event ends.
    text: String,
    html: String,
}

fn render(body: &str, options: Options, tolerance: Tolerance) -> Vec<RenderedBlock<'_>> {
    let mut blocks: Vec<RenderedBlock<'_>> = Vec::new();
    let (mut depth, mut in_cell) = (0_usize, false);
    for (event, range) in Parser::new_ext(body, options).into_offset_iter() {
        if depth == 0 {
            blocks.push(RenderedBlock { range: range.clone(), ..RenderedBlock::default() });
        }
        depth = match event {
            Event::Start(_) => depth + 1,
            Event::End(_) => depth - 1,
            _ => depth,
        };
        in_cell &= !matches!(event, Event::End(TagEnd::TableCell));
        let is_skipped = in_cell && tolerance == Tolerance::Cells;
        in_cell |= matches!(event, Event::Start(Tag::TableCell));
        if let Some(block) = blocks.last_mut().filter(|_| !is_skipped) {
            block.push(event);
        }
    }
    blocks.iter_mut().for_each(RenderedBlock::end_text);
    blocks
}

impl<'a> RenderedBlock<'a> {
    /// Adds an event; joins text, which the parser splits at line ends and escaped characters.
    fn push(&mut self, event: Event<'a>) {
        match event {
            Event::Text(part) => self.text.push_str(&part),
            Event::Html(part) => self.html.push_str(&part),
            event => {
                // The last line of a page may lack its line ending.
                if matches!(event, Event::End(TagEnd::CodeBlock)) && !self.text.is_empty() && !self.text.ends_with('\n')
                {
                    self.text.push('\n');
                }
                self.end_text();
                self.events.push(event);
            }
        }
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.events.push(Event::Text(CowStr::from(std::mem::take(&mut self.text))));
        }
        if !self.html.is_empty() {
            self.events.push(Event::Html(CowStr::from(std::mem::take(&mut self.html))));
        }
    }
}

/// The blocks of the page before the edits that another block, or none, follows from. Each range
/// includes the blank lines around the block.
fn find_differing(before: &[RenderedBlock<'_>], after: &[RenderedBlock<'_>], edits: &[&TextEdit]) -> Vec<Range<usize>> {
    let mut offsets = OffsetMap { edits, shift: 0 };
    let mut differing = Vec::new();
    let mut report = |index: usize| {
        let start = index.checked_sub(1).map_or(0, |previous| before[previous].range.end);
        let end = before.get(index + 1).map_or(usize::MAX, |next| next.range.start);
        differing.push(start..end);
    };
    let mut remaining = after.iter().peekable();
    for (index, block) in before.iter().enumerate() {
        let start = offsets.after(block.range.start);
        while remaining.next_if(|next| next.range.start < start).is_some() {
            report(index.saturating_sub(1));
        }
        let same = remaining.next_if(|next| next.range.start == start);
        if same.is_none_or(|same| same.events != block.events) {
            report(index);
        }
    }
    if remaining.next().is_some() {
        match before.len().checked_sub(1) {
            Some(last) => report(last),
            None => differing.push(0..usize::MAX),
        }
    }
    differing
}

/// Converts growing offsets before the edits to offsets after them.
struct OffsetMap<'e> {
    edits: &'e [&'e TextEdit],
    shift: isize,
}

impl OffsetMap<'_> {
    fn after(&mut self, offset: usize) -> usize {
        while let Some((edit, rest)) = self.edits.split_first()
            && edit.range.end <= offset
            && edit.range.start != offset
        {
            self.shift += edit.text.len() as isize - edit.range.len() as isize;
            self.edits = rest;
        }
        offset.saturating_add_signed(self.shift)
    }
}
