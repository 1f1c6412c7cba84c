use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::TreePath;

/// Limit of related pages in a finding: if thousands share a title, listing all at each would be
/// millions of paths.
pub(super) const MAX_RELATED: usize = 10;

/// A quality problem of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageFinding {
    /// The page
    pub path: TreePath,
    /// Kind of problem
    #[serde(rename = "kind")]
    pub kind: FindingKind,
    /// Severity of the problem
    pub severity: FindingSeverity,
    /// Description of the problem
    pub message: String,
    /// Related pages: the first ten in path order. `message` has the full count
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<TreePath>,
}

/// The kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Its review date is past.
    Stale,
    /// No other page links to it.
    Orphan,
    /// It has a link without a target.
    BrokenLink,
    /// It has no text besides frontmatter.
    Empty,
    /// It has no valid frontmatter.
    MissingFrontmatter,
    /// Another page has the same title.
    Duplicate,
    /// It contradicts another page.
    Contradiction,
    /// It has a lint error, such as frontmatter that cannot be read.
    LintError,
    /// Its frontmatter does not fit the schema of its type.
    SchemaViolation,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// For information.
    Info,
    /// Should be fixed.
    Warning,
    /// Misleads readers.
    Error,
}

impl FindingKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Stale,
        Self::Orphan,
        Self::BrokenLink,
        Self::Empty,
        Self::MissingFrontmatter,
        Self::Duplicate,
        Self::Contradiction,
        Self::LintError,
        Self::SchemaViolation,
    ];
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Orphan => "orphan",
            Self::BrokenLink => "broken_link",
            Self::Empty => "empty",
            Self::MissingFrontmatter => "missing_frontmatter",
            Self::Duplicate => "duplicate",
            Self::Contradiction => "contradiction",
            Self::LintError => "lint_error",
            Self::SchemaViolation => "schema_violation",
        }
    }
    /// The severity of this kind.
    pub const fn severity(self) -> FindingSeverity {
        match self {
            Self::BrokenLink | Self::Contradiction | Self::LintError => FindingSeverity::Error,
            Self::Stale | Self::Empty | Self::Duplicate | Self::SchemaViolation => FindingSeverity::Warning,
            Self::Orphan | Self::MissingFrontmatter => FindingSeverity::Info,
        }
    }
    pub(super) fn advice(self, count: usize) -> String {
        let (singular, plural, advice) = match self {
            Self::Stale => ("page is", "pages are", "past the review date: review it and update `review-by`"),
            Self::Orphan => ("page has", "pages have", "no incoming link: link it from an index page, or archive it"),
            Self::BrokenLink => ("link is", "links are", "broken: fix the target, or write the page"),
            Self::Empty => ("page has", "pages have", "no text: write it or remove it"),
            Self::MissingFrontmatter => ("page has", "pages have", "no frontmatter: give it a title and tags"),
            Self::Duplicate => {
                ("page shares", "pages share", "the title with another page: merge the pages, or rename one")
            }
            Self::Contradiction => {
                ("page contradicts", "pages contradict", "another page: decide which is right, see GET /contradictions")
            }
            Self::LintError => ("page has", "pages have", "a lint error: correct the line that it names"),
            Self::SchemaViolation => {
                ("page does", "pages do", "not fit the schema of the type: correct the frontmatter, or the schema")
            }
        };
        format!("{count} {} {advice}", if count == 1 { singular } else { plural })
    }
}

impl PageFinding {
    pub(super) fn new(path: TreePath, kind: FindingKind, message: impl Into<String>) -> Self {
        Self { path, kind, severity: kind.severity(), message: message.into(), related: Vec::new() }
    }
    pub(super) const fn with_severity(mut self, severity: FindingSeverity) -> Self {
        self.severity = severity;
        self
    }
    pub(super) fn with_related(mut self, group: &[TreePath]) -> Self {
        self.related = group.iter().filter(|other| **other != self.path).take(MAX_RELATED).cloned().collect();
        self
    }
}
