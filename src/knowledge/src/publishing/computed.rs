//! Computed pages for readers who may see only some pages.

use bytes::Bytes;
use serde_json::Value;
use svcfs_text::computed_block::find_answer;
use svcfs_text::frontmatter;

use crate::views;

/// The text of a page for a reader.
///
/// Its stored result was computed from all pages: for limited readers its query takes the place of
/// the result, and is run over the pages that they may see. Where blocks of the page are its
/// queries, they are run anyway, and the stored result would repeat them. `None` if the text stays
/// as it is.
pub(super) fn text_for_reader(text: &str, is_limited: bool) -> Option<String> {
    let page = frontmatter::split(text);
    let range = find_answer(page.body).range_in(page.body)?;
    let frontmatter = frontmatter::parse(text).map;
    let key = |name: &str| frontmatter.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let query = key(views::QUERY_KEY);
    let is_computed = frontmatter.get(views::FLAG_KEY) == Some(&Value::Bool(true));
    if !is_limited && (query.is_some() || !is_computed) {
        return None;
    }
    let query = query.filter(|_| is_computed).map(|query| fenced(query, key(views::FORMAT_KEY))).unwrap_or_default();
    Some([&text[..page.body_offset + range.start], &query, &page.body[range.end..]].concat())
}

/// The bytes of a page for readers who may see only some pages: its query takes the place of its
/// stored result.
pub fn bytes_for_reader(content: &Bytes) -> Bytes {
    let text = std::str::from_utf8(content).ok().and_then(|text| text_for_reader(text, true));
    text.map_or_else(|| content.clone(), Bytes::from)
}

/// A query block, in a fence that no line of the query ends.
fn fenced(query: &str, format: Option<&str>) -> String {
    let longest = query.split(|character| character != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let format = format.filter(|format| format.bytes().all(|byte| byte.is_ascii_lowercase())).unwrap_or_default();
    format!("\n{fence}dql {format}\n{query}\n{fence}\n\n")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{bytes_for_reader, text_for_reader};

    #[test]
    fn a_stored_result_is_replaced_by_its_query() {
        let block = "<!-- svc:auto -->\nold\n<!-- /svc-view -->\n";
        let dql = "---\nsvc-view: true\nsvc-query: LIST\nsvc-format: table\n---\n";
        let blocks = "---\nsvc-view: true\n---\n";
        for (head, is_limited, expected) in [
            (dql, true, Some(format!("{dql}a\n\n```dql table\nLIST\n```\n\nb"))),
            (dql, false, None),
            (blocks, true, Some(format!("{blocks}a\nb"))),
            (blocks, false, Some(format!("{blocks}a\nb"))),
            ("", true, Some("a\nb".to_owned())),
            ("", false, None),
        ] {
            assert_eq!(text_for_reader(&format!("{head}a\n{block}b"), is_limited), expected, "{head} {is_limited}");
        }
        assert_eq!(text_for_reader("no result", true), None);
    }

    #[test]
    fn the_bytes_of_a_page_have_no_stored_result() {
        for (content, expected) in [("a\n<!-- svc:auto -->\nold\n<!-- /svc-view -->\nb", "a\nb"), ("plain", "plain")] {
            assert_eq!(
                bytes_for_reader(&Bytes::from_static(content.as_bytes())),
                Bytes::from_static(expected.as_bytes())
            );
        }
        let binary = Bytes::from_static(b"\xff\n<!-- svc:auto -->\n");
        assert_eq!(bytes_for_reader(&binary), binary);
    }
}
