//! TOML frontmatter.

use serde_json::json;

use super::super::*;
use super::RUN;

const PAGE: &str = "+++\n# site\ntitle = \"A\" # name\ndate = 2026-01-31\ndraft = true\ntags = [\"a\", \"b\"]\nweight = 3\n\n\
                    [params]\n  price = 1.50\n  at = 2026-01-31T09:30:00Z\n+++\n# Body\n";

#[test]
fn values_are_read_and_dates_are_text() {
    assert_eq!(
        Value::Object(parse(PAGE).map),
        json!({"title": "A", "date": "2026-01-31", "draft": true, "tags": ["a", "b"], "weight": 3,
               "params": {"price": 1.5, "at": "2026-01-31T09:30:00Z"}})
    );
    let page = crate::Page::parse("p.md", PAGE);
    assert_eq!((page.title.as_str(), page.tags, page.body), ("A", vec!["a".to_owned(), "b".to_owned()], "# Body\n"));
}

#[test]
fn edits_write_toml_and_leave_every_other_byte() {
    assert_eq!(set(PAGE, "title", &json!("B")).unwrap(), PAGE.replace("\"A\"", "\"B\""));
    assert_eq!(set(PAGE, "draft", &json!(true)).unwrap(), PAGE);
    assert_eq!(
        set(PAGE, "new", &json!([1, "x"])).unwrap(),
        PAGE.replace("weight = 3\n", "weight = 3\nnew = [1, \"x\"]\n")
    );
    assert_eq!(remove(PAGE, "weight").unwrap(), PAGE.replace("weight = 3\n", ""));
    assert_eq!(remove(PAGE, "absent").unwrap(), PAGE);
    assert_eq!(replace_value(PAGE, "tags", ("b", "c")).unwrap(), PAGE.replace("\"b\"", "\"c\""));
    let run = append_provenance(PAGE, &RUN).unwrap();
    assert!(run.contains("derived-from = [{ type = \"run\", id = \"249\""), "{run}");
    assert_eq!(parse(&append_provenance(&run, &RUN).unwrap()).map["derived-from"].as_array().unwrap().len(), 2);
    let crlf = PAGE.replace('\n', "\r\n");
    assert_eq!(set(&crlf, "weight", &json!(4)).unwrap(), crlf.replace("weight = 3", "weight = 4"));
    assert_eq!(set("+++\n+++\nx", "a", &json!({"b": 1})).unwrap(), "+++\na = { b = 1 }\n+++\nx");
    let tables = "+++\n[[derived-from]]\ntype = \"doc\"\n+++\n";
    let appended = append_provenance(tables, &RUN).unwrap();
    assert_eq!(parse(&appended).map["derived-from"].as_array().unwrap().len(), 2, "{appended}");
}

#[test]
fn what_toml_cannot_have_is_refused() {
    let error = set(PAGE, "x", &json!({"a": [null]})).unwrap_err();
    assert_eq!(error, FrontmatterError::NullInToml { key: "x".into() });
    let error = set("+++\na = 1\nb = x\n+++\n", "a", &json!(2)).unwrap_err().to_string();
    assert!(error.starts_with("frontmatter is invalid, correct it before changing `a`: "), "{error}");
    assert!(error.ends_with(" at line 3, column 5"), "{error}");
    assert_eq!(parse("+++\na = 1\na = 2\n+++\n").error.unwrap().position().0, 3);
    assert_eq!(split("+++\na = 1\n\ntext\n").block, FrontmatterBlock::Unterminated);
    for text in ["+++\nwords\n+++\n", "+++\n# heading\n+++\n", "+++\na = 1\n---\n", "+++\n[a](b) = c\n+++\n"] {
        assert!(parse(text).map.is_empty() && split(text).content().is_none(), "{text:?}");
    }
}

#[test]
fn numbers_beyond_json_are_text() {
    let page = "+++\nbig = 9007199254740993\nf = inf\nhex = 0x1F\n+++\n";
    assert_eq!(Value::Object(parse(page).map), json!({"big": "9007199254740993", "f": "inf", "hex": 31}));
}
