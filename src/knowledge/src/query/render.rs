//! Answers as markdown (gaps.md 4.6, renderers).

use serde_json::Value;
use svcfs_index::{QueryAnswer, QueryMode};

/// Which form of markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkdownStyle {
    /// A table.
    Table,
    /// A list of links.
    List,
    /// A number.
    Count,
    /// A list of values.
    Distinct,
    /// Tasks under their pages.
    Task,
}

impl MarkdownStyle {
    /// The form that goes with a mode.
    pub const fn from_mode(mode: QueryMode) -> Self {
        match mode {
            QueryMode::Table | QueryMode::Calendar | QueryMode::Json => Self::Table,
            QueryMode::List => Self::List,
            QueryMode::Count => Self::Count,
            QueryMode::Distinct => Self::Distinct,
            QueryMode::Task => Self::Task,
        }
    }
}

/// Where a markdown text with links to pages stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderTarget {
    /// In an answer: links are paths.
    Response,
    /// In a page, wherever that is: links begin at the knowledge root.
    Page,
}

/// An answer as markdown; ends with a line break.
pub fn render_markdown(answer: &QueryAnswer, style: MarkdownStyle, standing: RenderTarget) -> String {
    // Tasks can only be made of the rows of a TASK query.
    let style =
        if style == MarkdownStyle::Task && answer.mode != QueryMode::Task { MarkdownStyle::Table } else { style };
    let mut text = complete(answer, style, standing);
    if let Some(looked_at) = answer.scanned_rows {
        text.push_str(&format!("\n*Only the first {looked_at} pages, items or tasks were looked at*\n"));
    }
    text
}

fn complete(answer: &QueryAnswer, style: MarkdownStyle, standing: RenderTarget) -> String {
    if style == MarkdownStyle::Count {
        return format!("**{}** results\n", answer.count.unwrap_or(answer.total));
    }
    if answer.rows.is_empty() {
        return if style == MarkdownStyle::Task { "*No tasks*\n" } else { "*No results*\n" }.to_owned();
    }
    let mut text = match &answer.groups {
        Some(groups) if !groups.iter().all(is_one_row) => under_headings(answer, style, standing),
        Some(_) | None => rows(answer, &answer.rows, (style, standing)),
    };
    if answer.has_more {
        text.push_str(&format!("\n*Showing {} of {} results*\n", answer.rows.len(), answer.total));
    }
    text
}

/// Whether a group is a row itself, of sums and counts, and no heading over pages.
fn is_one_row(group: &svcfs_index::RowGroup) -> bool {
    matches!(group.rows.as_slice(), [row] if row.first() == Some(&group.key))
}

fn under_headings(answer: &QueryAnswer, style: MarkdownStyle, standing: RenderTarget) -> String {
    let groups = answer.groups.iter().flatten();
    let part = |group: &svcfs_index::RowGroup| {
        format!("### {} ({})\n\n{}", cell(&group.key), group.count, rows(answer, &group.rows, (style, standing)))
    };
    groups.map(part).collect::<Vec<_>>().join("\n")
}

fn rows(answer: &QueryAnswer, rows: &[Vec<Value>], (style, standing): (MarkdownStyle, RenderTarget)) -> String {
    match style {
        MarkdownStyle::Table => table(&answer.headers, rows),
        MarkdownStyle::List => list(answer, rows, standing),
        MarkdownStyle::Distinct | MarkdownStyle::Count => {
            rows.iter().map(|row| format!("- {}\n", joined(row))).collect()
        }
        MarkdownStyle::Task => tasks(rows),
    }
}

fn table(headers: &[String], rows: &[Vec<Value>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", "---|".repeat(headers.len()));
    let titles = headers.iter().map(|header| escaped(&titled(header))).collect();
    let body: String = rows.iter().map(|row| line(row.iter().map(cell).collect())).collect();
    format!("{}{rule}{body}", line(titles))
}

fn list(answer: &QueryAnswer, rows: &[Vec<Value>], standing: RenderTarget) -> String {
    let has_path = answer.headers.first().is_some_and(|header| header == "path");
    let line = |row: &Vec<Value>| match row.split_first() {
        Some((Value::String(path), rest)) if has_path => {
            let link = format!("[{path}]({})", linked(path, standing));
            if rest.is_empty() { format!("- {link}\n") } else { format!("- {link}: {}\n", joined(rest)) }
        }
        _ => format!("- {}\n", joined(row)),
    };
    rows.iter().map(line).collect()
}

/// Rows of path, text, completed, line, tags and due.
fn tasks(rows: &[Vec<Value>]) -> String {
    let mut text = String::new();
    let mut page = None;
    for row in rows {
        let [path, task, completed, _, _, due] = row.as_slice() else { continue };
        if page != Some(path) {
            let blank = if page.is_some() { "\n" } else { "" };
            text.push_str(&format!("{blank}**{}**\n\n", cell(path)));
            page = Some(path);
        }
        let mark = if *completed == Value::Bool(true) { "x" } else { " " };
        let due = due.as_str().map(|due| format!(" [due:: {due}]")).unwrap_or_default();
        let words = task.as_str().unwrap_or_default().replace('\n', " ");
        text.push_str(&format!("- [{mark}] {words}{due}\n"));
    }
    text
}

fn joined(cells: &[Value]) -> String {
    cells.iter().map(cell).collect::<Vec<_>>().join(": ")
}

/// A field as a heading: without its leading `_`, in words that begin with capitals.
fn titled(header: &str) -> String {
    let words = header.trim_start_matches('_').split(['.', '_', ' ']).filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut characters = word.chars();
        characters.next().map(|first| first.to_uppercase().chain(characters).collect::<String>()).unwrap_or_default()
    };
    words.map(capital).collect::<Vec<_>>().join(" ")
}

/// One value on one line.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "—".to_owned(),
        Value::String(text) => dated(text).unwrap_or_else(|| text.clone()),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(real) => format!("{real:.2}"),
            None => number.to_string(),
        },
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Object(_) => value.to_string(),
    };
    escaped(&text)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `2026-01-31` and moments of that day as `Jan 31, 2026`.
fn dated(text: &str) -> Option<String> {
    svcfs_index::parse_day(text).map(|day| day.strftime("%b %d, %Y").to_string())
}

/// What would end a cell or a line is taken out of its meaning.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// A path inside `(…)` of a link.
fn linked(path: &str, standing: RenderTarget) -> String {
    let root = match standing {
        RenderTarget::Response => "",
        RenderTarget::Page => "/",
    };
    let path = format!("{root}{path}");
    if path.contains(['(', ')', ' ', '<', '>']) { format!("<{}>", path.replace(['<', '>'], "")) } else { path }
}
