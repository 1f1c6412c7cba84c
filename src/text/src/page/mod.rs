//! What the index keeps of a page, read in one pass.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::frontmatter::{self, Frontmatter, YamlError};
use crate::headings::Heading;
use crate::lines::LineStarts;
use crate::links::{self, Link};
use crate::structure;

/// The keys of the frontmatter that give a page its tags (gaps.md 2.1).
const TAG_KEYS: [&str; 3] = ["tags", "topics", "labels"];

/// The keys of the frontmatter that give a page its other names.
const ALIAS_KEYS: [&str; 2] = ["aliases", "alias"];

/// A page, read.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    /// `title` of the frontmatter, else the first heading, else the file name without `.md`.
    pub title: String,
    /// The frontmatter; empty when there is none or when it cannot be read.
    pub frontmatter: Map<String, Value>,
    /// Why the frontmatter is empty although there is some.
    pub frontmatter_error: Option<YamlError>,
    /// The headings, in order.
    pub headings: Vec<Heading>,
    /// The links to other files, in order.
    pub links: Vec<Link>,
    /// `tags`, `topics` and `labels` of the frontmatter, without `#`, each once.
    pub tags: Vec<String>,
    /// `aliases` of the frontmatter, each once.
    pub aliases: Vec<String>,
    /// How many words the body has: runs without white space that hold a letter or a digit.
    pub word_count: usize,
    /// The first paragraph as one line, without markup, at most 300 characters and then `…`.
    pub excerpt: String,
    /// The page without its frontmatter.
    pub body: &'a str,
}

impl<'a> Page<'a> {
    /// Read a page. `path` only serves to name a page that has neither title nor heading.
    #[must_use]
    pub fn parse(path: &str, text: &'a str) -> Self {
        let split = frontmatter::split(text);
        let frontmatter = frontmatter::parse_split(&split);
        let lines = LineStarts::of(text);
        let structure = structure::read(&split, &lines);
        let links = links::of_structure(text, &split, &lines, &structure);
        let title = frontmatter.text("title").or_else(|| Some(structure.headings.first()?.text.clone()));
        Self {
            title: title.unwrap_or_else(|| links::stem_of(path).to_owned()),
            tags: tags(&frontmatter),
            aliases: aliases(&frontmatter),
            frontmatter: frontmatter.map,
            frontmatter_error: frontmatter.error,
            headings: structure.headings,
            links,
            word_count: split.body.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count(),
            excerpt: structure.excerpt,
            body: split.body,
        }
    }
}

/// The tags a frontmatter gives its page: `tags`, `topics` and `labels`, without `#`, each once.
#[must_use]
pub fn tags(frontmatter: &Frontmatter) -> Vec<String> {
    let mut tags = Vec::new();
    for key in TAG_KEYS {
        let is_text = frontmatter.map.get(key).is_some_and(Value::is_string);
        for text in frontmatter.texts(key) {
            // one text may hold several tags: `a, b` or `a b`
            let separator: fn(char) -> bool = if text.contains(',') { |c| c == ',' } else { char::is_whitespace };
            let parts: Vec<&str> = if is_text { text.split(separator).collect() } else { vec![&text] };
            tags.extend(parts.into_iter().map(|tag| tag.trim().trim_start_matches('#').to_owned()));
        }
    }
    each_once(tags)
}

fn aliases(frontmatter: &Frontmatter) -> Vec<String> {
    each_once(ALIAS_KEYS.iter().flat_map(|key| frontmatter.texts(key)).collect())
}

/// Drop empty texts and repetitions.
fn each_once(mut texts: Vec<String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    texts.retain(|text| !text.is_empty() && seen.insert(text.clone()));
    texts
}
