//! The rows of one page, computed before any lock is taken.

use std::borrow::Cow;

use serde_json::{Map, Value};
use svcfs_base::{ETag, Timestamp, TreePath};
use svcfs_text::links::{LinkKey, candidates, page_keys};
use svcfs_text::tasks::PageTask;
use svcfs_text::{Link, Page, frontmatter, lint, tags_of_value};

use crate::field_words;
use crate::fields::is_short;
use crate::search::trust;
use crate::words::{self, Dictionary, TextWords};
use crate::{IndexError, PageHeading};

pub(crate) struct ReadContext<'r> {
    pub(crate) typed_links: &'r [String],
    pub(crate) dictionary: &'r mut Dictionary,
}

pub(crate) struct PageDocument {
    pub(crate) path: TreePath,
    pub(crate) etag: ETag,
    /// Microseconds since 1970.
    pub(crate) modified: i64,
    pub(crate) title: String,
    pub(crate) excerpt: String,
    pub(crate) word_count: usize,
    pub(crate) size: usize,
    pub(crate) tasks: String,
    /// The first lint error, with rule and line.
    pub(crate) lint_error: Option<String>,
    pub(crate) metadata: String,
    /// The top-level frontmatter keys, and whether their values are short enough for a field index.
    pub(crate) fields: Vec<(String, bool)>,
    pub(crate) headings: String,
    pub(crate) frontmatter_text: String,
    pub(crate) body: String,
    /// Score factors for soft and hard trust boost; `None` for most pages.
    pub(crate) trust_factors: Option<[f64; 2]>,
    pub(crate) columns: TextColumns,
    pub(crate) forward: Vec<u8>,
    pub(crate) keys: Vec<LinkKey>,
    pub(crate) links: Vec<Link>,
    /// The words of each link's label; empty without a label.
    pub(crate) labels: Vec<String>,
}

impl PageDocument {
    pub(crate) fn read(
        (path, etag): (TreePath, ETag),
        text: &str,
        modified: Timestamp,
        ReadContext { typed_links, dictionary }: ReadContext<'_>,
    ) -> Result<Self, IndexError> {
        let size = text.len();
        let text = replace_nul(text);
        let split = frontmatter::split(&text);
        let mut page = Page::parse(path.as_str(), &text);
        normalize_tags(&mut page.frontmatter);
        let lint_error = lint::first_error_of_page(&text, page.frontmatter_error.as_ref());
        page.links.extend(svcfs_text::links::field_links(&page.frontmatter, typed_links));
        let headings: Vec<PageHeading> = page
            .headings
            .iter()
            .map(|heading| PageHeading { level: heading.level, text: heading.text.clone(), slug: heading.slug.clone() })
            .collect();
        let mut names = TextWords::default();
        for name in page.aliases.iter().chain(&page.tags).map(String::as_str).chain([without_extension(path.as_str())])
        {
            names.add(name, dictionary);
        }
        let mut heading_words = TextWords::default();
        for heading in &headings {
            heading_words.add(&heading.text, dictionary);
        }
        let title = TextWords::of(&page.title, dictionary);
        let body = TextWords::of(page.body, dictionary);
        let frontmatter = TextWords::of(split.content().unwrap_or_default(), dictionary);
        let mut fields = field_words::tokens(path.as_str(), &page.frontmatter, &page.tags, dictionary);
        fields.extend(field_words::subjects(&body));
        let labels = page.links.iter().map(|link| link.label.as_deref().map(|label| label_words(label, dictionary)));
        let labels: Vec<String> = labels.map(Option::unwrap_or_default).collect();
        let parts = [&title, &names, &heading_words, &body, &frontmatter];
        Ok(Self {
            columns: TextColumns::of(parts, &fields),
            forward: words::encode(parts),
            keys: page_keys(path.as_str(), Some(&page.title), &page.aliases),
            etag,
            modified: modified.as_microsecond(),
            excerpt: page.excerpt,
            word_count: page.word_count,
            size,
            tasks: json(&tasks(&text))?,
            lint_error: lint_error.as_ref().map(lint::reject_message),
            trust_factors: trust::factors(&page.frontmatter),
            metadata: json(&page.frontmatter)?,
            fields: page.frontmatter.iter().map(|(key, value)| (key.clone(), is_short(value))).collect(),
            headings: json(&headings)?,
            frontmatter_text: split.content().unwrap_or_default().to_owned(),
            body: page.body.to_owned(),
            links: page.links,
            labels,
            title: page.title,
            path,
        })
    }
    /// The distinct keys under which a link may find its page.
    pub(crate) fn folded_targets(&self, link: &Link) -> Vec<String> {
        let mut folded: Vec<String> =
            candidates(self.path.as_str(), link.kind, &link.target).into_iter().map(|key| key.folded).collect();
        folded.sort_unstable();
        folded.dedup();
        folded
    }
}

