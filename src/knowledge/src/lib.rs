//! All operations on a tree of pages, each declared once, grouped by subject.
//!
//! Invariant: the rules of a subject are in its folder (`mod.rs`), its operations with their
//! arguments and outputs in `operations.rs` there, and no folder knows a protocol. Protocols
//! iterate over [`CATALOGUE`].
#![warn(missing_docs)]

pub mod access;
pub mod activity;
pub mod appearance;
pub mod append_only;
pub mod audit;
pub mod backup;
pub mod canvas;
pub mod citations;
pub mod claims;
pub mod clip;
pub mod comments;
pub mod content_quality;
pub mod drafts;
pub mod files;
pub mod graph;
pub mod history;
pub mod idempotency;
pub mod insight;
pub mod jobs;
pub mod kernel;
pub mod limits;
pub mod lint;
pub mod memory;
pub mod merge;
pub mod metrics;
pub mod pages;
pub mod publishing;
pub mod query;
pub mod recall;
pub mod schemas;
pub mod search;
pub mod shares;
pub mod spaces;
pub mod tasks;
pub mod undo;
pub mod usage;
pub mod vectors;
pub mod views;
pub mod webhooks;
pub mod workflows;

use kernel::OperationArea;

/// All operations, by subject.
pub const CATALOGUE: &[OperationArea] = &[
    files::AREA,
    pages::AREA,
    history::AREA,
    undo::AREA,
    search::AREA,
    recall::AREA,
    vectors::AREA,
    query::AREA,
    views::AREA,
    graph::AREA,
    canvas::AREA,
    clip::AREA,
    activity::AREA,
    insight::AREA,
    content_quality::AREA,
    usage::AREA,
    memory::AREA,
    citations::AREA,
    claims::AREA,
    comments::AREA,
    shares::AREA,
    webhooks::AREA,
    workflows::AREA,
    tasks::AREA,
    schemas::AREA,
    drafts::AREA,
    publishing::AREA,
    appearance::AREA,
    audit::AREA,
    backup::AREA,
    spaces::AREA,
];
