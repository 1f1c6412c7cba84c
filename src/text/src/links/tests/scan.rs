use proptest::prelude::*;

use crate::links::*;

/// kind, target, heading, label
type Row<'a> = (LinkKind, &'a str, Option<&'a str>, Option<&'a str>);

fn rows(links: &[Link]) -> Vec<Row<'_>> {
    links.iter().map(|l| (l.kind, l.target.as_str(), l.heading.as_deref(), l.label.as_deref())).collect()
}

fn targets(text: &str) -> Vec<String> {
    links(text).into_iter().map(|link| link.target).collect()
}

#[test]
fn wiki_links_of_every_form_are_found() {
    use LinkKind::{Embed, Wiki};
    let found = links(
        "[[a]] [[ b/c | the label ]] [[d#Some Part|x]] ![[pic.png]] [[e|]] [[f#]] [[g.md]] [[h#^block]] [[i|j|k]]",
    );
    assert_eq!(
        rows(&found),
        [
            (Wiki, "a", None, None),
            (Wiki, "b/c", None, Some("the label")),
            (Wiki, "d", Some("Some Part"), Some("x")),
            (Embed, "pic.png", None, None),
            (Wiki, "e", None, None),
            (Wiki, "f", None, None),
            (Wiki, "g.md", None, None),
            (Wiki, "h", Some("^block"), None),
            (Wiki, "i", None, Some("j|k")),
        ]
    );
}

#[test]
fn the_range_is_the_target_as_written() {
    let text = "---\nt: 1\n---\nx [[  one two # h | l ]] ![](<a b.md#h>) [c](d%20e.md?q#f 'title') [r]\n\n[r]: <f g.md#h> \"t\"\n";
    let written: Vec<_> =
        links(text).into_iter().map(|link| (text[link.target_range].to_owned(), link.target)).collect();
    let pair = |written: &str, target: &str| (written.to_owned(), target.to_owned());
    assert_eq!(
        written,
        [pair("one two", "one two"), pair("a b.md", "a b.md"), pair("d%20e.md", "d e.md"), pair("f g.md", "f g.md")]
    );
}

#[test]
fn what_is_no_wiki_link_is_none() {
    for text in [
        "[[]]",
        "[[ ]]",
        "[[|x]]",
        "[[#here]]",
        "[[a]",
        "[a]]",
        "[[a\nb]]",
        "\\[[a]]",
        "[[a]b]]",
        "[[a",
        "[ [a]]",
        "`[[a]]`",
        "``x [[a]] ` ``",
        "```\n[[a]]\n```",
        "    [[a]]",
        "~~~\n[[a]]",
        "<!-- [[a]] -->",
        "x <!-- [[a]] --> y",
        "<!--\n[[a]]\n\n[[b]]\n-->",
        "<pre>\n[[a]]\n</pre>",
        "<div>\n<!-- [[a]] -->\n</div>",
        "---\nx: \"[[a]]\"\n---\n",
        "[l](https://x.test/[[a]])",
        "x <a title=\"[[a]]\">",
        "> ```\n> [[a]]\n> ```",
        "- x\n\n      [[a]]",
        "[[a`]]`",
    ] {
        assert_eq!(targets(text), Vec::<String>::new(), "{text:?}");
    }
}

#[test]
fn wiki_links_stand_anywhere_text_does() {
    for text in [
        "# [[a]]",
        "> [[a]]",
        "- [ ] [[a]]",
        "| [[a]] |\n|---|\n",
        "**[[a]]**",
        "[x [[a]] y](https://e.test)",
        "x[[a]]y",
        "\\\\[[a]]",
        "[[[a]]]",
        "[[x [[a]]",
        "[^1]\n\n[^1]: [[a]]",
        "<div>\n[[a]]\n</div>",
        "[[a]]\r\n",
        "`x` [[a]] `y`",
        "<!-- x -->\n\n[[a]]",
        "Title [[a]]\n===",
        "¿[[a]]?",
    ] {
        assert_eq!(targets(text), ["a"], "{text:?}");
    }
}

