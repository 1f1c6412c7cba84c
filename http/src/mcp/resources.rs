//! Resources, which agents read without a tool: `svc://schema`, `svc://file/{path}`,
//! `svc://tree/{path}`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use svcfs_base::{Caller, Fault, Kind, Protocol, TreePath};
use svcfs_knowledge::kernel::{CallerTree, EntryKind, Space, add_suggestions};
use svcfs_knowledge::memory;
use svcfs_work::Lane;

use crate::app::AppState;
use crate::bind::percent_decode;
use crate::media;

pub(super) const SCHEMA: &str = "svc://schema";
pub(super) const FILE: &str = "svc://file/";
pub(super) const TREE: &str = "svc://tree/";

/// The page with the conventions of a knowledge base.
pub(super) const SCHEMA_PAGE: &str = "SCHEMA.md";
/// Levels of directories in a tree.
const TREE_DEPTH: usize = 3;
/// Maximum names in a tree; the rest is counted.
const MAX_TREE_NAMES: usize = 5_000;

/// Resources with a fixed URI.
pub(super) fn static_resources() -> Vec<Resource> {
    vec![
        Resource::new(SCHEMA, "schema")
            .with_description("How this knowledge base is organised: folders, kinds of pages, frontmatter, conventions, and how to write")
            .with_mime_type("text/markdown"),
    ]
}

/// Resources with a path in their URI.
pub(super) fn resource_templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{FILE}{{path}}"), "file")
            .with_description("A file's content")
            .with_mime_type("text/markdown"),
        ResourceTemplate::new(format!("{TREE}{{path}}"), "tree")
            .with_description("Directories and files below a directory, three levels deep, as indented lines")
            .with_mime_type("text/plain"),
    ]
}

/// The path in the URI of a file, not decoded.
pub(super) fn file_path(uri: &str) -> Option<&str> {
    uri.strip_prefix(FILE)
}

/// The URI of a file.
pub(super) fn file_uri(path: &TreePath) -> String {
    let segments = path.components().map(|segment| utf8_percent_encode(segment, NON_ALPHANUMERIC).to_string());
    format!("{FILE}{}", segments.collect::<Vec<_>>().join("/"))
}

/// Reads a resource. Errors: `NotFound` when there is none with this URI, `Invalid` for a path that
/// is not allowed, `Forbidden` for one outside `permissions`.
pub(super) async fn read(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (uri, caller): (&str, Caller),
) -> Result<ReadResourceResult, Fault> {
    let owned_uri = uri.to_owned();
    // The overview of a large tree counts all pages.
    let lane = if uri == SCHEMA { Lane::Slow } else { Lane::Quick };
    let contents = app.blocking(lane, move || contents(&space, &owned_uri, &caller)).await?;
    Ok(ReadResourceResult::new(vec![contents]))
}

fn contents(space: &Space, uri: &str, caller: &Caller) -> Result<ResourceContents, Fault> {
    let path = |path: &str| space.parse_path(&percent_decode(path)?);
    if uri == SCHEMA {
        return schema(space, caller);
    }
    if let Some(text) = uri.strip_prefix(FILE) {
        return file(space, (&path(text)?, caller), uri).map_err(|fault| add_suggestions(fault, space, caller));
    }
    if let Some(text) = uri.strip_prefix(TREE) {
        let path = path(text)?;
        space.check_path_access(&caller.permissions, Protocol::Mcp, &path)?;
        let mut listing = TreeListing::default();
        listing.add(space, &space.vfs.tree_of(caller), &path, 0)?;
        return Ok(ResourceContents::text(listing.finish(), uri).with_mime_type("text/plain"));
    }
    let uri = uri.escape_default();
    Err(Fault::not_found(format!("there is no resource `{uri}`; known are `{SCHEMA}`, `{FILE}…` and `{TREE}…`")))
}

/// The page with the conventions of the tree; an overview when it is missing or empty.
fn schema(space: &Space, caller: &Caller) -> Result<ResourceContents, Fault> {
    for path in memory::candidate_paths(&caller.permissions, SCHEMA_PAGE)? {
        match file(space, (&path, caller), SCHEMA) {
            Ok(ResourceContents::TextResourceContents { text, .. }) if text.trim().is_empty() => {}
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory | Kind::NotDirectory) => {}
            outcome => return outcome,
        }
    }
    Ok(ResourceContents::text(memory::describe_tree(space, &caller.permissions)?, SCHEMA)
        .with_mime_type("text/markdown"))
}

/// Reads a file that the caller may see.
fn file(space: &Space, (path, caller): (&TreePath, &Caller), uri: &str) -> Result<ResourceContents, Fault> {
    space.check_path_access(&caller.permissions, Protocol::Mcp, path)?;
    let content = space.vfs.tree_of(caller).read(Protocol::Mcp, path)?.content;
    let mime = media::of(path, &content);
    let mime = media::without_parameters(&mime).to_owned();
    let contents = match std::str::from_utf8(&content) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(_) => ResourceContents::blob(STANDARD.encode(&content), uri),
    };
    Ok(contents.with_mime_type(mime))
}

/// An indented list of names.
#[derive(Default)]
struct TreeListing {
    text: String,
    names: usize,
}

impl TreeListing {
    fn add(&mut self, space: &Space, tree: &CallerTree<'_>, directory: &TreePath, depth: usize) -> Result<(), Fault> {
        for entry in tree.list(Protocol::Mcp, directory)? {
            if !space.vfs.hidden_files().lists_name(&entry.path) {
                continue;
            }
            self.names += 1;
            if self.names > MAX_TREE_NAMES {
                continue;
            }
            let indent = "  ".repeat(depth);
            let name = entry.path.name();
            if entry.attributes.kind == EntryKind::Directory {
                self.text.push_str(&format!("{indent}{name}/\n"));
                if depth + 1 < TREE_DEPTH {
                    self.add(space, tree, &entry.path, depth + 1)?;
                }
            } else {
                self.text.push_str(&format!("{indent}{name} ({} bytes)\n", entry.attributes.size));
            }
        }
        Ok(())
    }
    fn finish(mut self) -> String {
        if let Some(more) = self.names.checked_sub(MAX_TREE_NAMES).filter(|more| *more > 0) {
            self.text.push_str(&format!("… and {more} more\n"));
        }
        self.text
    }
}
