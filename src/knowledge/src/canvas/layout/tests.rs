use super::*;

const LAYOUTS: [CanvasLayout; 4] =
    [CanvasLayout::Hierarchical, CanvasLayout::Radial, CanvasLayout::Force, CanvasLayout::Circular];

/// Pairs of numbers below `count`, always the same.
fn random_edges(count: usize, edges: usize) -> Vec<(usize, usize)> {
    let mut state = 12_345_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % count
    };
    (0..edges).map(|_| (next(), next())).collect()
}

fn sizes(count: usize) -> Vec<NodeSize> {
    let size =
        |node: usize| NodeSize { width: 100.0 + (node % 7) as f64 * 60.0, height: 40.0 + (node % 5) as f64 * 70.0 };
    (0..count).map(size).collect()
}

fn overlapping(sizes: &[NodeSize], corners: &[Point]) -> usize {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|a, b| corners[*a].x.total_cmp(&corners[*b].x));
    let mut count = 0;
    for (index, a) in order.iter().enumerate() {
        let right = corners[*a].x + sizes[*a].width;
        let after = order[index + 1..].iter().take_while(|b| corners[**b].x < right);
        count += after
            .filter(|b| {
                corners[*a].y < corners[**b].y + sizes[**b].height && corners[**b].y < corners[*a].y + sizes[*a].height
            })
            .count();
    }
    count
}

#[test]
fn no_nodes_overlap_and_equal_graphs_look_equal() {
    let star: Vec<_> = (1..60).map(|node| (0, node)).collect();
    let chain: Vec<_> = (1..60).map(|node| (node - 1, node)).collect();
    let tree: Vec<_> = (1..60).map(|node| ((node - 1) / 3, node)).collect();
    let clique: Vec<_> = (0..15).flat_map(|a| (0..15).map(move |b| (a, b))).collect();
    let graphs = [
        ("none", 60, Vec::new()),
        ("star", 60, star),
        ("chain", 60, chain),
        ("tree", 60, tree),
        ("clique", 15, clique),
        ("sparse", 60, random_edges(60, 50)),
        ("dense", 150, random_edges(150, 450)),
        ("empty", 0, Vec::new()),
    ];
    for (name, count, edges) in graphs {
        for layout in LAYOUTS {
            let (sizes, case) = (sizes(count), format!("{name} {layout:?}"));
            let corners = arrange(layout, &sizes, &edges);
            assert_eq!(corners.len(), count, "{case}");
            assert!(corners.iter().all(|corner| corner.x.is_finite() && corner.y.is_finite()), "{case}");
            assert_eq!(overlapping(&sizes, &corners), 0, "{case}");
            assert_eq!(arrange(layout, &sizes, &edges), corners, "{case}");
        }
    }
}

#[test]
fn layers_follow_the_direction_of_edges() {
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)];
    let corners = arrange(CanvasLayout::Dot, &sizes(5), &edges);
    for (from, to) in edges {
        assert!(corners[from].y < corners[to].y, "{from} is above {to}: {corners:?}");
    }
}

#[test]
fn names_of_programs_give_the_same_as_names_of_layouts() {
    let edges = random_edges(20, 25);
    for (name, same) in [("dot", 0), ("twopi", 1), ("fdp", 2), ("neato", 2), ("circo", 3)] {
        let layout: CanvasLayout = serde_json::from_value(name.into()).unwrap();
        assert_eq!(arrange(layout, &sizes(20), &edges), arrange(LAYOUTS[same], &sizes(20), &edges), "{name}");
    }
}
