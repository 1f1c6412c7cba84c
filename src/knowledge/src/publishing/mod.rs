//! Rendering of pages for a reader, and publishing.
//!
//! Invariant: [`render_page`] shows no more of another page (a link, an embed, an image, a row of a
//! query) than the route of its [`Audience`] serves directly.

mod addresses;
mod assets;
mod audience;
mod cache;
mod computed;
mod document;
mod feed;
mod folder_gate;
mod frontmatter;
mod listed_pages;
mod operations;
mod public_tree;
mod queries;
mod rendering;
mod site;
mod status;
#[cfg(test)]
mod tests;
mod views;

pub use addresses::public_path;
pub use assets::uses_asset;
pub use audience::Audience;
pub use cache::{PublishedDocument, PublishingCaches, SpaceState};
pub use computed::bytes_for_reader;
pub use document::{DocumentOptions, STYLESHEET, STYLESHEET_NAME, page_document};
pub use folder_gate::PublishFolderGate;
pub use listed_pages::{ListedPage, ListedPages, listed_pages};
pub use operations::AREA;
pub use public_tree::public_tree;
pub use rendering::{QueryUse, RenderedPage, read_admitted, render_page};
pub use site::{
    PublishedResource, failure_page, is_document, published_resource, robots, share_failure_page, site_map,
};
pub use views::{ViewCountWriter, ViewCounts};
