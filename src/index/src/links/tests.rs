use svcfs_base::TreePath;

use crate::IndexEntry;
use crate::tests::{Space, at, page};

fn backlinks(space: &Space, path: &str) -> Vec<String> {
    space
        .index
        .backlinks(&at(path), &TreePath::root(), usize::MAX)
        .unwrap()
        .0
        .into_iter()
        .map(|link| link.path.to_string())
        .collect()
}

fn resolved(space: &Space, from: &str, target: &str) -> Option<String> {
    space.index.resolve(&at(from), target).unwrap().map(|found| found.path.to_string())
}

#[test]
fn a_link_finds_its_page_by_every_name_in_the_order_of_strength() {
    let space = Space::of(&[
        ("a/b/page.md", "---\naliases: [nick]\ntitle: The Title\n---\n"),
        ("other/nick.md", ""),
        ("c/C#.md", ""),
        ("src.md", ""),
    ]);
    for (target, path) in [
        ("a/b/page", "a/b/page.md"),
        ("a/b/page.md", "a/b/page.md"),
        ("b/page", "a/b/page.md"),
        ("PAGE", "a/b/page.md"),
        ("C#", "c/C#.md"),
        ("./c/C#.md", "c/C#.md"),
        ("The Title", "a/b/page.md"),
        ("nick", "other/nick.md"),
    ] {
        assert_eq!(resolved(&space, "src.md", target).as_deref(), Some(path), "{target}");
    }
    for target in ["", "#x", "nowhere", "b", "../up", "x\0y", "' OR 1=1"] {
        assert_eq!(resolved(&space, "src.md", target), None, "{target}");
    }
    assert_eq!(space.index.resolve(&at("src.md"), "page").unwrap().unwrap().title, "The Title");
}

#[test]
fn the_nearest_of_several_namesakes_is_meant() {
    let space = Space::of(&[("r/note.md", ""), ("r/a/note.md", ""), ("r/a/b/note.md", ""), ("z/note.md", "")]);
    for (from, path) in [
        ("r/a/b/x.md", "r/a/b/note.md"),
        ("r/a/x.md", "r/a/note.md"),
        ("r/a/c/x.md", "r/a/note.md"),
        ("r/q/x.md", "r/note.md"),
        ("z/y/x.md", "z/note.md"),
        ("x.md", "r/note.md"),
    ] {
        assert_eq!(resolved(&space, from, "note").as_deref(), Some(path), "{from}");
        assert_eq!(resolved(&space, from, "a/b/note").as_deref(), Some("r/a/b/note.md"), "{from}");
    }
    assert_eq!(resolved(&space, "r/x.md", "./note").as_deref(), Some("r/note.md"));
    assert_eq!(resolved(&space, "r/q/x.md", "./note"), None);
    space.put(&[("note.md", "")]);
    assert_eq!(
        resolved(&space, "r/a/x.md", "note").as_deref(),
        Some("note.md"),
        "a whole path comes before a file name"
    );
}

#[test]
fn the_second_link_candidate_is_known_before_the_first_goes() {
    let space = Space::of(&[("a/x.md", ""), ("b/x.md", ""), ("c.md", "---\naliases: [x]\n---\n")]);
    let second = |gone: &str, target: &str| {
        let ask = |links: &mut super::LinkFollower<'_>| {
            links.resolve_excluding(&at("a/source.md"), target, std::iter::empty())
        };
        space.index.with_link_follower(&at(gone), ask).unwrap().map(|page| page.to_string())
    };
    assert_eq!(resolved(&space, "a/source.md", "x").as_deref(), Some("a/x.md"));
    assert_eq!(second("a/x.md", "x").as_deref(), Some("b/x.md"));
    assert_eq!(second("b/x.md", "x").as_deref(), Some("a/x.md"));
    assert_eq!(second("c.md", "c"), None);
    space.remove("b/x.md");
    assert_eq!(second("a/x.md", "x").as_deref(), Some("c.md"));
}

