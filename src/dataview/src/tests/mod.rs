//! Queries over pages in memory, compared with the results of an independent evaluator
//! (`tests/dataview`).

mod hostile;
mod oracle;
mod vault;
