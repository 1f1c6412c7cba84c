//! All data of a page for the index, extracted in one pass.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::fold::fold_name;
use crate::frontmatter::{self, Frontmatter, ParseError};
use crate::headings::Heading;
use crate::lines::LineStarts;
use crate::links::{self, Link};
use crate::metadata::PageMetadata;
use crate::structure;

const TAG_KEYS: [&str; 3] = ["tags", "topics", "labels"];

const ALIAS_KEYS: [&str; 2] = ["aliases", "alias"];

/// A parsed page.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    /// `title` of the frontmatter, else the first heading of level 1 that is in no quote or list,
    /// else the file name without `.md`.
    pub title: String,
    /// The frontmatter; empty when there is none or it is invalid.
    pub frontmatter: Map<String, Value>,
    /// Why the frontmatter is empty although a block is present.
    pub frontmatter_error: Option<ParseError>,
    /// The headings, in order.
    pub headings: Vec<Heading>,
    /// The links to other files, in order.
    pub links: Vec<Link>,
    /// `tags`, `topics` and `labels` of the frontmatter, without `#` and duplicates.
    pub tags: Vec<String>,
    /// `aliases` of the frontmatter, without duplicates.
    pub aliases: Vec<String>,
    /// Number of words in the body: runs without white space that contain a letter or a digit.
    pub word_count: usize,
    /// The first paragraph as one line, without markup, at most 300 characters plus `…`.
    pub excerpt: String,
    /// Fields, tags and list items in the body.
    pub metadata: PageMetadata,
    /// The fields as queries see them, see [`PageMetadata::merge_into`]; `None` when these are the
    /// frontmatter.
    pub queried: Option<Map<String, Value>>,
    /// The page without its frontmatter.
    pub body: &'a str,
}

impl<'a> Page<'a> {
    /// Parses a page. `path` is the title of a page without title and heading.
    #[must_use]
    pub fn parse(path: &str, text: &'a str) -> Self {
        let split = frontmatter::split(text);
        let frontmatter = frontmatter::parse_split(&split);
        let lines = LineStarts::new(text);
        let structure = structure::parse(&split, &lines);
        let links = links::of_structure(text, &split, &lines, &structure);
        let metadata = PageMetadata::scan(text, &split, &lines, (&structure, &links));
        let heading = || structure.headings.iter().find(|heading| heading.level == 1 && !heading.is_nested);
        let title = frontmatter.text("title").or_else(|| Some(heading()?.text.clone()));
        Self {
            title: title.unwrap_or_else(|| links::stem_of(path).to_owned()),
            tags: tags(&frontmatter),
            queried: queried_fields(&frontmatter, &metadata),
            aliases: aliases(&frontmatter),
            frontmatter: frontmatter.map,
            frontmatter_error: frontmatter.error,
            headings: structure.headings,
            links,
            word_count: split.body.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count(),
            excerpt: structure.excerpt,
            metadata,
            body: split.body,
        }
    }
}

/// The tags in the frontmatter: `tags`, `topics` and `labels`, without `#` and duplicates.
#[must_use]
pub fn tags(frontmatter: &Frontmatter) -> Vec<String> {
    let values = TAG_KEYS.iter().filter_map(|key| frontmatter.map.get(*key));
    without_duplicates(values.flat_map(tags_of_value).collect())
}

/// The tags in the value of one key. A text may have several: `a, b`, `a b` and `#a #b`. An item of
/// a list is one tag, unless each of its words begins with `#`.
#[must_use]
pub fn tags_of_value(value: &Value) -> Vec<String> {
    let split = |text: &str, by: fn(char) -> bool| -> Vec<String> {
        text.split(by).map(|tag| tag.trim().trim_start_matches('#').to_owned()).filter(|tag| !tag.is_empty()).collect()
    };
    let are_all_marked = |text: &str| text.split_whitespace().all(|word| word.starts_with('#'));
    match value {
        Value::String(text) if text.contains(',') => split(text, |character| character == ','),
        Value::String(text) => split(text, char::is_whitespace),
        Value::Array(items) => {
            let texts = items.iter().filter_map(frontmatter::scalar_text);
            let tags = texts.flat_map(|text| match are_all_marked(&text) {
                true => split(&text, char::is_whitespace),
                false => split(&text, |_| false),
            });
            tags.collect()
        }
        other => frontmatter::scalar_text(other).into_iter().collect(),
    }
}

/// Frontmatter and inline fields together. `tags` has all tags as a list; a list without inline
/// tags, `#` and duplicates, or a single tag, stays as written.
fn queried_fields(frontmatter: &Frontmatter, metadata: &PageMetadata) -> Option<Map<String, Value>> {
    let written = without_duplicates(frontmatter.map.get(TAG_KEYS[0]).map(tags_of_value).unwrap_or_default());
    let is_plain = match frontmatter.map.get(TAG_KEYS[0]) {
        Some(Value::Array(items)) => {
            items.len() == written.len()
                && items.iter().zip(&written).all(|(item, tag)| item == tag || item.is_number())
        }
        Some(single) => written.len() == 1 && (single == &written[0] || single.is_number()),
        None => true,
    };
    let mut tags = written;
    tags.extend(metadata.tag_names().map(str::to_owned));
    let changes_tags = !is_plain && !tags.is_empty() || !metadata.tags.is_empty();
    let mut seen = std::collections::HashSet::new();
    tags.retain(|tag| changes_tags && seen.insert(fold_name(tag).into_owned()));
    metadata.merge_into(&frontmatter.map, changes_tags.then_some(tags))
}

/// The aliases in the frontmatter, without duplicates.
#[must_use]
pub fn aliases(frontmatter: &Frontmatter) -> Vec<String> {
    without_duplicates(ALIAS_KEYS.iter().flat_map(|key| frontmatter.texts(key)).collect())
}

fn without_duplicates(mut texts: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    texts.retain(|text| !text.is_empty() && seen.insert(text.clone()));
    texts
}
