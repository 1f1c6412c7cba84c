//! The three-way merge of frontmatter, key by key.
//!
//! The parsed values decide which side changed a key. The text of each key comes from that side as
//! it is written there, with the comment lines above it, so that order, comments and quotes remain.
//! The result is parsed and compared with the merged values. Blocks that cannot be divided into
//! keys by lines (`{a: 1, b: 2}`, YAML merge keys) become that of `ours`, in which the keys that
//! `theirs` changed are set.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Value};

use super::lines::LineDiff;
use super::{MergeConflict, MergedPage, merge_body, pick};
use crate::frontmatter::{
    FrontmatterBlock, MAX_FRONTMATTER_BYTES, SplitPage, key_lines, parse_split, remove, set, split,
};

/// Maximum number of keys that are set one by one, each of which parses the block.
const MAX_KEY_EDITS: usize = 64;

/// Merges pages with frontmatter; none if no page has any, or one has some that cannot be parsed:
/// then lines decide.
pub(super) fn merge((base, ours, theirs): (&str, &str, &str), diff: LineDiff) -> Option<MergedPage> {
    let sides = [PageSide::of(base)?, PageSide::of(ours)?, PageSide::of(theirs)?];
    let mut formats = sides.iter().filter(|side| side.has_block()).map(|side| side.split.toml.is_some());
    let is_toml = formats.next()?;
    if formats.any(|other| other != is_toml) {
        return None;
    }
    let values = MergedValues::of(&sides);
    let [in_base, in_ours, in_theirs] = &sides;
    let bodies = (in_base.split.body, in_ours.split.body, in_theirs.split.body);
    let body = merge_body(bodies, in_ours.split.first_body_line, diff);
    let is_merged = |page: &String| {
        let split = split(page);
        split.content().is_none_or(|content| content.len() <= MAX_FRONTMATTER_BYTES)
            && split.body == body.text
            && parse_split(&split).map == values.map
    };
    let text = by_blocks(&sides, &body.text)
        .filter(is_merged)
        .or_else(|| by_segments(&sides, &values, &body.text).filter(is_merged))
        .or_else(|| by_edits(&sides, &values, &body.text).filter(is_merged));
    let (text, mut conflicts) = match text {
        Some(text) => (text, values.conflicts(&sides)),
        None => (in_ours.with_body(&body.text), vec![block_conflict(&sides)]),
    };
    conflicts.extend(body.conflicts);
    let has_same_changes = values.has_same_changes || body.has_same_changes;
    Some(MergedPage { text, conflicts, has_same_changes })
}

/// A page whose frontmatter can be parsed, or that has none.
struct PageSide<'a> {
    text: &'a str,
    split: SplitPage<'a>,
    map: Map<String, Value>,
    segments: Option<Segments<'a>>,
}

impl<'a> PageSide<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let split = split(text);
        let parsed = parse_split(&split);
        let is_usable = matches!(split.block, FrontmatterBlock::Absent | FrontmatterBlock::Present);
        if parsed.error.is_some() || !is_usable {
            return None;
        }
        let segments = Segments::of(&split, &parsed.map);
        Some(Self { text, split, map: parsed.map, segments })
    }

    fn has_block(&self) -> bool {
        self.split.block == FrontmatterBlock::Present
    }

    /// The block with its first and last line; empty without one.
    fn block(&self) -> &'a str {
        &self.text[..self.split.body_offset]
    }

    /// The block with this text between its first and last line, and a body.
    fn with_content(&self, content: &str, body: &str) -> String {
        let end = self.split.content_offset + self.split.content().map_or(0, str::len);
        let last_line = &self.text[end..self.split.body_offset];
        join(&[&self.text[..self.split.content_offset], content, last_line].concat(), body)
    }

    fn with_body(&self, body: &str) -> String {
        join(self.block(), body)
    }

    fn segment(&self, key: &str) -> Option<Segment<'a>> {
        self.segments.as_ref()?.by_key.get(key).copied()
    }

    /// The lines of a key in the page, from 1, and its text; an empty range where it is absent.
    fn key_text(&self, key: &str) -> (Range<usize>, String) {
        let last_line = self.split.first_body_line.saturating_sub(1).max(1);
        match (self.segment(key), self.map.get(key)) {
            (Some(segment), _) => {
                // the first line of the page is not in the block
                let start = segment.line + 1;
                (start..start + segment.lines.lines().count(), segment.lines.to_owned())
            }
            (None, Some(value)) => (2.min(last_line)..last_line, format!("{}: {value}\n", Value::from(key))),
            (None, None) => (last_line..last_line, String::new()),
        }
    }
}

