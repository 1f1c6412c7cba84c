//! `svcfs janitor`

use clap::Args;
use serde_json::{Map, Value, json};

use crate::asking::RootTarget;
use crate::failure::{CommandFailure, ExitStatus};
use crate::root::whoever;
use crate::table::table;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs janitor                             what is wrong with the pages of ./knowledge, the worst first
  svcfs janitor --root notes --limit 500
  svcfs janitor --stale-days 30             pages reviewed more than 30 days ago are stale
  svcfs janitor --json | jq .broken_links";

/// Look through all pages for what their readers would want mended
///
/// Broken links, contradictions, pages past their review, empty ones, doubled titles, pages nobody links to. The exit code is 1
/// when readers are misled: by broken links or contradictions.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct JanitorArgs {
    #[command(flatten)]
    whom: RootTarget,
    /// After how many days a page that was `reviewed` is due again [default: `janitor.stale_days` of the settings]
    #[arg(long, value_name = "DAYS")]
    stale_days: Option<u32>,
    /// Findings that are listed
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// Print the exact answer as JSON
    #[arg(long)]
    json: bool,
}

/// What is counted, as it is told.
const COUNTS: [(&str, &str); 7] = [
    ("broken_links", "broken links"),
    ("contradictions", "contradictions"),
    ("stale", "stale"),
    ("empty", "empty"),
    ("duplicates", "duplicates"),
    ("orphans", "orphans"),
    ("missing_frontmatter", "no frontmatter"),
];

impl JanitorArgs {
    /// Looks, and tells.
    ///
    /// # Errors
    /// `Failed` when a finding is an error; those of asking.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { whom, stale_days, limit, json } = self;
        let mut arguments = Map::from_iter([("limit".to_owned(), json!(limit))]);
        arguments.extend(stale_days.map(|days| ("stale_days".to_owned(), json!(days))));
        let found = whom.ask(manual::find("janitor")?, arguments, whoever(None), None)?;
        if json {
            output::json(&found)?;
        } else {
            output::say(&text(&found))?;
        }
        let count = |name: &str| found[name].as_u64().unwrap_or_default();
        let (broken, disputed) = (count("broken_links"), count("contradictions"));
        if broken + disputed == 0 {
            return Ok(());
        }
        Err(CommandFailure::saying(
            ExitStatus::Failed,
            format!("broken links: {broken}, pages in contradiction: {disputed}"),
        ))
    }
}

/// The counts in one line, the findings as a table, what to do.
fn text(found: &Value) -> String {
    let count = |name: &str| found[name].as_u64().unwrap_or_default();
    let counts = COUNTS.iter().map(|(name, told)| format!("{told} {}", count(name))).collect::<Vec<_>>().join(", ");
    let mut text = format!("{} pages, {} without a finding: {counts}\n", count("scanned"), count("healthy"));
    let rows = found["issues"].as_array().into_iter().flatten().map(|issue| {
        json!({ "severity": issue["severity"], "kind": issue["kind"], "path": issue["path"], "message": issue["message"] })
    });
    let rows: Vec<Value> = rows.collect();
    if let Some(issues) = table(&rows.into()).filter(|issues| !issues.is_empty()) {
        text.push('\n');
        text.push_str(&issues);
    }
    let advice: Vec<&str> =
        found["recommendations"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !advice.is_empty() {
        text.push_str(&format!("\n- {}\n", advice.join("\n- ")));
    }
    text
}
