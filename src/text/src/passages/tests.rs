use super::{Passage, PassageKind, passages};

fn texts(text: &str) -> Vec<String> {
    passages("a.md", text, 600).passages.into_iter().map(|passage| passage.text).collect()
}

#[test]
fn markup_and_addresses_are_no_text() {
    for (page, expected) in [
        ("", vec![]),
        ("One *two* `three`\nfour.", vec!["One two three four."]),
        ("# A\n\nb\n\n## C\nd", vec!["b", "d"]),
        ("---\ntitle: x\n---\nb", vec!["b"]),
        ("- one\n- two\n  - three\n\n  more of two\n", vec!["one", "two", "three", "more of two"]),
        ("- [ ] open\n- [x] done", vec!["open", "done"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", vec!["a, b", "1, 2"]),
        ("> quoted\n> text\n", vec!["quoted text"]),
        ("```sh\nls -l\npwd\n```", vec!["ls -l pwd"]),
        ("```dataview\nTABLE x\n```\nafter", vec!["after"]),
        ("```mermaid\ngraph TD\n```\n\nafter", vec!["after"]),
        ("<div>\nraw\n</div>\n\nafter <b>bold</b>", vec!["after bold"]),
        ("see [[a/b|the page]] and [c](d.md)", vec!["see the page and c"]),
        ("<https://x.org> ok", vec!["ok"]),
        ("***\n\n---\n", vec![]),
        ("one\r\ntwo\r\n\r\nthree\r\n", vec!["one two", "three"]),
    ] {
        assert_eq!(texts(page), expected, "{page:?}");
    }
}

#[test]
fn passages_that_are_links_only_are_marked() {
    for (page, is_link_only) in [
        ("[[a]] [[b|c]]", true),
        ("[a](b.md), [c](d.md)", true),
        ("- [[a]]", true),
        ("https://x.org/y", true),
        ("![alt](b.png)", true),
        ("see [[a]]", false),
        ("plain", false),
        ("[x] done", false),
    ] {
        let page = passages("a.md", page, 600);
        assert_eq!(page.passages[0].is_link_only, is_link_only, "{page:?}");
    }
}

#[test]
fn ranges_and_lines_are_those_of_the_page() {
    let text = "---\na: 1\n---\n# One\n\nfirst\nlines\n\n- x\n- y\n\n## Two\n\n| a |\n|---|\n| b |\n";
    let page = passages("dir/a.md", text, 600);
    let parts: Vec<_> =
        page.passages.iter().map(|part| (&text[part.range.clone()], part.lines, part.heading)).collect();
    assert_eq!(
        parts,
        [
            ("first\nlines", (6, 7), Some(0)),
            ("- x", (9, 9), Some(0)),
            ("- y", (10, 10), Some(0)),
            ("| a", (14, 14), Some(1)),
            ("| b", (16, 16), Some(1)),
        ]
    );
    assert_eq!(page.title, "One");
    assert_eq!(passages("dir/My page.md", "x", 600).title, "My page");
}

#[test]
fn long_passages_are_split_at_sentences() {
    let text = "A sentence of some words. ".repeat(100);
    let page = passages("a.md", &text, 200);
    assert!(page.passages.iter().all(|part| part.text.len() <= 200 && part.text.ends_with('.')), "{page:?}");
    for (character, count) in [("x", 10_000), ("漢", 4_000), ("漢字。", 2_000), ("🙂a", 3_000), ("a\n", 5_000)] {
        let page = passages("a.md", &character.repeat(count), 200);
        assert!(page.passages.len() > 10, "{character}");
        let mut end = 0;
        for Passage { range, text, .. } in &page.passages {
            assert!(text.len() <= 200 && range.start >= end && range.end >= range.start, "{range:?}");
            end = range.end;
        }
    }
}

#[test]
fn hostile_pages_are_read_in_linear_time() {
    let row = "| cell | [[link]] | text |\n";
    let pages = [
        format!("| a | b | c |\n|---|---|---|\n{}", row.repeat(5_000)),
        "[[".repeat(200_000),
        "[[a]] ".repeat(100_000),
        "- ".repeat(50_000),
        "> ".repeat(20_000),
        "\0".repeat(100_000),
        "a\0b ".repeat(100_000),
        "![".repeat(50_000),
        "# \n".repeat(50_000),
        "```\n".repeat(50_001),
    ];
    for page in &pages {
        let parts = passages("a.md", page, 600).passages;
        assert!(parts.iter().all(|part| part.range.end <= page.len() && part.kind != PassageKind::ListItem || !part.text.is_empty()));
    }
}
