//! What an agent may read without a tool: `svc://schema`, `svc://file/{path}`, `svc://tree/{path}`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use svcfs_base::{Door, Fault, Reach, TreePath};
use svcfs_knowledge::kernel::{EntryKind, Space};
use svcfs_work::Lane;

use crate::app::App;
use crate::bind::decoded;
use crate::media;

const SCHEMA: &str = "svc://schema";
const FILE: &str = "svc://file/";
const TREE: &str = "svc://tree/";

/// Where the conventions of a knowledge base stand: in its configuration, else beside its pages (gaps.md D19).
const SCHEMA_PATHS: [&str; 2] = [".svc/SCHEMA.md", "SCHEMA.md"];
/// Levels of directories in a tree.
const TREE_DEPTH: usize = 3;
/// Names in a tree; what is beyond is counted.
const TREE_NAMES: usize = 5_000;

/// Resources with a fixed address.
pub(super) fn fixed() -> Vec<Resource> {
    vec![
        Resource::new(SCHEMA, "schema")
            .with_description("How this knowledge base is organised: kinds of pages, conventions, frontmatter")
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

/// Reads a resource.
///
/// # Errors
/// `NotFound` when there is none at this address, `Invalid` for a path that is denied, `Forbidden` for one beyond `reach`.
pub(super) async fn read(
    app: &Arc<App>,
    space: Arc<Space>,
    (uri, reach): (&str, Reach),
) -> Result<ReadResourceResult, Fault> {
    let address = uri.to_owned();
    let contents = app.blocking(Lane::Quick, move || contents(&space, &address, &reach)).await?;
    Ok(ReadResourceResult::new(vec![contents]))
}

fn contents(space: &Space, uri: &str, reach: &Reach) -> Result<ResourceContents, Fault> {
    let within = |path: &str| {
        let path = TreePath::parse(&decoded(path)?)?;
        space.check_reach(reach, Door::Mcp, &path).map(|()| path)
    };
    if uri == SCHEMA {
        return schema(space);
    }
    if let Some(path) = uri.strip_prefix(FILE) {
        return file(space, &within(path)?, uri);
    }
    if let Some(path) = uri.strip_prefix(TREE) {
        let path = within(path)?;
        let mut listing = Listing::default();
        listing.add(space, &path, 0)?;
        return Ok(ResourceContents::text(listing.finish(), uri).with_mime_type("text/plain"));
    }
    let uri = uri.escape_default();
    Err(Fault::not_found(format!("there is no resource `{uri}`; known are `{SCHEMA}`, `{FILE}…` and `{TREE}…`")))
}

fn schema(space: &Space) -> Result<ResourceContents, Fault> {
    for path in SCHEMA_PATHS {
        match file(space, &TreePath::parse(path)?, SCHEMA) {
            Err(fault) if fault.kind() == svcfs_base::Kind::NotFound => {}
            outcome => return outcome,
        }
    }
    Err(Fault::not_found("this knowledge base has no `.svc/SCHEMA.md` yet; write one to tell how it is organised"))
}

fn file(space: &Space, path: &TreePath, uri: &str) -> Result<ResourceContents, Fault> {
    let content = space.vfs.read(Door::Mcp, path)?.content;
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
struct Listing {
    text: String,
    names: usize,
}

impl Listing {
    fn add(&mut self, space: &Space, directory: &TreePath, depth: usize) -> Result<(), Fault> {
        for entry in space.vfs.list(Door::Mcp, directory)? {
            if entry.path.name().starts_with('.') {
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
