//! What can be wrong with a page.

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::TreePath;

/// Other pages that a finding names at most: where thousands have one title, naming all of them at each of them is millions of paths.
pub(super) const MAX_RELATED: usize = 10;

/// Something about a page that its readers would want mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageFinding {
    /// The page
    pub path: TreePath,
    /// What it is
    #[serde(rename = "kind")]
    pub kind: FindingKind,
    /// How much it matters
    pub severity: FindingSeverity,
    /// The finding in words
    pub message: String,
    /// Other pages concerned: the first ten of them in path order. `message` counts them all
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<TreePath>,
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Its date of review is past.
    Stale,
    /// No other page links to it.
    Orphan,
    /// A link in it leads nowhere.
    BrokenLink,
    /// It has nothing but frontmatter.
    Empty,
    /// It has no frontmatter, or none that can be read.
    MissingFrontmatter,
    /// Another page has the same title.
    Duplicate,
    /// Another page claims to be the truth about the same.
    Contradiction,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// Good to know.
    Info,
    /// Worth a look.
    Warning,
    /// Readers are misled.
    Error,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Stale,
        Self::Orphan,
        Self::BrokenLink,
        Self::Empty,
        Self::MissingFrontmatter,
        Self::Duplicate,
        Self::Contradiction,
    ];
    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Orphan => "orphan",
            Self::BrokenLink => "broken_link",
            Self::Empty => "empty",
            Self::MissingFrontmatter => "missing_frontmatter",
            Self::Duplicate => "duplicate",
            Self::Contradiction => "contradiction",
        }
    }
    /// How much it matters.
    pub const fn severity(self) -> FindingSeverity {
        match self {
            Self::BrokenLink | Self::Contradiction => FindingSeverity::Error,
            Self::Stale | Self::Empty | Self::Duplicate => FindingSeverity::Warning,
            Self::Orphan | Self::MissingFrontmatter => FindingSeverity::Info,
        }
    }
    /// What to do about so many of them.
    pub(super) fn advice(self, count: usize) -> String {
        let (one, many, advice) = match self {
            Self::Stale => ("page is", "pages are", "past the date of review: look at it again and move `review-by`"),
            Self::Orphan => {
                ("page has", "pages have", "no page that links to it: link it from an index page, or archive it")
            }
            Self::BrokenLink => ("link leads", "links lead", "nowhere: mend the target, or write the page"),
            Self::Empty => ("page has", "pages have", "no text: write it or remove it"),
            Self::MissingFrontmatter => ("page has", "pages have", "no frontmatter: give it a title and tags"),
            Self::Duplicate => ("page shares", "pages share", "a title with another: merge them, or tell them apart"),
            Self::Contradiction => (
                "page disputes",
                "pages dispute",
                "the truth with another: decide which holds, see GET /contradictions",
            ),
        };
        format!("{count} {} {advice}", if count == 1 { one } else { many })
    }
}

impl PageFinding {
    pub(super) fn new(path: TreePath, kind: FindingKind, message: impl Into<String>) -> Self {
        Self { path, kind, severity: kind.severity(), message: message.into(), related: Vec::new() }
    }
    /// Names the pages of a group it is in.
    pub(super) fn about(mut self, group: &[TreePath]) -> Self {
        self.related = group.iter().filter(|other| **other != self.path).take(MAX_RELATED).cloned().collect();
        self
    }
}