fn join(block: &str, body: &str) -> String {
    let separator = if block.is_empty() || block.ends_with('\n') || body.is_empty() { "" } else { "\n" };
    [block, separator, body].concat()
}

/// The text of one key.
#[derive(Clone, Copy)]
struct Segment<'a> {
    /// The comment lines above it.
    comments: &'a str,
    lines: &'a str,
    /// Line of the key in the block, from 1.
    line: usize,
}

/// A block divided into the lines of its keys.
struct Segments<'a> {
    /// The lines before the first key.
    start: &'a str,
    by_key: HashMap<String, Segment<'a>>,
}

impl<'a> Segments<'a> {
    /// None if keys share lines, or have none.
    fn of(split: &SplitPage<'a>, map: &Map<String, Value>) -> Option<Self> {
        let content = split.content().unwrap_or_default();
        let keys = if map.is_empty() { Vec::new() } else { key_lines(split)? };
        let lines: Vec<&str> = content.split_inclusive('\n').collect();
        let starts = lines.iter().scan(0, |next, line| {
            let start = *next;
            *next += line.len();
            Some(start)
        });
        let starts: Vec<usize> = starts.chain([content.len()]).collect();
        let mut segments = Self { start: content, by_key: HashMap::with_capacity(keys.len()) };
        // from the last key to the first
        let mut end = lines.len();
        for (key, line) in keys.into_iter().rev() {
            let at = line.checked_sub(1).filter(|at| *at < end)?;
            let above = lines[..at].iter().rev().take_while(|line| line.starts_with('#')).count();
            let [comments, own, next] = [at - above, at, end].map(|line| starts[line]);
            let segment = Segment { comments: &content[comments..own], lines: &content[own..next], line };
            segments.start = &content[..comments];
            segments.by_key.insert(key, segment);
            end = at - above;
        }
        (segments.by_key.len() == map.len()).then_some(segments)
    }
}

/// The merged values of all keys, in the order of the merged block.
struct MergedValues {
    map: Map<String, Value>,
    /// Keys that both sides changed differently; `map` has the value of `ours`.
    conflicts: Vec<String>,
    /// Whether both sides changed some key alike.
    has_same_changes: bool,
}

