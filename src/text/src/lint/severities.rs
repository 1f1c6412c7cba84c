use super::{LintRule, Severity};

/// The severity of each lint rule; a rule without one is off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleSeverities([Option<Severity>; LintRule::ALL.len()]);

impl RuleSeverities {
    /// The severity that `severity_of` gives each rule.
    pub fn new(severity_of: impl FnMut(LintRule) -> Option<Severity>) -> Self {
        Self(LintRule::ALL.map(severity_of))
    }

    /// The severity of a rule; none if it is off.
    #[must_use]
    pub const fn of(&self, rule: LintRule) -> Option<Severity> {
        self.0[rule as usize]
    }
}

impl Default for RuleSeverities {
    /// Errors are what a reader sees broken. A title is not required: the first heading or the file
    /// name is one.
    fn default() -> Self {
        Self::new(|rule| match rule {
            LintRule::FrontmatterYamlInvalid
            | LintRule::TableColumnMismatch
            | LintRule::TableNoSeparator
            | LintRule::FenceUnclosed
            | LintRule::FenceMermaidInvalid => Some(Severity::Error),
            LintRule::FrontmatterMissingRequired => None,
            LintRule::FrontmatterDateInvalid
            | LintRule::HeadingDuplicateSlug
            | LintRule::HeadingSkipLevel
            | LintRule::LinkImageBroken
            | LintRule::SchemaViolation
            | LintRule::AppendOnlyViolation => Some(Severity::Warning),
        })
    }
}
