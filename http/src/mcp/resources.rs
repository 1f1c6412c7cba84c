//! What an agent may read without a tool: `svc://schema`, `svc://file/{path}`, `svc://tree/{path}`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use svcfs_base::{Fault, Kind, Permissions, Protocol, TreePath};
use svcfs_knowledge::kernel::{EntryKind, Space};
use svcfs_knowledge::memory;
use svcfs_work::Lane;

use crate::app::AppState;
use crate::bind::decoded;
use crate::media;

const SCHEMA: &str = "svc://schema";
const FILE: &str = "svc://file/";
const TREE: &str = "svc://tree/";

/// The page with the conventions of a knowledge base.
const SCHEMA_PAGE: &str = "SCHEMA.md";
/// Levels of directories in a tree.
const TREE_DEPTH: usize = 3;
/// Names in a tree; what is beyond is counted.
const TREE_NAMES: usize = 5_000;

/// Resources with a fixed address.
pub(super) fn fixed() -> Vec<Resource> {
    vec![
        Resource::new(SCHEMA, "schema")
            .with_description("How this knowledge base is organised: folders, kinds of pages, frontmatter, conventions, and how to write")
            .with_mime_type("text/markdown"),
    ]
}

/// Resources with a path in their address.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{FILE}{{path}}"), "file")
            .with_description("A file's content")
            .with_mime_type("text/markdown"),
        ResourceTemplate::new(format!("{TREE}{{path}}"), "tree")
            .with_description("Directories and files below a directory, three levels deep, as indented lines")
            .with_mime_type("text/plain"),
    ]
}

/// The file that an address names, as it is written there.
pub(super) fn named(uri: &str) -> Option<&str> {
    uri.strip_prefix(FILE)
}

/// The address of a file.
pub(super) fn address(path: &TreePath) -> String {
    let segments = path.components().map(|segment| utf8_percent_encode(segment, NON_ALPHANUMERIC).to_string());
    format!("{FILE}{}", segments.collect::<Vec<_>>().join("/"))
}

/// Reads a resource.
///
/// # Errors
/// `NotFound` when there is none at this address, `Invalid` for a path that is denied, `Forbidden` for one beyond `reach`.
pub(super) async fn read(
    app: &Arc<AppState>,
    space: Arc<Space>,
    (uri, reach): (&str, Permissions),
) -> Result<ReadResourceResult, Fault> {
    let address = uri.to_owned();
    // An overview of a large tree counts all of its pages.
    let lane = if uri == SCHEMA { Lane::Slow } else { Lane::Quick };
    let contents = app.blocking(lane, move || contents(&space, &address, &reach)).await?;
    Ok(ReadResourceResult::new(vec![contents]))
}

fn contents(space: &Space, uri: &str, reach: &Permissions) -> Result<ResourceContents, Fault> {
    let path = |path: &str| TreePath::parse(&decoded(path)?);
    if uri == SCHEMA {
        return schema(space, reach);
    }
    if let Some(text) = uri.strip_prefix(FILE) {
        return file(space, (&path(text)?, reach), uri);
    }
    if let Some(text) = uri.strip_prefix(TREE) {
        let path = path(text)?;
        space.check_path_access(reach, Protocol::Mcp, &path)?;
        let mut listing = TreeListing::default();
        listing.add(space, &path, 0)?;
        return Ok(ResourceContents::text(listing.finish(), uri).with_mime_type("text/plain"));
    }
    let uri = uri.escape_default();
    Err(Fault::not_found(format!("there is no resource `{uri}`; known are `{SCHEMA}`, `{FILE}…` and `{TREE}…`")))
}

/// The page with the conventions of the tree, or an overview where there is none, or none with text.
fn schema(space: &Space, reach: &Permissions) -> Result<ResourceContents, Fault> {
    for path in memory::candidate_paths(reach, SCHEMA_PAGE)? {
        match file(space, (&path, reach), SCHEMA) {
            Ok(ResourceContents::TextResourceContents { text, .. }) if text.trim().is_empty() => {}
            Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory | Kind::NotDirectory) => {}
            outcome => return outcome,
        }
    }
    Ok(ResourceContents::text(memory::describe_tree(space, reach)?, SCHEMA).with_mime_type("text/markdown"))
}

/// A file, wherever its path comes from, as far as the caller may see it.
fn file(space: &Space, (path, reach): (&TreePath, &Permissions), uri: &str) -> Result<ResourceContents, Fault> {
    space.check_path_access(reach, Protocol::Mcp, path)?;
    let content = space.vfs.read(Protocol::Mcp, path)?.content;
    let mime = media::of(path, &content);
    let mime = mime.split(';').next().unwrap_or_default().to_owned();
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
    fn add(&mut self, space: &Space, directory: &TreePath, depth: usize) -> Result<(), Fault> {
        for entry in space.vfs.list(Protocol::Mcp, directory)? {
            if svcfs_base::is_hidden_name(entry.path.name()) {
                continue;
            }
            self.names += 1;
            if self.names > TREE_NAMES {
                continue;
            }
            let indent = "  ".repeat(depth);
            let name = entry.path.name();
            if entry.attributes.kind == EntryKind::Directory {
                self.text.push_str(&format!("{indent}{name}/\n"));
                if depth + 1 < TREE_DEPTH {
                    self.add(space, &entry.path, depth + 1)?;
                }
            } else {
                self.text.push_str(&format!("{indent}{name} ({} bytes)\n", entry.attributes.size));
            }
        }
        Ok(())
    }
    fn finish(mut self) -> String {
        if let Some(more) = self.names.checked_sub(TREE_NAMES).filter(|more| *more > 0) {
            self.text.push_str(&format!("… and {more} more\n"));
        }
        self.text
    }
}
