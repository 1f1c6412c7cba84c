//! Facts of a page for quality checks, which depend only on its text and on the targets of its
//! links.
//!
//! Invariant: facts are independent of today's date and of other files; callers compare them with
//! those. They stay valid until the page is written, or until a name that one of its links may mean
//! changes.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::civil::Date;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use svcfs_base::TreePath;
use svcfs_text::fold::fold_name;
use svcfs_text::links::target_path;

use crate::IndexError;
use crate::dates::parse_day;
use crate::links::link_kind;

/// Facts from the text of a page and its links.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PageFacts {
    /// Number of links, duplicates included.
    pub link_count: u32,
    /// The broken links, in order.
    pub unresolved_links: Vec<UnresolvedLink>,
    /// A hash of its folded title: different hashes mean different titles.
    pub title_hash: u64,
    /// Whether its body has a word.
    pub has_words: bool,
    /// Whether it has valid frontmatter.
    pub has_frontmatter: bool,
    /// Whether it has `source-of-truth` or `contradicts`.
    pub is_disputing: bool,
    /// Its review date, if the frontmatter has one.
    pub review: Option<ReviewDay>,
}

/// A broken link.
#[derive(Debug, PartialEq, Eq)]
pub struct UnresolvedLink {
    /// The target as written, without heading and label.
    pub target: Box<str>,
    /// The path where the target would be; `None` outside the tree.
    pub expected_path: Option<TreePath>,
    /// Whether it is written with double brackets, so that it means a page by name.
    pub is_wiki: bool,
}

/// The review date in the frontmatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewDay {
    /// The next review is due on this day: `review-by`, else `next-review`.
    Due(Date),
    /// The last review was on this day: `reviewed`, else `last-reviewed`.
    Reviewed(Date),
}

/// Values of `status` that end reviews.
const NO_REVIEW_STATUSES: [&str; 2] = ["archived", "deprecated"];

impl ReviewDay {
    /// Frontmatter keys for review dates, in order of precedence.
    pub const KEYS: [&str; 4] = ["review-by", "next-review", "reviewed", "last-reviewed"];

    /// The review date; `None` without one, and for a page that needs no review any more.
    #[must_use]
    pub fn from_metadata(metadata: &Map<String, Value>) -> Option<Self> {
        Self::read(metadata.get("status"), Self::KEYS.map(|key| metadata.get(key)))
    }

    /// As [`ReviewDay::from_metadata`], from the values of [`ReviewDay::KEYS`].
    fn read(status: Option<&Value>, [due, next, reviewed, last]: [Option<&Value>; 4]) -> Option<Self> {
        let status = status.and_then(Value::as_str).unwrap_or_default();
        if NO_REVIEW_STATUSES.iter().any(|value| status.eq_ignore_ascii_case(value)) {
            return None;
        }
        let day = |values: [Option<&Value>; 2]| values.into_iter().find_map(|value| parse_day(value?.as_str()?.trim()));
        day([due, next]).map(Self::Due).or_else(|| day([reviewed, last]).map(Self::Reviewed))
    }
}

#[derive(Default, Deserialize)]
pub(super) struct GraphFields {
    pub(super) tags: Option<Value>,
    status: Option<Value>,
    #[serde(rename = "review-by")]
    review_by: Option<Value>,
    #[serde(rename = "next-review")]
    next_review: Option<Value>,
    reviewed: Option<Value>,
    #[serde(rename = "last-reviewed")]
    last_reviewed: Option<Value>,
    #[serde(rename = "source-of-truth")]
    source_of_truth: Option<IgnoredAny>,
    contradicts: Option<IgnoredAny>,
}

/// Stored form of empty frontmatter.
const NO_FIELDS: &str = "{}";

impl GraphFields {
    pub(super) fn read(json: &str, path: &TreePath) -> Result<Self, IndexError> {
        if json == NO_FIELDS {
            return Ok(Self::default());
        }
        serde_json::from_str(json).map_err(|error| IndexError::Damaged(format!("frontmatter of `{path}`: {error}")))
    }

    /// The facts of a page, without its links.
    pub(super) fn facts(&self, json: &str, title: &str, words: i64) -> PageFacts {
        let days = [&self.review_by, &self.next_review, &self.reviewed, &self.last_reviewed].map(Option::as_ref);
        PageFacts {
            link_count: 0,
            unresolved_links: Vec::new(),
            title_hash: title_hash(title),
            has_words: words > 0,
            has_frontmatter: json != NO_FIELDS,
            is_disputing: self.source_of_truth.is_some() || self.contradicts.is_some(),
            review: ReviewDay::read(self.status.as_ref(), days),
        }
    }
}

impl PageFacts {
    pub(super) fn add_link(&mut self) {
        self.link_count = self.link_count.saturating_add(1);
    }

    /// Adds a broken link of the page `from`.
    pub(crate) fn add_unresolved(&mut self, from: &str, is_wiki: bool, target: &str) {
        self.add_link();
        let path = target_path(from, link_kind(is_wiki), target);
        let expected_path = path.and_then(|path| match path.as_str() {
            "" => Some(TreePath::root()),
            path => TreePath::parse(path).ok(),
        });
        self.unresolved_links.push(UnresolvedLink { target: target.into(), expected_path, is_wiki });
    }
}

fn title_hash(title: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    fold_name(title).hash(&mut hasher);
    hasher.finish()
}
