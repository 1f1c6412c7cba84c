use serde_json::json;

use super::*;
use crate::CATALOGUE;

fn inputs(operation: &str) -> OperationInputs {
    let mut entries = CATALOGUE.iter().flat_map(|area| area.operations);
    OperationInputs::from_entry(entries.find(|entry| entry.name == operation).unwrap())
}

/// What an operation reads from these texts, or why not.
fn read(operation: &str, texts: &[(&str, &str)]) -> Result<Value, String> {
    let (inputs, mut object) = (inputs(operation), Map::new());
    for (name, text) in texts {
        inputs.find_parameter(name).and_then(|field| field.parse_into(&mut object, text)).map_err(|fault| {
            assert_eq!(fault.kind(), Kind::Invalid);
            fault.message().to_owned()
        })?;
    }
    Ok(object.into())
}

#[test]
fn the_schema_says_what_a_text_is() {
    let texts = [("q", "5"), ("limit", "5"), ("suggest-threshold", "0.5"), ("pathPrefix", "notes")];
    let expected = json!({ "q": "5", "limit": 5, "suggest_threshold": 0.5, "path_prefix": "notes" });
    assert_eq!(read("search", &texts).unwrap(), expected);
    assert_eq!(read("rename", &[("update_links", "false")]).unwrap(), json!({ "update_links": false }));
    assert_eq!(read("write", &[("content", "")]).unwrap(), json!({ "content": "" }));
}

#[test]
fn a_list_is_written_with_commas_or_as_json_or_in_several_texts() {
    let files = json!([{ "path": "a.md", "content": "x, y" }]);
    assert_eq!(read("bulk_write", &[("files", &files.to_string())]).unwrap(), json!({ "files": files }));
    for (texts, links) in [
        (&[("links", "a, b,,c")][..], json!(["a", "b", "c"])),
        (&[("links", "[\"a, b\"]")], json!(["a, b"])),
        (&[("links", "a"), ("links", "[\"b, c\"]")], json!(["a", "b, c"])),
        (&[("links", "")], json!([])),
    ] {
        assert_eq!(read("resolve_links", texts).unwrap(), json!({ "links": links }), "{texts:?}");
    }
}

#[test]
fn an_input_is_recognised_by_its_alias_in_any_spelling() {
    for name in ["q", "query", "Query", "que-ry"] {
        assert_eq!(read("search", &[(name, "x")]).unwrap(), json!({ "q": "x" }), "{name}");
    }
    assert_eq!(read("search", &[("query", "x"), ("q", "y")]).unwrap_err(), "`q`: is given twice");
}

#[test]
fn what_cannot_be_read_is_named() {
    for (operation, name, text, why) in [
        ("search", "limit", "1.5", "`limit`: `1.5` is not an integer"),
        ("search", "limit", "", "`limit`: `` is not an integer"),
        ("search", "limit", "\u{1b}[31m", "`limit`: `\\u{1b}[31m` is not an integer"),
        ("search", "suggest_threshold", "NaN", "`suggest_threshold`: `NaN` is not a number"),
        ("rename", "update_links", "yes", "`update_links`: `yes` is not `true` or `false`"),
        ("bulk_write", "files", "[", "`files`: `[` is not a JSON list"),
        ("bulk_write", "files", "{", "`files`: `{` is not JSON"),
        ("search", "limits", "5", "unknown parameter `limits`; did you mean `limit`?"),
        ("toc", "", "5", "unknown parameter ``; valid parameters: `path`"),
        ("toc", "zzz\n", "5", "unknown parameter `zzz\\n`; valid parameters: `path`"),
    ] {
        assert_eq!(read(operation, &[(name, text)]).unwrap_err(), why);
    }
    assert_eq!(read("toc", &[("path", "a"), ("path", "b")]).unwrap_err(), "`path`: is given twice");
}

#[test]
fn a_required_input_is_missing_unless_present_under_an_alias() {
    let search = inputs("search");
    let missing = |members: Value| search.first_missing(members.as_object().unwrap()).map(|field| field.name.as_str());
    assert_eq!(missing(json!({ "limit": 5 })), Some("q"));
    assert_eq!(missing(json!({ "q": "x" })), None);
    assert_eq!(missing(json!({ "query": "x" })), None);
}
