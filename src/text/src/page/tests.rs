use serde_json::json;

use super::*;

#[test]
fn a_title_comes_from_frontmatter_then_heading_then_file_name() {
    assert_eq!(Page::parse("a/b.md", "---\ntitle: ' T '\n---\n# H\n").title, "T");
    assert_eq!(Page::parse("a/b.md", "---\ntitle: 2026\n---\n# H\n").title, "2026");
    assert_eq!(Page::parse("a/b.md", "---\ntitle:\n---\ntext\n\n# *H* 2\n").title, "H 2");
    assert_eq!(Page::parse("a/b c.MD", "text\n").title, "b c");
    assert_eq!(Page::parse("notes.txt", "").title, "notes.txt");
}

#[test]
fn one_reading_gives_all_the_index_needs() {
    let text = "---\ntitle: T\ntags: [a, '#b', a]\ntopics: c, d e\nlabels: f g\naliases: One\nalias: [Two, One]\n---\n\n# H\n\nFirst [[x|shown]] and\n\
                *more* `code`.\n\nSecond.\n";
    let page = Page::parse("p.md", text);
    assert_eq!(page.tags, ["a", "b", "c", "d e", "f", "g"]);
    assert_eq!(page.aliases, ["One", "Two"]);
    assert_eq!(page.excerpt, "First shown and more code.");
    assert_eq!(page.word_count, 7);
    assert_eq!(page.headings.len(), 1);
    assert_eq!((page.links[0].target.as_str(), page.links[0].line), ("x", 12));
    assert_eq!(page.frontmatter["labels"], json!("f g"));
    assert!(page.body.starts_with("\n# H\n"));
    assert_eq!(page.frontmatter_error, None);
}

#[test]
fn unreadable_frontmatter_still_leaves_a_page() {
    let page = Page::parse("p.md", "---\ntitle: [\n---\n# H\n\nText.\n");
    assert!(page.frontmatter.is_empty() && page.frontmatter_error.is_some());
    assert_eq!((page.title.as_str(), page.excerpt.as_str()), ("H", "Text."));
}

#[test]
fn the_excerpt_is_the_first_paragraph_with_words() {
    assert_eq!(Page::parse("p.md", "![badge](b.svg)\n\n> Quoted *first*\n\nlater\n").excerpt, "Quoted first");
    assert_eq!(Page::parse("p.md", "![[v.mp4]] and ![[b|label]], [[c]]! No!\n").excerpt, "v.mp4 and label, c! No!");
    assert_eq!(Page::parse("p.md", "# Only\n\n- a list\n").excerpt, "");
    assert_eq!(Page::parse("p.md", "<div>\n\n</div>\n\ntext <b>bold</b>\n").excerpt, "text bold");
}

#[test]
fn a_long_excerpt_is_cut_at_300_characters() {
    let exact = "ü".repeat(300);
    assert_eq!(Page::parse("p.md", &exact).excerpt, exact);
    assert_eq!(Page::parse("p.md", &format!("{exact}x")).excerpt, format!("{exact}…"));
    assert_eq!(Page::parse("p.md", &"word ".repeat(10_000)).excerpt.chars().count(), 300);
}

#[test]
fn an_empty_page_is_a_page() {
    let page = Page::parse("x.md", "");
    assert_eq!((page.title.as_str(), page.word_count, page.excerpt.as_str(), page.body), ("x", 0, "", ""));
}

#[test]
fn only_a_level_1_heading_outside_quotes_is_a_title() {
    for (text, title) in [
        ("## Two\n", "p"),
        ("## Two\n\n# One\n", "One"),
        ("One\n===\n", "One"),
        ("Two\n---\n", "p"),
        ("> # Quoted\n", "p"),
        ("- # Item\n\n# One\n", "One"),
        ("[^1]: # Note\n", "p"),
        ("```\n# code\n```\n", "p"),
        ("#\n\n# One\n", "One"),
        ("\u{feff}# One\n", "One"),
        ("\u{feff}---\ntitle: T\n---\n# One\n", "T"),
        ("\u{feff}\n# One\n", "One"),
        ("+++\ntitle = \"T\"\n+++\n# One\n", "T"),
        ("---\ntitle: 1.10\n---\n", "1.10"),
        ("---\ntitle: 007\n---\n", "007"),
        ("---\ntitle: \"\"\n---\n# One\n", "One"),
        ("---\ntitle: [a]\n---\n# One\n", "One"),
        ("---\ntitle: [\n---\n# One\n", "One"),
        ("---\n\n# One\n\n---\n", "One"),
    ] {
        assert_eq!(Page::parse("p.md", text).title, title, "{text:?}");
    }
}

#[test]
fn tags_in_one_text_are_several() {
    for (value, tags) in [
        ("a, b", &["a", "b"][..]),
        ("a b", &["a", "b"]),
        ("'#a #b'", &["a", "b"]),
        ("'#a, #b'", &["a", "b"]),
        ("'#a,#b'", &["a", "b"]),
        ("a", &["a"]),
        ("[a, '#b', 7, 1.10]", &["a", "b", "7", "1.10"]),
        ("['#a #b', c d]", &["a", "b", "c d"]),
        ("['#a', '#a', '']", &["a"]),
        ("2026", &["2026"]),
        ("007", &["007"]),
        ("", &[]),
        ("{a: b}", &[]),
        ("', ,'", &[]),
    ] {
        assert_eq!(Page::parse("p.md", &format!("---\ntags: {value}\n---\n")).tags, tags, "{value}");
    }
}
