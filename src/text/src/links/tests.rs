use proptest::prelude::*;

use super::*;

/// kind, target, heading, label
type Row<'a> = (LinkKind, &'a str, Option<&'a str>, Option<&'a str>);

fn rows(links: &[Link]) -> Vec<Row<'_>> {
    links
        .iter()
        .map(|l| (l.kind, l.target.as_str(), l.heading.as_deref(), l.label.as_deref()))
        .collect()
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
    let written: Vec<_> = links(text)
        .into_iter()
        .map(|link| (text[link.range].to_owned(), link.target))
        .collect();
    let pair = |written: &str, target: &str| (written.to_owned(), target.to_owned());
    assert_eq!(
        written,
        [
            pair("one two", "one two"),
            pair("a b.md", "a b.md"),
            pair("d%20e.md", "d e.md"),
            pair("f g.md", "f g.md")
        ]
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
    assert_eq!(
        rows(&found),
        [
            (LinkKind::Wiki, "a", None, Some("b")),
            (LinkKind::Wiki, "c", Some("d"), Some("e"))
        ]
    );
    assert_eq!(&text[found[0].range.clone()], "a");
    assert_eq!(
        rewrite(text, |_| Some("z".into())).unwrap(),
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
        rewrite(text, |link| Some(format!("new/{}", link.target))).unwrap(),
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
    assert!(
        context.contains("[[mid]]") && context.starts_with('…') && context.ends_with('…'),
        "{context}"
    );
    assert!(context.chars().count() <= 242);
}

fn tree() -> Resolver {
    let mut tree = Resolver::new();
    for path in [
        "readme.md",
        "a/x.md",
        "b/x.md",
        "b/c/x.md",
        "b/c/y.md",
        "deep/er/still/z.md",
        "img/Pic.png",
        "a/Case.md",
        "b/case.md",
        "Ünï.md",
    ] {
        tree.insert(path, None, &[]);
    }
    tree.insert(
        "people/ada.md",
        Some("Ada Lovelace"),
        &["Countess".into(), "AAL".into()],
    );
    tree.insert("people/title.md", Some("x"), &["Ada Lovelace".into()]);
    tree
}

fn resolve<'a>(tree: &'a Resolver, from: &str, target: &str) -> Option<&'a str> {
    tree.resolve_target(from, LinkKind::Wiki, target)
}

#[test]
fn names_resolve_in_the_order_of_the_decision() {
    let tree = tree();
    for (target, expected) in [
        ("a/x", Some("a/x.md")),
        ("a/x.md", Some("a/x.md")),
        ("c/y", Some("b/c/y.md")),
        ("still/z.md", Some("deep/er/still/z.md")),
        ("y", Some("b/c/y.md")),
        ("Countess", Some("people/ada.md")),
        ("Ada Lovelace", Some("people/title.md")),
        ("readme", Some("readme.md")),
        ("Pic.png", Some("img/Pic.png")),
        ("Pic", None),
        ("/a/x", Some("a/x.md")),
        ("/x", None),
        ("er/z", None),
        ("nothing", None),
    ] {
        assert_eq!(resolve(&tree, "readme.md", target), expected, "{target}");
    }
}

#[test]
fn the_nearest_folder_wins_among_equals() {
    let tree = tree();
    assert_eq!(resolve(&tree, "a/page.md", "x"), Some("a/x.md"));
    assert_eq!(resolve(&tree, "b/page.md", "x"), Some("b/x.md"));
    assert_eq!(resolve(&tree, "b/c/page.md", "x"), Some("b/c/x.md"));
    assert_eq!(resolve(&tree, "b/c/d/page.md", "x"), Some("b/c/x.md"));
    assert_eq!(resolve(&tree, "elsewhere/page.md", "x"), Some("a/x.md"));
}

#[test]
fn case_only_decides_when_both_are_there() {
    let tree = tree();
    assert_eq!(resolve(&tree, "readme.md", "Case"), Some("a/Case.md"));
    assert_eq!(resolve(&tree, "readme.md", "case"), Some("b/case.md"));
    assert_eq!(resolve(&tree, "readme.md", "CASE"), Some("a/Case.md"));
    assert_eq!(resolve(&tree, "readme.md", "README.MD"), Some("readme.md"));
    assert_eq!(resolve(&tree, "readme.md", "ÜNÏ"), Some("Ünï.md"));
    assert_eq!(resolve(&tree, "readme.md", "aal"), Some("people/ada.md"));
}

