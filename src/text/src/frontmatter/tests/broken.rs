//! Messages and positions of broken frontmatter.

use serde_json::json;

use super::super::*;

/// Broken blocks, the line of the error in the page, and a part of the message.
fn broken() -> Vec<(String, usize, &'static str)> {
    let blocks = [
        ("title: \"open\nb: 1\n", 2, "quotation mark is never closed"),
        ("title: 'open\nb: 1\n", 2, "quotation mark is never closed"),
        ("a: 1\n\tb: 2\n", 3, "tab"),
        ("a:\n\tb: 2\n", 3, "tab"),
        ("a: 1\nb: 2\na: 3\n", 4, "`a` is there twice"),
        ("a: 1\nb: *nothing\n", 3, "begins with `*`"),
        ("a: &\n", 2, "`*` or `&`"),
        ("a: [1, 2\n", 2, "`[`"),
        ("a: 1\nb: {c: 1\n", 3, "`{`"),
        ("a: [1, 2}\n", 2, "`[` is closed by `}`"),
        ("a: 1]\nb: [}\n", 3, "`[` is closed by `}`"),
        ("title: Part 1: The start\n", 2, "contains `: `"),
        ("a: b: c: d\n", 2, "contains `: `"),
        ("title: A\njust a line\nb: 1\n", 3, "no `key: value`"),
        ("a: @me\n", 2, "begins with `@`"),
        ("a: `code`\n", 2, "begins with ```"),
        ("a: %x\nb: %y\n", 2, "begins with `%`"),
        ("a: 'it's'\n", 2, "apostrophe"),
        ("a: \"x\" y\n", 2, "closing `\""),
        ("a: \"C:\\path\"\n", 2, "escape"),
        ("a: - b\n", 2, "list"),
        ("date: {{date}}\n", 2, "put quotes around text with `{{ }}`"),
        ("a: {[x]: 1}\n", 2, "a key must be text"),
        ("a: 1\n b: 2\n", 3, ""),
        ("a:\n  b: 1\n c: 2\n", 4, "indentation"),
        ("a: !<x y\n", 2, "tag"),
        ("a: | text\n", 2, "`|`"),
        ("a: x\n--- \nb: y\n", 3, "second"),
        ("a: 1\n...\nb: 2\n", 4, "second"),
        ("title:x\n", 2, "key: value"),
        ("a: x\u{0}y\n", 2, "U+0000"),
        ("a: 1\nb: \u{1b}[0m\n", 3, "U+001B"),
        ("a: 1\n<<: text\n", 3, "`<<`"),
        ("a: &x [*x]\n", 2, "alias"),
        ("a: \"one\n\ntwo\nb: 2\n", 2, "quotation mark"),
    ];
    let mut cases: Vec<_> = blocks.iter().map(|(block, line, part)| ((*block).to_owned(), *line, *part)).collect();
    cases.push((format!("a: 1\nb: {}\n", "[".repeat(5_000)), 3, "nested"));
    cases.push((format!("a: {}{}\n", "[".repeat(70), "]".repeat(70)), 2, "nested"));
    let deep: String = (0..100).map(|depth| " ".repeat(depth) + "a:\n").collect();
    cases.push((deep, 66, "nested"));
    let bomb = (1..9).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(",")));
    cases.push((["a0: &a0 x\n".to_owned(), bomb.collect()].concat(), 7, "repeat too much"));
    let nest = (1..90).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1));
    cases.push((["a0: &a0 [x]\n".to_owned(), nest.collect()].concat(), 65, "nested"));
    let long = format!("a: &a {}\n", "x".repeat(50_000));
    cases.push((
        [long, "b: [*a]\n".to_owned(), (0..40).map(|n| format!("c{n}: *a\n")).collect()].concat(),
        24,
        "repeat",
    ));
    cases
}

#[test]
fn errors_name_the_real_line_and_nothing_of_the_parser() {
    let mut failures = Vec::new();
    for (block, line, part) in broken() {
        for (mark, newline) in [("", "\n"), ("\u{feff}", "\n"), ("", "\r\n")] {
            let page = format!("{mark}---\n{block}---\nbody [[link]]\n").replace('\n', newline);
            if let Err(why) = check(&page, line, part) {
                failures.push(format!("{:?}: {why}", &block[..block.floor_char_boundary(60)]));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn check(page: &str, line: usize, part: &str) -> Result<(), String> {
    let error = parse(page).error.ok_or("no error")?;
    let text = error.to_string();
    if error.position().0 != line || !text.contains(part) {
        return Err(format!("not in line {line} with `{part}`: {text}"));
    }
    let internal = ["serde", "from_str", "saphyr", "granit", "Options", "udget", "scalar", "flow ", "EOF", "node"];
    if let Some(word) = internal.iter().find(|word| text.contains(**word)) {
        return Err(format!("mentions `{word}`: {text}"));
    }
    let read = crate::Page::parse("p.md", page);
    assert_eq!((read.links.len(), read.body.trim_end()), (1, "body [[link]]"), "{page}");
    let refused = set(page, "key", &json!(1)).unwrap_err().to_string();
    assert!(refused.contains("correct it before changing `key`"), "{refused}");
    let issues = crate::lint::lint(page);
    assert_eq!((issues[0].rule.name(), issues[0].line), ("frontmatter-yaml-invalid", line), "{page}");
    Ok(())
}

#[test]
fn a_block_that_is_not_closed_is_named() {
    for page in ["---\ntitle: A\ntext\n", "+++\ntitle = 1\ntext\n"] {
        let error = parse(page).error.unwrap();
        assert!(error.to_string().starts_with("frontmatter is not closed"), "{error}");
    }
}
