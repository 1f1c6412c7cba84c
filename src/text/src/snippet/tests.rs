use super::*;

#[test]
fn the_first_matching_line_is_shown_with_each_term_marked_once() {
    let text = "---\ntitle: fuse\n---\n# Intro\n\n  A Fuse mount, a fuse door and a mount.  \nfuse again\n";
    assert_eq!(snippet(text, &["mount", "FUSE"]), "A <mark>Fuse</mark> <mark>mount</mark>, a fuse door and a mount.");
    assert_eq!(snippet(text, &["title"]), "<mark>title</mark>: fuse");
}

#[test]
fn without_a_hit_the_first_words_are_shown() {
    assert_eq!(snippet("---\n---\n\n***\n\n# Intro\n", &["nothing"]), "# Intro");
    assert_eq!(snippet("# Intro\n", &["", " "]), "# Intro");
    assert_eq!(snippet("", &["x"]), "");
}

#[test]
fn long_lines_are_cut_around_the_hit_at_character_boundaries() {
    let line = format!("{} needle {}", "ü".repeat(300), "漢".repeat(300));
    let shown = snippet(&line, &["needle"]);
    assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("<mark>needle</mark>"), "{shown}");
    assert!(shown.len() <= MAX_SNIPPET_BYTES + "……<mark></mark>".len());
    assert_eq!(snippet(&"a".repeat(200), &[]), format!("{}…", "a".repeat(160)));
}

#[test]
fn markup_of_the_page_is_escaped() {
    assert_eq!(
        snippet("<script>alert(1)</script> & x", &["alert"]),
        "&lt;script&gt;<mark>alert</mark>(1)&lt;/script&gt; &amp; x"
    );
}

#[test]
fn letters_that_change_length_by_case_are_matched_completely() {
    assert_eq!(snippet("İstanbul", &["i\u{307}stanbul"]), "<mark>İstanbul</mark>");
    assert_eq!(snippet("x ÄÖ", &["äö"]), "x <mark>ÄÖ</mark>");
    assert_eq!(snippet("overlapping", &["over", "overlap"]), "<mark>overlap</mark>ping");
}
