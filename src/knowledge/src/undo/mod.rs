//! Undo of selected changes, the trash, and restoring versions.
//!
//! Invariant: to undo a change, its reverse is merged into the page as it is now, so later changes
//! by others stay. All pages of an undo are one change set.

mod apply;
mod hunks;
mod operations;
mod page;
mod plan;
mod restore;
mod selection;
#[cfg(test)]
mod tests;

pub use operations::AREA;
