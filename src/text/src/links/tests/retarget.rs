use proptest::prelude::*;

use crate::links::*;

/// One page moved in a tree: the names before and after.
pub(super) struct OneMove {
    page: String,
    from: String,
    to: String,
    before: LinkTargets,
    after: LinkTargets,
}

impl OneMove {
    pub(super) fn new(page: &str, from: &str, to: &str, others: &[&str]) -> Self {
        let (mut before, mut after) = (LinkTargets::new(), LinkTargets::new());
        for path in others {
            before.insert(path, None, &[]);
            after.insert(path, None, &[]);
        }
        before.insert(from, Some("The Title"), &["nick".into()]);
        after.insert(to, Some("The Title"), &["nick".into()]);
        Self { page: page.into(), from: from.into(), to: to.into(), before, after }
    }

    fn retarget(&self, text: &str) -> Option<(String, usize)> {
        retarget(text, PageMove::in_place(&self.page), self)
    }
}

impl RetargetContext for OneMove {
    fn old_target(&self, link: &Link) -> Option<String> {
        self.before.resolve(&self.page, link).map(str::to_owned)
    }
    fn new_path(&self, path: &str) -> Option<String> {
        (path == self.from).then(|| self.to.clone())
    }
    fn resolves_to(&self, target: &str, path: &str) -> bool {
        self.after.resolve_target(&self.page, LinkKind::Wiki, target) == Some(path)
    }
}

