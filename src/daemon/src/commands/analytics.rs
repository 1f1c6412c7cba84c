//! `svcfs analytics`

use clap::Args;
use serde_json::{Map, Value, json};

use crate::asking::RootTarget;
use crate::failure::CommandFailure;
use crate::root::cli_caller;
use crate::table::table;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs analytics                    how the pages are doing, in numbers
  svcfs analytics --root notes --limit 20
  svcfs analytics --json | jq .link_coverage_pct
  svcfs call analytics_overview      page views and searches; `svcfs call` lists more reports";

/// Show statistics of a knowledge base
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AnalyticsArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Number of recently changed pages to list
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    limit: u32,
    /// Print the exact output as JSON
    #[arg(long)]
    json: bool,
}

/// The counters with their labels.
const COUNTERS: [(&str, &str); 7] = [
    ("total_pages", "pages"),
    ("stale_pages", "stale"),
    ("orphan_pages", "orphans"),
    ("empty_pages", "without text"),
    ("pages_without_frontmatter", "without frontmatter"),
    ("broken_links", "broken links"),
    ("link_coverage_pct", "% of links lead somewhere"),
];

impl AnalyticsArgs {
    /// Prints the statistics.
    ///
    /// # Errors
    /// Errors of the operation.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { target, limit, json } = self;
        let arguments = Map::from_iter([("limit".to_owned(), json!(limit))]);
        let overview = target.run_operation(manual::find("analytics")?, arguments, cli_caller(None), None)?;
        if json { output::json(&overview) } else { output::say(&text(&overview)) }
    }
}

fn text(overview: &Value) -> String {
    let number = |name: &str| overview[name].to_string();
    let width = COUNTERS.iter().map(|(name, _)| number(name).len()).max().unwrap_or_default();
    let mut text: String =
        COUNTERS.iter().map(|(name, message)| format!("{:>width$}  {message}\n", number(name))).collect();
    if let Some(newest) = table(&overview["recently_updated"]).filter(|newest| !newest.is_empty()) {
        text.push('\n');
        text.push_str(&newest);
    }
    text
}
