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
        assert_eq!(
            choose_target(LinkResolution::Nearest, from, &wanted, known),
            resolve(&tree, from, target),
            "{target} in {from}"
        );
    }
    use KeyKind::*;
    for kind in [Path, Suffix, Stem, Alias, Title, AssetPath, AssetName] {
        assert_eq!(KeyKind::from_number(kind as u8), Some(kind));
    }
    assert_eq!(KeyKind::from_number(7), None);
}

#[test]
fn attachments_resolve_by_bare_name_anywhere() {
    let mut tree = LinkTargets::new();
    for path in ["files/boat.png", "x/img/boat.png", "x/plan.pdf", "root.jpg", "x/a.md", "y/node.js.md", "LICENSE"] {
        tree.insert(path, None, &[]);
    }
    tree.insert("y/LICENSE.md", Some("plan.pdf"), &[]);
    for (from, kind, target, expected) in [
        ("y/p.md", LinkKind::Embed, "boat.png", Some("files/boat.png")),
        ("y/p.md", LinkKind::Embed, "BOAT.PNG", Some("files/boat.png")),
        ("x/p.md", LinkKind::Embed, "boat.png", Some("x/img/boat.png")),
        ("y/p.md", LinkKind::Embed, "img/boat.png", Some("x/img/boat.png")),
        ("y/p.md", LinkKind::Wiki, "plan.pdf", Some("x/plan.pdf")),
        ("x/p.md", LinkKind::Wiki, "root.jpg", Some("root.jpg")),
        ("y/p.md", LinkKind::Wiki, "boat", None),
        ("y/p.md", LinkKind::Wiki, "node.js", Some("y/node.js.md")),
        ("y/p.md", LinkKind::Wiki, "license", Some("y/LICENSE.md")),
        ("y/p.md", LinkKind::Image, "boat.png", Some("files/boat.png")),
        ("y/p.md", LinkKind::Image, "img/boat.png", Some("x/img/boat.png")),
        ("x/p.md", LinkKind::Image, "img/boat.png", Some("x/img/boat.png")),
        ("y/p.md", LinkKind::Image, "files/boat.png", Some("files/boat.png")),
        ("y/p.md", LinkKind::Image, "./boat.png", None),
        ("y/p.md", LinkKind::Markdown, "../LICENSE", Some("LICENSE")),
        ("y/p.md", LinkKind::Markdown, "plan.pdf", Some("x/plan.pdf")),
        ("y/p.md", LinkKind::Markdown, "a", None),
        ("y/p.md", LinkKind::Markdown, "a.md", None),
    ] {
        assert_eq!(tree.resolve_target(from, kind, target), expected, "{kind:?} {target} in {from}");
    }
}

#[test]
fn names_compare_by_full_folding_in_every_encoding() {
    let mut tree = LinkTargets::new();
    tree.insert("o/Re\u{301}union.md", Some("Straße"), &["Ὀδυσσεύς".into()]);
    tree.insert("o/bo\u{302}t.png", None, &[]);
    for target in ["Réunion", "RÉUNION", "Re\u{301}union", "o/réunion.md", "STRASSE", "ὈΔΥΣΣΕΎΣ"] {
        assert_eq!(resolve(&tree, "p.md", target), Some("o/Re\u{301}union.md"), "{target}");
    }
    assert_eq!(resolve(&tree, "p.md", "Bôt.PNG"), Some("o/bo\u{302}t.png"));
    let markdown = tree.resolve_target("o/p.md", LinkKind::Markdown, "réunion.md");
    assert_eq!(markdown, Some("o/Re\u{301}union.md"));
    assert_eq!(resolve(&tree, "p.md", "Reunion"), None, "accents count");
}

#[test]
fn rendered_addresses_and_folders_lead_to_their_pages() {
    let mut tree = LinkTargets::new();
    for path in ["a.md", "guide/README.md", "guide/x.md", "b/index.md", "b/real.html", "b/real.md", "img/x.png"] {
        tree.insert(path, None, &[]);
    }
    for (from, target, expected) in [
        ("guide/x.md", "../a.html", Some("a.md")),
        ("a.md", "guide/x.html", Some("guide/x.md")),
        ("a.md", "guide/index.html", Some("guide/README.md")),
        ("a.md", "b/index.html", Some("b/index.md")),
        ("a.md", "b/real.html", Some("b/real.html")),
        ("a.md", "guide/none.html", None),
        ("a.md", "guide/", Some("guide/README.md")),
        ("guide/x.md", "../b/", Some("b/index.md")),
        ("guide/x.md", "./", Some("guide/README.md")),
        ("b/index.md", "../guide/.", Some("guide/README.md")),
        ("a.md", "img/", None),
        ("a.md", "../", None),
    ] {
        assert_eq!(tree.resolve_target(from, LinkKind::Markdown, target), expected, "{target} in {from}");
    }
    assert_eq!(resolve(&tree, "a.md", "x.html"), None, "only an address is rendered");
    for (from, target, expected) in [
        ("a.md", "img/", Some("img")),
        ("b/x.md", "..", Some("")),
        ("a.md", "../", None),
        ("b/x.md", "y.md", Some("b/y")),
    ] {
        assert_eq!(target_path(from, LinkKind::Markdown, target).as_deref(), expected, "{target} in {from}");
    }
}

#[test]
fn the_shortest_rule_is_that_of_obsidian() {
    let mut tree = LinkTargets::new().with_resolution(LinkResolution::Shortest);
    for path in
        ["a/b/Note.md", "zzzz/Note.md", "zzzz/deep/er/x.md", "Root.md", "zzzz/Root.md", "c/pic.png", "d/e/pic.png"]
    {
        tree.insert(path, None, &[]);
    }
    for (from, target, expected) in [
        // An exact path wins, then the page's own folder, then the shortest path as text.
        ("zzzz/p.md", "Root", "Root.md"),
        ("zzzz/p.md", "Note", "zzzz/Note.md"),
        ("zzzz/deep/p.md", "Note", "a/b/Note.md"),
        ("p.md", "Note", "a/b/Note.md"),
        ("d/p.md", "pic.png", "c/pic.png"),
        ("d/e/p.md", "pic.png", "d/e/pic.png"),
    ] {
        assert_eq!(resolve(&tree, from, target), Some(expected), "{target} in {from}");
    }
}
