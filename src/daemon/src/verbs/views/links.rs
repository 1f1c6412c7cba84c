//! Links from and to a page.

use serde_json::Value;

use super::{Rendered, ViewContext, line_of, list};
use crate::failure::CommandFailure;

/// The pages that a page links to; then its broken links.
pub fn links(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let (targets, broken) = (list(&answer["links_out"]), list(&answer["links_broken"]));
    if targets.is_empty() && broken.is_empty() {
        return Ok(Rendered::of_note("no links"));
    }
    let targets = targets.iter().map(|target| format!("{}\n", cx.path(target)));
    let broken = broken.iter().map(|link| format!("{}  {}\n", line_of(link), cx.style.red("(broken)")));
    Ok(Rendered::of_text(targets.chain(broken).collect()))
}

/// One page per paragraph: path and title, then the line with the link.
pub fn backlinks(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let pages = list(answer);
    if pages.is_empty() {
        return Ok(Rendered::of_note("no backlinks"));
    }
    let paragraph = |page: &Value| {
        let (path, title) = (cx.style.bold(&cx.path(&page["path"])), cx.style.cyan(&line_of(&page["title"])));
        format!("{}\n    {}\n", format!("{path}  {title}").trim_end(), line_of(&page["context"]).trim())
    };
    Ok(Rendered::of_text(pages.iter().map(paragraph).collect()))
}