#[test]
fn markdown_links_resolve_from_the_folder_of_the_page() {
    let tree = tree();
    let from = |page: &str, target: &str| tree.resolve_target(page, LinkKind::Markdown, target).map(str::to_owned);
    assert_eq!(from("b/c/y.md", "x.md"), Some("b/c/x.md".into()));
    assert_eq!(from("b/c/y.md", "./x"), Some("b/c/x.md".into()));
    assert_eq!(from("b/c/y.md", "../x.md"), Some("b/x.md".into()));
    assert_eq!(from("b/c/y.md", "/a/x.md"), Some("a/x.md".into()));
    assert_eq!(from("b/c/y.md", "../../../a/x.md"), None);
    assert_eq!(from("readme.md", "y.md"), None);
    assert_eq!(from("readme.md", "b/c/"), None);
    assert_eq!(tree.resolve_target("b/c/y.md", LinkKind::Wiki, "../x"), Some("b/x.md"));
    assert_eq!(
        tree.resolve_target("readme.md", LinkKind::Image, "img/Pic.png"),
        Some("img/Pic.png")
    );
}

#[test]
fn a_page_that_changes_or_goes_is_forgotten_under_its_old_names() {
    let mut tree = tree();
    tree.insert("people/ada.md", Some("Countess of Lovelace"), &[]);
    assert_eq!(resolve(&tree, "readme.md", "Countess"), None);
    assert_eq!(
        resolve(&tree, "readme.md", "Countess of Lovelace"),
        Some("people/ada.md")
    );
    tree.remove("people/ada.md");
    assert_eq!(resolve(&tree, "readme.md", "ada"), None);
    tree.remove("people/ada.md");
    tree.remove("a/x.md");
    assert_eq!(resolve(&tree, "a/page.md", "x"), Some("b/x.md"));
}

#[test]
fn stored_keys_give_the_same_answer_as_the_resolver() {
    let tree = tree();
    let pages = [
        ("a/x.md", None),
        ("b/x.md", None),
        ("b/c/x.md", None),
        ("people/title.md", Some("x")),
    ];
    let table: Vec<(String, Key)> = pages
        .iter()
        .flat_map(|(path, title)| {
            keys_of(path, *title, &[])
                .into_iter()
                .map(|key| ((*path).to_owned(), key))
        })
        .collect();
    for (from, target) in [
        ("b/c/p.md", "x"),
        ("p.md", "c/x"),
        ("p.md", "X"),
        ("a/p.md", "b/x.md"),
        ("p.md", "./a/x"),
    ] {
        let wanted = candidates(from, LinkKind::Wiki, target);
        let found = table
            .iter()
            .filter(|(_, key)| wanted.iter().any(|want| want.folded == key.folded));
        let known = found.map(|(path, key)| Known {
            kind: key.kind,
            text: &key.text,
            path,
        });
        assert_eq!(
            choose(from, &wanted, known),
            resolve(&tree, from, target),
            "{target} in {from}"
        );
    }
    for kind in [
        KeyKind::Path,
        KeyKind::Suffix,
        KeyKind::Stem,
        KeyKind::Alias,
        KeyKind::Title,
    ] {
        assert_eq!(KeyKind::from_number(kind as u8), Some(kind));
    }
    assert_eq!(KeyKind::from_number(5), None);
}

/// One page moved in a tree: the names before and after.
struct OneMove {
    page: String,
    from: String,
    to: String,
    before: Resolver,
    after: Resolver,
}

impl OneMove {
    fn new(page: &str, from: &str, to: &str, others: &[&str]) -> Self {
        let (mut before, mut after) = (Resolver::new(), Resolver::new());
        for path in others {
            before.insert(path, None, &[]);
            after.insert(path, None, &[]);
        }
        before.insert(from, Some("The Title"), &["nick".into()]);
        after.insert(to, Some("The Title"), &["nick".into()]);
        Self {
            page: page.into(),
            from: from.into(),
            to: to.into(),
            before,
            after,
        }
    }

