//! Metadata that people write in the text of a page: inline fields, tags, list items and tasks.
//!
//! All of it comes from the pass over the structure of a page (`structure`) and one scan of the
//! lines that contain `::` or `#`. Code, HTML, comments `%% %%`, formulas and the results of
//! computed pages contain no metadata.

mod fields;
mod items;
mod tags;
mod tasks;
#[cfg(test)]
mod tests;
mod value;

use std::collections::HashSet;
use std::ops::Range;

use serde_json::{Map, Value};

pub use fields::{InlineField, normalize_key};
pub(crate) use items::{ItemCollector, ItemStructure};
pub use tags::InlineTag;
pub use value::FieldValue;

use crate::computed_block::{self, ComputedAnswer};
use crate::fold::fold_name;
use crate::frontmatter::{FrontmatterBlock, SplitPage};
use crate::headings::Heading;
use crate::lines::LineStarts;
use crate::links::{self, Link};
use crate::structure::{self, BodyStructure};

/// A longer tag counts as a single name.
const MAX_NESTED_BYTES: usize = 512;

/// The metadata in the text of a page, each list in page order.
#[derive(Debug, Clone, Default)]
pub struct PageMetadata {
    /// The inline fields.
    pub fields: Vec<InlineField>,
    /// The tags, duplicates included.
    pub tags: Vec<InlineTag>,
    /// The items of all lists; a nested item follows the item it is below.
    pub items: Vec<ListItem>,
}

/// An item of a list. Indexes refer to the lists of its [`PageMetadata`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListItem {
    /// The character in its box: a task has one, `' '` when it is open.
    pub status: Option<char>,
    /// The text of a task without markup, fields and emoji fields; empty for other items.
    pub text: String,
    /// Its line in the page, from 1.
    pub line: usize,
    /// Its own text as written, after marker and box and before nested lists; bytes of the page.
    pub content: Range<usize>,
    /// The item it is below.
    pub parent: Option<usize>,
    /// The items directly below it.
    pub children: Vec<usize>,
    /// The heading above it: index in the headings of the page.
    pub section: Option<usize>,
    /// Its own inline fields.
    pub fields: Vec<usize>,
    /// Its own tags.
    pub tags: Vec<usize>,
    /// Its own links: indexes in the links of the page.
    pub links: Vec<usize>,
    /// The block id `^id` at its end.
    pub block_id: Option<String>,
    /// Fields that the Tasks plugin writes as emoji: `due`, `completion`, `scheduled`, `start`,
    /// `created`, `cancelled`, `recurrence`, `priority`, `id`, `dependsOn`, `onCompletion`.
    pub emoji_fields: Vec<(&'static str, String)>,
}

impl ListItem {
    /// Whether it has a box.
    #[must_use]
    pub fn is_task(&self) -> bool {
        self.status.is_some()
    }

    /// Whether its box is checked with `x`. `[-]`, `[/]` and others are not completed.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self.status, Some('x' | 'X'))
    }

    /// Its own text as written, its lines without indentation and block id. `page` is the text
    /// that was scanned.
    #[must_use]
    pub fn markdown(&self, page: &str) -> String {
        let source = page.get(self.content.clone()).unwrap_or_default().trim();
        let lines = source.lines().map(|line| line.trim_start_matches([' ', '\t', '>']).trim_end());
        let text = lines.collect::<Vec<_>>().join("\n");
        match &self.block_id {
            Some(id) => text.strip_suffix(&format!("^{id}")).unwrap_or(&text).trim_end().to_owned(),
            None => text.trim_end().to_owned(),
        }
    }
}

/// What [`scan_body`] reads.
#[derive(Debug, Clone, Default)]
pub struct BodyMetadata {
    /// The headings of the body.
    pub headings: Vec<Heading>,
    /// The links of the body to other files.
    pub links: Vec<Link>,
    /// Its fields, tags and list items.
    pub metadata: PageMetadata,
}

