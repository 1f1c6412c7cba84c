use std::collections::BTreeSet;

use proptest::prelude::*;
use svcfs_base::Seq;

use super::{LinkGraph, full_build};
use crate::connections;
use crate::tests::{Space, at, page};

/// The links of a graph as pairs of paths.
fn pairs(graph: &LinkGraph) -> BTreeSet<(String, String)> {
    let pair = |from, to| (graph.page(from).path.to_string(), graph.page(to).path.to_string());
    let forth: BTreeSet<_> =
        graph.nodes().flat_map(|from| graph.links_out(from).iter().map(move |to| pair(from, *to))).collect();
    let back = graph.nodes().flat_map(|to| graph.links_in(to).iter().map(move |from| pair(*from, to))).collect();
    assert_eq!(forth, back, "both directions hold the same links");
    assert_eq!(graph.link_count(), forth.len());
    forth
}

fn fresh(space: &Space) -> LinkGraph {
    let read = |connections: &mut [rusqlite::Connection]| {
        connections::begin_all(connections)?;
        full_build::build(connections, Default::default())
    };
    space.index.readers.read_parallel(3, read).unwrap()
}

fn linked(from: &str, to: &str) -> (String, String) {
    (from.to_owned(), to.to_owned())
}

#[test]
fn pages_are_ordered_by_path_and_linked_once_to_each_other() {
    let space = Space::of(&[
        ("b.md", "[[a]] and [[a]] again, [[b]] itself, [[nowhere]], ![](picture.png)"),
        ("a.md", "---\ntitle: First\n---\n[x](d/c.md)"),
        ("d/c.md", ""),
    ]);
    let graph = space.index.graph().unwrap();
    assert_eq!((graph.len(), graph.link_count(), graph.is_empty()), (3, 2, false));
    assert_eq!(pairs(&graph), [linked("a.md", "d/c.md"), linked("b.md", "a.md")].into());
    assert_eq!(graph.node(&at("d/c.md")), Some(2));
    assert_eq!(graph.node(&at("e.md")), None);
    assert_eq!(graph.page(0).title, "First");
    assert!(Space::new().index.graph().unwrap().is_empty());
}

#[test]
fn the_same_graph_is_given_until_something_changes() {
    let space = Space::of(&[("a.md", "[[b]]"), ("b.md", "")]);
    let first = space.index.graph().unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &space.index.graph().unwrap()));
    space.put(&[("b.md", "")]);
    space.index.ingest(&[], Seq(9)).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &space.index.graph().unwrap()), "the same text again is no change");
    space.put(&[("b.md", "[[a]]")]);
    assert_eq!(space.index.graph().unwrap().link_count(), 2);
    assert_eq!(first.link_count(), 1, "who has a graph keeps it");
}

#[test]
fn adding_or_removing_a_page_retargets_links_of_other_pages() {
    let space = Space::of(&[("far/x.md", ""), ("a/source.md", "[[x]]"), ("a/other.md", "[[source]]")]);
    let others = linked("a/other.md", "a/source.md");
    let expect = |target: Option<&str>| {
        let links = target.map(|target| linked("a/source.md", target)).into_iter().chain([others.clone()]).collect();
        assert_eq!(pairs(&space.index.graph().unwrap()), links);
    };
    expect(Some("far/x.md"));
    space.put(&[("a/x.md", "")]);
    expect(Some("a/x.md"));
    space.remove("a/x.md");
    expect(Some("far/x.md"));
    space.remove("far/x.md");
    expect(None);
    space.put(&[("y.md", "---\naliases: [X]\n---\n")]);
    expect(Some("y.md"));
    space.put(&[("y.md", "---\naliases: [z]\n---\n")]);
    expect(None);
}

#[test]
fn only_frontmatter_fields_that_name_pages_become_links() {
    let pages = [
        ("a.md", "---\ncontradicts: b\nsupersedes:\n  - \"[[d/c|the third]]\"\n  - nowhere\n  - 7\n---\n"),
        ("b.md", "---\ncontradicts: ''\nrelated: a\n---\n[[a]]"),
        ("d/c.md", "---\ntitle: contradicts\nsupersedes: {name: a}\n---\n"),
    ];
    let space = Space::of(&pages);
    assert_eq!(pairs(&space.index.graph().unwrap()), [linked("b.md", "a.md")].into());
    // Read by other settings, an index is made again by whoever fills it.
    let space = space.reopen().with_typed_links(&["contradicts", "supersedes"]);
    assert_eq!((space.index.cursor().unwrap(), pairs(&space.index.graph().unwrap())), (Seq(0), BTreeSet::new()));
    space.put(&pages);
    let space = space.reopen();
    let mut links: BTreeSet<_> =
        [linked("b.md", "a.md"), linked("a.md", "b.md"), linked("a.md", "d/c.md")].into_iter().collect();
    assert_eq!(pairs(&space.index.graph().unwrap()), links);
    space.put(&[("7.md", "")]);
    links.insert(linked("a.md", "7.md"));
    assert_eq!(pairs(&space.index.graph().unwrap()), links, "a page comes that is named already");
    space.remove("b.md");
    links.retain(|(from, to)| from != "b.md" && to != "b.md");
    assert_eq!(pairs(&space.index.graph().unwrap()), links, "a page goes that is named");
}

