//! A workflow definition, and what makes one valid.
//!
//! Invariant: every [`WorkflowDefinition`] in use was validated, whether it was saved by an
//! operation, through another protocol, or edited out-of-band.

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind, PathComponent, escape_unprintable, fold_label};

/// Limit of a definition as text.
pub(super) const MAX_DEFINITION_BYTES: usize = 1 << 20;

/// The member of a board with the pages whose state is not in the definition.
pub const UNMATCHED: &str = "__unmatched__";

/// A workflow: the states a page may have, and the transitions between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkflowDefinition {
    /// Name of the workflow
    #[serde(default)]
    pub name: String,
    /// The states, in the order of the board; pages start in the first
    pub states: Vec<WorkflowState>,
    /// The allowed transitions
    pub transitions: Vec<WorkflowTransition>,
}

/// A state of a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with `name`")]
pub struct WorkflowState {
    /// Name, such as `in_progress`
    pub name: String,
    /// Colour for user interfaces, such as `#888`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// Whether work ends here: no transition leaves it, and it frees the claim of the page
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminal: bool,
    /// Maximum number of pages that may be in this state at the same time
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wip_limit: Option<u32>,
}

/// An allowed transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with `from` and `to`")]
pub struct WorkflowTransition {
    /// The state it leaves
    pub from: String,
    /// The state it leads to
    pub to: String,
    /// Role of those who should do it, for user interfaces; the server does not check it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_role: Option<String>,
}

impl WorkflowDefinition {
    /// Parses and validates the content of a definition file. The name is that of the file.
    ///
    /// # Errors
    /// `Invalid`, naming the file and the field; `TooLarge`.
    pub fn parse(name: &str, json: &[u8]) -> Result<Self, Fault> {
        if json.len() > MAX_DEFINITION_BYTES {
            let limit = MAX_DEFINITION_BYTES >> 10;
            return Err(Fault::new(Kind::TooLarge, format!("workflow `{name}` exceeds the limit of {limit} KiB")));
        }
        // serde would also accept a list of the members.
        if json.trim_ascii_start().first().is_some_and(|byte| *byte != b'{') {
            return Err(invalid(name, "must be a JSON object with `states` and `transitions`"));
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        let parsed: Result<Self, _> = serde_path_to_error::deserialize(&mut reader);
        let definition = parsed.map_err(|error| match error.path().to_string() {
            path if matches!(path.as_str(), "." | "?") => invalid(name, error.inner()),
            path => invalid(name, format_args!("`{path}`: {}", error.inner())),
        })?;
        reader.end().map_err(|error| invalid(name, error))?;
        let definition = Self { name: name.to_owned(), ..definition };
        definition.validate()?;
        Ok(definition)
    }

    /// Checks names, transitions, and that every state can be reached from the first.
    ///
    /// # Errors
    /// `Invalid`, naming the workflow and the field.
    pub fn validate(&self) -> Result<(), Fault> {
        let states = self.check_states()?;
        let mut targets: HashMap<&str, Vec<&str>> = HashMap::new();
        for (index, WorkflowTransition { from, to, .. }) in self.transitions.iter().enumerate() {
            for (field, state) in [("from", from), ("to", to)] {
                if !states.contains_key(state.as_str()) {
                    let why = format!(
                        "`transitions[{index}].{field}`: `{}` is not a state of this workflow",
                        escape_unprintable(state)
                    );
                    return Err(invalid(&self.name, why));
                }
            }
            if states[from.as_str()].terminal {
                let why =
                    format!("`transitions[{index}].from`: `{from}` is a terminal state, which no transition leaves");
                return Err(invalid(&self.name, why));
            }
            targets.entry(from).or_default().push(to);
        }
        let Some(first) = self.states.first() else { return Ok(()) };
        let mut reachable = HashSet::from([first.name.as_str()]);
        let mut queue = vec![first.name.as_str()];
        while let Some(state) = queue.pop() {
            queue.extend(targets.remove(state).into_iter().flatten().filter(|to| reachable.insert(to)));
        }
        let unreachable: Vec<String> = (self.states.iter())
            .filter(|state| !reachable.contains(state.name.as_str()))
            .map(|state| format!("`{}`", state.name))
            .take(10)
            .collect();
        if unreachable.is_empty() {
            return Ok(());
        }
        let why = format!(
            "`states`: {} cannot be reached from `{}`, the first state; add transitions that lead there",
            unreachable.join(", "),
            first.name
        );
        Err(invalid(&self.name, why))
    }

    fn check_states(&self) -> Result<HashMap<&str, &WorkflowState>, Fault> {
        if self.states.is_empty() {
            return Err(invalid(&self.name, "`states`: at least one state is required"));
        }
        let (mut states, mut folded) = (HashMap::new(), HashMap::new());
        for (index, state) in self.states.iter().enumerate() {
            let refuse = |why: String| Err(invalid(&self.name, format!("`states[{index}]`: {why}")));
            let name = &state.name;
            if name.trim().is_empty() {
                return refuse("`name` must not be empty".to_owned());
            }
            // A state is a folder of the board on a mount.
            if let Err(fault) = PathComponent::parse(name) {
                return refuse(format!("`name`: {}", fault.message()));
            }
            if name.starts_with('.') || name == UNMATCHED || name.trim() != name {
                return refuse(format!(
                    "`{name}` cannot be a name of a state: it begins with a dot, has spaces at an end, or is reserved"
                ));
            }
            if state.wip_limit == Some(0) {
                return refuse("`wip_limit` must be at least 1".to_owned());
            }
            if let Some(earlier) = folded.insert(fold_label(name), name) {
                return refuse(format!("`{name}` and `{earlier}` are the same name; case and spaces do not count"));
            }
            states.insert(name.as_str(), state);
        }
        Ok(states)
    }

    /// The state with a name; case and repeated spaces do not count.
    #[must_use]
    pub fn state(&self, name: &str) -> Option<&WorkflowState> {
        let folded = fold_label(name);
        self.states.iter().find(|state| state.name == name || fold_label(&state.name) == folded)
    }

    /// The state in which pages start.
    #[must_use]
    pub fn first_state(&self) -> Option<&WorkflowState> {
        self.states.first()
    }

    /// The states to which transitions lead from a state.
    #[must_use]
    pub fn targets(&self, from: &str) -> Vec<&str> {
        let mut targets: Vec<&str> = Vec::new();
        for transition in self.transitions.iter().filter(|transition| transition.from == from) {
            if !targets.contains(&transition.to.as_str()) {
                targets.push(&transition.to);
            }
        }
        targets
    }

    /// The content of the definition file.
    ///
    /// # Errors
    /// `TooLarge`; `Internal` if it cannot be serialised.
    pub fn to_text(&self) -> Result<String, Fault> {
        let mut text = serde_json::to_string_pretty(self).map_err(Fault::internal)?;
        text.push('\n');
        if text.len() > MAX_DEFINITION_BYTES {
            let (name, limit) = (&self.name, MAX_DEFINITION_BYTES >> 10);
            return Err(Fault::new(Kind::TooLarge, format!("workflow `{name}` exceeds the limit of {limit} KiB")));
        }
        Ok(text)
    }
}

fn invalid(name: &str, why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Invalid, format!("workflow `{name}`: {why}"))
}
