//! Canvases: drawings of nodes and edges in JSON Canvas files.
//!
//! Invariant: `svcfs_text::canvas` knows the format; this module decides which edits and positions
//! there are. A canvas is a file like any other: every write takes the path of all writes.

mod edits;
mod generate;
mod layout;
mod operations;
mod query;
mod rearrange;
#[cfg(test)]
mod tests;

use svcfs_base::{Caller, Change, ChangeSet, ETag, Fault, Kind, MAX_PAGE_BYTES, Precondition, TreePath};
use svcfs_text::canvas::{Canvas, CanvasError, is_canvas_path};

use crate::files;
use crate::kernel::OperationContext;

pub use operations::AREA;

/// Author of changes of callers without a name.
const DEFAULT_ACTOR: &str = "system";

/// Attempts of an edit that loses against concurrent writers.
const MAX_ATTEMPTS: usize = 8;

/// Limit of nodes that can be arranged.
const MAX_ARRANGED_NODES: usize = 2_000;

/// Limit of edges that can be arranged.
const MAX_ARRANGED_EDGES: usize = 20_000;

/// A canvas as read.
struct ReadCanvas {
    etag: ETag,
    text: String,
}

/// Checks that a path is one of a canvas.
fn check_path(path: &TreePath) -> Result<(), Fault> {
    if is_canvas_path(path.as_str()) {
        return Ok(());
    }
    let message = format!("`{path}` is not the path of a canvas; use one that ends in `.canvas` or `.canvas.json`");
    Err(Fault::invalid("path", message))
}

fn read(cx: &OperationContext<'_>, path: &TreePath) -> Result<ReadCanvas, Fault> {
    check_path(path)?;
    let file = files::read_file(cx, path).map_err(|fault| match fault.kind() {
        Kind::NotFound => Fault::not_found(format!("canvas not found: {path}")).with_missing_path(path),
        _ => fault,
    })?;
    let text = String::from_utf8(file.content.to_vec())
        .map_err(|_| Fault::invalid("path", format_args!("`{path}` is not UTF-8 text")))?;
    Ok(ReadCanvas { etag: file.etag, text })
}

/// As [`read`]; none if there is no file.
fn read_if_present(cx: &OperationContext<'_>, path: &TreePath) -> Result<Option<ReadCanvas>, Fault> {
    match read(cx, path) {
        Err(fault) if fault.kind() == Kind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// The canvas in the file at a path.
fn parse<'t>(path: &TreePath, text: &'t str) -> Result<Canvas<'t>, Fault> {
    Canvas::parse(text).map_err(|error: CanvasError| Fault::invalid("path", format_args!("`{path}`: {error}")))
}

/// Writes a canvas under the caller's precondition.
fn write(caller: &Caller, cx: &OperationContext<'_>, path: &TreePath, text: String) -> Result<ETag, Fault> {
    write_with(cx, caller, path, text, caller.precondition.clone())
}

fn write_with(
    cx: &OperationContext<'_>,
    caller: &Caller,
    path: &TreePath,
    text: String,
    precondition: Precondition,
) -> Result<ETag, Fault> {
    if text.len() > MAX_PAGE_BYTES {
        return Err(Fault::too_large("the canvas", MAX_PAGE_BYTES));
    }
    let etag = ETag::from_content(text.as_bytes());
    let change = Change::put(path.clone(), text).with_precondition(precondition);
    let written = cx.apply_as(caller, ChangeSet::from(change))?.single()?;
    Ok(written.etag.unwrap_or(etag))
}

/// Replaces a canvas by what `edit` makes of its text: of the version that the caller names, else
/// of the present one, again if it changes meanwhile. `edit` gets none for a missing file.
fn edit<T>(
    cx: &OperationContext<'_>,
    caller: &Caller,
    path: &TreePath,
    edit: impl Fn(Option<&str>) -> Result<(String, T), Fault>,
) -> Result<(ETag, T), Fault> {
    let mut attempt = 1;
    loop {
        let present = read_if_present(cx, path)?;
        let etag = present.as_ref().map(|canvas| canvas.etag);
        match &caller.precondition {
            Precondition::OneOf(etags) if etag.is_none_or(|etag| !etags.contains(&etag)) => {
                return Err(Fault::edit_conflict(path, etag));
            }
            Precondition::Present | Precondition::Large(_) if etag.is_none() => {
                return Err(Fault::edit_conflict(path, None));
            }
            Precondition::Absent if etag.is_some() => return Err(Fault::exists(path)),
            _ => {}
        }
        let (text, output) = edit(present.as_ref().map(|canvas| canvas.text.as_str()))?;
        if let Some(present) = present.filter(|present| present.text == text) {
            return Ok((present.etag, output));
        }
        let precondition = etag.map_or(Precondition::Absent, |etag| Precondition::OneOf(vec![etag]));
        match write_with(cx, caller, path, text, precondition) {
            Err(fault)
                if matches!(fault.kind(), Kind::Conflict | Kind::Exists | Kind::PreconditionFailed)
                    && attempt < MAX_ATTEMPTS
                    && caller.precondition == Precondition::Any =>
            {
                attempt += 1;
            }
            outcome => return outcome.map(|etag| (etag, output)),
        }
    }
}
