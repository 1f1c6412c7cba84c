use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use serde_json::{Value, json};
use svcfs_base::{ETag, Seq, Timestamp};
use svcfs_index::{GraphNode, Index, IndexEntry, LinkGraph};

use super::{AREA, GraphAnalysis};
use crate::spaces::test_space::{TestSpace, path};

/// The graph of these links between numbered pages.
fn graph(count: usize, links: &[(usize, usize)]) -> GraphAnalysis {
    let directory = tempfile::tempdir().unwrap();
    let index = Index::open(&directory.path().join("index.db")).unwrap();
    let page = |number: usize| {
        let own = links.iter().filter(|(from, _)| *from == number);
        let text: String = own.map(|(_, to)| format!("[[p{to:03}]] ")).collect();
        let etag = ETag::from_content(text.as_bytes());
        IndexEntry::Page { path: path(&format!("p{number:03}.md")), etag, text, modified: Timestamp::UNIX_EPOCH }
    };
    index.ingest(&(0..count).map(page).collect::<Vec<_>>(), Seq(1)).unwrap();
    GraphAnalysis::new(index.graph().unwrap())
}

/// Links both ways.
fn mutual(links: &[(usize, usize)]) -> Vec<(usize, usize)> {
    links.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]).collect()
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found_one, expected_one) in found.iter().zip(expected) {
        assert!((found_one - expected_one).abs() < 1e-6, "{found:?} is not {expected:?}");
    }
}

/// Zachary's karate club: 34 members, who met outside of it; it broke in two.
const KARATE: &[(usize, usize)] = &[
    (0, 1),
    (0, 2),
    (0, 3),
    (0, 4),
    (0, 5),
    (0, 6),
    (0, 7),
    (0, 8),
    (0, 10),
    (0, 11),
    (0, 12),
    (0, 13),
    (0, 17),
    (0, 19),
    (0, 21),
    (0, 31),
    (1, 2),
    (1, 3),
    (1, 7),
    (1, 13),
    (1, 17),
    (1, 19),
    (1, 21),
    (1, 30),
    (2, 3),
    (2, 7),
    (2, 8),
    (2, 9),
    (2, 13),
    (2, 27),
    (2, 28),
    (2, 32),
    (3, 7),
    (3, 12),
    (3, 13),
    (4, 6),
    (4, 10),
    (5, 6),
    (5, 10),
    (5, 16),
    (6, 16),
    (8, 30),
    (8, 32),
    (8, 33),
    (9, 33),
    (13, 33),
    (14, 32),
    (14, 33),
    (15, 32),
    (15, 33),
    (18, 32),
    (18, 33),
    (19, 33),
    (20, 32),
    (20, 33),
    (22, 32),
    (22, 33),
    (23, 25),
    (23, 27),
    (23, 29),
    (23, 32),
    (23, 33),
    (24, 25),
    (24, 27),
    (24, 31),
    (25, 31),
    (26, 29),
    (26, 33),
    (27, 33),
    (28, 31),
    (28, 33),
    (29, 32),
    (29, 33),
    (30, 32),
    (30, 33),
    (31, 32),
    (31, 33),
    (32, 33),
];

#[test]
fn ranks_are_those_worked_out_by_hand_and_are_one_together() {
    // Both ends of a circle are worth the same; who is only linked from takes from nobody.
    assert_near(graph(3, &[(0, 1), (1, 2), (2, 0)]).ranks(), &[1.0 / 3.0; 3]);
    // r0 = t, r1 = t + 0.85 r0 with t = 0.075 + 0.425 r1 (page 1 leads nowhere, so its rank goes to
    // both).
    let lone = 1.0 / 2.85;
    assert_near(graph(2, &[(0, 1)]).ranks(), &[lone, 1.0 - lone]);
    assert_near(graph(0, &[]).ranks(), &[]);
    // The values of networkx 3.4 for the karate club: its two leaders.
    let karate = graph(34, &mutual(KARATE));
    assert_near(&[karate.ranks()[33], karate.ranks()[0]], &[0.100_919_18, 0.096_997_29]);
    assert_eq!(karate.by_rank()[..2], [33, 0]);
    assert!((karate.ranks().iter().sum::<f64>() - 1.0).abs() < 1e-9);
}

