//! What an operation is, what it may touch, and how a table of them is made.
//!
//! One rule: an operation is declared once. The router, the OpenAPI document, the agent tools, `llms.txt` and `svcfs call` are
//! loops over [`CATALOGUE`](crate::CATALOGUE); an operation itself knows no protocol.
//!
//! Why function pointers in a const table instead of boxed trait objects in a registry? Because the table then exists at
//! compile time: nothing can be registered late, twice or conditionally, and a test can walk all of it.

mod arguments;
mod at_least;
mod context;
mod freshness;
mod inputs;
mod operation;
mod remarks;
mod route;
#[cfg(test)]
mod tests;
mod text;
mod within;

pub(crate) use arguments::given;
pub use at_least::AtLeast;
pub use context::{Cx, IndexProgress, Server, Space};
pub use freshness::Freshness;
pub use inputs::{Field, Inputs, Shape};
pub use operation::{Answer, Area, Ask, Entry, Operation};
pub use remarks::Remarks;
pub use route::{Accepts, Media, Method, PREFIX, Route};
pub use text::{JsonPieces, JsonText, PIECE_BYTES};
pub(crate) use text::{Separator, write_json};
pub use within::Within;

/// What [`Space::vfs`] answers doors with.
pub use svcfs_vfs::{Content, EntryKind, Event, EventChange, File, Opened, Reader};
