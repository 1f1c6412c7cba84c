//! Malicious input: no function panics, and all run in linear time.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::frontmatter::{append_provenance, parse, remove, set};
use crate::links::{LinkTargets, PageMove, links, retarget, rewrite_targets};
use crate::merge::{ChangedLines, merge_page};
use crate::sections::{SectionSelector, section};
use crate::{Page, format, frontmatter, headings, lint};

type HostileCheck = (&'static str, fn(&str));

const ALL: &[HostileCheck] = &[
    ("split", |text| drop(black_box(vec![frontmatter::split(text)]))),
    ("parse", |text| drop(black_box(parse(text)))),
    ("set", |text| drop(black_box(set(text, "k", &json!("v"))))),
    ("remove", |text| drop(black_box(remove(text, "a")))),
    ("append_provenance", |text| {
        let run = frontmatter::DerivedFrom { kind: "t", id: "i", date: "d", actor: "a" };
        drop(black_box(append_provenance(text, &run)));
    }),
    ("headings", |text| drop(black_box(headings::headings(text)))),
    ("section", |text| drop(black_box(section(text, SectionSelector::Heading("a > b"))))),
    ("links", |text| drop(black_box(links(text)))),
    ("rewrite", |text| drop(black_box(rewrite_targets(text, |link| Some(link.target.repeat(2)))))),
    ("retarget", |text| {
        drop(black_box(retarget(text, PageMove { old_path: "a/b.md", new_path: "c.md" }, &Everywhere)))
    }),
    ("lint", |text| drop(black_box(lint::lint(text)))),
    ("format changes", |text| drop(black_box(format::format_changes(half(text), text)))),
    ("format", |text| drop(black_box(format::format(text)))),
    ("merge", |text| drop(black_box(merge_page((half(text), text, &text.replace('a', "b")), all_lines)))),
    ("snippet", |text| drop(black_box(crate::snippet::snippet(text, &["aaaab", "]x"])))),
    ("page", |text| drop(black_box(Page::parse("p.md", text)))),
];

/// The text without its first half: the stored text of a write.
fn half(text: &str) -> &str {
    &text[text.floor_char_boundary(text.len() / 2)..]
}

/// Counts all lines as changed.
fn all_lines(old: &str, new: &str) -> Vec<ChangedLines> {
    vec![(0..old.split_inclusive('\n').count(), 0..new.split_inclusive('\n').count())]
}

struct Everywhere;

impl crate::links::RetargetContext for Everywhere {
    fn old_target(&self, link: &crate::Link) -> Option<String> {
        Some(link.target.clone())
    }
    fn new_path(&self, path: &str) -> Option<String> {
        Some(format!("{path}/moved.md"))
    }
    fn resolves_to(&self, target: &str, _path: &str) -> bool {
        target.len() > 4
    }
}

/// Texts that are slow in naive parsers, cut at `size` bytes.
fn hostile(size: usize) -> Vec<(&'static str, String)> {
    let of = |unit: &str| unit.repeat(size / unit.len());
    vec![
        ("open brackets", of("[")),
        ("open wiki links", of("[[a")),
        ("wiki links", of("[[a]]")),
        ("wiki links on lines", of("[[a|b]]\n")),
        ("closing brackets", of("]")),
        ("images", of("![")),
        ("empty links", of("[]()")),
        ("nested links", [of("["), of("](a.md)")].concat()),
        ("nested images", ["![".repeat(size / 12), "a ".repeat(size / 4), "](a.md)".repeat(size / 12)].concat()),
        ("parentheses", ["[a](", &of("(")].concat()),
        ("pipes", of("|")),
        ("rows of pipes", of("|||||||||\n")),
        ("wide table", ["|a", &of("|"), "\n|-", &of("|-"), "\n|b|\n"].concat()),
        ("long table", ["|a|b|\n|-|-|\n", &of("|c|\n")].concat()),
        ("backticks", of("`")),
        (
            "backticks of many lengths",
            (1..)
                .map(|n| "`".repeat(n) + " ")
                .scan(0, |sum, run| {
                    *sum += run.len();
                    (*sum < size).then_some(run)
                })
                .collect(),
        ),
        ("backslashes", of("\\")),
        ("backslash and bracket", of("\\[[")),
        ("quotes", of(">")),
        ("quotes in lines", of("> > > > a\n")),
        ("lists in lists", of("- ")),
        ("numbers", of("1. a\n")),
        (
            "descending items",
            (0..200).map(|depth| " ".repeat(depth * 2) + "* a\n").collect::<String>().repeat(size / 40_000),
        ),
        ("emphasis", of("*a_")),
        ("stars", of("*")),
        ("underscores", of("_a ")),
        ("hashes", of("# a\n")),
        ("deep headings", of("###### a > b\n")),
        ("underlines", of("a\n=\n")),
        ("nul", of("\0")),
        ("comments", of("<!--")),
        ("tags", of("<a ")),
        ("html blocks", of("<pre>\n")),
        ("closed comments", of("<!-- a -->\n\n")),
        ("comments in a block", ["<div>\n", &of("<!--->\n")].concat()),
        ("entities", of("&amp;")),
        ("definitions", (0..size / 12).map(|n| format!("[{n:06}]: b\n")).collect()),
        ("footnotes", of("[^a]")),
        ("fences", of("```\n")),
        ("open fence", ["```mermaid\n", &of("%% a\n")].concat()),
        ("blank lines", of("\n")),
        ("carriage returns", of("\r")),
        ("spaces", of(" ")),
        ("tabs", of("\t*\n")),
        ("dashes", of("---\n")),
        ("one line", of("a")),
        ("words", of("a ")),
        ("frontmatter without end", ["---\n", &of("a: b\n")].concat()),
        ("frontmatter too long", ["---\n", &of("a: b\n"), "---\n"].concat()),
        ("emoji", of("🦀[[🦀]]")),
        ("autolinks", of("<a:")),
        ("task items", of("- [ ] [[x]]\n")),
        ("open fields", of("[a:: ")),
        ("fields", of("(a:: [b]) ")),
        ("tags in the text", of("#a #")),
        ("open formulas", of("$a ")),
        ("formulas and comments", of("%%$$%% $")),
        ("emoji fields", ["- [ ] ", &of("🔁 ")].concat()),
    ]
}

/// YAML within the size limit that is slow in naive parsers.
fn hostile_yaml() -> Vec<(&'static str, String)> {
    let of = |unit: &str| unit.repeat(60_000 / unit.len());
    vec![
        ("flow depth", of("[")),
        ("map depth", of("{a: ")),
        ("block depth", (0..240).map(|depth| " ".repeat(depth) + "a:\n").collect()),
        ("dashes", of("- ")),
        ("one key many times", of("a: b\n")),
        ("many keys", (0..5_000).map(|n| format!("k{n:05}: v\n")).collect()),
        ("anchors", (0..3_000).map(|n| format!("a{n}: &x{n} v\n")).collect()),
        ("aliases", ["a: &x v\n".to_owned(), (0..4_000).map(|n| format!("b{n}: *x\n")).collect()].concat()),
        ("quotes", of("\"")),
        ("block scalar", ["a: |\n", &of("  x\n")].concat()),
        ("question marks", of("? ")),
        ("comments", of("#\n")),
        ("tags", of("!!a ")),
        ("nul", of("a\0: b\n")),
        ("tabs", of("\ta:\n")),
        ("colons", of(":")),
        (
            "derived-from",
            ["derived-from:\n".to_owned(), (0..2_000).map(|n| format!("- {{id: {n}}}\n")).collect()].concat(),
        ),
    ]
}

fn time(run: fn(&str), text: &str) -> Duration {
    let start = Instant::now();
    run(text);
    start.elapsed()
}

#[test]
fn twice_the_input_takes_about_twice_the_time() {
    // linear functions take twice the time, quadratic ones four times
    const SMALL: usize = 48 * 1024;
    const FLOOR: Duration = Duration::from_millis(40);
    let mut slow = Vec::new();
    for ((name, one), (_, two)) in hostile(SMALL).into_iter().zip(hostile(2 * SMALL)) {
        for (function, run) in ALL {
            let grew_too_fast = || {
                let (first, second) = (time(*run, &one), time(*run, &two));
                (second > first * 3 && second > FLOOR).then_some((first, second))
            };
            if let Some(times) = (0..5).map(|_| grew_too_fast()).collect::<Option<Vec<_>>>() {
                slow.push(format!("{function} over {name}: {times:?}"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}

#[test]
fn a_mebibyte_of_anything_is_read_to_the_end() {
    for (name, text) in hostile(1024 * 1024) {
        let page = Page::parse("p.md", &text);
        assert!(page.excerpt.chars().count() <= 301 && page.body.len() <= text.len(), "{name}");
        if ["open brackets", "pipes", "backticks", "quotes", "open fence"].contains(&name) {
            assert!(lint::lint(&text).iter().all(|issue| issue.line <= text.len()), "{name}");
            assert!(format::format(&text).ends_with('\n'), "{name}");
        }
    }
}

#[test]
fn frontmatter_of_any_shape_is_read_or_refused() {
    for (name, yaml) in hostile_yaml() {
        let page = format!("---\n{yaml}\n---\nbody\n");
        let before = parse(&page);
        for (function, run) in ALL {
            let took = time(*run, &page);
            assert!(took < Duration::from_secs(20), "{function} over {name}: {took:?}");
        }
        match set(&page, "k", &json!("v")) {
            Ok(after) => assert_eq!(parse(&after).map.len(), before.map.len() + 1, "{name}"),
            Err(error) => assert!(!error.to_string().is_empty(), "{name}"),
        }
    }
}

#[test]
fn a_hundred_thousand_pages_resolve_quickly() {
    let mut tree = LinkTargets::new();
    for number in 0..100_000 {
        let path = format!("folder-{}/sub-{}/page-{number}.md", number % 100, number % 1_000);
        tree.insert(&path, Some(&format!("Title {number}")), &[format!("alias-{number}")]);
    }
    let start = Instant::now();
    for number in (0..100_000).step_by(10) {
        let expected = format!("folder-{}/sub-{}/page-{number}.md", number % 100, number % 1_000);
        for target in [format!("page-{number}"), format!("ALIAS-{number}"), format!("Title {number}"), expected.clone()]
        {
            assert_eq!(
                tree.resolve_target("folder-1/here.md", crate::links::LinkKind::Wiki, &target),
                Some(expected.as_str())
            );
        }
    }
    assert!(start.elapsed() < Duration::from_secs(10), "40,000 look-ups took {:?}", start.elapsed());
}