#[test]
fn backlinks_show_the_other_pages_once_with_the_line_around() {
    let space = Space::of(&[
        ("target.md", "# Target\n\nmyself: [[target]]"),
        ("d/wiki.md", "# Wiki\n\nfirst [[Target#Part|label]] here\n\nand [[target]] again"),
        ("d/markdown.md", "see [it](../target.md#part)"),
        ("d/embed.md", "![[target]]"),
        ("d/code.md", "`[[target]]`\n\n```\n[[target]]\n```\n"),
        ("d/elsewhere.md", "[x](target.md) [[targets]] <https://target.md>"),
    ]);
    assert_eq!(backlinks(&space, "target.md"), ["d/embed.md", "d/markdown.md", "d/wiki.md"]);
    let (links, _) = space.index.backlinks(&at("target.md"), &TreePath::root(), 3).unwrap();
    assert_eq!((links[2].title.as_str(), links[2].context.as_str()), ("Wiki", "first [[Target#Part|label]] here"));
    assert_eq!(backlinks(&space, "unknown.md"), [""; 0]);
    space.put(&[("b.md", "[[target]]")]);
    let (below, total) = space.index.backlinks(&at("target.md"), &at("d"), 2).unwrap();
    assert_eq!(total, 3);
    assert_eq!(below.iter().map(|link| link.path.as_str()).collect::<Vec<_>>(), ["d/embed.md", "d/markdown.md"]);
    assert_eq!(space.index.backlinks(&at("target.md"), &at("d"), 0).unwrap(), (vec![], 3));
    // What was read for one question is no answer after a write.
    space.put(&[("d/more.md", "[[target]]")]);
    assert_eq!(space.index.backlinks(&at("target.md"), &at("d"), 0).unwrap().1, 4);
    space.remove("d/more.md");
    assert_eq!(space.index.backlinks(&at("target.md"), &at("d"), 0).unwrap().1, 3);
}

#[test]
fn adding_or_removing_a_page_changes_where_other_links_resolve() {
    let space = Space::of(&[("far/x.md", ""), ("a/source.md", "[[x]]")]);
    assert_eq!(backlinks(&space, "far/x.md"), ["a/source.md"]);
    space.put(&[("a/x.md", "")]);
    assert_eq!((backlinks(&space, "far/x.md"), backlinks(&space, "a/x.md")), (vec![], vec!["a/source.md".to_owned()]));
    space.remove("a/x.md");
    assert_eq!(backlinks(&space, "far/x.md"), ["a/source.md"]);
    space.remove("far/x.md");
    space.put(&[("y.md", "---\naliases: [X]\n---\n")]);
    assert_eq!(backlinks(&space, "y.md"), ["a/source.md"]);
    let links = space.index.links_out(&at("a/source.md")).unwrap();
    assert_eq!((links[0].target.as_str(), links[0].resolved_path.clone()), ("x", Some(at("y.md"))));
}

#[test]
fn the_links_of_a_page_are_listed_in_order_with_their_headings() {
    let space = Space::of(&[
        ("d/a.md", "[[b#Part]] then [c](./c.md) then [[nowhere]] then ![i](i.png) then [up](../top.md#x)"),
        ("d/b.md", ""),
        ("d/c.md", ""),
        ("top.md", ""),
    ]);
    let links: Vec<(String, Option<String>, Option<String>)> = space
        .index
        .links_out(&at("d/a.md"))
        .unwrap()
        .into_iter()
        .map(|link| (link.target, link.heading, link.resolved_path.map(|path| path.to_string())))
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        links,
        [
            ("b".to_owned(), some("Part"), some("d/b.md")),
            ("./c.md".to_owned(), None, some("d/c.md")),
            ("nowhere".to_owned(), None, None),
            ("i.png".to_owned(), None, None),
            ("../top.md".to_owned(), some("x"), some("top.md")),
        ]
    );
    assert_eq!(space.index.links_out(&at("unknown.md")).unwrap(), []);
}

