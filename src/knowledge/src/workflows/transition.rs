//! Whether a page may change its state.

use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind, Permissions, TreePath, fold_label};
use svcfs_index::Index;
use svcfs_vfs::Vfs;

use super::{BlockerCheck, WorkflowDefinition, WorkflowState};

/// A state of this name needs its blockers finished.
const STARTED_STATE: &str = "in_progress";

/// A page, as it will be after the change.
pub(super) struct MovedPage<'a> {
    pub path: &'a TreePath,
    pub frontmatter: &'a Map<String, Value>,
    /// What the caller may see.
    pub permissions: &'a Permissions,
}

/// Checks the transition of a page from its state to another one.
///
/// # Errors
/// `NotAllowed` with the reason and the members `workflow`, `from_state`, `to_state` and `allowed`;
/// those of the index.
pub(super) fn check_transition<'d>(
    (vfs, index): (&Vfs, &Index),
    definition: &'d WorkflowDefinition,
    page: &MovedPage<'_>,
    (from, to): (&str, &str),
) -> Result<&'d WorkflowState, Fault> {
    let (path, name) = (page.path, &definition.name);
    let from_state = definition.state(from);
    let from_name = from_state.map_or(from, |state| state.name.as_str());
    let allowed = definition.targets(from_name);
    let refuse = |why: String| {
        let fault = Fault::new(Kind::NotAllowed, format!("`{path}`: {why}")).with_detail("workflow", name.as_str());
        let fault = fault.with_detail("from_state", from_name).with_detail("to_state", to);
        Err(fault.with_detail("allowed", allowed.clone()).with_detail("path", path.as_str()))
    };
    let choices = match &allowed[..] {
        [] => "no transition leaves it".to_owned(),
        names => format!("allowed from there: {}", quoted(names)),
    };
    let Some(target) = definition.state(to) else {
        let names: Vec<&str> = definition.states.iter().map(|state| state.name.as_str()).collect();
        return refuse(format!("`{to}` is not a state of workflow `{name}`; its states: {}", quoted(&names)));
    };
    match from_state {
        None => {
            return refuse(format!(
                "its state `{from}` is not a state of workflow `{name}`; give it one with `POST /workflow/assign`"
            ));
        }
        Some(state) if state.terminal => {
            return refuse(format!("`{from_name}` is a terminal state of workflow `{name}`, which no page leaves"));
        }
        Some(_) => {}
    }
    if !allowed.contains(&target.name.as_str()) {
        let to = &target.name;
        return refuse(format!("workflow `{name}` has no transition from `{from_name}` to `{to}`; {choices}"));
    }
    if let Some(limit) = target.wip_limit {
        let count = count_in_state(index, definition, &target.name, path)?;
        if count >= limit as usize {
            let to = &target.name;
            return refuse(format!("state `{to}` has {count} pages, its limit is {limit}; finish or move one first"));
        }
    }
    if is_started(&target.name) {
        let frontmatter = Value::Object(page.frontmatter.clone());
        let mut blockers = BlockerCheck::new(vfs, index);
        blockers.check_acyclic(page.permissions, path, &frontmatter)?;
        let unfinished = blockers.unfinished(path, &frontmatter)?;
        if !unfinished.is_empty() {
            return refuse(format!("it waits for {}; finish these first", named(&unfinished, page.permissions)));
        }
    }
    Ok(target)
}

/// Whether a state means that work on the page has started.
pub(super) fn is_started(state: &str) -> bool {
    fold_label(state).replace([' ', '-'], "_") == STARTED_STATE
}

/// Number of other pages in a state.
fn count_in_state(
    index: &Index,
    definition: &WorkflowDefinition,
    state: &str,
    path: &TreePath,
) -> Result<usize, Fault> {
    let pages = index.workflow_pages(&definition.name, Some(state))?;
    let is_counted = |frontmatter: &str| {
        let map: Map<String, Value> = serde_json::from_str(frontmatter).unwrap_or_default();
        let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
        text("workflow") == definition.name && fold_label(text("state")) == fold_label(state)
    };
    Ok(pages.iter().filter(|page| page.path != *path && is_counted(&page.frontmatter)).count())
}

/// The names of pages, without those that the caller may not see.
fn named(pages: &[TreePath], permissions: &Permissions) -> String {
    let visible: Vec<&str> = pages.iter().filter(|page| permissions.covers(page)).map(TreePath::as_str).collect();
    let hidden = "pages outside the folder of this key";
    match (visible.is_empty(), visible.len() == pages.len()) {
        (_, true) => quoted(&visible),
        (true, false) => hidden.to_owned(),
        (false, false) => format!("{} and {hidden}", quoted(&visible)),
    }
}

pub(super) fn quoted(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().take(20).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", quoted.join(", "))
}
