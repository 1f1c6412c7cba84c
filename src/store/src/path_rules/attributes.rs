//! Lines of `.gitattributes`, and the attributes of a path.

use std::collections::HashMap;

use gix_attributes::StateRef;
use gix_attributes::parse::Kind;
use gix_glob::Pattern;
use svcfs_base::TreePath;

use super::{RuleChain, matches};

/// The value of an attribute; absent when no line sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttributeState {
    Set,
    Unset,
    Unspecified,
    Value(String),
}

/// The attributes of a path.
pub(super) type PathAttributes = HashMap<String, AttributeState>;

/// One line: a pattern, or the definition of a macro.
pub(super) struct AttributeLine {
    target: LineTarget,
    assignments: Vec<(String, AttributeState)>,
}

enum LineTarget {
    Pattern(Pattern),
    Macro(String),
}

impl AttributeLine {
    /// Parses a file. git allows macros in some files only; lines it cannot read are skipped.
    pub(super) fn parse(text: &[u8], allows_macros: bool) -> Vec<Self> {
        let line = |(kind, assignments, _): (Kind, gix_attributes::parse::Iter<'_>, usize)| {
            let target = match kind {
                Kind::Pattern(pattern) => LineTarget::Pattern(pattern),
                Kind::Macro(name) if allows_macros => LineTarget::Macro(name.as_str().to_owned()),
                Kind::Macro(_) => return None,
            };
            let assignments = assignments.flatten().map(|assignment| {
                let state = match assignment.state {
                    StateRef::Set => AttributeState::Set,
                    StateRef::Unset => AttributeState::Unset,
                    StateRef::Unspecified => AttributeState::Unspecified,
                    StateRef::Value(value) => AttributeState::Value(value.as_bstr().to_string()),
                };
                (assignment.name.as_str().to_owned(), state)
            });
            Some(Self { target, assignments: assignments.collect() })
        };
        gix_attributes::parse(text).flatten().filter_map(line).collect()
    }
}

impl RuleChain {
    /// The attributes of a file: the first source that mentions one decides, and its last line.
    pub(super) fn attributes(&self, path: &TreePath) -> PathAttributes {
        let root = TreePath::root();
        let own = self.directories.iter().rev().map(|(directory, rules)| (directory, &rules.attributes));
        let sources: Vec<_> = std::iter::once((&root, &self.settings.info_attributes))
            .chain(own)
            .chain([(&root, &self.settings.general_attributes)])
            .filter(|(_, lines)| !lines.is_empty())
            .collect();
        let mut found = PathAttributes::new();
        for (directory, lines) in &sources {
            for line in lines.iter().rev() {
                let LineTarget::Pattern(pattern) = &line.target else { continue };
                if !matches(pattern, (directory, path), false, self.settings.case) {
                    continue;
                }
                let mut pending: Vec<_> = line.assignments.iter().collect();
                // The last assignment of a line wins, and what a macro stands for follows it.
                while let Some((name, state)) = pending.pop() {
                    if found.contains_key(name) {
                        continue;
                    }
                    found.insert(name.clone(), state.clone());
                    if *state == AttributeState::Set {
                        if name == "binary" && !sources.iter().any(|(_, lines)| macro_of(lines, name).is_some()) {
                            for name in ["diff", "merge", "text"] {
                                found.entry(name.to_owned()).or_insert(AttributeState::Unset);
                            }
                        }
                        let definition = sources.iter().find_map(|(_, lines)| macro_of(lines, name));
                        pending.extend(definition.into_iter().flatten());
                    }
                }
            }
        }
        found
    }
}

fn macro_of<'l>(lines: &'l [AttributeLine], name: &str) -> Option<&'l [(String, AttributeState)]> {
    let is_definition = |line: &&AttributeLine| matches!(&line.target, LineTarget::Macro(defined) if defined == name);
    lines.iter().rev().find(is_definition).map(|line| &*line.assignments)
}
