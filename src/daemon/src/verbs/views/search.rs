//! Search results.

use serde_json::Value;

use super::{Rendered, ViewContext, line_of, list, short_hash};
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
    rendered.notes.extend(note_of_past(first));
    Ok(rendered)
}

/// Excerpts: the citation, then the lines of the page; what did not fit is noted.
pub fn recall(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let citation = |part: &Value| {
        let anchor = part["heading"].as_str().map_or_else(String::new, |_| format!("#{}", line_of(&part["heading"])));
        (format!("{}{anchor}", cx.path(&part["path"])), format!(":L{}-L{}", part["lines"][0], part["lines"][1]))
    };
    let excerpts = list(&answer["excerpts"]);
    if excerpts.is_empty() {
        return Ok(Rendered::of_note("nothing was found"));
    }
    let mut text = String::new();
    for (index, excerpt) in excerpts.iter().enumerate() {
        let ((page, lines), commit) = (citation(excerpt), short_hash(&excerpt["commit"]));
        let outdated =
            excerpt["outdated"].as_str().map_or_else(String::new, |_| format!(", {}", line_of(&excerpt["outdated"])));
        let source = if excerpt["external"] == true { ", external" } else { "" };
        let facts = format!(
            "(trust {}, {}, {}{outdated}{source})",
            excerpt["trust"],
            line_of(&excerpt["actor"]),
            line_of(&excerpt["date"])
        );
        let separator = if index > 0 { "\n" } else { "" };
        text.push_str(&format!("{separator}{} {facts}\n", cx.style.bold(&format!("{page}@{commit}{lines}"))));
        for line in excerpt["text"].as_str().unwrap_or_default().lines() {
            text.push_str(&format!("    {}\n", crate::output::one_line(line)));
        }
    }
    let mut rendered = Rendered::of_text(text);
    for dropped in list(&answer["dropped"]) {
        let (page, lines) = citation(dropped);
        rendered.notes.push(format!("not included: {page}{lines}, {} tokens", dropped["tokens"]));
    }
    rendered.notes.extend(note_of_past(answer));
    Ok(rendered)
}

/// Which commit was searched with `--as-of`, and whether that was possible in time.
fn note_of_past(answer: &Value) -> Option<String> {
    answer["as_of"].as_str()?;
    let commit = short_hash(&answer["as_of"]);
    let partial = if answer["partial"] == true { "; not all pages could be read in time" } else { "" };
    Some(format!("as of commit {commit}{partial}"))
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
