//! Answers as people read them on a terminal.

use serde_json::Value;

/// Characters a cell may have before it is cut.
const WIDEST: usize = 72;

/// A list of flat objects as a table with a heading, nothing for an empty list; none for everything else.
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
    lines.extend(rows.iter().map(|row| columns.iter().map(|name| cell(row.get(*name))).collect()));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    Some(text)
}

/// One value on one line, without the marks a browser would show.
fn cell(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => return String::new(),
        Some(Value::String(text)) => text.replace("<mark>", "").replace("</mark>", ""),
        Some(Value::Number(number)) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(number) => format!("{number:.3}"),
            None => number.to_string(),
        },
        Some(other) => other.to_string(),
    };
    // Control characters of a page must not reach the terminal.
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= WIDEST {
        return line;
    }
    let cut: String = line.chars().take(WIDEST - 1).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn flat_objects_become_a_table_and_nothing_else_does() {
        let found = json!([{ "path": "a.md", "score": 1.23456 }, { "path": "notes/b.md", "hits": 2 }]);
        assert_eq!(table(&found).unwrap(), "PATH        SCORE  HITS\na.md        1.235\nnotes/b.md         2\n");
        assert_eq!(table(&json!([])).unwrap(), "");
        for other in [json!({ "a": 1 }), json!([1]), json!([{ "children": [] }])] {
            assert_eq!(table(&other), None, "{other}");
        }
    }

    #[test]
    fn what_a_page_says_cannot_move_the_cursor() {
        let found = json!([{ "snippet": "a \u{1b}[2J<mark>b</mark>\nc" }]);
        assert_eq!(table(&found).unwrap(), "SNIPPET\na [2Jb c\n");
    }
}
