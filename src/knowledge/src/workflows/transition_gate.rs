//! Checks of `[workflow]` for writes of pages, through every protocol.

use std::borrow::Cow;
use std::sync::Arc;

use svcfs_base::{Caller, Fault, Kind, Permissions, fold_label};
use svcfs_config::WorkflowSettings;
use svcfs_text::frontmatter::{self, Frontmatter};
use svcfs_vfs::{ProposedFile, WriteGate};

use super::transition::{MovedPage, check_transition, quoted};
use super::{BlockerCheck, blocker_names, read_definition};
use crate::kernel::{AttachedSpace, Space};

/// Refuses writes that change `state` or `status` in a way that is not allowed.
#[derive(Clone)]
pub struct TransitionGate {
    settings: WorkflowSettings,
    space: AttachedSpace,
}

impl TransitionGate {
    /// A gate with the settings `[workflow]`. It checks nothing about workflows until it is
    /// [attached](Self::attach).
    pub fn new(settings: WorkflowSettings) -> Self {
        Self { settings, space: AttachedSpace::default() }
    }

    /// Gives the gate the space whose definitions and index it reads.
    pub fn attach(&self, space: &Arc<Space>) {
        self.space.attach(space);
    }
}

impl WriteGate for TransitionGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        let WorkflowSettings { enforce_transitions, transitions } = &self.settings;
        if !proposal.path.is_page() || !*enforce_transitions && transitions.is_empty() {
            return Ok(());
        }
        let new = frontmatter::parse(&text(&proposal.content));
        let old = proposal.old_content.as_ref().map(|old| frontmatter::parse(&text(old)));
        match new.text("workflow") {
            Some(workflow) if *enforce_transitions => {
                self.check_state((&*proposal, &caller.permissions), &workflow, (old.as_ref(), &new))
            }
            Some(_) => Ok(()),
            None => self.check_status(proposal, (old.as_ref(), &new)),
        }
    }
}

fn text(content: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(content)
}

impl TransitionGate {
    /// A page in a workflow: its state changes by a transition. A page that enters a workflow may
    /// have any of its states.
    fn check_state(
        &self,
        (proposal, permissions): (&ProposedFile, &Permissions),
        workflow: &str,
        (old, new): (Option<&Frontmatter>, &Frontmatter),
    ) -> Result<(), Fault> {
        let Some(space) = self.space.get() else { return Ok(()) };
        let path = &proposal.path;
        let old = old.filter(|old| old.text("workflow").as_deref() == Some(workflow));
        let from = old.and_then(|old| old.text("state"));
        let to = new.text("state");
        let names = |page: &Frontmatter| blocker_names(&page.map.clone().into());
        if old.is_none_or(|old| names(old) != names(new)) {
            BlockerCheck::new(&space.vfs, &space.index).check_acyclic(permissions, path, &new.map.clone().into())?;
        }
        if from.as_deref().map(fold_label) == to.as_deref().map(fold_label) {
            return Ok(());
        }
        let definition = read_definition(&space.vfs, workflow)
            .map_err(|fault| Fault::new(Kind::NotAllowed, format!("`{path}`: {}", fault.message())))?;
        let (Some(from), Some(to)) = (&from, &to) else {
            return match to.map(|to| (definition.state(&to).is_some(), to)) {
                Some((true, _)) => Ok(()),
                outcome => {
                    let names: Vec<&str> = definition.states.iter().map(|state| state.name.as_str()).collect();
                    let why = match outcome {
                        Some((_, to)) => format!("`{to}` is not a state of workflow `{workflow}`"),
                        None => format!("a page in workflow `{workflow}` cannot lose its `state`"),
                    };
                    let message = format!("`{path}`: {why}; its states: {}", quoted(&names));
                    Err(Fault::new(Kind::NotAllowed, message).with_detail("path", path.as_str()))
                }
            };
        };
        let page = MovedPage { path, frontmatter: &new.map, permissions };
        check_transition((&space.vfs, &space.index), &definition, &page, (from, to)).map(drop)
    }

    /// A page without a workflow: its status changes as `workflow.transitions` says.
    fn check_status(
        &self,
        proposal: &ProposedFile,
        (old, new): (Option<&Frontmatter>, &Frontmatter),
    ) -> Result<(), Fault> {
        let transitions = &self.settings.transitions;
        // A new status, as that of a new page, is no change.
        let Some(from) = old.filter(|old| old.text("workflow").is_none()).and_then(|old| old.text("status")) else {
            return Ok(());
        };
        let to = new.text("status");
        if transitions.is_empty() || to.as_deref().is_some_and(|to| transitions.allows(&from, to)) {
            return Ok(());
        }
        let (path, allowed) = (&proposal.path, transitions.targets(&from));
        let change = match (&to, &new.error) {
            (Some(to), _) => format!("`status` cannot change from `{from}` to `{to}`"),
            (None, Some(error)) => format!("`status` is `{from}`, and the new frontmatter is invalid: {error}"),
            (None, None) => format!("`status` cannot be removed while it is `{from}`"),
        };
        let choices = match &allowed[..] {
            [] => "no status follows it".to_owned(),
            names => format!("allowed: {}", quoted(names)),
        };
        let fault = Fault::new(Kind::NotAllowed, format!("`{path}`: {change}; {choices} (`workflow.transitions`)"));
        let fault = fault.with_detail("path", path.as_str()).with_detail("from_state", from);
        Err(fault.with_detail("to_state", to).with_detail("allowed", allowed))
    }
}
