//! Definition of operations, their context, and the table of all of them.
//!
//! Invariant: an operation is declared once. The router, the OpenAPI document, the agent tools,
//! `llms.txt` and `svcfs call` iterate over [`CATALOGUE`](crate::CATALOGUE); an operation knows no
//! protocol.
//!
//! The table is a constant with function pointers, not a registry of trait objects: it exists at
//! compile time, nothing is registered late, twice or conditionally, and a test can check it.

mod arguments;
mod as_of;
mod attached_space;
mod changes;
mod context;
mod freshness;
#[cfg(test)]
mod hidden_tests;
mod inputs;
mod json_text;
mod min_seq;
mod notices;
mod operation;
mod page_head;
mod random;
mod response_meta;
mod route;
mod scope;
mod server_state;
mod suggestions;
#[cfg(test)]
mod tests;

pub(crate) use arguments::{default_true, require_path, require_share};
pub use as_of::AsOf;
pub(crate) use as_of::past_file;
pub(crate) use attached_space::AttachedSpace;
pub use changes::DRY_RUN_KEY;
pub use context::{IndexProgress, OperationContext, Space};
pub use freshness::IndexFreshness;
pub use inputs::{InputField, InputKind, OperationInputs};
pub use json_text::{JsonPieces, JsonText, PIECE_BYTES};
pub(crate) use json_text::{ListSeparator, write_json};
pub use min_seq::MinSeq;
pub use notices::{Notice, NoticeBoard};
pub use operation::{Operation, OperationAnswer, OperationArea, OperationEntry, OperationHandler};
pub(crate) use page_head::{page_head, version_for_agents, version_suffix};
pub use random::random_bytes;
pub(crate) use random::random_hex;
pub use response_meta::ResponseMeta;
pub use route::{API_PREFIX, BodyKind, HttpMethod, ResponseMedia, Route};
pub use scope::FolderScope;
pub use server_state::ServerState;
pub use suggestions::add as add_suggestions;

/// Types in the results of [`Space::vfs`].
pub use svcfs_vfs::{
    CallerTree, ClaimEvent, EntryKind, EventChange, FeedEvent, FileContent, FileReader, FileView, OpenedFile,
};