#[test]
fn an_escaped_pipe_in_a_table_separates_the_label() {
    let text = "| x | y |\n|---|---|\n| [[a\\|b]] | [[c#d\\|e]] |\n";
    let found = links(text);
    assert_eq!(rows(&found), [(LinkKind::Wiki, "a", None, Some("b")), (LinkKind::Wiki, "c", Some("d"), Some("e"))]);
    assert_eq!(&text[found[0].target_range.clone()], "a");
    assert_eq!(
        rewrite_targets(text, |_| Some("z".into())).unwrap(),
        "| x | y |\n|---|---|\n| [[z\\|b]] | [[z#d\\|e]] |\n"
    );
}

#[test]
fn markdown_links_to_files_are_found_and_others_are_not() {
    use LinkKind::{Definition, Image, Markdown};
    let text = "[a](./b.md#h) ![i](../p%20q.png) [*r* `s`](</t u.md>) [v](w(1).md) [x][ref] [y] [[z]](zz.md)\n\n[ref]: sub/r.md#s\n[y]: y.md\n";
    assert_eq!(
        rows(&links(text)),
        [
            (Markdown, "./b.md", Some("h"), Some("a")),
            (Image, "../p q.png", None, Some("i")),
            (Markdown, "/t u.md", None, Some("r s")),
            (Markdown, "w(1).md", None, Some("v")),
            (Markdown, "zz.md", None, Some("[z]")),
            (Definition, "sub/r.md", Some("s"), Some("ref")),
            (Definition, "y.md", None, Some("y")),
        ]
    );
    for text in [
        "[a](#h)",
        "[a]()",
        "[a](https://x.test/b.md)",
        "[a](mailto:x@y.test)",
        "[a](//host/b.md)",
        "<https://x.test>",
        "[a](?q)",
        "`[a](b.md)`",
    ] {
        assert_eq!(targets(text), Vec::<String>::new(), "{text:?}");
    }
}

#[test]
fn an_image_inside_a_link_is_a_link_of_its_own() {
    let text = "[![alt](i.png \"t\")](page.md) after";
    assert_eq!(targets(text), ["i.png", "page.md"]);
    assert_eq!(
        rewrite_targets(text, |link| Some(format!("new/{}", link.target))).unwrap(),
        "[![alt](new/i.png \"t\")](new/page.md) after"
    );
}

#[test]
fn a_link_knows_its_line_and_shows_it() {
    let found = links("---\na: 1\n---\n\n  - see [[x]] now  \r\nnext [y](y.md)");
    assert_eq!((found[0].line, found[0].context.as_str()), (5, "- see [[x]] now"));
    assert_eq!((found[1].line, found[1].context.as_str()), (6, "next [y](y.md)"));
    let long = format!("{} [[mid]] {}", "é".repeat(500), "ü".repeat(500));
    let context = &links(&long)[0].context;
    assert!(context.contains("[[mid]]") && context.starts_with('…') && context.ends_with('…'), "{context}");
    assert!(context.chars().count() <= 242);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ranges_are_in_order_and_hold_the_target(text in "([\\[\\]()!|#\\\\`<>a/. \n-]|\\[\\[|\\]\\]|---\n|\\]\\(|~~~\n){0,60}") {
        let mut from = 0;
        for link in links(&text) {
            prop_assert!(link.target_range.start >= from && text.get(link.target_range.clone()).is_some(), "{:?}", link);
            prop_assert!(!link.target.is_empty());
            if link.kind.is_wiki() {
                prop_assert_eq!(&text[link.target_range.clone()], &link.target);
            }
            from = link.target_range.start;
        }
    }
}

#[test]
fn shell_tests_are_no_links() {
    for text in [
        "[[ -f x ]]",
        "[[ ! -d x ]]",
        "[[ $a = b ]]",
        "if [[ \"$1\" == y ]]; then",
        "[[ x == y ]]",
        "[[ a && b ]]",
        "[[ a -eq 1 ]]",
        "[[\t-n x ]]",
        "[[ a || b ]]",
    ] {
        assert_eq!(links(text), [], "{text}");
    }
    for (text, target) in
        [("[[ a page ]]", "a page"), ("[[-1 degrees]]", "-1 degrees"), ("[[ a | b ]]", "a"), ("[[C && D]]", "C && D")]
    {
        assert_eq!(links(text)[0].target, target, "{text}");
    }
}
