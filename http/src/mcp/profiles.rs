//! Which tools a client lists: a profile, all or only those that read, and additional ones.
//!
//! A list may depend on the URL and the credentials, never on the connection (MCP 2026-07-28), so a
//! profile is part of the URL: `/mcp/x/core/readonly?tools=svc_diff`.

use svcfs_base::{Fault, Kind, escape_unprintable};
use svcfs_config::McpProfile;
use svcfs_knowledge::kernel::OperationArea;

use super::PATH;
use super::names::{self, PREFIX};
use crate::bind::parse_query;

/// What comes before the name of a profile.
const PROFILES: &str = "/mcp/x/";

/// The suffix that leaves out the tools that write, and refuses them.
const READ_ONLY: &str = "readonly";

/// The query parameter with additional tools.
const TOOLS: &str = "tools";

/// The tools of `core`, in the order of the list: those that read first.
const CORE: &[&str] = &[
    "context",
    "recall",
    "search",
    "read",
    "peek",
    "section",
    "tree",
    "write",
    "edit",
    "append",
    "rename",
    "delete",
    "query",
    "backlinks",
    "changes",
    "remember",
    "task_next",
];

/// The tools of `read`.
const READ: &[&str] = &[
    "context",
    "recall",
    "search",
    "search_semantic",
    "read",
    "peek",
    "section",
    "tree",
    "query",
    "query_meta",
    "aggregate",
    "backlinks",
    "graph_walk",
    "graph_path",
    "suggestions",
    "changes",
    "timeline",
    "versions",
    "version",
    "diff",
    "blame",
];

/// The tools of `memory`.
const MEMORY: &[&str] = &[
    "context",
    "recall",
    "search",
    "search_semantic",
    "read",
    "peek",
    "section",
    "remember",
    "forget",
    "cite",
    "memory_report",
    "write",
    "edit",
    "append",
    "backlinks",
    "suggestions",
    "changes",
    "timeline",
    "clip",
];

/// The tools of `tasks`.
const TASKS: &[&str] = &[
    "context",
    "search",
    "read",
    "peek",
    "section",
    "write",
    "edit",
    "append",
    "eligible",
    "task_next",
    "task_create",
    "task_progress",
    "task_done",
    "claim",
    "release",
    "claims_list",
    "workflow_list",
    "workflow_get",
    "workflow_board",
    "workflow_advance",
    "changes",
];

/// The operations of a profile in order; none for all of them.
pub(super) const fn operations_of(profile: McpProfile) -> Option<&'static [&'static str]> {
    match profile {
        McpProfile::Core => Some(CORE),
        McpProfile::Read => Some(READ),
        McpProfile::Memory => Some(MEMORY),
        McpProfile::Tasks => Some(TASKS),
        McpProfile::Full => None,
    }
}

/// The tools that a client has chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSelection {
    /// The profile; none is the one of the settings.
    profile: Option<McpProfile>,
    /// Whether tools that write are neither listed nor run.
    pub(super) is_read_only: bool,
    /// Names of additional operations.
    pub(super) additional: Vec<&'static str>,
}

