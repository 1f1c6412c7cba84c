//! What a change would do.

use serde_json::Value;

use super::{Rendered, ViewContext, line_of, list};
use crate::failure::CommandFailure;

/// What the dry run of a write, a rename or a removal shows: a line for each file, lint findings,
/// links that would be broken, and the diff. None for a change that was made.
pub fn preview(answer: &Value, cx: &ViewContext<'_>) -> Result<Option<Rendered>, CommandFailure> {
    let Some(report) = answer.get("dry_run").filter(|report| report.is_object()) else { return Ok(None) };
    let mut rendered = Rendered::default();
    for file in list(&report["changes"]) {
        let former = match file.get("former") {
            Some(former) => format!("{} to ", cx.path(former)),
            None => String::new(),
        };
        let path = cx.style.bold(&cx.path(&file["path"]));
        rendered.text.extend(format!("{:8} {former}{path}\n", line_of(&file["change"])).into_bytes());
    }
    for finding in list(&report["lint"]) {
        rendered.text.extend(format!("{}\n", line_of(finding)).into_bytes());
    }
    for link in list(&report["broken_links"]) {
        let (path, target) = (cx.path(&link["path"]), cx.path(&link["target"]));
        let line = format!("{} in {path} to {target}: {}\n", cx.style.red("broken link"), line_of(&link["context"]));
        rendered.text.extend(line.into_bytes());
    }
    if report["diff"].as_str().is_some_and(|diff| !diff.is_empty()) {
        rendered.text.extend(super::history::diff(report, cx)?.text);
    }
    if report["diff_is_cut"] == true {
        rendered.notes.push("the diff is cut".to_owned());
    }
    rendered.notes.push("nothing was written".to_owned());
    Ok(Some(rendered))
}