#[test]
fn an_unrepresentable_wiki_link_becomes_a_markdown_link() {
    for (to, address, label) in
        [("a|b.md", "a%7Cb.md", "a\\|b"), ("deep/a#b.md", "deep/a%23b.md", "a#b"), ("[x].md", "%5Bx%5D.md", "\\[x\\]")]
    {
        let change = OneMove::new("p.md", "old.md", to, &["p.md", "other.md"]);
        let text = "[[old]] ![[old#The Part|l [1]]] | [[old\\|x]] [[other]] [l](old.md) `[[old]]`";
        let (new, count) = change.retarget(text).unwrap();
        let expected = format!(
            "[{label}]({address}) ![l \\[1]({address}#the-part)] | [x]({address}) [[other]] [l]({address}) `[[old]]`"
        );
        assert_eq!((new.as_str(), count), (expected.as_str(), 4));
        let led: Vec<_> =
            links(&new).iter().filter_map(|link| change.after.resolve("p.md", link).map(str::to_owned)).collect();
        assert_eq!(led.iter().filter(|path| *path == to).count(), 4, "{new}: {led:?}");
        let field = retarget_fields("---\nsee: old\n---\n", &["see".to_owned()], PageMove::in_place("p.md"), &change)
            .unwrap()
            .0;
        let value = &crate::frontmatter::parse(&field).map["see"];
        assert!(value == to.trim_end_matches(".md") || *value == format!("[{label}]({address})"), "{field}");
        let link = field_links(&crate::frontmatter::parse(&field).map, &["see".to_owned()]).remove(0);
        assert_eq!(change.after.resolve("p.md", &link), Some(to), "{field}");
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
    assert_eq!(change.retarget("[[x]] [[a/x]] [y](a/x.md)"), Some(("[[x]] [[b/x]] [y](b/x.md)".into(), 2)));
}

#[test]
fn only_links_that_led_to_the_moved_page_are_rewritten() {
    let change = OneMove::new("b/p.md", "a/x.md", "a/y.md", &["b/p.md", "b/x.md"]);
    assert_eq!(change.retarget("[[x]] [x](x.md)"), None);
    assert_eq!(change.retarget("[[x]] [[a/x]] [x](../a/x.md)"), Some(("[[x]] [[a/y]] [x](../a/y.md)".into(), 2)));
}

#[test]
fn links_to_attachments_html_and_folders_stay_what_they_are() {
    for (from, to, text, expected) in [
        ("f/boat.png", "g/ship.png", "![[boat.png|200]] ![b](boat.png)", Some("![[ship.png|200]] ![b](ship.png)")),
        ("f/boat.png", "g/boat.png", "![[boat.png]] ![b](boat.png)", None),
        (
            "f/boat.png",
            "g/boat.png",
            "![[f/boat.png]] ![b](../f/boat.png)",
            Some("![[g/boat.png]] ![b](../g/boat.png)"),
        ),
        ("f/boat.png", "g/dup.png", "![[boat.png]]", Some("![[g/dup.png]]")),
        ("f/x.md", "g/y.md", "[x](../f/x.html#a)", Some("[x](../g/y.html#a)")),
        ("f/README.md", "g/README.md", "[x](../f/index.html) [f](../f/)", Some("[x](../g/index.html) [f](../g/)")),
        ("f/README.md", "f/intro.md", "[x](../f/index.html) [f](../f/)", Some("[x](../f/intro.html) [f](../f/)")),
        ("f/README.md", "README.md", "[f](../f/) [f](/f/)", Some("[f](../) [f](/)")),
        ("f/README.md", "p/README.md", "[f](../f/)", Some("[f](./)")),
    ] {
        let change = OneMove::new("p/p.md", from, to, &["p/p.md", "f/dup.png", "h/dup.png"]);
        let found = change.retarget(text).map(|(text, _)| text);
        assert_eq!(found.as_deref(), expected, "{text} when {from} becomes {to}");
    }
}

struct PageMoves(LinkTargets);

impl RetargetContext for PageMoves {
    fn old_target(&self, link: &Link) -> Option<String> {
        self.0.resolve("a/b/p.md", link).map(str::to_owned)
    }
    fn new_path(&self, path: &str) -> Option<String> {
        (path == "a/b/p.md").then(|| "a/q/r/p.md".to_owned())
    }
    fn resolves_to(&self, target: &str, path: &str) -> bool {
        self.0.resolve_target("a/q/r/p.md", LinkKind::Wiki, target) == Some(path)
    }
}

/// Shows: HTTP-5
#[test]
fn a_page_that_moves_takes_its_relative_links_along() {
    let mut tree = LinkTargets::new();
    for path in ["a/x.md", "a/b/y.md", "a/b/p.md", "img.png"] {
        tree.insert(path, None, &[]);
    }
    let text =
        "[x](../x.md) [y](y.md#h) ![i](../../img.png) [me](p.md) [[x]] [[./y]] [[a/b/y]] [r](/a/x.md) [no](none.md)";
    let expected = "[x](../../x.md) [y](../../b/y.md#h) ![i](../../../img.png) [me](p.md) [[x]] [[../../b/y]] [[a/b/y]] [r](/a/x.md) [no](none.md)";
    let place = PageMove { old_path: "a/b/p.md", new_path: "a/q/r/p.md" };
    assert_eq!(retarget(text, place, &PageMoves(tree)), Some((expected.to_owned(), 4)));
}

#[test]
fn rewriting_nothing_is_none() {
    assert_eq!(rewrite_targets("[[a]] [b](c.md)", |_| None), None);
    assert_eq!(rewrite_targets("no links", |_| Some("x".into())), None);
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
        for text in ["[l](old.md#h)", "![l](<old.md>)", "[l][r]\n\n[r]: old.md\n", "[r]\n\n[r]: <old.md> 't'\n"] {
            let new = rewrite_targets(text, |_| Some(name.to_owned())).unwrap();
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
    fn rewriting_every_link_changes_targets_and_nothing_else(
        words in prop::collection::vec(prop_oneof![
            Just("[[a]]"), Just("![[b/c|l]]"), Just("[x](d.md#h)"), Just("`[[e]]`"), Just("text\n"), Just("\n\n# h\n"), Just("| [[f\\|g]] |\n"),
            Just("[r]: i.md\n"), Just("- "), Just("> "), Just("<!-- [[j]] -->"), Just("![k](<l m.png>)"),
        ], 0..14)
    ) {
        let text = words.join(" ");
        let before = links(&text);
        let Some(after) = rewrite_targets(&text, |link| Some(format!("new/{}", link.target))) else {
            prop_assert!(before.is_empty());
            return Ok(());
        };
        let found = links(&after);
        let expected: Vec<_> = before.iter().map(|l| (l.kind, format!("new/{}", l.target), l.heading.clone(), l.label.clone())).collect();
        let got: Vec<_> = found.iter().map(|l| (l.kind, l.target.clone(), l.heading.clone(), l.label.clone())).collect();
        prop_assert_eq!(got, expected);
        let back = rewrite_targets(&after, |link| link.target.strip_prefix("new/").map(str::to_owned));
        prop_assert_eq!(back, Some(text));
    }
}
