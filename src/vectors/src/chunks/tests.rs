use super::*;

const LONG: &str = "This paragraph has more than forty characters of text.";

fn texts(page: &str, rules: ChunkRules) -> Vec<String> {
    chunks("a.md", page, rules).into_iter().map(|chunk| chunk.text).collect()
}

#[test]
fn passages_become_chunks_with_a_title() {
    for (page, expected) in [
        (String::new(), vec!["a"]),
        (format!("# T\n\n{LONG}"), vec!["T", LONG]),
        ("Tide at noon.".to_owned(), vec!["a", "a: Tide at noon."]),
        (
            "# T\n\n## Spring tide\n\nAfter new moon.\n".to_owned(),
            vec!["T. Spring tide", "Spring tide: After new moon."],
        ),
        (format!("Short.\n\n{LONG}"), vec!["a", &*format!("Short. {LONG}").leak()]),
        (format!("{LONG}\n\nShort."), vec!["a", &*format!("{LONG} Short.").leak()]),
        (format!("{LONG}\n\n{LONG}"), vec!["a", LONG, LONG]),
        (
            "- one of the items of a list\n- another item of a list\n".to_owned(),
            vec!["a", "one of the items of a list; another item of a list"],
        ),
        (format!("[[x]]\n\n- [[y]]\n- [z](z.md)\n\n```\ncode\n```\n\n{LONG}"), vec!["a", LONG]),
    ] {
        assert_eq!(texts(&page, ChunkRules::Passages), expected, "{page:?}");
    }
}

#[test]
fn places_are_those_of_the_page() {
    let page = format!(
        "---\nx: 1\n---\n# T\n\n{LONG}\n\n## My part\n\n- first item of the list here\n- second item of the list\n"
    );
    let parts = chunks("a.md", &page, ChunkRules::Passages);
    let places: Vec<_> = parts.iter().map(|part| (part.heading.as_deref(), part.lines)).collect();
    assert_eq!(places, [(Some("t"), (4, 4)), (Some("t"), (6, 6)), (Some("my-part"), (10, 11))]);
    assert_eq!(&page[parts[2].range.clone()], "- first item of the list here\n- second item of the list");
}

#[test]
fn merged_chunks_are_limited_and_overlap() {
    let page: String = (0..300).map(|number| format!("Sentence {number} of a page.\n\n")).collect();
    for (size, overlap) in [(512, 64), (64, 16), (32, 0), (10, 10), (200, 500)] {
        let parts = chunks("a.md", &page, ChunkRules::Merged { size, overlap });
        for (part, next) in parts.iter().zip(&parts[1..]) {
            let is_single = part.text.lines().count() <= 2;
            assert!(estimate_tokens(&part.text) <= size + 5 || is_single, "{size} {part:?}");
            assert!(next.range.start > part.range.start && next.range.end > part.range.end, "{size} {overlap}");
            assert!(overlap > 0 || next.range.start >= part.range.end, "{size} {overlap}");
        }
        assert_eq!([512, 64, 200].contains(&size), parts[1].range.start < parts[0].range.end, "{size} {overlap}");
        assert!(parts.last().unwrap().text.contains("Sentence 299"), "{size} {overlap}");
        assert!(parts[0].text.starts_with("a\nSentence 0 "));
    }
}

#[test]
fn hostile_pages_have_few_and_short_chunks() {
    let big = "Some words of a sentence. ".repeat(400_000);
    let table = format!("| a | b |\n|---|---|\n{}", "| some cell | another cell |\n".repeat(5_000));
    let links = "- [[a link]]\n".repeat(10_000);
    let cjk = "海水每天两次上升和下降".repeat(20_000);
    let mixed = "a\0b\r\n\r\n".repeat(10_000);
    for page in [&big, &table, &links, &cjk, &mixed, &"\0".repeat(9_999), &"#\n".repeat(9_999)] {
        for rules in [ChunkRules::Passages, ChunkRules::Merged { size: 512, overlap: 64 }] {
            let parts = chunks("a.md", page, rules);
            assert!(parts.len() <= MAX_CHUNKS_PER_PAGE && !parts.is_empty());
            for part in &parts {
                assert!(part.text.len() <= 4_000 && part.range.end <= page.len(), "{}", part.text.len());
                assert!(page.is_char_boundary(part.range.start) && page.is_char_boundary(part.range.end));
            }
        }
    }
    assert_eq!(texts(&links, ChunkRules::Passages), ["a"]);
    assert!(chunks("a.md", &cjk, ChunkRules::Passages).len() > 500);
    assert!(chunks("a.md", &table, ChunkRules::Passages).len() > 100);
}
