use super::*;

const PAGE: &str = "---\ntitle: T\n---\nintro\n\n# Top\n\nfirst\n\n## Setup\n\n    code\n\n### Linux\nlin\n\n```sh\n# not a heading\n```\n\n### Mac\nmac\n\n## Usage\nuse\n\n# End\nlast\n\n## Setup\nagain\n";

fn by_name(name: &str) -> Section {
    section(PAGE, SectionSelector::Heading(name)).unwrap_or_else(|| panic!("no section {name}"))
}

#[test]
fn a_section_ends_at_the_next_heading_of_its_level_or_above() {
    let setup = by_name("setup");
    assert_eq!((setup.heading.as_str(), setup.level, setup.line_start, setup.line_end), ("Setup", 2, 10, 23));
    assert_eq!(setup.content, "    code\n\n### Linux\nlin\n\n```sh\n# not a heading\n```\n\n### Mac\nmac");
    let top = by_name("Top");
    assert_eq!((top.line_start, top.line_end), (6, 26));
    assert!(top.content.ends_with("## Usage\nuse"));
}

#[test]
fn the_last_section_runs_to_the_end_of_the_file() {
    let last = section(PAGE, SectionSelector::Index(6)).unwrap();
    assert_eq!((last.content.as_str(), last.line_start, last.line_end), ("again", 30, 31));
    let bare = section("# only", SectionSelector::Index(0)).unwrap();
    assert_eq!((bare.content.as_str(), bare.line_start, bare.line_end), ("", 1, 1));
}

#[test]
fn the_same_words_come_before_contained_ones_in_any_case() {
    let text = "# Setting up\n1\n# set\n2\n# SETUP\n3\n";
    assert_eq!(section(text, SectionSelector::Heading("setup")).unwrap().content, "3");
    assert_eq!(section(text, SectionSelector::Heading("Setting")).unwrap().content, "1");
    assert_eq!(section(text, SectionSelector::Heading("SET")).unwrap().content, "2");
    assert_eq!(section(text, SectionSelector::Heading("## set ")).unwrap().content, "2");
}

#[test]
fn a_parent_narrows_where_the_child_is_looked_for() {
    assert_eq!(by_name("End > Setup").content, "again");
    assert_eq!(by_name("top > setup > mac").content, "mac");
    assert_eq!(by_name("Top>Linux").line_start, 14);
    assert_eq!(section(PAGE, SectionSelector::Heading("Usage > Linux")), None);
    assert_eq!(section(PAGE, SectionSelector::Heading("Setup > End")), None);
}

#[test]
fn a_heading_with_an_arrow_in_it_is_found_by_its_own_words() {
    let text = "# File\n\n# File > Open\nx\n";
    assert_eq!(section(text, SectionSelector::Heading("file > open")).unwrap().content, "x");
}

#[test]
fn what_is_not_there_is_none() {
    for name in ["", " ", "#", "nothing", ">", " > ", "Top >", "> Top"] {
        assert_eq!(section(PAGE, SectionSelector::Heading(name)), None, "{name:?}");
    }
    assert_eq!(section(PAGE, SectionSelector::Index(7)), None);
    assert_eq!(section("", SectionSelector::Index(0)), None);
}

#[test]
fn a_heading_in_a_quote_does_not_end_a_section_around_it() {
    let text = "## a\n\n> # quoted\n> words\n\nmore\n\n## b\n";
    let around = section(text, SectionSelector::Heading("a")).unwrap();
    assert_eq!((around.content.as_str(), around.line_end), ("> # quoted\n> words\n\nmore", 7));
}

#[test]
fn underlined_headings_and_crlf_keep_their_lines() {
    let text = "One\r\n===\r\n\r\ntext\r\n\r\nTwo\r\n---\r\nmore\r\n";
    let one = section(text, SectionSelector::Index(0)).unwrap();
    assert_eq!((one.line_start, one.line_end), (1, 8));
    let two = section(text, SectionSelector::Heading("two")).unwrap();
    assert_eq!((two.content.as_str(), two.line_start, two.line_end), ("more", 6, 8));
}

#[test]
fn headings_separated_only_by_carriage_returns_have_their_text() {
    let one = section("# a\rtext\r# b\rmore", SectionSelector::Index(0)).unwrap();
    assert_eq!((one.content.as_str(), one.line_start, one.line_end), ("text", 1, 1));
}

#[test]
fn an_anchor_selects_a_section_after_the_same_words() {
    let text = "# Über uns!\n1\n# Set up\n2\n# Set up\n3\n# set-up\n4\n";
    let content = |query| section(text, SectionSelector::Heading(query)).map(|section| section.content);
    for (query, expected) in [
        ("über-uns", "1"),
        ("#über-uns", "1"),
        ("U\u{308}BER UNS!", "1"),
        ("set up", "2"),
        ("set-up-1", "3"),
        ("#set-up-1", "3"),
        ("set-up", "4"),
        ("set-up-2", "4"),
        ("über", "1"),
    ] {
        assert_eq!(content(query).as_deref(), Some(expected), "{query}");
    }
}
