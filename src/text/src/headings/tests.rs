use super::*;

fn outline(text: &str) -> Vec<(u8, String, usize)> {
    headings(text).into_iter().map(|heading| (heading.level, heading.text, heading.line)).collect()
}

fn row(level: u8, text: &str, line: usize) -> (u8, String, usize) {
    (level, text.to_owned(), line)
}

#[test]
fn both_styles_are_found_and_code_is_not() {
    let text = "# One\n\nTwo\n===\n\nThree\nwraps\n---\n\n```\n# no\n```\n\n    # no\n\n~~~\n# no\n~~~\n\n`# no`\n\n###### Six ######\n";
    assert_eq!(outline(text), [row(1, "One", 1), row(1, "Two", 3), row(2, "Three wraps", 6), row(6, "Six", 22)]);
}

#[test]
fn frontmatter_has_no_headings_and_lines_count_from_file_start() {
    assert_eq!(
        outline("---\n# comment\ntitle: x\n---\n# Real\r\n\r\n## Next\r\n"),
        [row(1, "Real", 5), row(2, "Next", 7)]
    );
    assert_eq!(outline("\n\n# Late"), [row(1, "Late", 3)]);
}

#[test]
fn markup_is_removed_from_the_text() {
    let text = "# A *b* **c** `d` ~~e~~ [f](g.md) ![h](i.png) <b>j</b> k&amp;l \\*m\\*\n## See [[page|the page]] and [[other#part]] ![[pic.png]]\n";
    assert_eq!(
        outline(text),
        [row(1, "A b c d e f h j k&l *m*", 1), row(2, "See the page and other#part !pic.png", 2)]
    );
}

#[test]
fn headings_without_words_are_omitted() {
    assert_eq!(outline("#\n\n##   \n\n### <!-- x -->\n\n#### ![](x.png)\n\n#tag\n\n# Last\n"), [row(1, "Last", 11)]);
}

#[test]
fn headings_inside_quotes_and_lists_are_known_to_be_nested() {
    let nested: Vec<bool> =
        headings("# a\n\n> # b\n\n- # c\n\n# d\n").iter().map(|heading| heading.is_nested).collect();
    assert_eq!(nested, [false, true, true, false]);
}

#[test]
fn slugs_follow_the_rule_of_github() {
    for (text, expected) in [
        ("Hello World", "hello-world"),
        ("A -- b__c d", "a----b__c-d"),
        ("C++ & Rust: 2nd ed.", "c--rust-2nd-ed"),
        ("--lead and trail--", "--lead-and-trail--"),
        ("v1.2.3", "v123"),
        ("a/b", "ab"),
        ("x – y", "x--y"),
        ("What's new? (2026)", "whats-new-2026"),
        ("`code_span` and *stars*", "code_span-and-stars"),
        ("", ""),
        // scripts
        ("Über Größe", "über-größe"),
        ("Ça coûte 5 €", "ça-coûte-5-"),
        ("Ελληνικά ΚΕΙΜΕΝΟ", "ελληνικά-κειμενο"),
        ("Привет, Мир!", "привет-мир"),
        ("Ջերմ Բարև", "ջերմ-բարև"),
        ("שָׁלוֹם עולם", "שָׁלוֹם-עולם"),
        ("مرحبا بالعالم ١٢٣؟", "مرحبا-بالعالم-١٢٣"),
        ("नमस्ते दुनिया ४५।", "नमस्ते-दुनिया-४५"),
        ("বাংলা ভাষা", "বাংলা-ভাষা"),
        ("தமிழ் மொழி", "தமிழ்-மொழி"),
        ("ภาษาไทย ที่นี่", "ภาษาไทย-ที่นี่"),
        ("မြန်မာ ဘာသာ", "မြန်မာ-ဘာသာ"),
        ("ქართული ენა", "ქართული-ენა"),
        ("አማርኛ ቋንቋ።", "አማርኛ-ቋንቋ"),
        ("漢字、かな「カナ」", "漢字かなカナ"),
        ("한국어 제목", "한국어-제목"),
        ("Tiếng Việt", "tiếng-việt"),
        ("ᏣᎳᎩ", "ꮳꮃꭹ"),
        // symbols and emoji
        ("🚀 Start", "-start"),
        ("Done ✅", "done-"),
        ("Family 👨‍👩‍👧 here", "family--here"),
        ("½ cup x² №5", "-cup-x-5"),
        ("Ⅳ Rome", "ⅳ-rome"),
        ("a‿b", "a‿b"),
    ] {
        let heading = headings(&format!("# {text}\n")).first().map_or_else(String::new, |heading| heading.slug.clone());
        assert_eq!(heading, expected, "{text}");
    }
}

#[test]
fn slugs_of_a_page_are_unique() {
    let slugs = |text: &str| headings(text).into_iter().map(|heading| heading.slug).collect::<Vec<_>>();
    assert_eq!(slugs("# A\n## A\n> # a\n"), ["a", "a-1", "a-2"]);
    assert_eq!(slugs("# A\n# A-1\n# A\n# A\n# A 1\n"), ["a", "a-1", "a-2", "a-3", "a-1-1"]);
    assert_eq!(slugs("# !\n# ?\n# 🎉\n"), ["", "-1", "-2"]);
    let many = slugs(&"# x\n".repeat(20_000));
    assert_eq!(many.last().map(String::as_str), Some("x-19999"));
}

#[test]
fn a_link_means_the_last_heading_that_it_names() {
    for (written, anchor) in
        [("Set up", "set-up"), ("Install#Set up", "set-up"), ("#Set up", "set-up"), ("Ü", "ü"), ("", ""), ("#", "")]
    {
        assert_eq!(anchor_of_link(written), anchor, "{written}");
    }
}

#[test]
fn the_wire_shape_is_level_text_slug() {
    let heading = &headings("## A *b*\n")[0];
    assert_eq!(serde_json::to_string(heading).unwrap(), r#"{"level":2,"text":"A b","slug":"a-b"}"#);
    let schema = serde_json::to_value(schemars::schema_for!(Heading)).unwrap();
    assert_eq!(schema["required"], serde_json::json!(["level", "text", "slug"]));
    assert_eq!(schema["properties"].as_object().unwrap().len(), 3);
}
