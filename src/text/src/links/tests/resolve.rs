use crate::links::*;

fn tree() -> LinkTargets {
    let mut tree = LinkTargets::new();
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
    tree.insert("people/ada.md", Some("Ada Lovelace"), &["Countess".into(), "AAL".into()]);
    tree.insert("people/title.md", Some("x"), &["Ada Lovelace".into()]);
    tree
}

fn resolve<'a>(tree: &'a LinkTargets, from: &str, target: &str) -> Option<&'a str> {
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
    // How a name leads to a page comes first: a file name in another case is closer than a title in
    // this one.
    let mut tree = LinkTargets::new();
    tree.insert("Auth.md", Some("Something"), &[]);
    tree.insert("zz/other.md", Some("auth"), &[]);
    assert_eq!(resolve(&tree, "readme.md", "auth"), Some("Auth.md"));
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
    assert_eq!(tree.resolve_target("readme.md", LinkKind::Image, "img/Pic.png"), Some("img/Pic.png"));
}

#[test]
fn a_page_that_changes_or_goes_is_forgotten_under_its_old_names() {
    let mut tree = tree();
    tree.insert("people/ada.md", Some("Countess of Lovelace"), &[]);
    assert_eq!(resolve(&tree, "readme.md", "Countess"), None);
    assert_eq!(resolve(&tree, "readme.md", "Countess of Lovelace"), Some("people/ada.md"));
    tree.remove("people/ada.md");
    assert_eq!(resolve(&tree, "readme.md", "ada"), None);
    tree.remove("people/ada.md");
    tree.remove("a/x.md");
    assert_eq!(resolve(&tree, "a/page.md", "x"), Some("b/x.md"));
}

#[test]
fn stored_keys_give_the_same_answer_as_the_resolver() {
    let tree = tree();
    let pages = [("a/x.md", None), ("b/x.md", None), ("b/c/x.md", None), ("people/title.md", Some("x"))];
    let table: Vec<(String, LinkKey)> = pages
        .iter()
        .flat_map(|(path, title)| page_keys(path, *title, &[]).into_iter().map(|key| ((*path).to_owned(), key)))
        .collect();
    for (from, target) in [("b/c/p.md", "x"), ("p.md", "c/x"), ("p.md", "X"), ("a/p.md", "b/x.md"), ("p.md", "./a/x")] {
        let wanted = candidates(from, LinkKind::Wiki, target);
        let found = table.iter().filter(|(_, key)| wanted.iter().any(|want| want.folded == key.folded));
        let known = found.map(|(path, key)| KnownName { kind: key.kind, text: &key.text, path });
        assert_eq!(choose_target(from, &wanted, known), resolve(&tree, from, target), "{target} in {from}");
    }
    for kind in [KeyKind::Path, KeyKind::Suffix, KeyKind::Stem, KeyKind::Alias, KeyKind::Title] {
        assert_eq!(KeyKind::from_number(kind as u8), Some(kind));
    }
    assert_eq!(KeyKind::from_number(5), None);
}
