//! Tests of the frontmatter of pages.

mod blocks;
mod broken;
mod toml;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn map(text: &str) -> Value {
    Value::Object(parse(text).map)
}

#[test]
fn a_block_begins_only_on_the_very_first_line() {
    for page in ["", "---", "----\na: 1\n---\n", "\n---\na: 1\n---\n", " ---\na: 1\n---\n", "--- \na: 1\n---\n"] {
        let split = split(page);
        assert_eq!((split.yaml, split.body, split.first_body_line), (None, page, 1), "{page:?}");
        assert!(parse(page).map.is_empty(), "{page:?}");
    }
}

#[test]
fn a_block_ends_at_the_next_line_of_three_dashes() {
    let cut = split("---\ntitle: A\n--- \n ---\n----\n---\nbody\n---\n");
    assert_eq!(cut.block, FrontmatterBlock::Present);
    assert_eq!(cut.yaml, Some("title: A\n--- \n ---\n----\n"));
    assert_eq!((cut.body, cut.first_body_line), ("body\n---\n", 7));
}

#[test]
fn positions_of_the_body_count_in_the_page() {
    for page in ["---\na: 1\n---\nbody", "---\r\na: 1\r\n---\r\nbody", "---\n---\nbody", "---\na: 1\n---"] {
        let cut = split(page);
        assert_eq!(&page[cut.body_offset..], cut.body);
        assert_eq!(page[..cut.body_offset].lines().count() + 1, cut.first_body_line, "{page:?}");
        assert_eq!(&page[cut.content_offset..cut.content_offset + cut.yaml.unwrap().len()], cut.yaml.unwrap());
    }
}

#[test]
fn an_unterminated_block_is_body_text_but_marked_for_editors() {
    let page = "---\ntitle: A\n\ntext\n";
    assert_eq!(split(page).block, FrontmatterBlock::Unterminated);
    assert_eq!(split(page).body, page);
    assert_eq!(map(page), json!({}));
    assert_eq!(parse(page).error, Some(ParseError::Unterminated));
    let refused = set(page, "published", &json!(true));
    let source = ParseError::Unterminated;
    assert_eq!(refused, Err(FrontmatterError::Invalid { key: "published".into(), source }));
}

#[test]
fn values_are_what_yaml_1_2_says_and_dates_stay_text() {
    let page = "---\nflag: true\nword: no\ndate: 2026-01-31\nat: 2026-01-31T09:30:00Z\nn: 3\nf: 0.5\nnone: ~\nlist: [a, 1]\n\
                deep: {k: v}\ninf: .inf\n---\n";
    assert_eq!(
        map(page),
        json!({
            "flag": true, "word": "no", "date": "2026-01-31", "at": "2026-01-31T09:30:00Z", "n": 3, "f": 0.5, "none": null,
            "list": ["a", 1], "deep": {"k": "v"}, "inf": ".inf"
        })
    );
}

#[test]
fn keys_keep_the_order_of_the_author() {
    let keys: Vec<_> = parse("---\nzebra: 1\napple: 2\nmango: 3\n---\n").map.keys().cloned().collect();
    assert_eq!(keys, ["zebra", "apple", "mango"]);
}