/// The tasks of a page as queries see them: objects of `text`, `completed`, `line`, `tags`, `due`
/// and `meta`.
fn tasks(text: &str) -> Vec<serde_json::Value> {
    let to_json = |task: PageTask| {
        serde_json::json!({
            "text": task.text, "completed": task.is_completed, "line": task.line, "tags": task.tags,
            "due": task.details.get("due"), "meta": task.details,
        })
    };
    svcfs_text::tasks::parse_tasks(text).into_iter().map(to_json).collect()
}

/// Replaces `tags: a, b` and `tags: "#a #b"` by the list that they mean, so that queries, folders and
/// graph have the same tags. A single tag remains a text.
fn normalize_tags(frontmatter: &mut Map<String, Value>) {
    let Some(value) = frontmatter.get_mut("tags") else { return };
    let tags = tags_of_value(value);
    let is_normal = match &*value {
        Value::String(text) => tags.len() == 1 && tags[0] == text.trim(),
        Value::Array(items) => !items.iter().any(|item| item.as_str().is_some_and(|tag| tag.contains('#'))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
    };
    if !is_normal {
        *value = tags.into();
    }
}

/// The words of a page for the full-text index, separated by spaces.
pub(crate) struct TextColumns {
    pub(crate) title: String,
    pub(crate) names: String,
    pub(crate) headings: String,
    pub(crate) body: String,
    pub(crate) frontmatter: String,
    /// Alternative forms of the page's words.
    pub(crate) extras: String,
    pub(crate) name_extras: String,
    pub(crate) fields: String,
}

impl TextColumns {
    fn of(parts: [&TextWords; 5], fields: &[String]) -> Self {
        let [title, names, headings, body, frontmatter] = parts;
        let extras = |parts: &[&TextWords]| join_words(parts.iter().flat_map(|words| words.extra_terms()));
        Self {
            title: join_words(title.terms()),
            names: join_words(names.terms()),
            headings: join_words(headings.terms()),
            body: join_words(body.terms()),
            frontmatter: join_words(frontmatter.terms()),
            extras: extras(&parts),
            name_extras: extras(&[title, names, headings]),
            fields: fields.join(" "),
        }
    }
}

fn join_words<'w>(words: impl Iterator<Item = &'w str>) -> String {
    let mut joined = String::new();
    for word in words {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(word);
    }
    joined
}

fn label_words(label: &str, dictionary: &mut Dictionary) -> String {
    let words = TextWords::of(label, dictionary);
    join_words(words.terms().chain(words.extra_terms()))
}

fn without_extension(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(name, _)| name)
}

/// Replaces NUL, which ends a text in parts of SQLite, by the replacement character, which belongs
/// to no word.
fn replace_nul(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{FFFD}").into() } else { text.into() }
}

fn json(value: &impl serde::Serialize) -> Result<String, IndexError> {
    serde_json::to_string(value).map_err(|error| IndexError::Source(error.into()))
}
