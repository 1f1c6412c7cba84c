//! Contents, and what a change did.

use serde_json::Value;

use super::dry_run::preview;
use super::{Rendered, ViewContext, line_of};
use crate::client;
use crate::failure::CommandFailure;

/// The content of a file, unchanged; with `--metadata-only` its frontmatter as JSON.
pub fn content(answer: &Value, _: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    if let Some(content) = answer.get("content") {
        return Ok(Rendered { text: client::bytes_of(content)?.to_vec(), notes: Vec::new() });
    }
    let frontmatter = serde_json::to_string_pretty(&answer["frontmatter"]).map_err(anyhow::Error::new)?;
    Ok(Rendered::of_text(frontmatter + "\n"))
}

pub fn written(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    Ok(preview(answer, cx)?.unwrap_or_else(|| changed("wrote", answer, cx)))
}

pub fn appended(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    Ok(changed("appended to", answer, cx))
}

fn changed(verb: &str, answer: &Value, cx: &ViewContext<'_>) -> Rendered {
    let etag = cx.style.dim(&format!("etag {}", line_of(&answer["etag"])));
    Rendered::of_text(format!("{verb} {}  {etag}\n", cx.path(&answer["path"])))
}

pub fn removed(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let made = || Rendered::of_text(format!("removed {}\n", cx.path(&answer["deleted"])));
    Ok(preview(answer, cx)?.unwrap_or_else(made))
}

pub fn renamed(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    if let Some(preview) = preview(answer, cx)? {
        return Ok(preview);
    }
    let count = |name: &str, word: &str| {
        let count = answer[name].as_u64().filter(|count| *count > 0)?;
        Some(format!(", {count} {word}{}", if count == 1 { "" } else { "s" }))
    };
    let links = count("updated_links", "link").map(|links| format!("{links} updated"));
    let files = count("renamed", "file");
    let suffix = links.or(files).unwrap_or_default();
    Ok(Rendered::of_text(format!("renamed {} to {}{suffix}\n", cx.path(&answer["from"]), cx.path(&answer["to"]))))
}