#[test]
fn a_bridge_has_the_ways_between_both_sides() {
    // 0 → 1 → 2 → 3: through 1 lead the ways 0–2 and 0–3, through 2 lead 0–3 and 1–3; of 6 pairs of
    // others.
    assert_near(&graph(4, &[(0, 1), (1, 2), (2, 3)]).betweenness().values, &[0.0, 2.0 / 6.0, 2.0 / 6.0, 0.0]);
    // Two equally short ways count half each.
    let diamond = graph(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    assert_near(&diamond.betweenness().values, &[0.0, 0.5 / 6.0, 0.5 / 6.0, 0.0]);
    // networkx 3.4: betweenness_centrality of the karate club.
    let karate = graph(34, &mutual(KARATE));
    assert_near(&[karate.betweenness().values[0], karate.betweenness().values[33]], &[0.437_635_28, 0.304_074_97]);
    assert_eq!(karate.betweenness().highest[..2], [0, 33]);
    assert_eq!(karate.betweenness().sample_size, None);
    assert!(graph(2, &[(0, 1)]).betweenness().highest.is_empty());
}

#[test]
fn a_sample_estimates_betweenness_and_says_so() {
    let circle: Vec<(usize, usize)> = (0..100).map(|number| (number, (number + 1) % 100)).collect();
    let circle = graph(100, &circle);
    let all = super::betweenness::compute_with_limit(circle.graph(), 100 * 200);
    let some = super::betweenness::compute_with_limit(circle.graph(), 25 * 200);
    assert_eq!((all.sample_size, some.sample_size), (None, Some(25)));
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    assert!((sum(&all.values) - sum(&some.values)).abs() < 1e-6, "every source of a circle is worth the same");
}

#[test]
fn communities_are_the_cliques_and_the_halves_of_the_club() {
    // Two squares with all diagonals, one link between them, and a page alone.
    let square = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    let mut links: Vec<(usize, usize)> = square.iter().flat_map(|(a, b)| [(*a, *b), (a + 4, b + 4)]).collect();
    links.push((3, 4));
    let two = graph(9, &links);
    assert_eq!(communities(&two), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8]]);
    let karate = graph(34, &mutual(KARATE));
    let found = communities(&karate);
    assert!(modularity(&karate, &found) > 0.41, "the best known is 0.4198: {found:?}");
    let new = |node: GraphNode| found.iter().position(|one| one.contains(&node));
    assert_ne!(new(0), new(33), "the two leaders parted");
    assert_eq!(found, communities(&graph(34, &mutual(KARATE))), "the same links give the same groups");
}

fn communities(analysis: &GraphAnalysis) -> Vec<Vec<GraphNode>> {
    analysis.communities().map(<[GraphNode]>::to_vec).collect()
}

/// How much more links there are inside groups than chance would have it.
fn modularity(analysis: &GraphAnalysis, communities: &[Vec<GraphNode>]) -> f64 {
    let graph = analysis.graph();
    let degree = |node: &GraphNode| (graph.links_out(*node).len() + graph.links_in(*node).len()) as f64;
    let all: f64 = graph.nodes().map(|node| degree(&node)).sum();
    communities
        .iter()
        .map(|group| {
            let inside = group.iter().flat_map(|node| graph.links_out(*node)).filter(|to| group.contains(to)).count();
            2.0 * inside as f64 / all - (group.iter().map(degree).sum::<f64>() / all).powi(2)
        })
        .sum()
}

#[test]
fn parts_are_counted_whichever_way_links_lead() {
    let parts = graph(6, &[(1, 0), (1, 2), (4, 3)]);
    assert_eq!((parts.components().count, parts.components().largest), (3, 3));
    let none = graph(0, &[]);
    assert_eq!((none.components().count, none.components().largest), (0, 0));
    assert_eq!(none.communities().count(), 0);
}

