//! What is frontmatter and what is text of the page.

use serde_json::json;

use super::super::*;

#[test]
fn rules_at_the_top_of_a_page_are_text() {
    for content in [
        "A sentence.\n",
        "\nA sentence after a blank line.\n\n",
        "# A heading\n",
        "\n# A heading\n\n",
        "## One\n## Two\n",
        "- a list\n- of items\n",
        "* a list: with a colon\n",
        "+ a: b\n",
        "1. first: one\n2. second\n",
        "1) first: one\n",
        "> a quote: with a colon\n",
        "| a | b: c |\n",
        "**Note:** read this: now\n",
        "*Note*: read this\n",
        "<div style=\"a: b\">\n",
        "<!-- note: x -->\n",
        "[a link](http://a.b): there\n",
        "[label]: https://a.b\n",
        "![image: x](a.png)\n",
        "`code`: it\n",
        "```yaml\na: b\n```\n",
        "https://example.com/a\n",
        "at 12:30 we met\n",
        "{{ template }}\n",
        "{% include a: b %}\n",
        "{: .class }\n",
        "\"Quoted,\" she said.\n",
        "漢字の文。\n",
        "- a: b\n",
        "***\n",
    ] {
        for newline in ["\n", "\r\n"] {
            let page = format!("---\n{content}---\n\nbody\n").replace('\n', newline);
            let cut = split(&page);
            assert_eq!((cut.block, cut.body), (FrontmatterBlock::Absent, page.as_str()), "{page:?}");
            assert_eq!(parse(&page).error, None);
            let edited = set(&page, "k", &json!(1)).unwrap();
            assert!(edited.ends_with(&page), "{edited:?}");
        }
    }
    for page in
        ["---\n\nProse: without an end.\n", "---\n# Heading\n", "---\nA sentence.\n", "---", "---\n", "+++\n\na = 1\n"]
    {
        assert_eq!(split(page).block, FrontmatterBlock::Absent, "{page:?}");
    }
}

#[test]
fn lines_of_keys_are_frontmatter() {
    for content in [
        "",
        "\n\n",
        "title: A\n",
        "title:\n",
        "\ntitle: A\n",
        "# comment\ntitle: A\n",
        "\"a key\": 1\n",
        "'a' : 1\n",
        "\"a\\\"b\": 1\n",
        "'it''s': 1\n",
        "due date: x\n",
        "日付: x\n",
        "- : x\n".trim_start_matches("- "),
        "?\n",
        "{a: 1}\n",
        "&x a: 1\n",
        "-a: 1\n",
        "1: a\n",
        "a.b: 1\n",
        "[",
    ] {
        let expected = if content == "[" || content.starts_with(':') {
            FrontmatterBlock::Absent
        } else {
            FrontmatterBlock::Present
        };
        assert_eq!(split(&format!("---\n{content}\n---\nbody\n")).block, expected, "{content:?}");
    }
}

#[test]
fn a_byte_order_mark_is_ignored_and_retained() {
    let page = "\u{feff}---\na: 1\n---\n# H\n";
    let cut = split(page);
    assert_eq!((cut.yaml, cut.body, cut.first_body_line), (Some("a: 1\n"), "# H\n", 4));
    assert_eq!(set(page, "b", &json!(2)).unwrap(), "\u{feff}---\na: 1\nb: 2\n---\n# H\n");
    assert_eq!(remove(page, "a").unwrap().chars().next(), Some('\u{feff}'));
    let plain = "\u{feff}# H\r\ntext\r\n";
    assert_eq!(split(plain).body, "# H\r\ntext\r\n");
    assert_eq!(set(plain, "b", &json!(2)).unwrap(), "\u{feff}---\r\nb: 2\r\n---\r\n# H\r\ntext\r\n");
    assert_eq!(crate::headings::headings(plain)[0].text, "H");
    assert_eq!(split("\u{feff}").body, "");
    let toml = "\u{feff}+++\na = 1\n+++\nx\n";
    assert_eq!(set(toml, "a", &json!(2)).unwrap(), toml.replace('1', "2"));
}

#[test]
fn scalars_are_shown_as_they_were_written_after_an_edit() {
    let page = "---\nid: 007\nprice: 1.50\nhex: 0x1F\noct: 0o17\nexp: 1e5\nbig: 12345678901234567890\ntel: +4915112345\n\
                zip: 01234\nlist: [007, 1.50, 08]\nnested:\n  code: 0042\n---\n";
    let before = parse(page).map;
    assert_eq!(
        Value::Object(before.clone()),
        json!({"id": "007", "price": 1.5, "hex": "0x1F", "oct": "0o17", "exp": "1e5", "big": "12345678901234567890",
               "tel": "+4915112345", "zip": "01234", "list": ["007", 1.5, "08"], "nested": {"code": "0042"}})
    );
    let edited = set(page, "other", &json!("007")).unwrap();
    assert!(edited.starts_with(page.trim_end_matches("---\n")), "{edited}");
    assert_eq!(parse(&edited).map["other"], json!("007"));
    assert!(edited.contains("\"007\"") || edited.contains("'007'"), "other readers need the quotes: {edited}");
    let large = set(page, "big", &json!(18446744073709551615_u64)).unwrap();
    assert_eq!(parse(&large).map["big"], json!("18446744073709551615"));
}

#[test]
fn anchors_aliases_and_merge_keys_are_read() {
    let page = "---\nbase: &b {x: 1, y: 2}\nlist: &l [a, *b]\nnew:\n  <<: *b\n  y: 3\ntwo: {<<: [*b, {z: 9}], q: 0}\ncopy: *l\n\
                text: !!str 12\nbare: ! 7\nquoted: \"<<\"\n---\n";
    let base = json!({"x": 1, "y": 2});
    assert_eq!(
        Value::Object(parse(page).map),
        json!({"base": base, "list": ["a", base], "new": {"y": 3, "x": 1}, "two": {"q": 0, "x": 1, "y": 2, "z": 9},
               "copy": ["a", base], "text": "12", "bare": "7", "quoted": "<<"})
    );
}