#[test]
fn sources_are_all_pages_that_may_mean_a_path() {
    let space = Space::of(&[
        ("a/page.md", "---\naliases: [nick]\n---\n"),
        ("b/page.md", ""),
        ("1.md", "[[page]]"),
        ("2.md", "[[a/page]]"),
        ("3.md", "[x](a/page.md)"),
        ("4.md", "[[nick]]"),
        ("5.md", "[[else]]"),
        ("b/6.md", "[[page]]"),
    ]);
    let sources = |path| -> Vec<String> {
        let ask = |links: &mut super::LinkFollower<'_>| links.affected_pages(&at(path), &[at(path)]);
        space.index.with_link_follower(&at(path), ask).unwrap().iter().map(ToString::to_string).collect()
    };
    assert_eq!(sources("a/page.md"), ["1.md", "2.md", "3.md", "4.md", "b/6.md"]);
    space.remove("a/page.md");
    assert_eq!(sources("a/page.md"), ["1.md", "2.md", "3.md", "b/6.md"]);
}

#[test]
fn a_file_name_is_ambiguous_when_two_pages_have_it() {
    let space = Space::of(&[("a/Page.md", ""), ("b/page.md", ""), ("c.md", "---\ntitle: d\n---\n"), ("d.md", "")]);
    let ambiguous = |stem| space.index.is_ambiguous(stem).unwrap();
    assert_eq!([ambiguous("page"), ambiguous("c"), ambiguous("d"), ambiguous("none")], [true, false, false, false]);
}