/// Whether a path is one of the endpoint or of a profile, valid or not.
pub(crate) fn is_endpoint(path: &str) -> bool {
    path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl ToolSelection {
    /// The selection of a URL.
    ///
    /// # Errors
    /// `NotFound`, listing the profiles, for an unknown path; `Invalid` for an unknown parameter or
    /// tool.
    pub(super) fn of_url(path: &str, query: Option<&str>, catalogue: &'static [OperationArea]) -> Result<Self, Fault> {
        let mut selection = if path == PATH {
            Self::default()
        } else {
            let profile = path.strip_prefix(PROFILES).and_then(Self::of_profile);
            profile.ok_or_else(|| Fault::not_found(unknown_profile(path)))?
        };
        for (name, value) in parse_query(query.unwrap_or_default())? {
            if name != TOOLS {
                let name = escape_unprintable(&name);
                let message =
                    format!("unknown parameter `{name}`; `{TOOLS}` adds tools, and profiles are paths: {}", paths());
                return Err(Fault::new(Kind::Invalid, message));
            }
            for tool in value.split(',').map(str::trim).filter(|tool| !tool.is_empty()) {
                selection.additional.push(find_operation(tool, catalogue)?);
            }
        }
        Ok(selection)
    }

    /// The selection of a profile by name, such as `core` or `core/readonly`; none for an unknown
    /// one.
    pub fn of_profile(text: &str) -> Option<Self> {
        let (name, is_read_only) = match text.split_once('/') {
            Some((name, READ_ONLY)) => (name, true),
            Some(_) => return None,
            None => (text, false),
        };
        let profile = McpProfile::ALL.into_iter().find(|profile| profile.name() == name)?;
        Some(Self { profile: Some(profile), is_read_only, additional: Vec::new() })
    }

    /// The profile, if the settings have this one.
    pub(super) fn profile(&self, default: McpProfile) -> McpProfile {
        self.profile.unwrap_or(default)
    }
}

/// The names of all profiles for [`ToolSelection::of_profile`], for help texts.
pub fn profile_names() -> String {
    let names: Vec<String> = McpProfile::ALL.iter().map(|profile| format!("`{}`", profile.name())).collect();
    format!("{}, each also with `/{READ_ONLY}`", names.join(", "))
}

fn unknown_profile(path: &str) -> String {
    format!("there is no `{}`; the profiles of tools are {}", escape_unprintable(path), paths())
}

fn paths() -> String {
    let paths: Vec<String> = McpProfile::ALL.iter().map(|profile| format!("{PROFILES}{}", profile.name())).collect();
    format!(
        "{}, each also with /{READ_ONLY} and ?{TOOLS}=svc_diff,svc_blame; {PATH} is that of the settings",
        paths.join(", ")
    )
}

/// The name of an operation that is a tool; `svc_` may be absent.
fn find_operation(tool: &str, catalogue: &'static [OperationArea]) -> Result<&'static str, Fault> {
    let name = names::operation(tool);
    let operations = || catalogue.iter().flat_map(|area| area.operations).filter(|entry| entry.tool);
    if let Some(entry) = operations().find(|entry| entry.name == name) {
        return Ok(entry.name);
    }
    let advice = match names::nearest(name, operations().map(|entry| entry.name)) {
        Some(nearest) => format!("did you mean `{PREFIX}{nearest}`?"),
        None => format!("{PATH} lists all of them"),
    };
    Err(Fault::invalid(TOOLS, format_args!("there is no tool `{}`; {advice}", escape_unprintable(tool))))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use svcfs_knowledge::CATALOGUE;

    use super::*;

    fn selection(path: &str, query: &str) -> Result<ToolSelection, Fault> {
        ToolSelection::of_url(path, Some(query), CATALOGUE)
    }

    #[test]
    fn a_url_selects_a_profile_and_additional_tools() {
        for profile in McpProfile::ALL {
            let path = format!("/mcp/x/{}", profile.name());
            let chosen = selection(&path, "").unwrap();
            assert_eq!((chosen.profile(McpProfile::Core), chosen.is_read_only), (profile, false), "{path}");
            let chosen = selection(&format!("{path}/readonly"), "tools=svc_diff,blame&tools=%20tree,").unwrap();
            assert_eq!((chosen.profile(McpProfile::Core), chosen.is_read_only), (profile, true), "{path}");
            assert_eq!(chosen.additional, ["diff", "blame", "tree"]);
        }
        assert_eq!(selection("/mcp", "").unwrap().profile(McpProfile::Tasks), McpProfile::Tasks);
        assert_eq!(selection("/mcp", "tools=diff").unwrap().additional, ["diff"]);
        let too_much = ["/mcp/", "/mcp/x", "/mcp/x/", "/mcp/x/all", "/mcp/x/Core", "/mcp/x/core/", "/mcp/core"];
        for path in too_much.into_iter().chain(["/mcp/x/core/readonly/", "/mcp/x/core/read", "/mcp/x/core%20"]) {
            assert!(is_endpoint(path), "{path}");
            let fault = selection(path, "").unwrap_err();
            assert_eq!(fault.kind(), Kind::NotFound, "{path}");
            let is_listed = |profile: &McpProfile| fault.message().contains(&format!("/mcp/x/{}", profile.name()));
            assert!(McpProfile::ALL.iter().all(is_listed), "{fault}");
        }
        for (query, expected) in [
            ("profile=core", "unknown parameter `profile`"),
            ("tools=svc_raed", "did you mean `svc_read`?"),
            ("tools=svc_audit", "there is no tool `svc_audit`"),
            ("tools=%ff", "not valid UTF-8"),
        ] {
            let fault = selection("/mcp/x/core", query).unwrap_err();
            assert!(fault.kind() == Kind::Invalid && fault.message().contains(expected), "{query}: {fault}");
        }
        assert!(!is_endpoint("/mcpx") && !is_endpoint("/api/mcp"));
    }

    #[test]
    fn profiles_name_tools_that_exist() {
        let known: BTreeSet<&str> = CATALOGUE
            .iter()
            .flat_map(|area| area.operations)
            .filter(|entry| entry.tool)
            .map(|entry| entry.name)
            .collect();
        for profile in McpProfile::ALL {
            let names = operations_of(profile).unwrap_or_default();
            let unique: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(unique.len(), names.len(), "{} names a tool twice", profile.name());
            let missing: Vec<_> = unique.difference(&known).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", profile.name());
        }
    }
}
