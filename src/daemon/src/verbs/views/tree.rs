//! Listings of directories.

use serde_json::Value;

use super::{Rendered, ViewContext, line_of, minute};
use crate::failure::CommandFailure;

/// The entries of a directory, one per line.
pub fn list(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let entries: Vec<&Value> = nodes(answer).filter(|node| (cx.has_flag)("all") || !is_hidden(node)).collect();
    if entries.is_empty() {
        return Ok(Rendered::of_note("no files"));
    }
    let sizes: Vec<String> = entries.iter().map(|node| size(node)).collect();
    let width = sizes.iter().map(String::len).max().unwrap_or_default();
    let mut text = String::new();
    for (node, size) in entries.iter().zip(&sizes) {
        if (cx.has_flag)("long") {
            text.push_str(&format!("{size:>width$}  {}  ", minute(&node["modified"])));
        }
        text.push_str(&format!("{}\n", name(node, cx)));
    }
    Ok(Rendered::of_text(text))
}

/// Directories and files with lines between them, then their number, as tree(1) does.
pub fn tree(answer: &Value, cx: &ViewContext<'_>) -> Result<Rendered, CommandFailure> {
    let mut text = String::new();
    let mut counts = TreeCounts::default();
    draw(answer, "", (&mut text, &mut counts), cx);
    let TreeCounts { directories, files } = counts;
    let (directory_word, file_word) =
        (if directories == 1 { "directory" } else { "directories" }, if files == 1 { "file" } else { "files" });
    text.push_str(&format!("\n{directories} {directory_word}, {files} {file_word}\n"));
    Ok(Rendered::of_text(text))
}

#[derive(Default)]
struct TreeCounts {
    directories: usize,
    files: usize,
}

fn draw(list: &Value, indent: &str, (text, counts): (&mut String, &mut TreeCounts), cx: &ViewContext<'_>) {
    let mut entries = nodes(list).peekable();
    while let Some(node) = entries.next() {
        let (branch, below) = if entries.peek().is_some() { ("├── ", "│   ") } else { ("└── ", "    ") };
        text.push_str(&format!("{indent}{branch}{}\n", name(node, cx)));
        if is_directory(node) {
            counts.directories += 1;
            draw(&node["children"], &format!("{indent}{below}"), (&mut *text, &mut *counts), cx);
        } else {
            counts.files += 1;
        }
    }
}

fn nodes(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn is_directory(node: &Value) -> bool {
    node["isDir"] == true
}

fn is_hidden(node: &Value) -> bool {
    node["name"].as_str().is_some_and(|name| name.starts_with('.'))
}

/// The name, marked as `ls -F` does.
fn name(node: &Value, cx: &ViewContext<'_>) -> String {
    let name = line_of(&node["name"]);
    match node["type"].as_str() {
        _ if is_directory(node) => cx.style.blue(&format!("{name}/")),
        Some("symlink") => format!("{}@", cx.style.cyan(&name)),
        Some("executable") => format!("{}*", cx.style.green(&name)),
        _ => name,
    }
}

/// A size for people; nothing for a directory.
fn size(node: &Value) -> String {
    const UNITS: [&str; 4] = ["", "K", "M", "G"];
    if is_directory(node) {
        return "-".to_owned();
    }
    let bytes = node["size"].as_u64().unwrap_or_default();
    if bytes < 1024 {
        return bytes.to_string();
    }
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1}{}", UNITS[unit])
}
