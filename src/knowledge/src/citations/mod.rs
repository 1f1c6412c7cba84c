//! Papers that pages cite: one page each, by DOI or arXiv id.
//!
//! Invariant: a paper has one page, found by its normalised identifier. What a registry answers is
//! data of a stranger: only single lines of it become part of the page.

mod identifiers;
mod keys;
mod metadata;
mod operations;
mod page;
mod registry;
#[cfg(test)]
mod tests;

use svcfs_base::{Change, ChangeSet, CommitId, ETag, Fault, Kind, Precondition, TreePath};

use crate::files;
use crate::kernel::OperationContext;
use crate::memory::{child, folder_for, pages_with};
use identifiers::PaperId;
use metadata::PaperMetadata;
pub use operations::AREA;
use page::MetadataState;
use registry::LookupResult;

/// Folder of papers.
const FOLDER: &str = "papers";

/// Attempts to find a free name, and to complete a page beside concurrent writers.
const ATTEMPTS: usize = 64;

/// A paper to cite, with what the caller knows of it.
struct CiteRequest {
    /// The argument with the identifier.
    field: &'static str,
    id: PaperId,
    given: PaperMetadata,
}

/// The page of a paper.
struct CitedPaper {
    path: TreePath,
    etag: ETag,
    commit: Option<CommitId>,
    is_known: bool,
    state: MetadataState,
    title: Option<String>,
    note: Option<String>,
}

/// Finds or creates the page of a paper; completes one whose metadata is missing.
fn cite(cx: &OperationContext<'_>, request: &CiteRequest) -> Result<CitedPaper, Fault> {
    if let Some(known) = known_paper(cx, &request.id)?.filter(|known| known.state == MetadataState::Complete) {
        return Ok(known);
    }
    let (metadata, state, note) = match registry::look_up(cx, &request.id) {
        LookupResult::Known(found) => (found.or(&request.given), MetadataState::Complete, None),
        LookupResult::Unknown(note) if request.given.title.is_none() => {
            let message = format!("`{}`: {note}; check it, or send `title` to cite it all the same", request.field);
            return Err(Fault::not_found(message));
        }
        LookupResult::Unknown(note) | LookupResult::Unreachable(note) => {
            let state = if request.given.title.is_some() { MetadataState::Given } else { MetadataState::Pending };
            (request.given.clone(), state, Some(format!("{note}; call it again later to complete the page")))
        }
    };
    // Two calls for one paper must not both find none.
    let _creating = cx.space.creation_lock.lock();
    match known_paper(cx, &request.id)? {
        Some(known) if known.state == MetadataState::Complete => Ok(known),
        Some(known) if state > known.state => complete(cx, &known.path, (&request.id, &metadata, state), note),
        Some(known) => Ok(CitedPaper { note, ..known }),
        None => create(cx, (&request.id, &metadata, state), note),
    }
}

/// The page of a paper, if there is one.
fn known_paper(cx: &OperationContext<'_>, id: &PaperId) -> Result<Option<CitedPaper>, Fault> {
    let Some(path) = pages_with(cx, id.key(), id.value())?.into_iter().next() else { return Ok(None) };
    let file = files::read_file(cx, &path)?;
    let fields = files::frontmatter(&file.content);
    let title = fields.get("title").and_then(|title| title.as_str()).map(str::to_owned);
    let state = MetadataState::of(&fields);
    Ok(Some(CitedPaper { path, etag: file.etag, commit: None, is_known: true, state, title, note: None }))
}

fn create(
    cx: &OperationContext<'_>,
    (id, metadata, state): (&PaperId, &PaperMetadata, MetadataState),
    note: Option<String>,
) -> Result<CitedPaper, Fault> {
    let folder = folder_for(cx, &TreePath::parse(FOLDER)?)?;
    let key = keys::citation_key(id, metadata);
    for attempt in 0..ATTEMPTS {
        let citekey = format!("{key}{}", keys::suffix(attempt));
        let path = child(&folder, &format!("{citekey}.md"))?;
        if cx.tree().stat(cx.caller.protocol, &path).is_ok() {
            continue;
        }
        let text = page::new_page((id, metadata, state), &citekey, cx.now())?;
        let content = files::format_new_page(cx, &path, text)?;
        let change = Change::put(path.clone(), content).with_precondition(Precondition::Absent);
        let message = format!("{}: cite {path}", cx.caller.actor());
        match cx.apply(ChangeSet::from(change).with_message(message)) {
            Ok(applied) => {
                let commit = applied.commit;
                let etag = applied.single()?.etag.ok_or_else(|| Fault::file_not_found(&path))?;
                return Ok(CitedPaper {
                    path,
                    etag,
                    commit,
                    is_known: false,
                    state,
                    title: metadata.title.clone(),
                    note,
                });
            }
            Err(fault) if fault.kind() == Kind::PreconditionFailed => {}
            Err(fault) => return Err(fault),
        }
    }
    Err(Fault::new(Kind::Conflict, format!("`{folder}` has {ATTEMPTS} papers named `{key}`; rename some of them")))
}

/// Adds what is known now to the page of a paper. Its name stays: others link to it.
fn complete(
    cx: &OperationContext<'_>,
    path: &TreePath,
    (id, metadata, state): (&PaperId, &PaperMetadata, MetadataState),
    note: Option<String>,
) -> Result<CitedPaper, Fault> {
    let mut attempt = 1;
    loop {
        let file = files::read_file(cx, path)?;
        let text = std::str::from_utf8(&file.content);
        let text = text.map_err(|_| Fault::invalid("path", format_args!("`{path}` is not UTF-8 text")))?;
        let text = page::completed(text, (id, metadata, state), path.stem(), cx.now())?;
        let change = Change::put(path.clone(), text).with_precondition(Precondition::OneOf(vec![file.etag]));
        let message = format!("{}: complete {path}", cx.caller.actor());
        let fault = match cx.apply(ChangeSet::from(change).with_message(message)) {
            Ok(applied) => {
                let (path, commit, title) = (path.clone(), applied.commit, metadata.title.clone());
                let etag = applied.single()?.etag.unwrap_or(file.etag);
                return Ok(CitedPaper { path, etag, commit, is_known: true, state, title, note });
            }
            Err(fault) => fault,
        };
        let is_changed = || files::read_file(cx, path).is_ok_and(|now| now.etag != file.etag);
        if fault.kind() != Kind::Conflict || attempt == ATTEMPTS || !is_changed() {
            return Err(fault);
        }
        attempt += 1;
    }
}
