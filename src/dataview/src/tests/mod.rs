//! Queries over pages in memory, compared with the results of an independent evaluator
//! (`tests/dataview`).

mod oracle;
mod vault;