#[test]
fn a_rebuild_or_too_many_changes_recreate_the_graph() {
    let space = Space::of(&[("a.md", "[[b]]"), ("b.md", "")]);
    space.index.graph().unwrap();
    let pages = [Ok::<_, std::io::Error>(page("b.md", "")), Ok(page("c.md", "[[b]]"))];
    space.index.rebuild(pages.into_iter(), Seq(5), |_| {}).unwrap();
    assert_eq!(pairs(&space.index.graph().unwrap()), [linked("c.md", "b.md")].into());
    let many: Vec<String> = (0..12_000).map(|n| format!("n{n}.md")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|path| (path.as_str(), "[[b]]")).collect();
    space.put(&many);
    assert_eq!(space.index.graph().unwrap().link_count(), 12_001);
    space.put(&[("n7.md", "")]);
    assert_eq!(space.index.graph().unwrap().link_count(), 12_000);
}

/// Shows: QRY-2
#[test]
fn concurrent_writers_and_readers_end_with_the_right_graph() {
    let space = Space::of(&[("hub.md", "")]);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for n in 0..200 {
                space.put(&[(format!("p{n}.md").as_str(), format!("[[hub]] [[p{}]]", n + 1).as_str())]);
            }
        });
        let mut seen = 0;
        while !writing.is_finished() {
            let graph = space.index.graph().unwrap();
            assert!(graph.len() >= seen, "a later graph knows what an earlier one knew");
            seen = graph.len();
            // Page n links to the hub and, once it is there, to the page after it.
            assert_eq!(graph.link_count(), (2 * (graph.len() - 1)).saturating_sub(1), "every graph is of one moment");
        }
    });
    assert_eq!(*space.index.graph().unwrap(), fresh(&space));
    assert_eq!(space.index.graph().unwrap().link_count(), 399);
}

#[test]
fn connections_that_read_together_read_one_state() {
    let space = Space::of(&[("p0.md", "[[p1]]")]);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for n in 1..100 {
                space.put(&[(format!("p{n}.md").as_str(), format!("[[p{}]] [[p{}]]", n + 1, n - 1).as_str())]);
            }
        });
        while !writing.is_finished() {
            let graph = space.index.build_graph().unwrap();
            // Each page but the first links to the one before it and, once it is there, to the one
            // after it.
            assert_eq!(graph.link_count(), 2 * (graph.len() - 1), "pages and links are of one moment");
        }
    });
    assert_eq!(space.index.build_graph().unwrap().link_count(), 198);
}

/// What is done to a tree of a few pages.
#[derive(Debug, Clone)]
enum Deed {
    Write { path: String, title: Option<String>, alias: Option<String>, see: Option<String>, links: Vec<String> },
    Remove(String),
    Rename(String, String),
    Ask,
}

fn path() -> impl Strategy<Value = String> {
    "([ab]/){0,2}[xyzX]\\.md"
}

fn deed() -> impl Strategy<Value = Deed> {
    let link = prop_oneof![
        "\\[\\[([ab]/){0,1}[xyzX]\\]\\]",
        "\\[\\[(t|u|T)\\]\\]",
        "\\[l\\]\\((\\.\\./){0,2}([ab]/){0,2}[xyz]\\.md\\)",
    ];
    let title = || prop::option::of("[tuTx]");
    prop_oneof![
        4 => (path(), title(), title(), prop::option::of("[tuTxyz]"), prop::collection::vec(link, 0..4))
            .prop_map(|(path, title, alias, see, links)| Deed::Write { path, title, alias, see, links }),
        1 => path().prop_map(Deed::Remove),
        1 => (path(), path()).prop_map(|(from, to)| Deed::Rename(from, to)),
        2 => Just(Deed::Ask),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn an_incrementally_updated_graph_equals_a_rebuilt_graph(deeds in prop::collection::vec(deed(), 1..25)) {
        let space = Space::new().with_typed_links(&["see"]);
        let mut texts = std::collections::BTreeMap::new();
        space.index.graph().unwrap();
        for deed in deeds {
            match deed {
                Deed::Write { path, title, alias, see, links } => {
                    let field = |name, value: Option<String>| value.map_or(String::new(), |value| format!("{name}: {value}\n"));
                    let fields = [field("title", title), field("aliases", alias), field("see", see)].concat();
                    let text = format!("---\n{fields}---\n{}", links.join("\n"));
                    space.put(&[(&path, &text)]);
                    texts.insert(path, text);
                }
                Deed::Remove(path) => {
                    space.remove(&path);
                    texts.remove(&path);
                }
                Deed::Rename(from, to) => {
                    if let Some(text) = texts.remove(&from) {
                        let entries = [crate::IndexEntry::Deleted(at(&from)), page(&to, &text)];
                        space.index.ingest(&entries, space.index.cursor().unwrap().next()).unwrap();
                        texts.insert(to, text);
                    }
                }
                Deed::Ask => {
                    space.index.graph().unwrap();
                }
            }
        }
        let graph = space.index.graph().unwrap();
        prop_assert_eq!(&*graph, &fresh(&space));
        let mut naive = BTreeSet::new();
        for (path, text) in &texts {
            if let Some((_, rest)) = text.split_once("see: ") {
                let found = space.index.resolve(&at(path), &rest[..1]).unwrap();
                naive.extend(found.filter(|to| to.path.as_str() != path).map(|to| linked(path, to.path.as_str())));
            }
            for link in space.index.links_out(&at(path)).unwrap() {
                naive.extend(link.resolved_path.filter(|to| to.as_str() != path).map(|to| linked(path, to.as_str())));
            }
        }
        prop_assert_eq!(pairs(&graph), naive);
    }
}