    fn retarget(&self, text: &str) -> Option<(String, usize)> {
        retarget(text, Place::fixed(&self.page), self)
    }
}

impl Moves for OneMove {
    fn led_to(&self, link: &Link) -> Option<String> {
        self.before.resolve(&self.page, link).map(str::to_owned)
    }
    fn moved(&self, path: &str) -> Option<String> {
        (path == self.from).then(|| self.to.clone())
    }
    fn leads_to(&self, target: &str, path: &str) -> bool {
        self.after.resolve_target(&self.page, LinkKind::Wiki, target) == Some(path)
    }
}

#[test]
fn a_rewrite_keeps_the_form_of_the_author() {
    let change = OneMove::new("p.md", "a/old.md", "a/new name.md", &["p.md", "other.md"]);
    let text = "[[old]] [[OLD.md#h|l]] ![[old]] [[a/old]] [[a/old.md|x]] [[/a/old]] [[./a/old]] [l](a/old.md#h) [l](./a/old.md) [l](/a/old.md 't') \
                [l](<a/old.md>) [l](a/old) [[other]] `[[old]]` [[nick]] [[The Title]]\n\n[r]: a/old.md\n";
    let expected = "[[new name]] [[new name.md#h|l]] ![[new name]] [[a/new name]] [[a/new name.md|x]] [[/a/new name]] [[./a/new name]] \
                [l](a/new%20name.md#h) [l](./a/new%20name.md) [l](/a/new%20name.md 't') [l](<a/new name.md>) [l](a/new%20name) [[other]] \
                `[[old]]` [[nick]] [[The Title]]\n\n[r]: a/new%20name.md\n";
    assert_eq!(change.retarget(text), Some((expected.to_owned(), 13)));
}

#[test]
fn a_bare_name_gets_as_much_path_as_it_needs() {
    let change = OneMove::new("a/p.md", "a/old.md", "b/c/x.md", &["a/p.md", "a/x.md", "d/c/y.md"]);
    assert_eq!(change.retarget("[[old]]"), Some(("[[c/x]]".into(), 1)));
    let change = OneMove::new("d/p.md", "old.md", "b/c/x.md", &["d/p.md", "d/c/x.md", "d/b/c/x.md"]);
    assert_eq!(change.retarget("[[old]]"), Some(("[[b/c/x]]".into(), 1)));
}

#[test]
fn a_name_that_still_leads_there_is_not_touched() {
    let change = OneMove::new("p.md", "a/x.md", "b/x.md", &["p.md"]);
    assert_eq!(change.retarget("[[x]] [[nick#h]]"), None);
    assert_eq!(
        change.retarget("[[x]] [[a/x]] [y](a/x.md)"),
        Some(("[[x]] [[b/x]] [y](b/x.md)".into(), 2))
    );
}

#[test]
fn only_links_that_led_to_the_moved_page_are_rewritten() {
    let change = OneMove::new("b/p.md", "a/x.md", "a/y.md", &["b/p.md", "b/x.md"]);
    assert_eq!(change.retarget("[[x]] [x](x.md)"), None);
    assert_eq!(
        change.retarget("[[x]] [[a/x]] [x](../a/x.md)"),
        Some(("[[x]] [[a/y]] [x](../a/y.md)".into(), 2))
    );
}

#[test]
fn a_name_that_cannot_stand_in_brackets_leaves_the_link() {
    let change = OneMove::new("p.md", "x.md", "a|b#c.md", &["p.md"]);
    assert_eq!(
        change.retarget("[[x]] [l](x.md)"),
        Some(("[[x]] [l](a%7Cb%23c.md)".into(), 1))
    );
}

struct PageMoves(Resolver);

impl Moves for PageMoves {
    fn led_to(&self, link: &Link) -> Option<String> {
        self.0.resolve("a/b/p.md", link).map(str::to_owned)
    }
    fn moved(&self, path: &str) -> Option<String> {
        (path == "a/b/p.md").then(|| "a/q/r/p.md".to_owned())
    }
    fn leads_to(&self, target: &str, path: &str) -> bool {
        self.0.resolve_target("a/q/r/p.md", LinkKind::Wiki, target) == Some(path)
    }
}