/// Reads the body of a page without its frontmatter. `first_line` is the line of the page on which
/// the body starts; byte ranges refer to the body.
#[must_use]
pub fn scan_body(body: &str, first_line: usize) -> BodyMetadata {
    let split = SplitPage {
        block: FrontmatterBlock::Absent,
        yaml: None,
        toml: None,
        content_offset: 0,
        body,
        body_offset: 0,
        first_body_line: 1,
    };
    let lines = LineStarts::new(body);
    let structure = structure::parse(&split, &lines);
    let mut links = links::of_structure(body, &split, &lines, &structure);
    let mut metadata = PageMetadata::scan(body, &split, &lines, (&structure, &links));
    let mut headings = structure.headings;
    let added = first_line.saturating_sub(1);
    let in_items = metadata.items.iter_mut().map(|item| &mut item.line);
    let in_fields = metadata.fields.iter_mut().map(|field| &mut field.line);
    let in_tags = metadata.tags.iter_mut().map(|tag| &mut tag.line);
    let in_links = links.iter_mut().map(|link| &mut link.line);
    let all = in_items.chain(in_fields).chain(in_tags).chain(in_links);
    all.chain(headings.iter_mut().map(|heading| &mut heading.line)).for_each(|line| *line += added);
    BodyMetadata { headings, links, metadata }
}

impl PageMetadata {
    /// Reads the metadata of a page whose structure and links are known.
    pub(crate) fn scan(
        text: &str,
        split: &SplitPage<'_>,
        lines: &LineStarts<'_>,
        (structure, links): (&BodyStructure<'_>, &[Link]),
    ) -> Self {
        let has = |pattern: &str| split.body.contains(pattern);
        let (has_fields, has_tags) = (has("::"), has("#"));
        if !has_fields && !has_tags && structure.items.is_empty() {
            return Self::default();
        }
        let computed = computed_result(split);
        let mut opaque = structure.opaque.clone();
        opaque.push(computed.clone());
        opaque.sort_unstable_by_key(|range| range.start);
        let mut metadata = Self::default();
        if has_fields {
            metadata.fields = fields::scan(text, split.body_offset, lines, &opaque);
        }
        if has_tags {
            let wiki = links.iter().filter(|link| link.kind.is_wiki()).map(|link| link.full_range.clone());
            let mut blocked = opaque.clone();
            blocked.extend(structure.links.iter().map(|link| link.range.clone()).chain(wiki));
            blocked.sort_unstable_by_key(|range| range.start);
            let ranges = tags::scan(text, split.body_offset, &blocked).into_iter();
            let tag = |range: Range<usize>| InlineTag {
                name: text[range.start + 1..range.end].to_owned(),
                line: lines.index_of(range.start) + 1,
                range,
            };
            metadata.tags = ranges.map(tag).collect();
        }
        // Items in code are none for pulldown-cmark; those in comments and results are left out.
        let mut hidden: Vec<Range<usize>> = structure.comments.clone();
        hidden.push(computed);
        hidden.sort_unstable_by_key(|range| range.start);
        metadata.items = tasks::list_items((text, lines), structure, &hidden);
        metadata.assign_to_items(&structure.items, links);
        metadata
    }

    /// Adds each field, tag and link to the innermost item that contains it.
    fn assign_to_items(&mut self, structure: &[ItemStructure], links: &[Link]) {
        if self.items.is_empty() {
            return;
        }
        // Items that were left out have no counterpart: find items by the start of their text.
        let owners: Vec<(Range<usize>, usize)> = {
            let mut index = 0;
            let mut owners = Vec::with_capacity(self.items.len());
            for item in structure {
                if self.items.get(index).is_some_and(|visible| visible.content == item.content) {
                    owners.push((item.range.clone(), index));
                    index += 1;
                }
            }
            owners
        };
        let mut finder = ItemFinder::new(&owners);
        for (number, field) in self.fields.iter_mut().enumerate() {
            field.item = finder.innermost(field.range.start);
            if let Some(item) = field.item.and_then(|index| self.items.get_mut(index)) {
                item.fields.push(number);
            }
        }
        let mut finder = ItemFinder::new(&owners);
        for (number, tag) in self.tags.iter().enumerate() {
            if let Some(item) = finder.innermost(tag.range.start).and_then(|index| self.items.get_mut(index)) {
                item.tags.push(number);
            }
        }
        let mut finder = ItemFinder::new(&owners);
        for (number, link) in links.iter().enumerate() {
            if let Some(item) = finder.innermost(link.full_range.start).and_then(|index| self.items.get_mut(index)) {
                item.links.push(number);
            }
        }
    }

    /// The distinct tags, in page order; the first spelling of a tag counts.
    pub fn tag_names(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        self.tags.iter().map(|tag| tag.name.as_str()).filter(move |name| seen.insert(fold_name(name).into_owned()))
    }

    /// The fields of a page as queries see them: its frontmatter, and after it the inline fields
    /// whose names are not in the frontmatter. Fields of tasks belong to the task alone. Several
    /// values of one name are a list. `tags` are all tags of the page. `None` when the frontmatter
    /// says it all.
    #[must_use]
    pub fn merge_into(
        &self,
        frontmatter: &Map<String, Value>,
        tags: Option<Vec<String>>,
    ) -> Option<Map<String, Value>> {
        let is_of_task =
            |field: &InlineField| field.item.and_then(|index| self.items.get(index)).is_some_and(ListItem::is_task);
        let mut inline = Map::new();
        let mut written: Option<HashSet<String>> = None;
        for field in self.fields.iter().filter(|field| !is_of_task(field) && field.name != "tags") {
            let written = written.get_or_insert_with(|| frontmatter.keys().map(|key| normalize_key(key)).collect());
            if !written.contains(&field.name) && !field.name.is_empty() {
                add_value(&mut inline, &field.name, field.value().to_json());
            }
        }
        if inline.is_empty() && tags.is_none() {
            return None;
        }
        let mut merged = frontmatter.clone();
        merged.extend(inline);
        merged.extend(tags.map(|tags| ("tags".to_owned(), Value::from(tags))));
        Some(merged)
    }
}

/// The result in a computed page: metadata of other pages.
fn computed_result(split: &SplitPage<'_>) -> Range<usize> {
    if !split.body.contains(computed_block::START_MARKER) {
        return 0..0;
    }
    match computed_block::find_answer(split.body) {
        ComputedAnswer::Present(range) => range.start + split.body_offset..range.end + split.body_offset,
        ComputedAnswer::Absent | ComputedAnswer::Unterminated(_) => 0..0,
    }
}

/// Adds a value; a second one makes a list.
fn add_value(map: &mut Map<String, Value>, name: &str, value: Value) {
    let Some(existing) = map.get_mut(name) else {
        map.insert(name.to_owned(), value);
        return;
    };
    if !existing.is_array() {
        *existing = Value::Array(vec![existing.take()]);
    }
    if let Value::Array(items) = existing {
        match value {
            Value::Array(more) => items.extend(more),
            single => items.push(single),
        }
    }
}

/// Finds the innermost of nested ranges for ascending positions.
struct ItemFinder<'o> {
    owners: &'o [(Range<usize>, usize)],
    next: usize,
    open: Vec<usize>,
}

