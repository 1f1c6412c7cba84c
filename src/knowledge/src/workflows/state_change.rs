//! Changes of the state and the position of pages: assign, advance, reorder.
//!
//! Invariant: only the keys `workflow`, `state`, `ordinal`, `modified` and, of a finished task,
//! `status` change; everything else in a page stays as written. A page that changed since it was
//! read is read and checked again.

use std::time::Duration;

use serde_json::{Map, Value};
use svcfs_base::{Caller, Change, ChangeSet, ETag, EventAnnouncement, Fault, Kind, Precondition, TreePath, fold_label};
use svcfs_text::frontmatter;

use super::transition::{MovedPage, check_transition, is_started, quoted};
use super::{BlockerCheck, WorkflowDefinition, WorkflowState, read_definition};
use crate::files;
use crate::kernel::OperationContext;
use crate::tasks;

/// Attempts of a change that loses against concurrent writers.
const ATTEMPTS: usize = 8;

/// Wait for the index, which knows how many pages are in a state.
const INDEX_TIMEOUT: Duration = Duration::from_secs(10);

/// Distance between the ordinals of two cards, so that others fit in between.
const ORDINAL_STEP: usize = 1_000;

/// Frontmatter `type` of a task.
const TASK_TYPE: &str = "task";

/// The outcome of a change of one page.
#[derive(Debug)]
pub(super) struct StateChange {
    pub etag: ETag,
    pub from_state: String,
    pub to_state: String,
    /// Whether nothing was written, because the page was in that state.
    pub is_noop: bool,
}

/// A page as read.
struct ReadPage {
    etag: ETag,
    text: String,
    frontmatter: Map<String, Value>,
}

/// Reads a page, and checks the caller's precondition.
fn read_page(cx: &OperationContext<'_>, caller: &Caller, path: &TreePath) -> Result<ReadPage, Fault> {
    if !path.is_page() {
        return Err(Fault::invalid("path", format_args!("`{path}` is not a page; only `.md` files are in workflows")));
    }
    let file = files::read_file(cx, path)?;
    if let Precondition::OneOf(etags) = &caller.precondition
        && !etags.contains(&file.etag)
    {
        return Err(Fault::edit_conflict(path, Some(file.etag)));
    }
    let text = String::from_utf8(file.content.to_vec())
        .map_err(|_| Fault::invalid("path", format_args!("`{path}` is not UTF-8 text")))?;
    let parsed = frontmatter::parse(&text);
    if let Some(error) = parsed.error {
        return Err(Fault::invalid("path", format_args!("the frontmatter of `{path}` is invalid: {error}")));
    }
    Ok(ReadPage { etag: file.etag, text, frontmatter: parsed.map })
}

fn string<'m>(frontmatter: &'m Map<String, Value>, key: &str) -> Option<&'m str> {
    frontmatter.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
}

/// Sets keys of the frontmatter, one by one, so that the rest stays as written.
fn edit(text: &str, path: &TreePath, edits: &[(&str, Value)]) -> Result<String, Fault> {
    edits.iter().try_fold(text.to_owned(), |text, (key, value)| {
        frontmatter::set(&text, key, value).map_err(|error| Fault::invalid("path", format_args!("`{path}`: {error}")))
    })
}

/// The edits that give a page a state.
fn state_edits(
    cx: &OperationContext<'_>,
    state: &WorkflowState,
    frontmatter: &Map<String, Value>,
) -> Vec<(&'static str, Value)> {
    let mut edits = vec![("state", state.name.as_str().into())];
    if state.terminal && string(frontmatter, "type") == Some(TASK_TYPE) {
        let is_failed = fold_label(&state.name) == "failed";
        edits.push(("status", if is_failed { "failed" } else { "done" }.into()));
    }
    edits.push(("modified", cx.now().to_string().into()));
    edits
}

/// Whether a page is a task with the status of a terminal state.
fn is_ended_task(frontmatter: &Map<String, Value>) -> bool {
    string(frontmatter, "type") == Some(TASK_TYPE) && matches!(string(frontmatter, "status"), Some("done" | "failed"))
}

