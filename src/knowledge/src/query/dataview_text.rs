//! Results of Dataview queries as markdown, as the plugin shows them.

use svcfs_dataview::{Link, LinkTarget, QueryType, ResultRow, Value};
use svcfs_index::DataviewAnswer;

use super::dataview::window_of;
use super::render::{escape, link_destination};
use super::{RenderTarget, RowWindow};

/// Renders a result as markdown that ends with a line break.
pub fn render_dataview(answer: &DataviewAnswer, window: RowWindow, target: RenderTarget) -> String {
    let result = &answer.result;
    let range = window_of(answer, window);
    let rows = &result.rows[range.clone()];
    let mut text = match result.query_type {
        _ if rows.is_empty() => {
            if result.query_type == QueryType::Task { "*No tasks*\n" } else { "*No results*\n" }.to_owned()
        }
        QueryType::Table => table(&result.headers, rows, target),
        QueryType::Calendar => table(&["Date".to_owned(), "File".to_owned()], rows, target),
        QueryType::List => rows.iter().map(|row| list_row(row, target)).collect(),
        QueryType::Task => match &result.groups {
            None => tasks(rows, target, true),
            Some(groups) => {
                let mut next = 0;
                let mut parts = Vec::new();
                for group in groups {
                    let (start, end) = (next.max(range.start), (next + group.row_count).min(range.end));
                    next += group.row_count;
                    if let Some(rows) = result.rows.get(start..end).filter(|rows| !rows.is_empty()) {
                        parts.push(format!("**{}**\n\n{}", inline(&group.key, target), tasks(rows, target, false)));
                    }
                }
                parts.join("\n")
            }
        },
    };
    if target == RenderTarget::Response {
        for note in &result.notes {
            text.push_str(&format!("\n*Note: {note}*\n"));
        }
    }
    if range.end < result.rows.len() {
        text.push_str(&format!("\n*Showing {} of {} results*\n", rows.len(), result.rows.len()));
    }
    if let Some(scanned) = answer.scanned_rows {
        text.push_str(&format!("\n*Only the first {scanned} pages were scanned*\n"));
    }
    text
}

fn table(headers: &[String], rows: &[ResultRow], target: RenderTarget) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let cell = |value: &Value| escape(&inline(value, target));
    let body: String = rows.iter().map(|row| line(row.cells.iter().map(cell).collect())).collect();
    let titles = headers.iter().map(|header| escape(header)).collect();
    format!("{}|{}\n{body}", line(titles), "---|".repeat(headers.len()))
}

/// An item; a list as its second value becomes a list below it.
fn list_row(row: &ResultRow, target: RenderTarget) -> String {
    let line = |value: &Value| inline(value, target).replace(['\n', '\r'], " ");
    match row.cells.as_slice() {
        [id, Value::List(items)] => {
            let items: String = items.iter().map(|item| format!("    - {}\n", line(item))).collect();
            format!("- {}:\n{items}", line(id))
        }
        [id, value] => format!("- {}: {}\n", line(id), line(value)),
        cells => format!("- {}\n", cells.iter().map(line).collect::<Vec<_>>().join(": ")),
    }
}

/// Tasks with what is below them; with headings, under their pages.
fn tasks(rows: &[ResultRow], target: RenderTarget, has_headings: bool) -> String {
    let mut text = String::new();
    let mut page = None;
    for row in rows {
        let Some(task) = &row.task else { continue };
        if has_headings && page != Some(&task.page.path) {
            let blank = if page.is_some() { "\n" } else { "" };
            let link = inline(&Value::Link(Link::to_page(task.page.path.as_str()).into()), target);
            text.push_str(&format!("{blank}**{link}**\n\n"));
            page = Some(&task.page.path);
        }
        let item = &task.page.items[task.index];
        let mark = item.status.map(|status| format!("[{status}] ")).unwrap_or_default();
        let indentation = "    ".repeat(task.depth);
        text.push_str(&format!("{indentation}- {mark}{}\n", item.text.replace(['\n', '\r'], " ")));
    }
    text
}

/// A value within a line; links to pages as markdown links.
fn inline(value: &Value, target: RenderTarget) -> String {
    match value {
        Value::Link(link) => {
            let part = match &link.target {
                LinkTarget::File => String::new(),
                LinkTarget::Header(part) => format!("#{}", part.replace(' ', "-").to_lowercase()),
                LinkTarget::Block(id) => format!("#^{id}"),
            };
            let label = link.display_text().replace(['[', ']'], "");
            let is_url = link.path.contains("://");
            let target = if is_url { RenderTarget::Response } else { target };
            let mark = if link.is_embed { "!" } else { "" };
            format!("{mark}[{label}]({})", link_destination(&format!("{}{part}", link.path), target))
        }
        Value::List(items) => items.iter().map(|item| inline(item, target)).collect::<Vec<_>>().join(", "),
        Value::Row(_) | Value::File(_) => inline_id(value, target),
        other => other.to_text(),
    }
}

fn inline_id(value: &Value, target: RenderTarget) -> String {
    value.page_link().map_or_else(|| value.to_text(), |link| inline(&Value::Link(link.into()), target))
}
