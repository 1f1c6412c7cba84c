//! Versions, changes, blame and differences.

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::{Rendered, ViewContext, line_of, list, minute, short_hash};
use crate::failure::CommandFailure;
use crate::output;

/// The versions of a page: hash, time, author, message.
pub fn versions(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let rows = list(answer);
    if rows.is_empty() {
        return Ok(Rendered::of_note("no versions"));
    }
    let mut text = String::new();
    for (row, author) in rows.iter().zip(author_column(rows, "author")) {
        let message = first_line(&row["message"]);
        push_row(&mut text, row, &author, &subject(&message, &line_of(&row["author"])), cx);
    }
    Ok(Rendered::of_text(text))
}

/// Recent changes: hash, time, author, path.
pub fn changes(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let events = list(&answer["events"]);
    if events.is_empty() {
        return Ok(Rendered::of_note("no changes"));
    }
    let mut text = String::new();
    for (event, author) in events.iter().zip(author_column(events, "actor")) {
        let message = first_line(&event["message"]);
        let subject = subject(&message, &line_of(&event["actor"]));
        let mut what = cx.path(&event["path"]);
        if event["type"] == "delete" {
            what.push_str(&cx.style.red(" (removed)"));
        }
        // The default message repeats the path.
        if subject != line_of(&event["path"]) && !subject.is_empty() {
            what.push_str(&format!("  {}", cx.style.dim(&subject)));
        }
        push_row(&mut text, event, &author, &what, cx);
    }
    let mut rendered = Rendered::of_text(text);
    let total = answer["total"].as_u64().unwrap_or_default();
    if total > events.len() as u64 {
        rendered.notes.push(format!("{} of {total} changes; use --limit and --offset for others", events.len()));
    }
    Ok(rendered)
}

/// Who last changed each line, then the line.
pub fn blame(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let lines = list(answer);
    if lines.is_empty() {
        return Ok(Rendered::of_note("no lines"));
    }
    let digits = lines.last().map_or(1, |line| line["line"].to_string().len());
    let mut text = String::new();
    for (line, author) in lines.iter().zip(author_column(lines, "author")) {
        let content = visible(line["content"].as_str().unwrap_or_default());
        let row = format!(
            "{} {} {author} {:>digits$}  {content}",
            cx.style.yellow(&short_hash(&line["hash"])),
            cx.style.dim(&minute(&line["timestamp"])),
            line["line"].to_string(),
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    Ok(Rendered::of_text(text))
}

/// A unified difference.
pub fn diff(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let text = answer["diff"].as_str().unwrap_or_default();
    if text.is_empty() {
        return Ok(Rendered::of_note("no differences"));
    }
    if !cx.style.has_colours {
        return Ok(Rendered::of_text(text.to_owned()));
    }
    let coloured = text.lines().map(|line| {
        let line = visible(line);
        let shown = match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => cx.style.bold(&line),
            Some(b'+') => cx.style.green(&line),
            Some(b'-') => cx.style.red(&line),
            Some(b'@') => cx.style.cyan(&line),
            _ => line,
        };
        shown + "\n"
    });
    Ok(Rendered::of_text(coloured.collect()))
}

/// The newest change of a page that has no other version.
pub fn single_version(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    Ok(Rendered::of_note(format!("no differences: `{}` has a single version", cx.path(&answer["path"]))))
}

/// The authors of rows, padded to the same width.
fn author_column(rows: &[Value], member: &str) -> Vec<String> {
    let mut authors: Vec<String> = rows.iter().map(|row| line_of(&row[member])).collect();
    let width = authors.iter().map(|author| author.width()).max().unwrap_or_default();
    for author in &mut authors {
        author.push_str(&" ".repeat(width - author.width()));
    }
    authors
}

fn push_row(text: &mut String, row: &Value, author: &str, what: &str, cx: &ViewContext<'_>) {
    let hash = cx.style.yellow(&short_hash(&row["hash"]));
    let line = format!("{hash}  {}  {author}  {what}", cx.style.dim(&minute(&row["timestamp"])));
    text.push_str(line.trim_end());
    text.push('\n');
}

fn first_line(value: &Value) -> String {
    output::one_line(value.as_str().unwrap_or_default().lines().next().unwrap_or_default())
}

/// A commit message without the author, who has a column.
fn subject(message: &str, author: &str) -> String {
    message.strip_prefix(author).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(message).to_owned()
}

/// A line of a page, with tabs and without other control characters.
fn visible(line: &str) -> String {
    line.chars().map(|c| if c.is_control() && c != '\t' { ' ' } else { c }).collect()
}
