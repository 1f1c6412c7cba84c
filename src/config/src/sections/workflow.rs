//! `[workflow]`

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::fold_label;

/// Transitions that writes may make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WorkflowConfig {
    /// Check every write that changes the `state` of a page against its workflow, through every
    /// protocol. `POST /workflow/advance` is always checked.
    pub enforce_transitions: bool,
    /// Allowed changes of `status` on pages without `workflow`, such as `"todo->doing"`; `*` before
    /// the arrow means any status. An empty list allows all.
    pub transitions: Vec<String>,
}

/// Validated settings of transitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkflowSettings {
    /// Whether every write that changes the `state` of a page is checked.
    pub enforce_transitions: bool,
    /// Allowed changes of `status`; empty if all are allowed.
    pub transitions: StatusTransitions,
}

/// Allowed changes of `status`. Case and repeated spaces do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusTransitions {
    pairs: BTreeSet<(String, String)>,
    /// Those to which every status may change.
    from_any: BTreeSet<String>,
    /// All of them, as written.
    written: Vec<(String, String)>,
}

/// From any status.
const ANY: &str = "*";

impl StatusTransitions {
    /// Whether there is nothing to check.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// Whether a status may become another one.
    #[must_use]
    pub fn allows(&self, from: &str, to: &str) -> bool {
        let (from, to) = (fold_label(from), fold_label(to));
        from == to || self.from_any.contains(&to) || self.pairs.contains(&(from, to))
    }

    /// What a status may become.
    #[must_use]
    pub fn targets(&self, from: &str) -> Vec<&str> {
        let from = fold_label(from);
        let mut targets: Vec<&str> = Vec::new();
        for (first, to) in &self.written {
            if (first == ANY || fold_label(first) == from) && !targets.contains(&to.as_str()) {
                targets.push(to);
            }
        }
        targets
    }
}

impl WorkflowConfig {
    /// The settings, or the index of an invalid transition.
    pub(crate) fn resolve(&self) -> Result<WorkflowSettings, (usize, &'static str)> {
        let mut transitions = StatusTransitions::default();
        for (index, text) in self.transitions.iter().enumerate() {
            let (from, to) = text.split_once("->").ok_or((index, "must be `from->to`, such as `todo->doing`"))?;
            let (from, to) = (from.trim(), to.trim());
            if from.is_empty() || to.is_empty() || to == ANY || to.contains("->") {
                return Err((index, "must be `from->to` with one status on each side; only `from` may be `*`"));
            }
            transitions.written.push((from.to_owned(), to.to_owned()));
            match from {
                ANY => drop(transitions.from_any.insert(fold_label(to))),
                from => drop(transitions.pairs.insert((fold_label(from), fold_label(to)))),
            }
        }
        Ok(WorkflowSettings { enforce_transitions: self.enforce_transitions, transitions })
    }
}
