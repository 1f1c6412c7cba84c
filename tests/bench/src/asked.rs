//! One question or deed, asked of trees of different sizes.

use std::time::Duration;

use anyhow::Result;
use svcfs_measure::run::BenchRun;
use svcfs_measure::series::{RoundBound, RoundSeries, round_bound};
use svcfs_measure::table::{MarkdownTable, TableCell, column, text};

/// A question or a deed.
pub struct Asked {
    /// For people.
    pub name: &'static str,
    /// The first time.
    pub first: Duration,
    /// From the second time on.
    pub later: RoundSeries,
}

/// Measures one that may be done again and again; `work` is handed how often it was done before.
///
/// # Errors
/// Those of the work; when the run is to end.
pub fn measured(
    run: &BenchRun,
    name: &'static str,
    bound_of: RoundBound,
    work: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Asked> {
    run.report(name);
    let once = run.measure_round(round_bound(1, 60), &mut *work)?;
    let mut later = RoundSeries::default();
    later.add(run.measure_round(bound_of, |number| work(number + 1))?);
    Ok(Asked { name, first: once.elapsed, later })
}

/// One row a question, three columns a tree; trees are told with the number of their pages.
pub fn table(name: &'static str, heading: &str, trees: &[(usize, &[Asked])]) -> MarkdownTable {
    let mut columns = vec![column(heading, "question")];
    for (pages, _) in trees {
        columns.push(column(format!("{pages} pages: first"), "first_us"));
        columns.push(column("p50", "p50_us"));
        columns.push(column("p99", "p99_us"));
    }
    let mut table = MarkdownTable::new(name, columns);
    let rows = trees.first().map_or(0, |(_, asked)| asked.len());
    for row in 0..rows {
        let asked: Vec<&Asked> = trees.iter().filter_map(|(_, asked)| asked.get(row)).collect();
        let cells = asked.iter().flat_map(|asked| {
            let percentile = |share| TableCell::Time(asked.later.percentile(share));
            [TableCell::Time(Some(asked.first)), percentile(0.5), percentile(0.99)]
        });
        let name = asked.first().map_or("", |asked| asked.name);
        table.add_row([text(name)].into_iter().chain(cells));
    }
    table
}
