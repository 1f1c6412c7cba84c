//! What svcfs knows how to do with a tree of pages: every operation, declared once, grouped by subject.
//!
//! One rule: a subject's rules live in its folder (`mod.rs`: real functions on real types), its wire shapes in
//! `operations.rs` there, and no folder knows a protocol. Doors loop over [`CATALOGUE`].
#![warn(missing_docs)]

pub mod access;
pub mod activity;
pub mod appearance;
pub mod audit;
pub mod content_quality;
pub mod files;
pub mod graph;
pub mod history;
pub mod insight;
pub mod kernel;
pub mod lint;
pub mod memory;
pub mod metrics;
pub mod pages;
pub mod query;
pub mod search;
pub mod spaces;
pub mod tasks;
pub mod usage;
pub mod views;

use kernel::OperationArea;

/// Every operation of svcfs, by subject.
pub const CATALOGUE: &[OperationArea] = &[
    files::AREA,
    pages::AREA,
    history::AREA,
    search::AREA,
    query::AREA,
    views::AREA,
    graph::AREA,
    activity::AREA,
    insight::AREA,
    content_quality::AREA,
    usage::AREA,
    memory::AREA,
    tasks::AREA,
    appearance::AREA,
    audit::AREA,
    spaces::AREA,
];