fn links() -> impl Strategy<Value = (usize, Vec<(usize, usize)>)> {
    (2..24_usize).prop_flat_map(|count| (Just(count), prop::collection::vec((0..count, 0..count), 0..60)))
}

/// How far each node is from one, along links.
fn distances(graph: &LinkGraph, from: GraphNode) -> BTreeMap<GraphNode, usize> {
    let mut known = BTreeMap::from([(from, 0)]);
    let mut next = VecDeque::from([from]);
    while let Some(node) = next.pop_front() {
        for to in graph.links_out(node) {
            if !known.contains_key(to) {
                known.insert(*to, known[&node] + 1);
                next.push_back(*to);
            }
        }
    }
    known
}

/// The number of shortest ways from one node to another, and of those through a third.
fn ways(graph: &LinkGraph, from: GraphNode, to: GraphNode, through: GraphNode) -> (f64, f64) {
    fn walk(
        graph: &LinkGraph,
        at: GraphNode,
        goal: GraphNode,
        left: usize,
        through: GraphNode,
        passed: bool,
    ) -> (f64, f64) {
        if left == 0 {
            return if at == goal { (1.0, f64::from(u8::from(passed))) } else { (0.0, 0.0) };
        }
        graph.links_out(at).iter().fold((0.0, 0.0), |sum, next| {
            let found = walk(graph, *next, goal, left - 1, through, passed || *next == through);
            (sum.0 + found.0, sum.1 + found.1)
        })
    }
    match distances(graph, from).get(&to) {
        Some(far) if *far > 0 => walk(graph, from, to, *far, through, false),
        Some(_) | None => (0.0, 0.0),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_graph_is_measured_as_a_slow_count_would((count, links) in links()) {
        let analysis = graph(count, &links);
        let graph = analysis.graph();
        let expected: BTreeSet<(usize, usize)> = links.iter().copied().filter(|(from, to)| from != to).collect();
        prop_assert_eq!(graph.link_count(), expected.len());
        prop_assert!((analysis.ranks().iter().sum::<f64>() - 1.0).abs() < 1e-9);

        for from in graph.nodes() {
            let far = distances(graph, from);
            for to in graph.nodes() {
                let way = super::paths::shortest(graph, (from, to));
                prop_assert_eq!(way.as_ref().map(|way| way.len() - 1), far.get(&to).copied());
                for step in way.unwrap_or_default().windows(2) {
                    prop_assert!(expected.contains(&(step[0] as usize, step[1] as usize)));
                }
            }
        }
        if count < 9 {
            for node in graph.nodes() {
                let others = || graph.nodes().filter(|other| *other != node);
                let share = |(all, through): (f64, f64)| if all > 0.0 { through / all } else { 0.0 };
                let sum: f64 = others()
                    .flat_map(|from| others().filter(move |to| *to != from).map(move |to| (from, to)))
                    .map(|(from, to)| share(ways(graph, from, to, node)))
                    .sum();
                let pairs = (count as f64 - 1.0) * (count as f64 - 2.0);
                let expected = if pairs > 0.0 { sum / pairs } else { 0.0 };
                prop_assert!((analysis.betweenness().values[node as usize] - expected).abs() < 1e-9);
            }
        }
        let mut pages: Vec<GraphNode> = communities(&analysis).concat();
        pages.sort_unstable();
        prop_assert_eq!(pages, graph.nodes().collect::<Vec<_>>(), "every page is in one group");
        let alone: Vec<Vec<GraphNode>> = graph.nodes().map(|node| vec![node]).collect();
        let found = communities(&analysis);
        prop_assert!(graph.link_count() == 0 || modularity(&analysis, &found) >= modularity(&analysis, &alone));
    }
}

/// A small tree: a circle of three, one page that leads into it, and one alone.
fn small() -> TestSpace {
    let space = TestSpace::new();
    space.put("d/a.md", "---\ntitle: Alpha fox\ntags: [one]\n---\n\n[[b]]\n");
    space.put("d/b.md", "---\ntitle: Beta fox\n---\n\n[c](../c.md) and [c again](../c.md#part)\n");
    space.put("c.md", "---\ntitle: Gamma\ntags: [two, one]\n---\n\n[[d/a]]\n");
    space.put("d/in.md", "---\ntitle: In\ntags: two\n---\n\n[[a]] [[nowhere]] ![](picture.png) [[in]]\n");
    space.put("d/deep/alone.md", "# Alone\n");
    space
}

#[test]
fn the_graph_has_every_page_and_every_link_once() {
    let space = small();
    let drawing = space.get("graph", json!({}));
    assert_eq!(drawing["nodes"][0], json!({ "id": "c.md", "title": "Gamma", "group": "" }));
    assert_eq!(drawing["nodes"][1], json!({ "id": "d/a.md", "title": "Alpha fox", "group": "d" }));
    assert_eq!(drawing["nodes"].as_array().unwrap().len(), 5);
    let edge = |source: &str, target: &str| json!({ "source": source, "target": target });
    let all = [edge("c.md", "d/a.md"), edge("d/a.md", "d/b.md"), edge("d/b.md", "c.md"), edge("d/in.md", "d/a.md")];
    assert_eq!(drawing["edges"], json!(all));
    let part = space.get("graph", json!({ "limit": 2 }));
    assert_eq!(part["edges"], json!([edge("d/a.md", "d/b.md")]), "the two of the highest rank");
    assert_eq!(TestSpace::new().get("graph", json!({})), json!({ "nodes": [], "edges": [] }));
}

#[test]
fn contradictions_are_linked_and_other_fields_by_setting() {
    let put = |space: TestSpace| {
        space.put("a.md", "---\ntitle: A\ncontradicts: [b, nowhere]\nsupersedes: \"[[c]]\"\n---\n");
        space.put("b.md", "# B\n");
        space.put("c.md", "# C\n");
        space.get("graph", json!({}))["edges"].clone()
    };
    let edge = |target: &str| json!({ "source": "a.md", "target": target });
    assert_eq!(put(TestSpace::new()), json!([edge("b.md")]));
    let supersedes = TestSpace::with("[links]\ntyped_fields = [\"supersedes\"]\n", &[]);
    assert_eq!(put(supersedes), json!([edge("c.md")]));
}

#[test]
fn analytics_tell_parts_orphans_groups_and_bridges() {
    let space = small();
    let told = space.get("graph_analytics", json!({ "limit": 1 }));
    assert_eq!((&told["total_nodes"], &told["total_edges"]), (&json!(5), &json!(4)));
    assert_eq!((&told["components"], &told["largest_component_size"]), (&json!(2), &json!(4)));
    assert_eq!(told["orphans"], json!(["d/deep/alone.md", "d/in.md"]));
    let top = &told["top_pages"];
    assert_eq!(top.as_array().unwrap().len(), 1);
    let named = (&top[0]["path"], &top[0]["in_degree"], &top[0]["out_degree"]);
    assert_eq!(named, (&json!("d/a.md"), &json!(2), &json!(1)));
    let cluster = &told["clusters"][0];
    let keywords = json!(["beta", "gamma", "fox"]);
    assert_eq!(*cluster, json!({ "id": 0, "size": 2, "top_page": "d/b.md", "keywords": keywords }));
    // Through `d/a.md`: c–b, in–b, in–c, of 12 pairs.
    let bridge = &told["bridges"][0];
    assert_eq!((&bridge["path"], bridge["betweenness"].as_f64()), (&json!("d/a.md"), Some(0.25)));
    assert_eq!(told.get("betweenness_sample"), None);
}

#[test]
fn centrality_is_listed_by_rank_up_to_the_limit() {
    let space = small();
    let pages = |arguments| space.get("graph_centrality", arguments)["pages"].clone();
    let all = pages(json!({}));
    assert_eq!(all.as_array().unwrap().len(), 5);
    let ranks: Vec<f64> = all.as_array().unwrap().iter().map(|page| page["pagerank"].as_f64().unwrap()).collect();
    assert!(ranks.is_sorted_by(|one, next| one >= next), "{ranks:?}");
    assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert_eq!(pages(json!({ "limit": 2 })), json!([all[0], all[1]]));
    assert_eq!(pages(json!({ "limit": u64::MAX })), all);
}

#[test]
fn a_graph_wide_answer_changes_its_etag_after_a_change() {
    let space = small();
    let all = || [space.get("graph", json!({})), space.get("graph_communities", json!({}))];
    let before = all();
    assert_eq!(all(), before, "written out once");
    space.put("new.md", "[[c]]\n");
    let nodes = |[graph, groups]: [Value; 2]| {
        let groups = groups["communities"].as_array().unwrap().iter().map(|one| one["pages"].as_array().unwrap().len());
        (graph["nodes"].as_array().unwrap().len(), groups.sum::<usize>())
    };
    assert_eq!((nodes(before), nodes(all())), ((5, 5), (6, 6)));
}

#[test]
fn communities_hold_every_page() {
    let space = small();
    assert_eq!(
        space.get("graph_communities", json!({})),
        json!({ "communities": [
            { "id": 0, "pages": ["c.md", "d/b.md"] },
            { "id": 1, "pages": ["d/a.md", "d/in.md"] },
            { "id": 2, "pages": ["d/deep/alone.md"] },
        ] })
    );
}

#[test]
fn the_shortest_way_follows_links_in_their_direction() {
    let space = small();
    let way = |from: &str, to: &str| space.get("graph_path", json!({ "from": from, "to": to }))["path"].clone();
    assert_eq!(way("d/in.md", "c.md"), json!(["d/in.md", "d/a.md", "d/b.md", "c.md"]));
    assert_eq!(way("c.md", "c.md"), json!(["c.md"]));
    let refused = |from: &str, to: &str| space.refusal("graph_path", json!({ "from": from, "to": to }));
    let none = "no path of links from `c.md` to `d/in.md`";
    assert_eq!(refused("c.md", "d/in.md"), (404, none.to_owned()));
    assert_eq!(refused("c.md", "x.md"), (404, "page not found: x.md".to_owned()));
    assert_eq!(refused("c.md", ""), (400, "to is required".to_owned()));
}

#[test]
fn a_walk_shows_what_is_around_a_page() {
    let space = small();
    let sibling = |path: &str| json!({ "path": path, "relation": "sibling_dir" });
    let tagged = |path: &str, tag: &str| json!({ "path": path, "relation": "sibling_tag", "shared_tag": tag });
    assert_eq!(
        space.get("graph_walk", json!({ "path": "d/a.md" })),
        json!({
            "path": "d/a.md", "links_out": ["d/b.md"], "links_in": ["c.md", "d/in.md"],
            "siblings": [sibling("d/b.md"), sibling("d/in.md"), tagged("c.md", "one")],
            "hub_score": 0.75, "in_degree": 2, "out_degree": 1,
        })
    );
    let siblings = |arguments| space.get("graph_walk", arguments)["siblings"].clone();
    assert_eq!(siblings(json!({ "path": "c.md" })), json!([tagged("d/in.md", "two"), tagged("d/a.md", "one")]));
    assert_eq!(siblings(json!({ "path": "d/a.md", "include_siblings": false })), json!([]));
    let one = space.get("graph_walk", json!({ "path": "d/a.md", "limit": 1 }));
    assert_eq!((&one["links_in"], &one["in_degree"]), (&json!(["c.md"]), &json!(2)));
    assert_eq!(siblings(json!({ "path": "d/a.md", "limit": 1 })), json!([sibling("d/b.md"), tagged("c.md", "one")]));
}

#[test]
fn answers_follow_what_is_written() {
    let space = small();
    let total = || space.get("graph_analytics", json!({}))["total_edges"].clone();
    assert_eq!(total(), 4);
    space.put("d/deep/alone.md", "[[in]]\n");
    assert_eq!(total(), 5);
    space.get("rename", json!({ "from": "d/b.md", "to": "b2.md" }));
    let way = space.get("graph_path", json!({ "from": "d/deep/alone.md", "to": "b2.md" }));
    assert_eq!(way["path"], json!(["d/deep/alone.md", "d/in.md", "d/a.md", "b2.md"]));
    space.get("delete", json!({ "path": "d/a.md" }));
    assert_eq!(total(), 2);
}

#[test]
fn invalid_graph_queries_are_refused() {
    let space = small();
    for (name, arguments, why) in [
        ("backlinks", json!({}), "path is required"),
        ("backlinks", json!({ "path": "/" }), "path is required"),
        ("backlinks", json!({ "path": "a.md", "limit": 0 }), "`limit`: 0 is too small; 1 to 10000 is allowed"),
        ("graph_analytics", json!({ "limit": -1 }), "`limit`: -1 is too small; 1 to 1000 is allowed"),
        ("graph_path", json!({ "from": "c.md" }), "to is required"),
        ("graph_walk", json!({}), "path is required"),
        ("graph_walk", json!({ "path": "/" }), "path is required"),
        ("graph_walk", json!({ "path": "../x" }), "path denied: `..` in `..`"),
        (
            "graph_walk",
            json!({ "path": "c.md", "include_siblings": 3 }),
            "`include_siblings`: invalid type: integer `3`, expected true or false",
        ),
    ] {
        assert_eq!(space.refusal(name, arguments.clone()), (400, why.to_owned()), "{name} {arguments}");
    }
    for (name, limit) in [("graph", json!(0)), ("graph_centrality", json!(-3)), ("graph_centrality", json!("all"))] {
        let (status, message) = space.refusal(name, json!({ "limit": limit }));
        assert!(status == 400 && message.starts_with("`limit`: "), "{message}");
    }
    let hostile = "'; DROP TABLE links; --";
    let refused = space.refusal("graph_walk", json!({ "path": hostile }));
    assert_eq!(refused, (404, format!("page not found: {hostile}")));
}

#[test]
fn backlinks_come_with_the_line_they_stand_in() {
    let space = TestSpace::new();
    space.put("b.md", "# B\n");
    space.put("a.md", "---\ntitle: First\n---\n\nSee [[b]] for more, and [[b]] again.\n");
    space.put("d/c.md", "[up](../b.md)\n");
    space.put("e.md", "`[[b]]`\n");
    let both = [
        json!({ "path": "a.md", "title": "First", "context": "See [[b]] for more, and [[b]] again." }),
        json!({ "path": "d/c.md", "title": "c", "context": "[up](../b.md)" }),
    ];
    let backlinks = |arguments| -> Value { space.get("backlinks", arguments) };
    assert_eq!(backlinks(json!({ "path": "b.md" })), json!(both));
    assert_eq!(backlinks(json!({ "path": "b.md", "limit": 1 })), json!([both[0]]));
    let caller = svcfs_base::Caller::new(svcfs_base::Protocol::Http);
    for (limit, total, lines) in [(1, 2, vec!["2 entries in total"]), (2, 2, vec![]), (3, 2, vec![])] {
        let cx = space.cx(&caller);
        let mut entries = AREA.operations.iter();
        let entry = entries.find(|entry| entry.name == "backlinks").unwrap();
        (entry.call)(json!({ "path": "b.md", "limit": limit }), &cx).unwrap();
        assert_eq!(
            (cx.response_meta().total, cx.response_meta().lines().collect::<Vec<_>>()),
            (Some(total), lines.iter().map(ToString::to_string).collect()),
            "{limit}"
        );
    }
    space.get("delete", json!({ "path": "a.md" }));
    assert_eq!(backlinks(json!({ "path": "b.md" })).as_array().unwrap().len(), 1);
    assert_eq!(backlinks(json!({ "path": "nowhere.md" })), json!([]));
}
