//! What a page says of its own condition: facts that depend on its text and on where its links lead, and on nothing else.
//!
//! Invariant: facts are compared with today's date and with the files of the tree by whoever asks. They stay valid until the page is
//! written, or until a name changes that one of its links asks for.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::civil::Date;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use svcfs_base::TreePath;
use svcfs_text::links::LinkKey;

use crate::IndexError;
use crate::moments::parse_day;

/// What the text of a page and its links say of its condition.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PageFacts {
    /// How many links it has, each counted as often as it is written.
    pub link_count: u32,
    /// Those of them that lead to no page, in order.
    pub unresolved_links: Vec<UnresolvedLink>,
    /// A hash of its title in lower case: two pages with different hashes have different titles.
    pub title_hash: u64,
    /// Whether its body has a word.
    pub has_words: bool,
    /// Whether it has frontmatter that can be read.
    pub has_frontmatter: bool,
    /// Whether it claims to be a source of truth, or names a page that it contradicts.
    pub is_disputing: bool,
    /// When it is to be reviewed; none where it does not say.
    pub review: Option<ReviewDay>,
}

/// A link that leads to no page.
#[derive(Debug, PartialEq, Eq)]
pub struct UnresolvedLink {
    /// What it leads to, as written, without heading and label.
    pub target: Box<str>,
    /// The file it would lead to; none outside the tree.
    pub expected_path: Option<TreePath>,
    /// Is it written with double brackets, and so meant by name?
    pub is_wiki: bool,
}

/// What the frontmatter of a page says of its next review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewDay {
    /// It is due on this day: `review-by`, else `next-review`.
    Due(Date),
    /// It was reviewed on this day: `reviewed`, else `last-reviewed`.
    Reviewed(Date),
}

/// Values of `status` for which a page is reviewed no more.
const PUT_AWAY: [&str; 2] = ["archived", "deprecated"];

impl ReviewDay {
    /// Keys of the frontmatter that one of these days may stand under (contract 2.1, gaps.md D18), in the order in which they count.
    pub const KEYS: [&str; 4] = ["review-by", "next-review", "reviewed", "last-reviewed"];

    /// The day that frontmatter names; none when it names no day, and for a page that is reviewed no more.
    #[must_use]
    pub fn from_metadata(metadata: &Map<String, Value>) -> Option<Self> {
        Self::read(metadata.get("status"), Self::KEYS.map(|key| metadata.get(key)))
    }

    /// The same of the values of [`ReviewDay::KEYS`].
    fn read(status: Option<&Value>, [due, next, reviewed, last]: [Option<&Value>; 4]) -> Option<Self> {
        let status = status.and_then(Value::as_str).unwrap_or_default();
        if PUT_AWAY.iter().any(|away| status.eq_ignore_ascii_case(away)) {
            return None;
        }
        let day = |values: [Option<&Value>; 2]| values.into_iter().find_map(|value| parse_day(value?.as_str()?.trim()));
        day([due, next]).map(Self::Due).or_else(|| day([reviewed, last]).map(Self::Reviewed))
    }
}

/// The fields of frontmatter that the graph needs.
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

/// Frontmatter without any field, as it is stored.
const NO_FIELDS: &str = "{}";

impl GraphFields {
    /// Reads stored frontmatter.
    pub(super) fn read(json: &str, path: &TreePath) -> Result<Self, IndexError> {
        if json == NO_FIELDS {
            return Ok(Self::default());
        }
        serde_json::from_str(json).map_err(|error| IndexError::Damaged(format!("frontmatter of `{path}`: {error}")))
    }

    /// The facts of a page whose links are not known yet.
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
    /// Counts a link that leads to a page.
    pub(super) fn add_link(&mut self) {
        self.link_count = self.link_count.saturating_add(1);
    }

    /// Adds a link that leads to no page; `wanted` are the names it may mean.
    pub(super) fn add_unresolved(&mut self, is_wiki: bool, target: &str, wanted: &[LinkKey]) {
        self.add_link();
        let address = wanted.first().and_then(|key| TreePath::parse(&key.text).ok());
        self.unresolved_links.push(UnresolvedLink { target: target.into(), expected_path: address, is_wiki });
    }
}

fn title_hash(title: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    title.to_lowercase().hash(&mut hasher);
    hasher.finish()
}