impl MergedValues {
    fn of([base, ours, theirs]: &[PageSide<'_>; 3]) -> Self {
        let mut merged = Self { map: Map::new(), conflicts: Vec::new(), has_same_changes: false };
        // a side that changed the order of keys, or added some, decides the order
        let (first, second) = if ours.map.keys().eq(base.map.keys()) { (theirs, ours) } else { (ours, theirs) };
        let mut following: HashMap<Option<&str>, Vec<&str>> = HashMap::new();
        let mut previous = None;
        for key in second.map.keys() {
            if first.map.contains_key(key) {
                previous = Some(key.as_str());
            } else {
                following.entry(previous).or_default().push(key);
            }
        }
        let own = first.map.keys().map(|key| Some(key.as_str()));
        for place in std::iter::once(None).chain(own) {
            let added = following.remove(&place).unwrap_or_default();
            for key in place.into_iter().chain(added) {
                merged.add(key, [base, ours, theirs].map(|side| side.map.get(key)));
            }
        }
        merged
    }

    fn add(&mut self, key: &str, [base, ours, theirs]: [Option<&Value>; 3]) {
        if ours != base && theirs != base && ours != theirs {
            self.conflicts.push(key.to_owned());
        }
        self.has_same_changes |= ours != base && ours == theirs;
        if let Some(value) = pick([base, ours, theirs]) {
            self.map.insert(key.to_owned(), value.clone());
        }
    }

    fn conflicts(&self, [base, ours, theirs]: &[PageSide<'_>; 3]) -> Vec<MergeConflict> {
        let conflict = |key: &String| {
            let (lines, text) = ours.key_text(key);
            MergeConflict {
                key: Some(key.clone()),
                start: lines.start,
                end: lines.end - 1,
                base: base.key_text(key).1,
                ours: text,
                theirs: theirs.key_text(key).1,
            }
        };
        let mut conflicts: Vec<MergeConflict> = self.conflicts.iter().map(conflict).collect();
        conflicts.sort_by_key(|conflict| conflict.start);
        conflicts
    }
}

/// The page with the block of the only side that changed it.
fn by_blocks(sides: &[PageSide<'_>; 3], body: &str) -> Option<String> {
    let [base, ours, theirs] = [&sides[0], &sides[1], &sides[2]].map(PageSide::block);
    let is_one_sided = ours == base || theirs == base || ours == theirs;
    is_one_sided.then(|| join(pick([base, ours, theirs]), body))
}

/// The page with the text of each key from the side that changed it.
fn by_segments(sides: &[PageSide<'_>; 3], values: &MergedValues, body: &str) -> Option<String> {
    let [base, ours, theirs] = sides;
    let starts = [base.segments.as_ref()?, ours.segments.as_ref()?, theirs.segments.as_ref()?];
    let mut content = pick(starts.map(|segments| segments.start)).to_owned();
    for key in values.map.keys() {
        let segments = [base, ours, theirs].map(|side| side.segment(key));
        let [in_base, in_ours, in_theirs] = segments.map(|segment| segment.map(|segment| segment.lines));
        let is_unchanged_in_ours = in_ours == in_base || ours.map.get(key) == base.map.get(key);
        let lines = if in_theirs != in_base && is_unchanged_in_ours { in_theirs } else { in_ours };
        content += pick(segments.map(|segment| segment.map(|segment| segment.comments))).unwrap_or_default();
        content += lines?;
    }
    let side = [ours, theirs, base].into_iter().find(|side| side.has_block())?;
    let has_block = pick([base, ours, theirs].map(|side| side.has_block())) || !values.map.is_empty();
    Some(if has_block { side.with_content(&content, body) } else { body.to_owned() })
}

/// The page with the block of `ours`, in which the keys that `theirs` changed are set.
fn by_edits([_, ours, _]: &[PageSide<'_>; 3], values: &MergedValues, body: &str) -> Option<String> {
    let all = ours.map.keys().chain(values.map.keys().filter(|key| !ours.map.contains_key(*key)));
    let changed: Vec<&String> = all.filter(|key| ours.map.get(*key) != values.map.get(*key)).collect();
    if changed.len() > MAX_KEY_EDITS {
        return None;
    }
    let edit = |page: String, key: &&String| match values.map.get(*key) {
        Some(value) => set(&page, key, value).ok(),
        None => remove(&page, key).ok(),
    };
    changed.iter().try_fold(ours.with_body(body), edit)
}

/// The whole block as a conflict.
fn block_conflict(sides: &[PageSide<'_>; 3]) -> MergeConflict {
    let [base, ours, theirs] = [&sides[0], &sides[1], &sides[2]].map(|side| side.block().to_owned());
    MergeConflict { key: None, start: 1, end: sides[1].split.first_body_line - 1, base, ours, theirs }
}
