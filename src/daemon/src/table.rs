//! Tables for terminals.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::output::one_line;

/// Columns of a cell before it is cut.
const MAX_CELL_COLUMNS: usize = 72;

/// A list of flat objects as a table with a heading, empty for an empty list; none for other
/// values.
pub fn table(answer: &Value) -> Option<String> {
    let rows: Vec<_> = answer.as_array()?.iter().map(Value::as_object).collect::<Option<_>>()?;
    if rows.is_empty() {
        return Some(String::new());
    }
    let mut columns: Vec<&str> = Vec::new();
    for (name, value) in rows.iter().copied().flatten() {
        if value.is_array() || value.is_object() {
            return None;
        }
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|name| name.to_uppercase()).collect()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|name| cell(name, row.get(*name))).collect()));
    Some(aligned(&lines))
}

/// Aligns lines with the same number of cells.
fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].width()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for line in lines {
        // The padding of the formatter counts characters, and some take two columns.
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell}{:1$}", "", width - cell.width()));
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Rows with a heading as a table; lists in cells with commas.
pub fn rows(headers: &[&str], rows: &[Vec<Value>]) -> String {
    let shown = |value: &Value| match value {
        Value::Array(items) => {
            let plain = |item: &Value| item.as_str().map_or_else(|| item.to_string(), str::to_owned);
            Value::String(items.iter().map(plain).collect::<Vec<_>>().join(", "))
        }
        other => other.clone(),
    };
    let mut lines: Vec<Vec<String>> =
        vec![headers.iter().map(|name| cell("", Some(&Value::from(name.to_uppercase())))).collect()];
    lines.extend(rows.iter().map(|row| row.iter().map(|value| cell("", Some(&shown(value)))).collect()));
    aligned(&lines)
}

/// A value as a heading.
pub fn named(value: &Value) -> String {
    Some(cell("", Some(value))).filter(|text| !text.is_empty()).unwrap_or_else(|| "(none)".to_owned())
}

/// One value on one line.
fn cell(column: &str, value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) if column == "snippet" => plain(text),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => format!("{number:.3}"),
            None => number.to_string(),
        },
        Some(other @ (Value::Bool(_) | Value::Array(_) | Value::Object(_))) => other.to_string(),
    };
    cut(one_line(&text).split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A snippet without HTML.
fn plain(snippet: &str) -> String {
    let unmarked = snippet.replace("<mark>", "").replace("</mark>", "");
    unmarked.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn cut(line: String) -> String {
    if line.width() <= MAX_CELL_COLUMNS {
        return line;
    }
    let mut columns = 0;
    let fits = |c: &char| {
        columns += c.width().unwrap_or_default();
        columns < MAX_CELL_COLUMNS
    };
    let mut cut: String = line.chars().take_while(fits).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flat_objects_become_a_table_and_nothing_else_does() {
        let rows_json = json!([{ "path": "a.md", "score": 1.23456 }, { "path": "notes/b.md", "hits": 2 }]);
        assert_eq!(table(&rows_json).unwrap(), "PATH        SCORE  HITS\na.md        1.235\nnotes/b.md         2\n");
        assert_eq!(table(&json!([])).unwrap(), "");
        for other in [json!({ "a": 1 }), json!([1]), json!([{ "children": [] }])] {
            assert_eq!(table(&other), None, "{other}");
        }
    }

    #[test]
    fn what_a_page_says_cannot_move_the_cursor() {
        let rows_json = json!([{ "title": "a \u{1b}[2J<mark>\nc" }]);
        assert_eq!(table(&rows_json).unwrap(), "TITLE\na [2J<mark> c\n");
    }

    #[test]
    fn a_snippet_is_shown_as_the_page_has_it() {
        let rows_json = json!([{ "snippet": "<mark>a</mark> &lt; b &amp;lt; c" }]);
        assert_eq!(table(&rows_json).unwrap(), "SNIPPET\na < b &lt; c\n");
    }

    #[test]
    fn wide_characters_take_two_columns_and_long_cells_are_cut() {
        let rows_json = json!([{ "a": "归档", "b": 1 }, { "a": "tar", "b": 2 }]);
        assert_eq!(table(&rows_json).unwrap(), "A     B\n归档  1\ntar   2\n");
        let long = table(&json!([{ "a": "界".repeat(100) }])).unwrap();
        let line = long.lines().nth(1).unwrap();
        assert!(line.ends_with('…') && line.width() <= MAX_CELL_COLUMNS, "{line}");
    }
}