impl<'o> ItemFinder<'o> {
    fn new(owners: &'o [(Range<usize>, usize)]) -> Self {
        Self { owners, next: 0, open: Vec::new() }
    }

    fn innermost(&mut self, at: usize) -> Option<usize> {
        while let Some((range, _)) = self.owners.get(self.next).filter(|(range, _)| range.start <= at) {
            self.close_until(range.start);
            self.open.push(self.next);
            self.next += 1;
        }
        self.close_until(at);
        self.open.last().map(|owner| self.owners[*owner].1)
    }

    fn close_until(&mut self, at: usize) {
        while self.open.last().is_some_and(|owner| self.owners[*owner].0.end <= at) {
            self.open.pop();
        }
    }
}

/// Whether a tag is `wanted` or nested below it, in any case: `Sea/tide` is in `#sea`.
#[must_use]
pub fn is_in_tag(tag: &str, wanted: &str) -> bool {
    let (tag, wanted) = (fold_name(tag), fold_name(wanted));
    tag.strip_prefix(wanted.as_ref()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A tag and the tags it is nested in, the longest first: `a/b`, `a`.
pub fn with_parents(tag: &str) -> impl Iterator<Item = &str> {
    // All parents of a very long tag would have the square of its length.
    let is_short = tag.len() <= MAX_NESTED_BYTES;
    std::iter::successors(Some(tag), move |tag| Some(tag.rsplit_once('/').filter(|_| is_short)?.0))
        .filter(|tag| !tag.is_empty())
}
