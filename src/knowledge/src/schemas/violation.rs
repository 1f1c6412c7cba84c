use jsonschema::ValidationError;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::Fault;
use svcfs_text::frontmatter::ValueLines;

/// Limit of the violations that are reported of one page.
pub const MAX_VIOLATIONS: usize = 200;

const MAX_MESSAGE_CHARACTERS: usize = 300;

/// Limit of the violations that a message names; the details have all.
const MAX_NAMED: usize = 5;

/// How a page violates the schema of its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchemaViolation {
    /// JSON pointer of the value in the frontmatter; empty for the frontmatter itself, as when a
    /// key is missing
    pub pointer: String,
    /// Line of the value in the page, from 1
    pub line: usize,
    /// What is wrong
    pub message: String,
}

/// A violation without its line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawViolation {
    pub pointer: String,
    pub message: String,
}

impl RawViolation {
    pub(super) fn of(error: &ValidationError<'_>) -> Self {
        let mut message = error.to_string();
        // A message with a whole mapping says less than one without.
        if message.len() > MAX_MESSAGE_CHARACTERS || matches!(error.instance().as_ref(), Value::Object(_)) {
            message = error.masked_with("the value").to_string();
        }
        Self { pointer: error.instance_path().to_string(), message: shorten(&message) }
    }
}

/// Adds the lines of a page to its violations; ordered by line.
pub fn with_lines(text: &str, violations: Vec<RawViolation>) -> Vec<SchemaViolation> {
    let lines = ValueLines::of(text);
    let with_line =
        |RawViolation { pointer, message }| SchemaViolation { line: lines.line(&pointer), pointer, message };
    let mut violations: Vec<SchemaViolation> = violations.into_iter().map(with_line).collect();
    violations.sort_by_key(|violation| violation.line);
    violations
}

/// The refusal of a page, with all violations as details.
pub fn refusal(name: &str, violations: &[SchemaViolation]) -> Fault {
    let named: Vec<String> = violations.iter().take(MAX_NAMED).map(describe).collect();
    let rest = match violations.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        rest => format!("; and {rest} more"),
    };
    let message = format!("validation failed for type \"{name}\": {}{rest}", named.join("; "));
    Fault::rejected(message).with_detail("violations", serde_json::to_value(violations).unwrap_or(Value::Null))
}

fn describe(violation: &SchemaViolation) -> String {
    let SchemaViolation { pointer, line, message } = violation;
    if pointer.is_empty() { format!("line {line}: {message}") } else { format!("{pointer} (line {line}): {message}") }
}

/// The text on one line, cut if it is long.
pub(super) fn shorten(text: &str) -> String {
    let line = svcfs_base::escape_unprintable(text);
    match line.char_indices().nth(MAX_MESSAGE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
