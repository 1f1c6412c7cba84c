//! Force-directed layout (Fruchterman and Reingold 1991, with their grid).

use std::collections::HashMap;

use super::{ConnectedGraph, NODE_GAP, Point, overlap};

/// Nodes that are further apart than this many ideal edge lengths do not repel each other.
const REPULSION_RANGE: f64 = 4.0;

/// Angle between two points of a spiral that fills a disc evenly.
const GOLDEN_ANGLE: f64 = 2.399_963_229_728_653;

pub(super) fn arrange(graph: &ConnectedGraph) -> Vec<Point> {
    let count = graph.len() as f64;
    let length = graph.sizes.iter().map(|size| size.diagonal()).sum::<f64>() / count + NODE_GAP;
    let mut centers = vec![Point::default(); graph.len()];
    for (index, (node, _)) in graph.breadth_first(graph.hub()).into_iter().enumerate() {
        let (radius, angle) = (length * (index as f64).sqrt(), index as f64 * GOLDEN_ANGLE);
        centers[node] = Point { x: radius * angle.cos(), y: radius * angle.sin() };
    }
    let rounds = if graph.len() <= 200 { 300 } else { 100 };
    let hottest = length * count.sqrt() / 4.0;
    for round in 0..rounds {
        let temperature = hottest * (1.0 - f64::from(round) / f64::from(rounds));
        let forces = forces(graph, &centers, length);
        for (center, force) in centers.iter_mut().zip(forces) {
            let strength = force.x.hypot(force.y);
            if strength > 0.0 {
                let step = strength.min(temperature) / strength;
                center.x += force.x * step;
                center.y += force.y * step;
            }
        }
    }
    overlap::remove(&graph.sizes, &mut centers);
    centers
}

/// The force on each node: along its edges, and away from the nodes around it.
fn forces(graph: &ConnectedGraph, centers: &[Point], length: f64) -> Vec<Point> {
    let range = length * REPULSION_RANGE;
    let cell = |point: &Point| ((point.x / range).floor() as i64, (point.y / range).floor() as i64);
    let mut grid: HashMap<(i64, i64), Vec<usize>> = HashMap::new();
    for (node, center) in centers.iter().enumerate() {
        grid.entry(cell(center)).or_default().push(node);
    }
    let force = |(node, center): (usize, &Point)| {
        let (mut force, (column, row)) = (Point::default(), cell(center));
        let around = (-1..=1).flat_map(|x| (-1..=1).map(move |y| (column + x, row + y)));
        for other in around.filter_map(|cell| grid.get(&cell)).flatten().filter(|other| **other != node) {
            let (x, y) = (center.x - centers[*other].x, center.y - centers[*other].y);
            let distance = x.hypot(y).max(1.0);
            if distance < range {
                let strength = length * length / (distance * distance);
                // Nodes at the same point go apart along the x axis.
                force.x +=
                    if x == 0.0 && y == 0.0 { if node < *other { -length } else { length } } else { x * strength };
                force.y += y * strength;
            }
        }
        for neighbor in &graph.neighbors[node] {
            let (x, y) = (centers[*neighbor].x - center.x, centers[*neighbor].y - center.y);
            let strength = x.hypot(y) / length;
            force.x += x * strength;
            force.y += y * strength;
        }
        force
    };
    centers.iter().enumerate().map(force).collect()
}
