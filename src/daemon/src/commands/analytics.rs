//! `svcfs analytics`

use clap::Args;
use serde_json::{Map, Value, json};

use crate::asking::RootTarget;
use crate::failure::CommandFailure;
use crate::root::whoever;
use crate::table::table;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs analytics                    how the pages of ./knowledge are doing, in numbers
  svcfs analytics --root notes --limit 20
  svcfs analytics --json | jq .link_coverage_pct
  svcfs call analytics_overview      what is read and looked for; `svcfs call` lists more such questions";

/// Show how a knowledge base is doing, in numbers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AnalyticsArgs {
    #[command(flatten)]
    whom: RootTarget,
    /// Pages listed as changed last
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    limit: u32,
    /// Print the exact answer as JSON
    #[arg(long)]
    json: bool,
}

/// The numbers, as they are told.
const NUMBERS: [(&str, &str); 7] = [
    ("total_pages", "pages"),
    ("stale_pages", "past their review"),
    ("orphan_pages", "linked to by nobody"),
    ("empty_pages", "without text"),
    ("pages_without_frontmatter", "without frontmatter"),
    ("broken_links", "broken links"),
    ("link_coverage_pct", "% of links lead somewhere"),
];

impl AnalyticsArgs {
    /// Asks, and tells.
    ///
    /// # Errors
    /// Those of asking.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { whom, limit, json } = self;
        let arguments = Map::from_iter([("limit".to_owned(), json!(limit))]);
        let found = whom.ask(manual::find("analytics")?, arguments, whoever(None), None)?;
        if json { output::json(&found) } else { output::say(&text(&found)) }
    }
}

fn text(found: &Value) -> String {
    let number = |name: &str| found[name].to_string();
    let width = NUMBERS.iter().map(|(name, _)| number(name).len()).max().unwrap_or_default();
    let mut text: String = NUMBERS.iter().map(|(name, told)| format!("{:>width$}  {told}\n", number(name))).collect();
    if let Some(newest) = table(&found["recently_updated"]).filter(|newest| !newest.is_empty()) {
        text.push('\n');
        text.push_str(&newest);
    }
    text
}