#[test]
fn a_page_that_moves_takes_its_relative_links_along() {
    let mut tree = Resolver::new();
    for path in ["a/x.md", "a/b/y.md", "a/b/p.md", "img.png"] {
        tree.insert(path, None, &[]);
    }
    let text =
        "[x](../x.md) [y](y.md#h) ![i](../../img.png) [me](p.md) [[x]] [[./y]] [[a/b/y]] [r](/a/x.md) [no](none.md)";
    let expected = "[x](../../x.md) [y](../../b/y.md#h) ![i](../../../img.png) [me](p.md) [[x]] [[../../b/y]] [[a/b/y]] [r](/a/x.md) [no](none.md)";
    let place = Place {
        before: "a/b/p.md",
        after: "a/q/r/p.md",
    };
    assert_eq!(retarget(text, place, &PageMoves(tree)), Some((expected.to_owned(), 4)));
}

#[test]
fn rewriting_nothing_is_none() {
    assert_eq!(rewrite("[[a]] [b](c.md)", |_| None), None);
    assert_eq!(rewrite("no links", |_| Some("x".into())), None);
}

#[test]
fn encoded_targets_survive_odd_names() {
    for name in [
        "a b.md",
        "ü (1).md",
        "100%.md",
        "a#b?.md",
        "<x>.md",
        "a\\b.md",
        "a\"b'.md",
        "a&amp;b.md",
        "*_~`.md",
        "漢 字.md",
        "a]b[.md",
        "x\u{a0}y.md",
    ] {
        for text in [
            "[l](old.md#h)",
            "![l](<old.md>)",
            "[l][r]\n\n[r]: old.md\n",
            "[r]\n\n[r]: <old.md> 't'\n",
        ] {
            let new = rewrite(text, |_| Some(name.to_owned())).unwrap();
            let found = links(&new);
            assert_eq!(found.len(), 1, "{new}");
            assert_eq!(found[0].target, name, "{new}");
            assert_eq!(found[0].heading.as_deref(), text.contains('#').then_some("h"), "{new}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ranges_are_in_order_and_hold_the_target(text in "([\\[\\]()!|#\\\\`<>a/. \n-]|\\[\\[|\\]\\]|---\n|\\]\\(|~~~\n){0,60}") {
        let mut from = 0;
        for link in links(&text) {
            prop_assert!(link.range.start >= from && text.get(link.range.clone()).is_some(), "{:?}", link);
            prop_assert!(!link.target.is_empty());
            if link.kind.is_wiki() {
                prop_assert_eq!(&text[link.range.clone()], &link.target);
            }
            from = link.range.start;
        }
    }

    #[test]
    fn rewriting_every_link_changes_targets_and_nothing_else(
        words in prop::collection::vec(prop_oneof![
            Just("[[a]]"), Just("![[b/c|l]]"), Just("[x](d.md#h)"), Just("`[[e]]`"), Just("text\n"), Just("\n\n# h\n"), Just("| [[f\\|g]] |\n"),
            Just("[r]: i.md\n"), Just("- "), Just("> "), Just("<!-- [[j]] -->"), Just("![k](<l m.png>)"),
        ], 0..14)
    ) {
        let text = words.join(" ");
        let before = links(&text);
        let Some(after) = rewrite(&text, |link| Some(format!("new/{}", link.target))) else {
            prop_assert!(before.is_empty());
            return Ok(());
        };
        let found = links(&after);
        let expected: Vec<_> = before.iter().map(|l| (l.kind, format!("new/{}", l.target), l.heading.clone(), l.label.clone())).collect();
        let got: Vec<_> = found.iter().map(|l| (l.kind, l.target.clone(), l.heading.clone(), l.label.clone())).collect();
        prop_assert_eq!(got, expected);
        let back = rewrite(&after, |link| link.target.strip_prefix("new/").map(str::to_owned));
        prop_assert_eq!(back, Some(text));
    }
}
