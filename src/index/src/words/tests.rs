use proptest::prelude::*;

use super::*;

fn stream(text: &str) -> String {
    TextWords::of(text, &mut Dictionary::default()).terms().collect::<Vec<_>>().join(" ")
}

fn extras(text: &str) -> String {
    let words = TextWords::of(text, &mut Dictionary::default());
    words.extras.iter().map(|(word, place)| format!("{}@{place}", word.term)).collect::<Vec<_>>().join(" ")
}

#[test]
fn words_are_what_people_take_for_words() {
    for (text, words) in [
        ("Running servers, faster!", "run server faster"),
        ("Über Café naïve ΣΊΣΥΦΟΣ", "uber cafe naiv σισυφοσ"),
        ("Straße Łódź smørrebrød", "strass lodz smorrebrod"),
        ("ｆｕｌｌ ﬁne", "full fine"),
        ("日本語", "日本 本語 語"),
        ("한국어", "한국 국어 어"),
        ("Rust言語x", "rust 言語 語 x"),
        ("ship 🚀 it → €5", "ship 🚀 it → € 5"),
        ("👍🏽", "👍"),
        ("foo.bar(baz)", "foo bar baz"),
        ("हिन्दी", "हिन्दी"),
        ("", ""),
        ("--- ***", ""),
    ] {
        assert_eq!(stream(text), words, "{text}");
    }
}

#[test]
fn compound_names_are_also_found_by_their_parts_and_in_one_word() {
    for (text, others) in [
        ("parseHttpRequest", "pars@0 http@0 request@0"),
        ("HTTPServer", "http@0 server@0"),
        ("OAuth2", "auth@0 oauth@0"),
        ("sha256", "sha@0 256@0"),
        ("a snake_case name", "snakecas@1"),
        ("an e-mail", "email@1"),
        ("a - b", ""),
        ("plain words", ""),
    ] {
        assert_eq!(extras(text), others, "{text}");
    }
}

#[test]
fn a_word_without_end_is_known_by_its_beginning() {
    let long = "x".repeat(1 << 20);
    assert_eq!(stream(&long).len(), 64);
    assert_eq!(stream(&"é".repeat(1 << 10)).len(), 64);
}

#[test]
fn the_words_of_a_page_come_back_from_their_row() {
    let read = |text| TextWords::of(text, &mut Dictionary::default());
    let (title, body) = (read("A title"), read("some snake_case text"));
    let none = TextWords::default();
    let row = encode([&title, &none, &none, &body, &none]);
    let forward = ForwardIndex::decode(&row).unwrap();
    assert_eq!(forward.hashes(PageSection::Title), [term_hash("a"), term_hash("titl")]);
    assert_eq!(forward.len(PageSection::Body), 4);
    assert_eq!(places(&forward, PageSection::Body, &["snake", "case"]), ([1].into(), [].into()));
    assert_eq!(places(&forward, PageSection::Body, &["snakecas"]), ([].into(), [1].into()));
    assert_eq!(places(&forward, PageSection::Body, &["text", "snake"]), Default::default());
    assert_eq!(places(&forward, PageSection::Body, &["text", "absent"]), Default::default());
    for end in 0..row.len() {
        assert!(ForwardIndex::decode(&row[..end]).is_none(), "{end}");
    }
    assert!(ForwardIndex::decode(b"no").is_none() && ForwardIndex::decode(&[0xFF; 64]).is_none());
}

/// Where a section has a spelling, and where a place of it is also written so.
fn places(forward: &ForwardIndex<'_>, section: PageSection, spelling: &[&str]) -> (Vec<usize>, Vec<usize>) {
    let (mut known, mut found, mut others) = (WordSpellings::default(), Vec::new(), Vec::new());
    forward.resolve_spellings(&[spelling.iter().map(|word| term_hash(word)).collect()], &mut known);
    for spelling in known.each() {
        forward.for_each_match(section, spelling, |at| found.push(at));
        if let [word] = spelling {
            forward.for_each_extra(section, *word, |at| others.push(at));
        }
    }
    (found, others)
}

#[test]
fn a_page_of_many_different_words_has_wider_ones() {
    for (count, width) in [(0_usize, 1), (256, 1), (257, 2), (65_535, 2)] {
        let text: Vec<String> = (0..count).map(|word| format!("w{word}x")).collect();
        let words = TextWords::of(&text.join(" "), &mut Dictionary::default());
        // The parts of the compounds are words, too: left out here.
        let words = TextWords { extras: Vec::new(), ..words };
        let none = TextWords::default();
        let row = encode([&none, &none, &none, &words, &none]);
        let forward = ForwardIndex::decode(&row).unwrap();
        assert_eq!((row[0], forward.len(PageSection::Body)), (width, count));
        for place in [0, count / 2, count.saturating_sub(1)].into_iter().filter(|place| *place < count) {
            let next = (place + 1 < count).then(|| format!("w{}x", place + 1));
            let asked: Vec<String> = [format!("w{place}x")].into_iter().chain(next).collect();
            let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
            assert_eq!(places(&forward, PageSection::Body, &asked), (vec![place], vec![]), "{asked:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_has_words_at_places_inside_of_it(text in "\\PC{0,60}") {
        let mut last = 0;
        for span in spans(&text) {
            prop_assert!(span.range.start >= last && text.get(span.range.clone()).is_some(), "{span:?}");
            prop_assert!(!span.term(&text).contains(char::is_whitespace));
            last = span.range.start;
        }
        prop_assert_eq!(TextWords::of(&text, &mut Dictionary::default()).stream.len(), spans(&text).count());
    }
}
