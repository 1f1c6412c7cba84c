//! Search results.

use serde_json::Value;

use super::{Rendered, ViewContext, line_of, list};
use crate::failure::CommandFailure;

/// One page per paragraph: path and title, then the text around the matches.
pub fn results(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let pages = list(answer);
    let Some(first) = pages.first() else { return Ok(Rendered::of_note("no results")) };
    let mut text = String::new();
    for page in pages {
        text.push_str(&cx.style.bold(&cx.path(&page["path"])));
        let title = line_of(&page["title"]);
        if !title.is_empty() {
            text.push_str(&format!("  {}", cx.style.cyan(&title)));
        }
        text.push('\n');
        let snippet = line_of(&page["snippet"]);
        let snippet = snippet.split_whitespace().collect::<Vec<_>>().join(" ");
        if !snippet.is_empty() {
            text.push_str(&format!("    {}\n", marked(&snippet, cx)));
        }
    }
    let mut rendered = Rendered::of_text(text);
    if let Some(query) = first["did_you_mean"].as_str() {
        rendered.notes.push(format!("nothing has these words; results for: {}", crate::output::one_line(query)));
    }
    rendered.notes.extend(first["note"].as_str().map(crate::output::one_line));
    Ok(rendered)
}

/// A snippet, which is HTML with `<mark>`, as text.
fn marked(snippet: &str, cx: &ViewContext<'_>) -> String {
    let plain =
        |text: &str| text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    let mut text = String::new();
    for (index, part) in snippet.split("<mark>").enumerate() {
        match part.split_once("</mark>").filter(|_| index > 0) {
            Some((word, rest)) => {
                text.push_str(&cx.style.yellow(&plain(word)));
                text.push_str(&plain(rest));
            }
            None => text.push_str(&plain(part)),
        }
    }
    text
}
