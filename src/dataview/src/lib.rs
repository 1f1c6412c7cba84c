//! The Dataview query language over the pages of a vault.
//!
//! [`DataviewQuery::parse`] reads a query, [`DataviewQuery::run`] evaluates it over a [`Vault`],
//! which gives pages, links and the time. Commands run in the order in which they are written:
//! each takes rows (pages, tasks, groups) and gives rows.
//!
//! Why a crate of its own and no option of DQL? The two languages disagree where they look alike:
//! null, the order of values of different types, `contains`, names of fields, GROUP BY. A query
//! that people bring from Obsidian must give the rows that they know.
//!
//! Invariant: any text may be a query, and any page a row. The time, the length of texts and lists,
//! and the depth of expressions are limited.
#![warn(missing_docs)]

mod error;
mod field_value;
mod functions;
mod page;
mod page_text;
mod run;
mod syntax;
#[cfg(test)]
mod tests;
mod time;
mod value;

pub use error::DataviewError;
pub use page::{ListItem, Page, Vault, VaultError};
pub use page_text::{PageText, frontmatter_links};
pub use run::result::{QueryResult, ResultGroup, ResultRow, TaskRow};
pub use run::{DataviewQuery, RunLimits};
pub use syntax::QueryType;
pub use time::Duration;
pub use value::{Link, LinkTarget, Value};