#[test]
fn malformed_yaml_reads_as_empty_and_says_where() {
    let page = "---\ntitle: ok\nbad: [1, 2\n---\nbody\n";
    let read = parse(page);
    assert!(read.map.is_empty());
    match read.error {
        Some(ParseError::Malformed { line, ref message, .. }) => {
            assert_eq!(line, 3);
            assert!(!message.contains(" at line "), "{message}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(parse("---\nword:text\n---\n").error, Some(ParseError::NotAMapping { actual: "text" }));
    assert_eq!(parse("---\n# only a comment\n\n---\n").error, None);
}

#[test]
fn a_block_over_64_kib_reads_as_empty_and_the_body_is_unchanged() {
    let page = format!("---\ntitle: {}\n---\nbody\n", "x".repeat(MAX_FRONTMATTER_BYTES));
    assert_eq!(split(&page).block, FrontmatterBlock::Oversized);
    assert_eq!(split(&page).body, "body\n");
    assert!(parse(&page).map.is_empty());
    assert!(matches!(set(&page, "a", &json!(1)), Err(FrontmatterError::Invalid { .. })));
    let at_limit = format!("---\nt: {}\n---\n", "x".repeat(MAX_FRONTMATTER_BYTES - 4));
    assert_eq!(split(&at_limit).block, FrontmatterBlock::Present);
    assert!(matches!(set(&at_limit, "a", &json!(1)), Err(FrontmatterError::TooLong { .. })));
}

#[test]
fn an_alias_bomb_is_an_error_and_not_a_wait() {
    let mut yaml = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        yaml.push_str(&format!("a{level}: &a{level} [{}]\n", vec![alias; 9].join(", ")));
    }
    assert!(matches!(parse(&format!("---\n{yaml}---\n")).error, Some(ParseError::Malformed { .. })));
}

#[test]
fn setting_a_key_leaves_every_other_byte_alone() {
    let page = "---\n# who and what\ntitle:   'Spaced'   # keep me\ntags: [ a,  b ]\nstatus: draft\n\nquoted: \"x\\ty\"\nanchor: &base {k: v}\n\
                again: *base\n---\n\n# Body  \r\n\ttabs\n";
    let expected = page.replace("status: draft", "status: published");
    assert_eq!(set(page, "status", &json!("published")).unwrap(), expected);
    let added = set(page, "published", &json!(true)).unwrap();
    assert_eq!(added, page.replace("again: *base\n", "again: *base\npublished: true\n"));
}

#[test]
fn a_page_without_a_block_gets_one() {
    assert_eq!(set("# Hi\n", "published", &json!(true)).unwrap(), "---\npublished: true\n---\n# Hi\n");
    assert_eq!(set("", "a", &json!(1)).unwrap(), "---\na: 1\n---\n");
    assert_eq!(set("one\r\ntwo\r\n", "a", &json!(1)).unwrap(), "---\r\na: 1\r\n---\r\none\r\ntwo\r\n");
    assert_eq!(set("---\n---\nx", "a", &json!(1)).unwrap(), "---\na: 1\n---\nx");
    assert_eq!(set("---\n\n---\nx", "a", &json!(1)).unwrap(), "---\n\na: 1\n---\nx");
    let rules = "---\n# a heading\n---\nx";
    assert_eq!(set(rules, "a", &json!(1)).unwrap(), format!("---\na: 1\n---\n{rules}"));
}

#[test]
fn line_endings_of_the_block_stay_crlf() {
    let page = "---\r\ntitle: A\r\nstate: x\r\n---\r\nbody\r\n";
    assert_eq!(set(page, "state", &json!("done")).unwrap(), page.replace("state: x", "state: done"));
    assert_eq!(set(page, "new", &json!(["p", "q"])).unwrap().matches('\n').count(), 8);
    assert!(!set(page, "new", &json!(["p", "q"])).unwrap().replace("\r\n", "").contains('\n'));
    let only_one = "---\r\nstate: x\r\n---\r\nbody\r\n";
    assert_eq!(set(only_one, "state", &json!("done")).unwrap(), only_one.replace("state: x", "state: done"));
}

#[test]
fn values_of_every_shape_read_back() {
    let page = "---\ntitle: A\n---\nbody\n";
    let values = [
        json!(null),
        json!(true),
        json!("true"),
        json!("no"),
        json!("null"),
        json!("~"),
        json!(""),
        json!(" "),
        json!("1"),
        json!("0777"),
        json!(0.25),
        json!(-3),
        json!("2026-01-31"),
        json!("a: b"),
        json!("# c"),
        json!("- x"),
        json!("a\nb\n"),
        json!("---"),
        json!("x\n---\ny"),
        json!("tab\tin"),
        json!("quote \" and ' both"),
        json!("[x]"),
        json!("{x}"),
        json!("*x"),
        json!("&x"),
        json!("!x"),
        json!("%x"),
        json!("@x"),
        json!("ünïcödé 漢字"),
        json!("\u{0}"),
        json!("\u{7f}\u{85}\u{2028}"),
        json!([]),
        json!({}),
        json!(["a", ["b", {"c": null}]]),
        json!({"k": {"z": [1, 2], "a": "x"}}),
        json!([{"id": 1}, {"id": 2}]),
    ];
    for value in values {
        let once = set(page, "key", &value).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(parse(&once).map["key"], value);
        assert_eq!(split(&once).body, "body\n");
        let twice = set(&once, "key", &json!("other")).unwrap_or_else(|error| panic!("{value}: {error}\n{once}"));
        assert_eq!(map(&twice), json!({"title": "A", "key": "other"}));
        assert_eq!(map(&remove(&once, "key").unwrap()), json!({"title": "A"}), "{once}");
    }
}

#[test]
fn keys_of_every_shape_can_be_set() {
    for key in ["a b", "a:b", "#k", "true", "1", "", "k\"q", "ключ", "- x", "a.b[0]", "?", "<<x"] {
        let page = set("---\ntitle: A\n---\n", key, &json!(1)).unwrap_or_else(|error| panic!("{key:?}: {error}"));
        assert_eq!(parse(&page).map.get(key), Some(&json!(1)), "{page}");
    }
}

#[test]
fn invalid_yaml_is_refused_and_named() {
    let page = "---\nbad: [1\n---\nbody\n";
    let error = set(page, "published", &json!(true)).unwrap_err();
    assert!(
        error.to_string().starts_with("frontmatter is invalid, correct it before changing `published`: "),
        "{error}"
    );
    assert!(remove(page, "bad").is_err());
}

#[test]
fn removing_a_key_leaves_the_others_and_the_comments() {
    let page = "---\n# top\na: 1\nb: 2 # two\nc: 3\n---\nx\n";
    let without = remove(page, "a").unwrap();
    assert_eq!(map(&without), json!({"b": 2, "c": 3}));
    assert!(without.contains("b: 2 # two\nc: 3\n---\nx\n"), "{without}");
    assert_eq!(remove(page, "absent").unwrap(), page);
    assert_eq!(remove("no block\n", "absent").unwrap(), "no block\n");
    assert_eq!(map(&remove("---\na: 1\n---\nx\n", "a").unwrap()), json!({}));
    assert_eq!(split(&remove("---\na: 1\n---\nx\n", "a").unwrap()).body, "x\n");
}

const RUN: DerivedFrom<'static> = DerivedFrom { kind: "run", id: "249", date: "2026-01-31T09:30:00Z", actor: "ada" };

fn entry() -> Value {
    json!({"type": "run", "id": "249", "date": "2026-01-31T09:30:00Z", "actor": "ada"})
}

#[test]
fn provenance_is_appended_and_the_rest_stays() {
    assert_eq!(
        append_provenance("# Hi\n", &RUN).unwrap(),
        "---\nderived-from:\n- type: run\n  id: \"249\"\n  date: \"2026-01-31T09:30:00Z\"\n  actor: ada\n---\n# Hi\n"
    );
    let page = "---\ntitle: A # c\nderived-from:\n  - type: doc\n    id: x # why\nzz: 1\n---\nbody\n";
    let appended = append_provenance(page, &RUN).unwrap();
    assert_eq!(parse(&appended).map["derived-from"], json!([{"type": "doc", "id": "x"}, entry()]));
    for line in page.lines() {
        assert!(appended.lines().any(|kept| kept == line), "lost {line:?} in\n{appended}");
    }
    let thrice = append_provenance(&append_provenance(&appended, &RUN).unwrap(), &RUN).unwrap();
    assert_eq!(parse(&thrice).map["derived-from"].as_array().unwrap().len(), 4);
}

#[test]
fn provenance_turns_a_single_value_into_a_list() {
    for (before, first) in [("a.md", json!("a.md")), ("{type: run, id: 1}", json!({"type": "run", "id": 1}))] {
        let page = format!("---\nderived-from: {before}\nz: 1\n---\n");
        assert_eq!(map(&append_provenance(&page, &RUN).unwrap()), json!({"derived-from": [first, entry()], "z": 1}));
    }
    for before in ["", "~", "[]", "[ ]"] {
        let page = format!("---\nderived-from: {before}\nz: 1\n---\n");
        assert_eq!(
            map(&append_provenance(&page, &RUN).unwrap()),
            json!({"derived-from": [entry()], "z": 1}),
            "{before}"
        );
    }
    let flow = "---\nderived-from: [a, b]\n---\n";
    assert_eq!(map(&append_provenance(flow, &RUN).unwrap()), json!({"derived-from": ["a", "b", entry()]}));
    assert!(append_provenance("---\nx: [\n---\n", &RUN).is_err());
    assert!(append_provenance("---\nx: 1\n", &RUN).is_err());
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "[a-z:#'\"\\-\\[\\]{}|>&*!%@, \n]{0,12}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-z]{1,4}", inner), 0..4)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn setting_changes_one_key_and_no_byte_of_the_body(
        pairs in prop::collection::vec(("[a-z]{1,6}", value()), 0..5),
        key in "[a-z]{1,6}",
        new in value(),
        body in "(\\PC|\n|\r\n){0,40}",
    ) {
        let mut page = body.clone();
        if split(&page).block != FrontmatterBlock::Absent {
            return Ok(());
        }
        let mut wanted = serde_json::Map::new();
        for (name, value) in pairs.into_iter().chain([(key, new)]) {
            // a value that cannot be set safely is refused; whatever is accepted must be exact
            let Ok(next) = set(&page, &name, &value) else { continue };
            wanted.insert(name, value);
            page = next;
            prop_assert_eq!(Value::Object(parse(&page).map), Value::Object(wanted.clone()), "{}", page);
            prop_assert_eq!(split(&page).body, &body);
        }
        let mut names: Vec<_> = wanted.keys().cloned().collect();
        while let Some(name) = names.pop() {
            let Ok(next) = remove(&page, &name) else { continue };
            wanted.shift_remove(&name);
            page = next;
            prop_assert_eq!(Value::Object(parse(&page).map), Value::Object(wanted.clone()), "{}", page);
            prop_assert_eq!(split(&page).body, &body);
        }
    }

    #[test]
    fn editing_arbitrary_text_never_panics_and_keeps_the_body(page in "(---\n)?(\\PC|\n|\r){0,60}(\n---\n)?\\PC{0,10}") {
        let before = split(&page);
        if let Ok(after) = set(&page, "k", &json!("v")) {
            prop_assert_eq!(split(&after).body, before.body);
            prop_assert_eq!(parse(&after).text("k"), Some("v".to_owned()));
        }
        for after in [remove(&page, "a"), append_provenance(&page, &RUN)].into_iter().flatten() {
            prop_assert_eq!(split(&after).body, before.body);
        }
    }
}