#[test]
fn questions_about_links_read_only_the_rows_they_need() {
    let texts: Vec<(String, String)> = (0..10_000)
        .map(|n| (format!("d{}/p{n}.md", n % 100), format!("[[p{}]] and [[index]]", (n + 1) % 10_000)))
        .chain((0..100).map(|n| (format!("d{n}/index.md"), String::new())))
        .collect();
    let pages: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let space = Space::of(&pages);
    assert_eq!(backlinks(&space, "d77/p77.md"), ["d76/p76.md"]);
    assert_eq!(backlinks(&space, "d7/index.md").len(), 100);
    let connection = rusqlite::Connection::open(&space.file).unwrap();
    for sql in [super::BACKLINKS, super::LINKS_OUT, super::SOURCES, super::names::PAGES_WITH_NAME] {
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan: Vec<String> = statement.query_map(["x"], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(
            plan.iter().all(|step| !step.starts_with("SCAN") || ["SCAN meant", "SCAN target"].contains(&&**step)),
            "{sql}: {plan:?}"
        );
    }
}

#[test]
fn backlinks_from_rows_equal_backlinks_from_the_graph() {
    let space = Space::of(&[
        ("near/a.md", "[[hub]] and [[hub]] again, [[near/b]]"),
        ("near/b.md", "[x](hub.md)"),
        ("near/hub.md", "[[hub]] itself"),
        ("far/hub.md", ""),
        ("far/c.md", "[[hub]] is the near one"),
    ]);
    let sources = |path: &str| space.index.linking_pages(&at(path)).unwrap();
    let rows = sources("near/hub.md");
    assert_eq!(rows, [at("near/a.md"), at("near/b.md")]);
    space.index.graph().unwrap();
    assert_eq!(sources("near/hub.md"), rows);
    assert_eq!(sources("far/hub.md"), [at("far/c.md")]);
    assert!(sources("nowhere.md").is_empty());
    space.put(&[("near/b.md", "no more")]);
    assert_eq!(sources("near/hub.md"), [at("near/a.md")], "a graph of before the write is not asked");
}

#[test]
fn attachments_are_targets_with_backlinks_and_follow_changes() {
    let space = Space::of(&[
        ("notes/a.md", "![[boat.png|200]] and [[plan.pdf]] and [[gone.png]]"),
        ("notes/b.md", "![x](boat.png)"),
        ("c.md", "![](files/boat.png)"),
    ]);
    let broken = |path: &str| -> Vec<String> {
        let graph = space.index.graph().unwrap();
        let facts = &graph.page(graph.node(&at(path)).unwrap()).facts;
        facts.unresolved_links.iter().map(|link| link.target.to_string()).collect()
    };
    assert_eq!(broken("notes/a.md"), ["boat.png", "plan.pdf", "gone.png"]);
    space.put_assets(&["files/boat.png", "deep/plan.pdf", ".hidden/gone.png"]);
    assert_eq!(broken("notes/a.md"), ["gone.png"], "the graph follows");
    assert_eq!(backlinks(&space, "files/boat.png"), ["c.md", "notes/a.md", "notes/b.md"]);
    assert_eq!(backlinks(&space, "deep/plan.pdf"), ["notes/a.md"]);
    assert_eq!(space.index.linking_pages(&at("deep/plan.pdf")).unwrap(), [at("notes/a.md")]);
    let resolved = space.index.resolve(&at("notes/a.md"), "BOAT.png").unwrap().unwrap();
    assert_eq!((resolved.path, resolved.title.as_str()), (at("files/boat.png"), "boat.png"));
    assert_eq!(space.index.page_count().unwrap(), 3, "an attachment is no page");

    let before = space.index.fingerprint().unwrap();
    let entries = [
        page("notes/a.md", "![[boat.png|200]] and [[plan.pdf]] and [[gone.png]]"),
        page("notes/b.md", "![x](boat.png)"),
        page("c.md", "![](files/boat.png)"),
        IndexEntry::Asset(at("files/boat.png")),
        IndexEntry::Asset(at("deep/plan.pdf")),
    ];
    let source = entries.into_iter().map(Ok::<_, std::convert::Infallible>);
    space.index.rebuild(source, space.index.cursor().unwrap(), |_| ()).unwrap();
    assert_eq!(space.index.fingerprint().unwrap(), before, "a rebuild has them too");
    space.remove("files/boat.png");
    assert_ne!(space.index.fingerprint().unwrap(), before);
    assert_eq!(broken("notes/b.md"), ["boat.png"]);
    assert_eq!(backlinks(&space, "files/boat.png"), [""; 0]);
}

#[test]
fn backlinks_work_in_both_directions_of_an_encoding() {
    let space = Space::of(&[
        ("Re\u{301}union.md", "[[Île]]"),
        ("I\u{302}le.md", "[[réunion]] [x](R\u{e9}union.md)"),
        ("guide/a.md", "[b](b.html)"),
        ("guide/b.md", "[home](../guide/)"),
        ("guide/README.md", ""),
    ]);
    assert_eq!(backlinks(&space, "Re\u{301}union.md"), ["I\u{302}le.md"]);
    assert_eq!(backlinks(&space, "I\u{302}le.md"), ["Re\u{301}union.md"]);
    assert_eq!(backlinks(&space, "guide/b.md"), ["guide/a.md"], "a link to the rendered page");
    assert_eq!(backlinks(&space, "guide/README.md"), ["guide/b.md"], "a link to the folder");
}

#[test]
fn pages_of_a_tag_and_titles_are_read_in_one_statement() {
    let space = Space::of(&[
        ("a.md", "---\ntags: [Été, x]\n---\n# A\n"),
        ("b.md", "---\ntags: [\"e\u{301}te\u{301}\"]\n---\n"),
        ("c.md", "---\ntags: [ete]\n---\n"),
    ]);
    let found = space.index.pages_with_tag("ÉTÉ").unwrap();
    assert_eq!(found, [(at("a.md"), "A".to_owned()), (at("b.md"), "b".to_owned())]);
    let titles = space.index.titles(&[at("a.md"), at("none.md")]).unwrap();
    assert_eq!(titles.into_iter().collect::<Vec<_>>(), [(at("a.md"), "A".to_owned())]);
}
