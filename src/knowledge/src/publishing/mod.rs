//! Rendering of pages for a reader, and publishing.
//!
//! Invariant: [`render_page`] shows no more of another page (a link, an embed, an image) than the
//! route of its [`Audience`] serves directly; [`Audience::admits`] is the only test.

mod document;
mod operations;
mod publish;
mod rendering;
#[cfg(test)]
mod tests;

pub use document::{DocumentOptions, STYLESHEET, page_document};
pub use operations::AREA;
pub use publish::{PublishedEntry, list_published, public_path};
pub use rendering::{Audience, RenderedPage, read_admitted, render_page, uses_asset};
