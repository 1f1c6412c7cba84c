//! `svcfs query`

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Map, Value, json};

use crate::asking::RootTarget;
use crate::failure::CommandFailure;
use crate::root::cli_caller;
use crate::{manual, output, table};

const EXAMPLES: &str = "\
Examples:
  svcfs query 'TABLE status, due FROM \"tasks/\" WHERE status != \"done\" SORT due'
  svcfs query 'LIST FROM #oauth AND -#archived'
  svcfs query 'TABLE count() AS pages FLATTEN tags GROUP BY tags SORT pages DESC'
  svcfs query 'TASK WHERE NOT completed AND due < now() + 7d'
  svcfs query 'COUNT WHERE length(inlinks()) = 0' --json | jq .count
  svcfs query 'TABLE title' --format table > pages.md
  svcfs query --dialect dataview 'LIST FROM [[]] SORT file.mtime DESC' --page index.md

`svcfs call query --help` describes the query language.";

/// List pages by their frontmatter
///
/// If another process has the root (`svcfs serve`, `mount` or `mcp`), the query runs there. Else
/// the command opens the root itself. With --url the query runs on that server.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct QueryArgs {
    #[command(flatten)]
    target: RootTarget,
    /// The query, such as `TABLE status WHERE due < now()`
    #[arg(value_name = "QUERY")]
    q: String,
    /// Language of the query: that of svcfs, or that of Obsidian's Dataview plugin
    #[arg(long, value_name = "DIALECT", value_parser = PossibleValuesParser::new(["dql", "dataview"]))]
    dialect: Option<String>,
    /// With `--dialect dataview`: the page that contains the query, for `this` and `[[]]`
    #[arg(long, value_name = "PATH")]
    page: Option<String>,
    /// Print the exact output as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print the result as markdown
    #[arg(long, value_name = "FORM", value_parser = PossibleValuesParser::new(["table", "list", "count", "distinct", "task"]))]
    format: Option<String>,
    /// Maximum number of rows, up to 200; overrides the LIMIT of the query
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Number of rows to skip
    #[arg(long, value_name = "N")]
    offset: Option<u32>,
}

impl QueryArgs {
    /// Runs the query and prints the result.
    ///
    /// # Errors
    /// `Refused` for an invalid query, with the position and what was expected there.
    pub fn run(self) -> Result<(), CommandFailure> {
        let Self { target, q, dialect, page, json, format, limit, offset } = self;
        let mut arguments = Map::from_iter([("q".to_owned(), json!(q))]);
        let given = [
            ("dialect", dialect.map(Value::from)),
            ("page", page.map(Value::from)),
            ("limit", limit.map(Value::from)),
            ("offset", offset.map(Value::from)),
            ("format", format.map(Value::from)),
        ];
        arguments.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        let answer = target.run_operation(manual::find("query")?, arguments, cli_caller(None), None)?;
        if json {
            return output::json(&answer);
        }
        match answer["text"].as_str() {
            Some(text) => output::say(text),
            None => output::say(&render(&answer)),
        }
    }
}

/// The result as text for a terminal.
fn render(answer: &Value) -> String {
    if let Some(count) = answer["count"].as_u64().filter(|_| answer["groups"].is_null()) {
        return count.to_string();
    }
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let headers = list(&answer["headers"]);
    let headers: Vec<&str> = headers.iter().filter_map(Value::as_str).collect();
    let rows: Vec<Vec<Value>> = list(&answer["rows"]).iter().map(list).collect();
    if rows.is_empty() {
        return String::new();
    }
    let groups = list(&answer["groups"]);
    // A group of aggregates is one row.
    let is_row = |group: &Value| group["rows"][0][0] == group["key"] && group["rows"][1].is_null();
    let mut text = if groups.iter().all(is_row) {
        table::rows(&headers, &rows)
    } else {
        let part = |group: &Value| {
            let rows: Vec<Vec<Value>> = list(&group["rows"]).iter().map(list).collect();
            format!("{} ({})\n{}", table::named(&group["key"]), group["count"], table::rows(&headers, &rows))
        };
        groups.iter().map(part).collect::<Vec<_>>().join("\n")
    };
    if answer["has_more"] == true {
        text.push_str(&format!("({} of {})\n", rows.len(), answer["total"]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_groups_print_under_headings_and_count_groups_as_rows() {
        let pages = json!({ "headers": ["path"], "rows": [["a.md"], ["b.md"], ["c.md"]], "total": 4, "has_more": true,
            "groups": [{ "key": "open", "count": 2, "rows": [["a.md"], ["b.md"]] }, { "key": null, "count": 1, "rows": [["c.md"]] }] });
        assert_eq!(render(&pages), "open (2)\nPATH\na.md\nb.md\n\n(none) (1)\nPATH\nc.md\n(3 of 4)\n");
        let counts = json!({ "count": 3, "headers": ["status", "count"], "rows": [["open", 2], [null, 1]], "total": 2, "has_more": false,
            "groups": [{ "key": "open", "count": 2, "rows": [["open", 2]] }, { "key": null, "count": 1, "rows": [[null, 1]] }] });
        assert_eq!(render(&counts), "STATUS  COUNT\nopen    2\n        1\n");
    }
}
