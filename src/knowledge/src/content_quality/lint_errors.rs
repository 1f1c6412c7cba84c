//! The lint errors of pages, which the index stores with the pages.

use std::collections::BTreeMap;

use svcfs_base::{Fault, TreePath};
use svcfs_config::RuleLevels;
use svcfs_text::lint::{LintRule, RuleSeverities, Severity, rule_of_message};

use crate::kernel::Space;
use crate::lint::severities;

/// The first lint error of each page, as `<rule> (line N): <message>`.
///
/// The index has what is an error by default. A rule that the settings make an error is found when
/// a page is written, not here.
pub struct LintErrors(BTreeMap<TreePath, (LintRule, String)>);

impl LintErrors {
    /// Reads the errors of all pages.
    pub fn read(space: &Space) -> Result<Self, Fault> {
        let severities = severities(&space.settings.lint.rules);
        let errors = space.index.lint_errors()?.into_iter();
        Ok(Self(
            errors.filter_map(|(path, message)| Some((path, (error_rule(&message, &severities)?, message)))).collect(),
        ))
    }

    /// The first error of a page.
    pub fn of_page(&self, path: &TreePath) -> Option<(LintRule, &str)> {
        self.0.get(path).map(|(rule, message)| (*rule, message.as_str()))
    }
}

/// The rule of a stored error, if it is an error by these settings, too.
pub fn current_rule(message: &str, levels: &RuleLevels) -> Option<LintRule> {
    error_rule(message, &severities(levels))
}

fn error_rule(message: &str, severities: &RuleSeverities) -> Option<LintRule> {
    rule_of_message(message).filter(|rule| severities.of(*rule) == Some(Severity::Error))
}
