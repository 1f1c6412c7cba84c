//! `svcfs janitor`

use clap::Args;
use serde_json::{Map, Value, json};

use crate::asking::RootTarget;
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::cli_caller;
use crate::table::table;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs janitor                             problems of the pages, worst first
  svcfs janitor --root notes --limit 500
  svcfs janitor --stale-days 30             pages reviewed more than 30 days ago are stale
  svcfs janitor --json | jq .broken_links";

/// Report broken links, stale and empty pages
///
/// Also reports contradictions, duplicate titles and orphan pages without incoming links. The exit
/// code is 1 when there are broken links, contradictions or lint errors.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct JanitorArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Days after which a `reviewed` page is stale [default: the setting `janitor.stale_days`]
    #[arg(long, value_name = "DAYS")]
    stale_days: Option<u32>,
    /// Maximum number of listed findings
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// Print the exact output as JSON
    #[arg(long)]
    json: bool,
}

/// Counted kinds of findings, with their labels.
const COUNTS: [(&str, &str); 9] = [
    ("broken_links", "broken links"),
    ("contradictions", "contradictions"),
    ("lint_errors", "lint errors"),
    ("schema_violations", "schema violations"),
    ("stale", "stale"),
    ("empty", "empty"),
    ("duplicates", "duplicates"),
    ("orphans", "orphans"),
    ("missing_frontmatter", "no frontmatter"),
];

impl JanitorArgs {
    /// Prints the report.
    ///
    /// # Errors
    /// `Failed` when a finding is an error; errors of the operation.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { target, stale_days, limit, json } = self;
        let mut arguments = Map::from_iter([("limit".to_owned(), json!(limit))]);
        arguments.extend(stale_days.map(|days| ("stale_days".to_owned(), json!(days))));
        let report = target.run_operation(manual::find("janitor")?, arguments, cli_caller(None), None)?;
        if json {
            output::json(&report)?;
        } else {
            output::say(&text(&report))?;
        }
        let count = |name: &str| report[name].as_u64().unwrap_or_default();
        let (broken, disputed, lint) = (count("broken_links"), count("contradictions"), count("lint_errors"));
        if broken + disputed + lint == 0 {
            return Ok(());
        }
        Err(CommandFailure::saying(
            ExitStatus::Failed,
            format!("broken links: {broken}, pages in contradiction: {disputed}, pages with lint errors: {lint}"),
        ))
    }
}

/// The counts in one line, the groups of findings and the findings as tables, recommendations.
fn text(report: &Value) -> String {
    let count = |name: &str| report[name].as_u64().unwrap_or_default();
    let counts = COUNTS.iter().map(|(name, label)| format!("{label} {}", count(name))).collect::<Vec<_>>().join(", ");
    let mut text = format!("{} pages, {} without a finding: {counts}\n", count("scanned"), count("healthy"));
    let groups = report["groups"].as_array().into_iter().flatten().map(|group| {
        let example = group["examples"].get(0).unwrap_or(&Value::Null);
        json!({ "count": group["count"], "severity": group["severity"], "kind": group["kind"],
                "message": group["message"], "example": example })
    });
    let groups: Vec<Value> = groups.collect();
    if let Some(groups) = table(&groups.into()).filter(|groups| !groups.is_empty()) {
        text.push('\n');
        text.push_str(&groups);
    }
    let rows = report["issues"].as_array().into_iter().flatten().map(|issue| {
        json!({ "severity": issue["severity"], "kind": issue["kind"], "path": issue["path"], "message": issue["message"] })
    });
    let rows: Vec<Value> = rows.collect();
    if let Some(issues) = table(&rows.into()).filter(|issues| !issues.is_empty()) {
        text.push('\n');
        text.push_str(&issues);
    }
    let advice: Vec<&str> =
        report["recommendations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !advice.is_empty() {
        text.push_str(&format!("\n- {}\n", advice.join("\n- ")));
    }
    text
}
