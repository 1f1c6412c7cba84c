//! Force-directed layout (Fruchterman and Reingold 1991, with their grid).

use std::collections::HashMap;

use super::circles::on_circle;
use super::{ConnectedGraph, NODE_GAP, Point, overlap};

/// Width of a cell of the grid in ideal edge lengths. Nodes repel those in the cells around, two in
/// each direction.
const CELL_WIDTH: f64 = 2.0;

/// In a cell with more nodes these repel others together.
const MAX_SINGLE_NODES: usize = 12;

/// Angle between two points of a spiral that fills a disc evenly.
const GOLDEN_ANGLE: f64 = 2.399_963_229_728_653;

pub(super) fn arrange(graph: &ConnectedGraph) -> Vec<Point> {
    let count = graph.len() as f64;
    let length = graph.sizes.iter().map(|size| size.diagonal()).sum::<f64>() / count + NODE_GAP;
    let mut centers = vec![Point::default(); graph.len()];
    for (index, (node, _)) in graph.breadth_first(graph.hub()).into_iter().enumerate() {
        centers[node] = on_circle(length * (index as f64).sqrt(), index as f64 * GOLDEN_ANGLE);
    }
    let rounds = u16::try_from(60_000 / graph.len()).unwrap_or(u16::MAX).clamp(40, 300);
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

/// The nodes in a cell of the grid, and the sum of their positions.
#[derive(Default)]
struct Cell {
    nodes: Vec<usize>,
    sum: Point,
}

/// The force on each node: along its edges, and away from the nodes around it.
fn forces(graph: &ConnectedGraph, centers: &[Point], length: f64) -> Vec<Point> {
    let width = length * CELL_WIDTH;
    let cell = |point: &Point| ((point.x / width).floor() as i64, (point.y / width).floor() as i64);
    let mut grid: HashMap<(i64, i64), Cell> = HashMap::new();
    for (node, center) in centers.iter().enumerate() {
        let cell = grid.entry(cell(center)).or_default();
        cell.nodes.push(node);
        cell.sum = Point { x: cell.sum.x + center.x, y: cell.sum.y + center.y };
    }
    let force = |(node, center): (usize, &Point)| {
        let (mut force, (column, row)) = (Point::default(), cell(center));
        let mut repel = |other: Point, weight: f64, sign: f64| {
            let (x, y) = (center.x - other.x, center.y - other.y);
            let distance = x.hypot(y);
            if distance < 1.0 {
                // Nodes at the same point go apart along the x axis.
                force.x += sign * length;
            } else {
                let strength = weight * length * length / (distance * distance);
                force.x += x * strength;
                force.y += y * strength;
            }
        };
        for (x, y) in (-2..=2).flat_map(|x| (-2..=2).map(move |y| (x, y))) {
            let Some(cell) = grid.get(&(column + x, row + y)) else { continue };
            let is_own = (x, y) == (0, 0);
            if cell.nodes.len() <= MAX_SINGLE_NODES {
                for other in cell.nodes.iter().filter(|other| **other != node) {
                    repel(centers[*other], 1.0, if node < *other { -1.0 } else { 1.0 });
                }
                continue;
            }
            // A crowded cell repels like one heavy node in its middle.
            let (own, count) =
                if is_own { (*center, cell.nodes.len() - 1) } else { (Point::default(), cell.nodes.len()) };
            let weight = count as f64;
            let middle = Point { x: (cell.sum.x - own.x) / weight, y: (cell.sum.y - own.y) / weight };
            repel(middle, weight, if node % 2 == 0 { -1.0 } else { 1.0 });
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
