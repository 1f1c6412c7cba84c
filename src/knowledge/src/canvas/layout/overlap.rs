//! Removal of overlaps between nodes.

use std::collections::HashMap;

use super::{NODE_GAP, NodeSize, Point};

/// Space that must be between two nodes.
const MIN_GAP: f64 = NODE_GAP / 2.0;

/// Rounds in which overlapping nodes push each other apart.
const PUSH_ROUNDS: usize = 60;

/// Limit of pairs that are compared in all rounds.
const MAX_COMPARISONS: usize = 10_000_000;

/// Limit of the factor by which a drawing is enlarged so that the last overlaps disappear.
const MAX_ENLARGEMENT: f64 = 2.5;

/// Moves nodes so that none overlap. A crowded drawing is enlarged, then nodes go apart in small
/// steps: both preserve the picture. Nodes that still overlap move down to free space.
pub(super) fn remove(sizes: &[NodeSize], centers: &mut [Point]) {
    make_room(sizes, centers);
    let mut comparisons = 0;
    for _ in 0..PUSH_ROUNDS {
        match push_apart(sizes, centers, &mut comparisons) {
            false => return,
            true if comparisons > MAX_COMPARISONS => break,
            true => {}
        }
    }
    let factor = needed_enlargement(sizes, centers);
    if factor <= MAX_ENLARGEMENT {
        return enlarge(centers, factor);
    }
    let mut order: Vec<usize> = (0..centers.len()).collect();
    order.sort_by(|a, b| centers[*a].y.total_cmp(&centers[*b].y).then(a.cmp(b)));
    for (index, node) in order.iter().enumerate() {
        while let Some(other) = order[..index].iter().find(|other| overlap(sizes, centers, *node, **other).is_some()) {
            centers[*node].y = centers[*other].y + (sizes[*other].height + sizes[*node].height) / 2.0 + MIN_GAP + 1.0;
        }
    }
}

fn enlarge(centers: &mut [Point], factor: f64) {
    for center in centers {
        (center.x, center.y) = (center.x * factor, center.y * factor);
    }
}

/// Enlarges a drawing whose nodes would not fit into its area.
fn make_room(sizes: &[NodeSize], centers: &mut [Point]) {
    let needed: f64 = sizes.iter().map(|size| (size.width + NODE_GAP) * (size.height + NODE_GAP)).sum();
    let range = |value: fn(&Point) -> f64| {
        let values = || centers.iter().map(value);
        values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min)
    };
    let area = range(|point| point.x) * range(|point| point.y);
    if area > 1.0 && area < needed {
        enlarge(centers, (needed / area).sqrt());
    }
}

/// The factor that makes all overlaps disappear.
fn needed_enlargement(sizes: &[NodeSize], centers: &[Point]) -> f64 {
    let mut factor = 1.0_f64;
    for a in 0..centers.len() {
        for b in a + 1..centers.len() {
            if overlap(sizes, centers, a, b).is_some() {
                let x = ((sizes[a].width + sizes[b].width) / 2.0 + MIN_GAP) / (centers[a].x - centers[b].x).abs();
                let y = ((sizes[a].height + sizes[b].height) / 2.0 + MIN_GAP) / (centers[a].y - centers[b].y).abs();
                factor = factor.max(x.min(y));
            }
        }
    }
    factor
}

/// How far two nodes reach into each other; none if they do not.
fn overlap(sizes: &[NodeSize], centers: &[Point], a: usize, b: usize) -> Option<(f64, f64)> {
    let x = (sizes[a].width + sizes[b].width) / 2.0 + MIN_GAP - (centers[a].x - centers[b].x).abs();
    let y = (sizes[a].height + sizes[b].height) / 2.0 + MIN_GAP - (centers[a].y - centers[b].y).abs();
    // A small tolerance, so that nodes which were pushed apart count as apart.
    (x > 0.5 && y > 0.5).then_some((x, y))
}

/// Moves each pair of overlapping nodes apart along the shorter way. Returns whether there were
/// any.
fn push_apart(sizes: &[NodeSize], centers: &mut [Point], comparisons: &mut usize) -> bool {
    let cell_width = sizes.iter().map(|size| size.width).fold(1.0, f64::max) + MIN_GAP;
    let cell_height = sizes.iter().map(|size| size.height).fold(1.0, f64::max) + MIN_GAP;
    let cell = |point: &Point| ((point.x / cell_width).floor() as i64, (point.y / cell_height).floor() as i64);
    let mut grid: HashMap<(i64, i64), Vec<usize>> = HashMap::new();
    for (node, center) in centers.iter().enumerate() {
        grid.entry(cell(center)).or_default().push(node);
    }
    let mut has_moved = false;
    for node in 0..centers.len() {
        let (column, row) = cell(&centers[node]);
        let around = (-1..=1).flat_map(|x| (-1..=1).map(move |y| (column + x, row + y)));
        for other in around.filter_map(|cell| grid.get(&cell)).flatten().copied().filter(|other| *other > node) {
            *comparisons += 1;
            let Some((x, y)) = overlap(sizes, centers, node, other) else { continue };
            has_moved = true;
            let away = |a: f64, b: f64| if a < b { -1.0 } else { 1.0 };
            if x < y {
                let step = away(centers[node].x, centers[other].x) * x / 2.0;
                centers[node].x += step;
                centers[other].x -= step;
            } else {
                let step = away(centers[node].y, centers[other].y) * y / 2.0;
                centers[node].y += step;
                centers[other].y -= step;
            }
        }
    }
    has_moved
}
