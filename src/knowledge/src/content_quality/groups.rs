//! Findings of the same reason, counted.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::TreePath;
use svcfs_text::lint::LintRule;

use super::findings::{FindingKind, FindingSeverity};
use super::messages;

/// Maximum number of groups of one kind and severity. The rest is one group more.
const MAX_GROUPS: usize = 20;
/// Maximum number of example pages of a group.
const MAX_EXAMPLES: usize = 5;

/// Findings with the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FindingGroup {
    /// Kind of problem
    pub kind: FindingKind,
    /// Severity of the problem
    pub severity: FindingSeverity,
    /// Description of the problem
    pub message: String,
    /// Number of findings
    pub count: usize,
    /// The first pages with this problem, in path order
    pub examples: Vec<TreePath>,
}

/// What the findings of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum GroupKey<'g> {
    Kind(FindingKind),
    /// A link target that does not exist.
    Target(&'g str),
    /// A link to a generated page.
    GeneratedPage,
    /// The index of pages with the same title.
    Title(usize),
    /// The index of a contradiction.
    Dispute(usize),
    Rule(LintRule),
}

impl GroupKey<'_> {
    const fn kind(self) -> FindingKind {
        match self {
            Self::Kind(kind) => kind,
            Self::Target(_) | Self::GeneratedPage => FindingKind::BrokenLink,
            Self::Title(_) => FindingKind::Duplicate,
            Self::Dispute(_) => FindingKind::Contradiction,
            Self::Rule(_) => FindingKind::LintError,
        }
    }

    const fn severity(self) -> FindingSeverity {
        match self {
            Self::GeneratedPage => FindingSeverity::Warning,
            _ => self.kind().severity(),
        }
    }
}

#[derive(Default)]
pub(super) struct GroupCounts<'g> {
    groups: HashMap<GroupKey<'g>, (usize, Vec<TreePath>)>,
}

impl<'g> GroupCounts<'g> {
    pub(super) fn add(&mut self, key: GroupKey<'g>, page: &TreePath) {
        let (count, examples) = self.groups.entry(key).or_default();
        *count += 1;
        if examples.len() < MAX_EXAMPLES && examples.last() != Some(page) {
            examples.push(page.clone());
        }
    }

    /// The groups, most severe and largest first. `text` describes a title or a contradiction.
    pub(super) fn finish(self, text: impl Fn(GroupKey<'g>) -> String) -> Vec<FindingGroup> {
        let message = |key: GroupKey<'g>| match key {
            GroupKey::Kind(FindingKind::Stale) => messages::STALE.to_owned(),
            GroupKey::Kind(FindingKind::Orphan) => messages::ORPHAN.to_owned(),
            GroupKey::Kind(FindingKind::Empty) => messages::EMPTY.to_owned(),
            GroupKey::Kind(FindingKind::MissingFrontmatter) => messages::MISSING_FRONTMATTER.to_owned(),
            GroupKey::Kind(FindingKind::SchemaViolation) => messages::SCHEMA_VIOLATION.to_owned(),
            GroupKey::Kind(kind) => kind.name().to_owned(),
            GroupKey::Target(target) => messages::broken_link(target),
            GroupKey::GeneratedPage => messages::GENERATED_PAGE.to_owned(),
            GroupKey::Rule(rule) => rule.name().to_owned(),
            GroupKey::Title(_) | GroupKey::Dispute(_) => text(key),
        };
        let mut groups: Vec<(GroupKey<'g>, usize, Vec<TreePath>)> =
            self.groups.into_iter().map(|(key, (count, examples))| (key, count, examples)).collect();
        groups.sort_by(|(a, a_count, a_examples), (b, b_count, b_examples)| {
            let order = b.severity().cmp(&a.severity()).then(a.kind().cmp(&b.kind()));
            order.then(b_count.cmp(a_count)).then_with(|| a_examples.cmp(b_examples))
        });
        let mut listed: Vec<FindingGroup> = Vec::new();
        let mut of_kind = 0;
        for (key, count, examples) in groups {
            let (kind, severity) = (key.kind(), key.severity());
            let is_same = listed.last().is_some_and(|last| (last.kind, last.severity) == (kind, severity));
            of_kind = if is_same { of_kind + 1 } else { 1 };
            match listed.last_mut().filter(|_| of_kind > MAX_GROUPS + 1) {
                Some(rest) => rest.count += count,
                None if of_kind == MAX_GROUPS + 1 => {
                    listed.push(FindingGroup { kind, severity, message: messages::REST.to_owned(), count, examples });
                }
                None => listed.push(FindingGroup { kind, severity, message: message(key), count, examples }),
            }
        }
        listed
    }
}
