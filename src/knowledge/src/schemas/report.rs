//! Violations of stored pages: as lint issues, and as findings about the whole tree.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use svcfs_base::{Fault, TreePath};
use svcfs_config::RuleLevel;
use svcfs_text::frontmatter;
use svcfs_text::lint::{LintIssue, LintRule, Severity, lint_with};

use super::TYPE_KEY;
use super::compiled::CompiledSchema;
use super::violation::{SchemaViolation, with_lines};
use crate::kernel::Space;
use crate::lint::severities;

/// The lint issues of a page in page order, including the violations of its schema.
///
/// # Errors
/// Those of reading the schema.
pub fn lint_page(space: &Space, text: &str) -> Result<Vec<LintIssue>, Fault> {
    let severities = severities(&space.settings.lint.rules);
    let mut issues = lint_with(text, &severities);
    let severity = match space.settings.schema.enforce {
        true => Some(Severity::Error),
        false => severities.of(LintRule::SchemaViolation),
    };
    if let Some(severity) = severity {
        issues.extend(schema_issues(space, text, severity)?);
        issues.sort_by_key(|issue| (issue.line, issue.column));
    }
    Ok(issues)
}

fn schema_issues(space: &Space, text: &str, severity: Severity) -> Result<Vec<LintIssue>, Fault> {
    let map = frontmatter::parse(text).map;
    let Some(schema) = space.schemas.of_frontmatter(&map)? else { return Ok(Vec::new()) };
    let issue = |line, message| LintIssue { rule: LintRule::SchemaViolation, line, column: 1, message, severity };
    Ok(match schema.violations(&Value::Object(map)) {
        Ok(violations) => with_lines(text, violations)
            .into_iter()
            .map(|violation| issue(violation.line, describe(&schema.name, &violation.pointer, &violation.message)))
            .collect(),
        // The page is not at fault.
        Err(fault) => vec![LintIssue { severity: Severity::Warning, ..issue(1, fault.message().to_owned()) }],
    })
}

fn describe(name: &str, pointer: &str, message: &str) -> String {
    let at = if pointer.is_empty() { String::new() } else { format!("{pointer}: ") };
    format!("type \"{name}\": {at}{message}")
}

/// The pages that violate the schema of their type.
#[derive(Default)]
pub struct SchemaFindings(BTreeMap<TreePath, String>);

impl SchemaFindings {
    /// Checks all indexed pages whose type has a schema.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(space: &Space) -> Result<Self, Fault> {
        let mut findings = Self::default();
        if space.settings.lint.rules.schema_violation == RuleLevel::Off && !space.settings.schema.enforce {
            return Ok(findings);
        }
        let names = space.schemas.names()?;
        if names.is_empty() {
            return Ok(findings);
        }
        let mut schemas = HashMap::new();
        for name in &names {
            schemas.extend(space.schemas.schema(name)?.map(|schema| (name.as_str(), schema)));
        }
        for page in space.index.pages_of_types(&names)? {
            let name = page.metadata.get(TYPE_KEY).and_then(Value::as_str);
            let Some(schema) = name.and_then(|name| schemas.get(name)) else { continue };
            findings.0.extend(finding(schema, &page.metadata).map(|message| (page.path, message)));
        }
        Ok(findings)
    }

    /// Checks one page.
    ///
    /// # Errors
    /// Those of reading the schema.
    pub fn of_frontmatter(space: &Space, frontmatter: &Map<String, Value>) -> Result<Option<String>, Fault> {
        let schema = space.schemas.of_frontmatter(frontmatter)?;
        Ok(schema.and_then(|schema| finding(&schema, &Value::Object(frontmatter.clone()))))
    }

    /// How a page violates its schema.
    pub fn of_page(&self, path: &TreePath) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }
}

/// The first violation of a page, and the number of the others; of an unusable schema, why.
fn finding(schema: &CompiledSchema, frontmatter: &Value) -> Option<String> {
    match schema.violations(frontmatter) {
        Ok(violations) => {
            let first = violations.first()?;
            let first = describe(&schema.name, &first.pointer, &first.message);
            Some(match violations.len() - 1 {
                0 => first,
                rest => format!("{first} (and {rest} more)"),
            })
        }
        Err(fault) => Some(fault.message().to_owned()),
    }
}

/// The indexed pages that violate the schema of a type, in path order.
///
/// # Errors
/// Why the schema is unusable; those of the index.
pub fn violating_pages(
    space: &Space,
    schema: &CompiledSchema,
    is_visible: impl Fn(&TreePath) -> bool,
) -> Result<Vec<TreePath>, Fault> {
    let mut paths = Vec::new();
    for page in space.index.pages_of_types(std::slice::from_ref(&schema.name))? {
        if is_visible(&page.path) && !schema.violations(&page.metadata)?.is_empty() {
            paths.push(page.path);
        }
    }
    Ok(paths)
}

/// The violations of a text, with lines.
///
/// # Errors
/// Why the schema is unusable.
pub fn violations_of_text(schema: &CompiledSchema, text: &str) -> Result<Vec<SchemaViolation>, Fault> {
    let map = frontmatter::parse(text).map;
    if map.get(TYPE_KEY).and_then(Value::as_str) != Some(schema.name.as_str()) {
        return Ok(Vec::new());
    }
    Ok(with_lines(text, schema.violations(&Value::Object(map))?))
}
