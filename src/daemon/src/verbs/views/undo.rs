//! Undone changes, restored pages, and the trash.

use serde_json::Value;

use super::{Rendered, ViewContext, line_of, list, minute, short_hash};
use crate::failure::CommandFailure;
use crate::output;

/// What an undo did, or would do: a line for each page, with its diff in a dry run; then the
/// conflicts.
pub fn undone(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let (pages, conflicts) = (list(&answer["undone"]), list(&answer["conflicts"]));
    let is_dry_run = answer["dry_run"] == true;
    let mut rendered = Rendered::default();
    for page in pages {
        let count = list(&page["commits"]).len();
        let former = match page["former"].as_str() {
            Some(_) => format!(", now {}", cx.path(&page["former"])),
            None => String::new(),
        };
        let path = cx.style.bold(&cx.path(&page["path"]));
        let plural = if count == 1 { "" } else { "s" };
        let line = format!("{:8} {path}{former}  {count} change{plural}\n", line_of(&page["action"]));
        rendered.text.extend(line.into_bytes());
        if page.get("diff").is_some_and(|diff| diff != "") {
            rendered.text.extend(super::history::diff(page, cx)?.text);
        }
    }
    for conflict in conflicts {
        let lines = match (conflict["lines"]["start"].as_u64(), conflict["lines"]["end"].as_u64()) {
            (Some(start), Some(end)) if end > start => format!(" (lines {start}-{end})"),
            (Some(start), Some(_)) => format!(" (line {start})"),
            _ => String::new(),
        };
        let (path, reason) = (cx.path(&conflict["path"]), line_of(&conflict["reason"]));
        let commit = short_hash(&conflict["commit"]);
        let line = format!("{} {path}{lines}  {reason}, commit {commit}\n", cx.style.red("stays   "));
        rendered.text.extend(line.into_bytes());
    }
    rendered.notes.push(match (pages.len(), is_dry_run) {
        (0, _) => "nothing to undo".to_owned(),
        (_, true) => "nothing was changed".to_owned(),
        (count, false) => {
            let version = match answer.get("version") {
                Some(version) => format!("; `svcfs undo --commits {}` brings the changes back", short_hash(version)),
                None => String::new(),
            };
            format!("undone in {count} page{}{version}", if count == 1 { "" } else { "s" })
        }
    });
    Ok(rendered)
}

/// A restored page.
pub fn restored(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let version = cx.style.dim(&format!("version {}", short_hash(&answer["restored"])));
    Ok(Rendered::of_text(format!("restored {}  {version}\n", cx.path(&answer["path"]))))
}

/// Removed pages: version, time of the removal, who removed it, path.
pub fn trash(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let pages = list(&answer["pages"]);
    if pages.is_empty() {
        return Ok(Rendered::of_note("no removed pages"));
    }
    let rows = pages.iter().map(|page| {
        let hash = cx.style.yellow(&short_hash(&page["version"]));
        let time = cx.style.dim(&minute(&page["removed_at"]));
        format!("{hash}  {time}  {}  {}\n", output::one_line(&line_of(&page["removed_by"])), cx.path(&page["path"]))
    });
    let mut rendered = Rendered::of_text(rows.collect());
    let total = answer["total"].as_u64().unwrap_or_default();
    if total > pages.len() as u64 {
        rendered.notes.push(format!("{} of {total} pages; use --limit and --offset for others", pages.len()));
    }
    Ok(rendered)
}
