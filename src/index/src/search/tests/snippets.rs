//! What of a page is shown, and marked.

use super::*;

#[test]
fn a_snippet_shows_the_place_where_the_words_stand_together() {
    let filler = "lorem ipsum dolor sit amet ".repeat(40);
    let space = Space::of(&[("a.md", &format!("copper\n\n{filler}\n\nthe copper tide rises\n\n{filler} tide"))]);
    let snippet = &space.index.search(&SearchQuery::new("tide copper")).unwrap().hits[0].snippet;
    assert!(snippet.contains("the <mark>copper</mark> <mark>tide</mark> rises"), "{snippet}");
    assert!(snippet.starts_with('…') && snippet.ends_with('…'), "{snippet}");
    let space = Space::of(&[("a.md", "the public key, 日本語 and configured")]);
    let snippet = |q: &str| space.index.search(&SearchQuery::new(q)).unwrap().hits[0].snippet.clone();
    assert_eq!(snippet("\"public key\""), "the <mark>public key</mark>, 日本語 and configured");
    assert_eq!(snippet("日本語"), "the public key, <mark>日本語</mark> and configured");
    assert_eq!(snippet("conf*"), "the public key, 日本語 and <mark>configured</mark>");
}

#[test]
fn a_snippet_marks_a_hyphenated_word_completely() {
    let space = Space::of(&[("a.md", "call parse_token, read-only and parseToken in the état-major")]);
    let snippet = |q: &str| space.index.search(&SearchQuery::new(q)).unwrap().hits[0].snippet.clone();
    for (question, marked) in [
        ("parse_token", "call <mark>parse_token</mark>, read-only and <mark>parseToken</mark> in"),
        ("read-only", "<mark>read-only</mark>"),
        ("etat-major", "<mark>état-major</mark>"),
        ("parse", "call <mark>parse</mark>_token"),
    ] {
        assert!(snippet(question).contains(marked), "{question}: {}", snippet(question));
    }
}

#[test]
fn a_snippet_marks_matches_and_escapes_everything_else() {
    let space = Space::of(&[("a.md", "# T\n\nuse <script>alert(1)</script>\nand `a && b` for <mark>Servers</mark>\n")]);
    let hit = space.index.search(&SearchQuery::new("server")).unwrap().hits.remove(0);
    assert!(hit.snippet.ends_with("for &lt;mark&gt;<mark>Servers</mark>&lt;/mark&gt;"), "{}", hit.snippet);
    assert!(hit.snippet.contains("a &amp;&amp; b") && !hit.snippet.contains("<script"), "{}", hit.snippet);
    assert!(!hit.snippet.contains('\n'));
}

#[test]
fn one_character_of_a_script_without_spaces_is_marked_alone() {
    let space = Space::of(&[("a.md", "東京タワーは東京にある。")]);
    let snippet = |q: &str| space.index.search(&SearchQuery::new(q)).unwrap().hits.remove(0).snippet;
    assert_eq!(snippet("京"), "東<mark>京</mark>タワーは東<mark>京</mark>にある。");
    assert_eq!(snippet("東京"), "<mark>東京</mark>タワーは<mark>東京</mark>にある。");
}