/// Repeats `work` while the page changes meanwhile. Only a caller without a precondition of its own
/// may have its request checked against newer content.
fn retry<T>(caller: &Caller, mut work: impl FnMut() -> Result<T, Fault>) -> Result<T, Fault> {
    let mut attempt = 1;
    loop {
        match work() {
            Err(fault)
                if fault.kind() == Kind::Conflict
                    && attempt < ATTEMPTS
                    && !matches!(caller.precondition, Precondition::OneOf(_)) =>
            {
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

/// Writes the page that was read, unless it changed meanwhile. `message` is the commit subject.
fn write(
    cx: &OperationContext<'_>,
    caller: &Caller,
    (path, etag): (&TreePath, ETag),
    (text, message): (String, String),
) -> Result<ETag, Fault> {
    let change = Change::put(path.clone(), text).with_precondition(Precondition::OneOf(vec![etag]));
    let written = cx.apply_as(caller, ChangeSet::from(change).with_message(message))?.single()?;
    tasks::release_finished(cx.space, &caller.actor(), path);
    Ok(written.etag.unwrap_or(etag))
}

/// Puts a page into a state of a workflow.
pub(super) fn assign(
    cx: &OperationContext<'_>,
    caller: &Caller,
    path: &TreePath,
    (workflow, state, ordinal): (&str, &str, Option<i64>),
) -> Result<StateChange, Fault> {
    let definition = read_definition(&cx.space.vfs, workflow)?;
    let Some(target) = definition.state(state) else {
        let names: Vec<&str> = definition.states.iter().map(|state| state.name.as_str()).collect();
        let message = format!("`{state}` is not a state of workflow `{workflow}`; its states: {}", quoted(&names));
        return Err(Fault::invalid("state", message));
    };
    retry(caller, || {
        let page = read_page(cx, caller, path)?;
        let from_state = string(&page.frontmatter, "state").unwrap_or_default().to_owned();
        let is_same_workflow = string(&page.frontmatter, "workflow") == Some(workflow);
        let is_same_ordinal =
            ordinal.is_none_or(|ordinal| page.frontmatter.get("ordinal") == Some(&Value::from(ordinal)));
        let to_state = target.name.clone();
        if is_same_workflow && from_state == to_state && is_same_ordinal {
            return Ok(StateChange { etag: page.etag, from_state, to_state, is_noop: true });
        }
        let frontmatter = Value::Object(page.frontmatter.clone());
        if !super::blocker_names(&frontmatter).is_empty() {
            let index = cx.up_to_date_index(INDEX_TIMEOUT)?;
            BlockerCheck::new(&cx.space.vfs, index).check_acyclic(&caller.permissions, path, &frontmatter)?;
        }
        let mut edits = vec![("workflow", Value::from(workflow))];
        edits.extend(state_edits(cx, target, &page.frontmatter));
        if !target.terminal && is_ended_task(&page.frontmatter) {
            edits.push(("status", "todo".into()));
        }
        edits.extend(ordinal.map(|ordinal| ("ordinal", ordinal.into())));
        let message = format!("{}: {path} → {workflow}/{to_state}", caller.actor());
        let etag = write(cx, caller, (path, page.etag), (edit(&page.text, path, &edits)?, message))?;
        Ok(StateChange { etag, from_state, to_state, is_noop: false })
    })
}

/// Moves a page to another state, if its workflow allows that.
pub(super) fn advance(
    cx: &OperationContext<'_>,
    caller: &Caller,
    path: &TreePath,
    (workflow, target): (Option<&str>, &str),
) -> Result<StateChange, Fault> {
    retry(caller, || {
        let page = read_page(cx, caller, path)?;
        let member = |key: &str| {
            string(&page.frontmatter, key).ok_or_else(|| {
                let why = format!("`{path}` has no `{key}`; give it one with `POST /workflow/assign`");
                Fault::invalid("path", why)
            })
        };
        let (name, from) = (member("workflow")?, member("state")?);
        if let Some(workflow) = workflow.filter(|workflow| *workflow != name) {
            let message = format!("`{path}` is in workflow `{name}`, not in `{workflow}`");
            return Err(Fault::new(Kind::NotAllowed, message).with_detail("workflow", name));
        }
        let definition = read_definition(&cx.space.vfs, name)?;
        let target_state = definition.state(target);
        if let Some(state) = target_state.filter(|state| fold_label(&state.name) == fold_label(from)) {
            let (from_state, to_state) = (state.name.clone(), state.name.clone());
            return Ok(StateChange { etag: page.etag, from_state, to_state, is_noop: true });
        }
        // Two pages must not take the last place of a state at the same time.
        let _places =
            target_state.is_some_and(|state| state.wip_limit.is_some()).then(|| cx.space.workflow_places.lock());
        let needs_index = target_state.is_some_and(|state| state.wip_limit.is_some() || is_started(&state.name));
        let index = if needs_index { cx.up_to_date_index(INDEX_TIMEOUT)? } else { &cx.space.index };
        let moved = MovedPage { path, frontmatter: &page.frontmatter, permissions: &caller.permissions };
        let state = check_transition((&cx.space.vfs, index), &definition, &moved, (from, target))?;
        let from_state = definition.state(from).map_or_else(|| from.to_owned(), |state| state.name.clone());
        let text = edit(&page.text, path, &state_edits(cx, state, &page.frontmatter))?;
        let message = format!("{}: {path} {from_state} → {}", caller.actor(), state.name);
        let etag = write(cx, caller, (path, page.etag), (text, message))?;
        Ok(StateChange { etag, from_state, to_state: state.name.clone(), is_noop: false })
    })
}

/// Sets the position of one page.
pub(super) fn reorder_one(
    cx: &OperationContext<'_>,
    caller: &Caller,
    (path, ordinal): (&TreePath, i64),
) -> Result<(ETag, bool), Fault> {
    retry(caller, || {
        let page = read_page(cx, caller, path)?;
        if string(&page.frontmatter, "workflow").is_none() {
            return Err(Fault::invalid("path", format_args!("`{path}` is in no workflow")));
        }
        let text = edit(&page.text, path, &[("ordinal", ordinal.into())])?;
        if text == page.text {
            return Ok((page.etag, true));
        }
        let message = format!("{}: order of {path}", caller.actor());
        Ok((write(cx, caller, (path, page.etag), (text, message))?, false))
    })
}

/// The page at a position, its new ordinal and ETag.
pub(super) type OrderedPage = (TreePath, i64, ETag);

/// Sets the order of pages of one state, from top to bottom, in one commit. Also returns whether
/// they had it already.
pub(super) fn reorder_all(
    cx: &OperationContext<'_>,
    caller: &Caller,
    (definition, state): (&WorkflowDefinition, &WorkflowState),
    paths: &[TreePath],
) -> Result<(Vec<OrderedPage>, bool), Fault> {
    retry(caller, || {
        let (mut changes, mut ordered) = (Vec::new(), Vec::with_capacity(paths.len()));
        for (index, path) in paths.iter().enumerate() {
            let page = read_page(cx, caller, path)?;
            let is_in_column = string(&page.frontmatter, "workflow") == Some(&definition.name)
                && string(&page.frontmatter, "state").is_some_and(|of| fold_label(of) == fold_label(&state.name));
            if !is_in_column {
                let message = format!(
                    "`paths[{index}]`: `{path}` is not in state `{}` of workflow `{}`; read the board again",
                    state.name, definition.name
                );
                return Err(Fault::new(Kind::NotAllowed, message).with_detail("path", path.as_str()));
            }
            let ordinal = i64::try_from((index + 1) * ORDINAL_STEP).map_err(Fault::internal)?;
            let text = edit(&page.text, path, &[("ordinal", ordinal.into())])?;
            let mut etag = page.etag;
            if text != page.text {
                etag = ETag::from_content(text.as_bytes());
                changes.push(Change::put(path.clone(), text).with_precondition(Precondition::OneOf(vec![page.etag])));
            }
            ordered.push((path.clone(), ordinal, etag));
        }
        if changes.is_empty() {
            return Ok((ordered, true));
        }
        let message = format!("{}: order of {}/{}", caller.actor(), definition.name, state.name);
        let set = ChangeSet::new(changes).with_message(message).with_announcement(EventAnnouncement::Bulk);
        cx.apply_as(caller, set)?;
        Ok((ordered, false))
    })
}
