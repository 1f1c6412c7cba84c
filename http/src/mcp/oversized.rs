//! Answers that are too long for a client, with the call for a part that fits.

use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use svcfs_base::{Fault, Kind};

use super::next_call::{NextCall, SentCall};
use super::tools::MAX_RESULT_CHARS;

/// The length of a part, in bytes: some less than the limit.
const PART_BYTES: usize = MAX_RESULT_CHARS / 5 * 4;

/// The fault for an answer that is too long and that can be read in parts; none for all others.
pub(super) fn check(sent: &SentCall<'_>, result: &CallToolResult) -> Option<(Fault, NextCall)> {
    if !sent.tool.entry.is_read_only() {
        return None;
    }
    let texts = || result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str());
    let bytes: usize = texts().map(str::len).sum();
    if bytes <= MAX_RESULT_CHARS {
        return None;
    }
    let characters: usize = texts().map(|text| text.chars().count()).sum();
    if characters <= MAX_RESULT_CHARS {
        return None;
    }
    let takes = |name: &str| sent.tool.input_schema().get("properties").is_some_and(|known| known.get(name).is_some());
    let (name, value) = match &result.structured_content {
        None if takes("offset") && takes("limit") => ("limit", lines_of_a_part(texts().next()?)?),
        Some(structure) if takes("limit") => ("limit", rows_of_a_part(structure, bytes)?),
        Some(_) if takes("depth") && sent.arguments.get("depth").is_none_or(|depth| depth != 1) => ("depth", 1),
        Some(_) | None => return None,
    };
    let mut arguments = sent.arguments.clone();
    arguments.insert(name.to_owned(), json!(value));
    let message = format!(
        "the result is too large: {characters} characters, and {MAX_RESULT_CHARS} fit; read it in parts (`{name}`)"
    );
    let next = NextCall::of(sent.tool.entry.name, Value::Object(arguments));
    Some((Fault::new(Kind::TooLarge, message), next))
}

/// The number of first lines that fit; none if some line does not fit by itself.
fn lines_of_a_part(text: &str) -> Option<usize> {
    let (_, content) = text.split_once("\n\n").unwrap_or(("", text));
    if content.split_inclusive('\n').any(|line| line.len() > PART_BYTES) {
        return None;
    }
    let mut bytes = 0;
    let lines = content.split_inclusive('\n').take_while(|line| {
        bytes += line.len();
        bytes <= PART_BYTES
    });
    Some(lines.count()).filter(|lines| *lines > 0)
}

/// The number of rows that fit, by their average length; half of it, because they differ.
fn rows_of_a_part(structure: &Value, bytes: usize) -> Option<usize> {
    let lists = structure.as_object()?.values().filter_map(Value::as_array).map(Vec::len);
    let rows = lists.max()?;
    let part = rows.saturating_mul(PART_BYTES / 2) / bytes;
    (part > 0 && part < rows).then_some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_as_many_lines_or_rows_as_fit() {
        let line = format!("{}\n", "x".repeat(99));
        let text = |lines: usize| format!("[etag: a]\n\n{}", line.repeat(lines));
        assert_eq!(lines_of_a_part(&text(10_000)), Some(4_000));
        assert_eq!(lines_of_a_part(&format!("a\n\nb\n{}", "x".repeat(MAX_RESULT_CHARS + 1))), None, "one line");
        let rows = json!({ "result": vec!["x"; 1_000], "total": 1 });
        assert_eq!(rows_of_a_part(&rows, 1_000_000), Some(200));
        assert_eq!(rows_of_a_part(&rows, 100), None);
        assert_eq!(rows_of_a_part(&json!({ "a": 1 }), 1_000_000), None);
    }
}
