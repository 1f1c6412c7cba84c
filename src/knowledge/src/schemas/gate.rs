use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use svcfs_base::{Caller, Fault, Kind, TreePath};
use svcfs_config::{LintSettings, RuleLevel};
use svcfs_text::frontmatter;
use svcfs_vfs::{ProposedFile, WriteGate};

use super::compiled::CompiledSchema;
use super::violation::{RawViolation, refusal, with_lines};
use super::{SchemaRegistry, TYPE_KEY, is_type_name, type_of_path};

/// The schema of a page, and how the page violates it.
type CheckedPage = (Arc<CompiledSchema>, Vec<RawViolation>);

/// Refuses schemas that are not usable, and pages that do not fit the schema of their type.
pub struct SchemaGate {
    registry: Arc<SchemaRegistry>,
    /// Whether pages are refused through every protocol.
    is_enforced: bool,
    lint: LintSettings,
}

impl SchemaGate {
    /// A gate for the schemas of `registry`.
    pub fn new(registry: Arc<SchemaRegistry>, is_enforced: bool, lint: LintSettings) -> Self {
        Self { registry, is_enforced, lint }
    }

    fn check_referrers(&self, caller: &Caller, name: &str, content: Option<&Bytes>) -> Result<(), Fault> {
        if caller.is_forced { Ok(()) } else { self.registry.check_referrers(name, content) }
    }

    fn check_page(&self, proposal: &ProposedFile, is_enforced: bool) -> Result<(), Fault> {
        let Some((schema, violations)) = self.violations(&proposal.content)? else { return Ok(()) };
        if violations.is_empty() {
            return Ok(());
        }
        if !is_enforced {
            // As for every lint error: only one that the write adds.
            let old = proposal.old_content.as_deref().map(|old| self.violations(old)).transpose()?.flatten();
            let old = old.filter(|(old_schema, _)| old_schema.name == schema.name).map(|(_, old)| old);
            if old.is_some_and(|old| violations.iter().all(|violation| old.contains(violation))) {
                return Ok(());
            }
        }
        let text = String::from_utf8_lossy(&proposal.content);
        Err(refusal(&schema.name, &with_lines(&text, violations)).with_detail("path", proposal.path.as_str()))
    }

    /// The schema of a page and how it is violated; none without a usable schema.
    fn violations(&self, content: &[u8]) -> Result<Option<CheckedPage>, Fault> {
        let text = String::from_utf8_lossy(content);
        let split = frontmatter::split(&text);
        // Fast path: without this text, or an escape sequence, there is no such key.
        if !split.content().is_some_and(|content| content.contains(TYPE_KEY) || content.contains('\\')) {
            return Ok(None);
        }
        let map = frontmatter::parse_split(&split).map;
        let Some(schema) = self.registry.of_frontmatter(&map)? else { return Ok(None) };
        // An unusable schema is reported as a lint issue.
        let Ok(violations) = schema.violations(&Value::Object(map)) else { return Ok(None) };
        Ok(Some((schema, violations)))
    }
}

impl WriteGate for SchemaGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        if let Some(name) = type_of_path(&proposal.path) {
            if !is_type_name(name) {
                let message =
                    format!("`{}`: the name of a schema has only letters, digits, `_` and `-`", proposal.path);
                return Err(Fault::new(Kind::Invalid, message));
            }
            self.registry.check(name, &proposal.content)?;
            return self.check_referrers(caller, name, Some(&proposal.content));
        }
        let is_lint_error =
            self.lint.rules.schema_violation == RuleLevel::Error && self.lint.should_reject(caller.protocol);
        if !proposal.path.is_page() || !(self.is_enforced || is_lint_error) {
            return Ok(());
        }
        self.check_page(proposal, self.is_enforced)
    }
    fn check_removal(&self, caller: &Caller, path: &TreePath, _content: &Bytes) -> Result<(), Fault> {
        match type_of_path(path).filter(|name| is_type_name(name)) {
            Some(name) => self.check_referrers(caller, name, None),
            None => Ok(()),
        }
    }
}
