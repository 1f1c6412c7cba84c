//! The rows of one page, computed before any lock is taken.

use std::borrow::Cow;

use serde_json::{Map, Value};
use svcfs_base::{ETag, Timestamp, TreePath};
use svcfs_text::links::{LinkKey, page_keys};
use svcfs_text::metadata::ListItem;
use svcfs_text::{Link, Page, PageMetadata, frontmatter, lint};

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
    pub(crate) frontmatter: String,
    /// The fields as queries see them; `None` when these are the frontmatter.
    pub(crate) metadata: Option<String>,
    /// The keys and texts of the inline fields.
    pub(crate) inline: Option<String>,
    /// The top-level keys that queries see, and whether their values are short enough for a field
    /// index.
    pub(crate) fields: Vec<(String, bool)>,
    pub(crate) headings: String,
    pub(crate) frontmatter_text: String,
    pub(crate) body: String,
    /// The line of the page on which `body` starts.
    pub(crate) first_line: usize,
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
        let mut tags = page.tags.clone();
        tags.extend(page.metadata.tag_names().map(str::to_owned));
        let queried = page.queried.as_ref().unwrap_or(&page.frontmatter);
        let mut fields = field_words::tokens(path.as_str(), queried, &tags, dictionary);
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
            tasks: json(&tasks(&page.metadata))?,
            lint_error: lint_error.as_ref().map(lint::reject_message),
            trust_factors: trust::factors(&page.frontmatter),
            frontmatter: json(&page.frontmatter)?,
            metadata: page.queried.as_ref().map(json).transpose()?,
            inline: inline_fields(&page.metadata).as_ref().map(json).transpose()?,
            fields: queried.iter().map(|(key, value)| (key.clone(), is_short(value))).collect(),
            headings: json(&headings)?,
            frontmatter_text: split.content().unwrap_or_default().to_owned(),
            body: page.body.to_owned(),
            first_line: split.first_body_line,
            links: page.links,
            labels,
            title: page.title,
            path,
        })
    }

    /// The fields as queries see them.
    pub(crate) fn queried_fields(&self) -> &str {
        self.metadata.as_deref().unwrap_or(&self.frontmatter)
    }
}

/// Keys and texts of the inline fields in page order, those of tasks included.
fn inline_fields(metadata: &PageMetadata) -> Option<Vec<[&str; 2]>> {
    let fields = metadata.fields.iter().map(|field| [field.key.as_str(), field.text.as_str()]);
    (!metadata.fields.is_empty()).then(|| fields.collect())
}

/// The tasks of a page as queries see them: objects of `text`, `completed`, `line`, `tags`, `due`
/// and `meta`. `meta` has the character of the box as `status`, the emoji fields and the inline
/// fields; of equal names, a field that is written out counts.
fn tasks(metadata: &PageMetadata) -> Vec<Value> {
    let to_json = |item: &ListItem| {
        let mut meta = Map::new();
        meta.extend(item.status.map(|status| ("status".to_owned(), Value::from(status.to_string()))));
        meta.extend(item.emoji_fields.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))));
        let fields = item.fields.iter().map(|field| &metadata.fields[*field]);
        meta.extend(fields.map(|field| (field.name.clone(), field.value().to_json())));
        let tags: Vec<&str> = item.tags.iter().map(|tag| metadata.tags[*tag].name.as_str()).collect();
        serde_json::json!({
            "text": item.text, "completed": item.is_completed(), "line": item.line, "tags": tags,
            "due": meta.get("due"), "meta": meta,
        })
    };
    metadata.items.iter().filter(|item| item.is_task()).map(to_json).collect()
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
