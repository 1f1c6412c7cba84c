//! What an operation is, what it may touch, and how a table of them is made.
//!
//! One rule: an operation is declared once. The router, the OpenAPI document, the agent tools, `llms.txt` and `svcfs call` are
//! loops over [`CATALOGUE`](crate::CATALOGUE); an operation itself knows no protocol.
//!
//! Why function pointers in a const table instead of boxed trait objects in a registry? Because the table then exists at
//! compile time: nothing can be registered late, twice or conditionally, and a test can walk all of it.

mod arguments;
mod context;
mod freshness;
mod inputs;
mod json_text;
mod min_seq;
mod operation;
mod response_meta;
mod route;
mod scope;
#[cfg(test)]
mod tests;

pub(crate) use arguments::given;
pub use context::{IndexProgress, OperationContext, ServerState, Space};
pub use freshness::IndexFreshness;
pub use inputs::{InputField, InputKind, OperationInputs};
pub use json_text::{JsonPieces, JsonText, PIECE_BYTES};
pub(crate) use json_text::{ListSeparator, write_json};
pub use min_seq::MinSeq;
pub use operation::{Operation, OperationAnswer, OperationArea, OperationEntry, OperationHandler};
pub use response_meta::ResponseMeta;
pub use route::{API_PREFIX, BodyKind, HttpMethod, ResponseMedia, Route};
pub use scope::FolderScope;

/// What [`Space::vfs`] answers doors with.
pub use svcfs_vfs::{EntryKind, EventChange, FeedEvent, FileContent, FileReader, FileView, OpenedFile};
