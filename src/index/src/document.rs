//! What the index keeps of one page, read before any lock is taken.

use std::borrow::Cow;

use svcfs_base::{ETag, Timestamp, TreePath};
use svcfs_text::frontmatter;
use svcfs_text::links::{Key, candidates, keys_of};
use svcfs_text::tasks::Task;
use svcfs_text::{Link, Page};

use crate::{Heading, IndexError};

/// Characters around a match in a snippet, before they become `<mark>`; Unicode keeps both free for such inner use, and
/// they are taken out of every page on its way in.
pub(crate) const MARK_START: char = '\u{FDD0}';
/// The end of a match, see [`MARK_START`].
pub(crate) const MARK_END: char = '\u{FDD1}';

/// A page, ready to become rows.
pub(crate) struct Document {
    pub(crate) path: TreePath,
    pub(crate) etag: ETag,
    /// Microseconds since 1970.
    pub(crate) modified: i64,
    pub(crate) title: String,
    pub(crate) excerpt: String,
    pub(crate) word_count: usize,
    /// Bytes of the whole file.
    pub(crate) size: usize,
    /// The tasks as JSON, see `tasks`.
    pub(crate) tasks: String,
    /// The frontmatter as JSON.
    pub(crate) metadata: String,
    /// The headings as JSON, see [`Heading`].
    pub(crate) headings: String,
    /// The words of the headings.
    pub(crate) headings_text: String,
    /// The frontmatter as written.
    pub(crate) frontmatter_text: String,
    pub(crate) body: String,
    pub(crate) keys: Vec<Key>,
    pub(crate) links: Vec<Link>,
}

impl Document {
    /// Reads a page.
    pub(crate) fn read(path: TreePath, etag: ETag, text: &str, modified: Timestamp) -> Result<Self, IndexError> {
        let size = text.len();
        let text = clean(text);
        let split = frontmatter::split(&text);
        let page = Page::read(path.as_str(), &text);
        let headings: Vec<Heading> = page
            .headings
            .iter()
            .map(|heading| Heading { level: heading.level, text: heading.text.clone(), slug: heading.slug.clone() })
            .collect();
        let headings_text: Vec<&str> = headings.iter().map(|heading| heading.text.as_str()).collect();
        Ok(Self {
            keys: keys_of(path.as_str(), Some(&page.title), &page.aliases),
            etag,
            modified: modified.as_microsecond(),
            excerpt: page.excerpt,
            word_count: page.word_count,
            size,
            tasks: json(&tasks(&text))?,
            metadata: json(&page.frontmatter)?,
            headings_text: headings_text.join("\n"),
            headings: json(&headings)?,
            frontmatter_text: split.yaml.unwrap_or_default().to_owned(),
            body: page.body.to_owned(),
            links: page.links,
            title: page.title,
            path,
        })
    }
    /// The names under which a link may find its page, each once.
    pub(crate) fn folded_targets(&self, link: &Link) -> Vec<String> {
        let mut folded: Vec<String> =
            candidates(self.path.as_str(), link.kind, &link.target).into_iter().map(|key| key.folded).collect();
        folded.sort_unstable();
        folded.dedup();
        folded
    }
    /// The bytes of text it holds, for bounding a batch.
    pub(crate) fn weight(&self) -> usize {
        self.body.len() + self.frontmatter_text.len()
    }
}

/// The tasks of a page as a query sees them: objects of `text`, `completed`, `line`, `tags`, `due` and `meta`.
fn tasks(text: &str) -> Vec<serde_json::Value> {
    let shown = |task: Task| {
        serde_json::json!({
            "text": task.text, "completed": task.is_completed, "line": task.line, "tags": task.tags,
            "due": task.details.get("due"), "meta": task.details,
        })
    };
    svcfs_text::tasks::of(text).into_iter().map(shown).collect()
}

/// NUL ends a text in parts of SQLite, and the marks are ours: all three become the replacement character, which is no
/// part of a word.
fn clean(text: &str) -> Cow<'_, str> {
    const REPLACED: [char; 3] = ['\0', MARK_START, MARK_END];
    if text.contains(REPLACED) { text.replace(REPLACED, "\u{FFFD}").into() } else { text.into() }
}

fn json(value: &impl serde::Serialize) -> Result<String, IndexError> {
    serde_json::to_string(value).map_err(|error| IndexError::Source(error.into()))
}
