use serde_json::Value;
use svcfs_index::{QueryAnswer, QueryMode};

/// A form of markdown output.
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
    /// The default style of a query mode.
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

/// Where the markdown is placed; determines the form of links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenderTarget {
    /// In a response: links are relative paths.
    Response,
    /// In a page in any folder: links start at the root.
    Page,
    /// As in a page that is shown as HTML and not stored: paths in tables are links, too.
    Html,
}

/// Renders a result as markdown that ends with a line break.
pub fn render_markdown(answer: &QueryAnswer, style: MarkdownStyle, target: RenderTarget) -> String {
    // Only a TASK query has rows of tasks.
    let style =
        if style == MarkdownStyle::Task && answer.mode != QueryMode::Task { MarkdownStyle::Table } else { style };
    let mut text = render_full(answer, style, target);
    if let Some(scanned) = answer.scanned_rows {
        text.push_str(&format!("\n*Only the first {scanned} pages, items or tasks were scanned*\n"));
    }
    if target == RenderTarget::Response {
        for note in &answer.notes {
            text.push_str(&format!("\n*Note: {note}*\n"));
        }
    }
    text
}

fn render_full(answer: &QueryAnswer, style: MarkdownStyle, target: RenderTarget) -> String {
    if style == MarkdownStyle::Count {
        return format!("**{}** results\n", answer.count.unwrap_or(answer.total));
    }
    if answer.rows.is_empty() {
        return if style == MarkdownStyle::Task { "*No tasks*\n" } else { "*No results*\n" }.to_owned();
    }
    let mut text = match &answer.groups {
        Some(groups) if !groups.iter().all(is_aggregate_row) => render_groups(answer, style, target),
        Some(_) | None => rows(answer, &answer.rows, (style, target)),
    };
    if answer.has_more {
        text.push_str(&format!("\n*Showing {} of {} results*\n", answer.rows.len(), answer.total));
    }
    text
}

/// Whether a group is a single row of aggregates, not a heading over pages.
fn is_aggregate_row(group: &svcfs_index::RowGroup) -> bool {
    matches!(group.rows.as_slice(), [row] if row.first() == Some(&group.key))
}

fn render_groups(answer: &QueryAnswer, style: MarkdownStyle, target: RenderTarget) -> String {
    let groups = answer.groups.iter().flatten();
    let render_group = |group: &svcfs_index::RowGroup| {
        format!("### {} ({})\n\n{}", cell(&group.key), group.count, rows(answer, &group.rows, (style, target)))
    };
    groups.map(render_group).collect::<Vec<_>>().join("\n")
}

fn rows(answer: &QueryAnswer, rows: &[Vec<Value>], (style, target): (MarkdownStyle, RenderTarget)) -> String {
    match style {
        MarkdownStyle::Table => table(&answer.headers, rows, target),
        MarkdownStyle::List => list(answer, rows, target),
        MarkdownStyle::Distinct | MarkdownStyle::Count => {
            rows.iter().map(|row| format!("- {}\n", join_cells(row))).collect()
        }
        MarkdownStyle::Task => tasks(rows),
    }
}

fn table(headers: &[String], rows: &[Vec<Value>], target: RenderTarget) -> String {
    let has_links = target == RenderTarget::Html && headers.first().is_some_and(|header| header == "path");
    let cells = |row: &Vec<Value>| {
        let mut cells: Vec<String> = row.iter().map(cell).collect();
        if let (true, Some(Value::String(path)), Some(first)) = (has_links, row.first(), cells.first_mut())
            && !path.contains('|')
        {
            *first = format!("[{first}]({})", link_destination(path, target));
        }
        cells
    };
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|{}\n", "---|".repeat(headers.len()));
    let titles = headers.iter().map(|header| escape(&title_case(header))).collect();
    let body: String = rows.iter().map(|row| line(cells(row))).collect();
    format!("{}{rule}{body}", line(titles))
}

fn list(answer: &QueryAnswer, rows: &[Vec<Value>], target: RenderTarget) -> String {
    let has_path = answer.headers.first().is_some_and(|header| header == "path");
    let line = |row: &Vec<Value>| match row.split_first() {
        Some((Value::String(path), rest)) if has_path => {
            let link = format!("[{path}]({})", link_destination(path, target));
            if rest.is_empty() { format!("- {link}\n") } else { format!("- {link}: {}\n", join_cells(rest)) }
        }
        _ => format!("- {}\n", join_cells(row)),
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
        let label = task.as_str().unwrap_or_default().replace('\n', " ");
        text.push_str(&format!("- [{mark}] {label}{due}\n"));
    }
    text
}

fn join_cells(cells: &[Value]) -> String {
    cells.iter().map(cell).collect::<Vec<_>>().join(": ")
}

/// A field name as a title: without leading `_`, words capitalized.
fn title_case(header: &str) -> String {
    let text = header.trim_start_matches('_').split(['.', '_', ' ']).filter(|word| !word.is_empty());
    let capital = |word: &str| {
        let mut characters = word.chars();
        characters.next().map(|first| first.to_uppercase().chain(characters).collect::<String>()).unwrap_or_default()
    };
    text.map(capital).collect::<Vec<_>>().join(" ")
}

/// A value on one line.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => "—".to_owned(),
        Value::String(text) => format_day(text).unwrap_or_else(|| text.clone()),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(real) => format!("{real:.2}"),
            None => number.to_string(),
        },
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Bool(_) | Value::Object(_) => value.to_string(),
    };
    escape(&text)
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Formats `2026-01-31` and timestamps as `Jan 31, 2026`.
fn format_day(text: &str) -> Option<String> {
    svcfs_index::parse_day(text).map(|day| day.strftime("%b %d, %Y").to_string())
}

/// Escapes characters that would end a cell or a line.
pub(super) fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

/// A path as the destination of a markdown link.
pub(super) fn link_destination(path: &str, target: RenderTarget) -> String {
    let path = match target {
        RenderTarget::Response => path.to_owned(),
        // A link to no file is as written; `//name` would lead to another server.
        RenderTarget::Page | RenderTarget::Html => format!("/{}", path.trim_start_matches(['/', '\\'])),
    };
    if path.contains(['(', ')', ' ', '<', '>']) { format!("<{}>", path.replace(['<', '>'], "")) } else { path }
}

#[cfg(test)]
mod tests {
    use super::{RenderTarget, link_destination};

    #[test]
    fn a_link_in_a_result_names_no_other_server() {
        for (path, target, expected) in [
            ("a.md", RenderTarget::Page, "/a.md"),
            ("/a.md", RenderTarget::Page, "/a.md"),
            ("//a.md", RenderTarget::Page, "/a.md"),
            ("/a b.md", RenderTarget::Page, "</a b.md>"),
            ("/a.md", RenderTarget::Response, "/a.md"),
        ] {
            assert_eq!(link_destination(path, target), expected, "{path}");
        }
    }
}
