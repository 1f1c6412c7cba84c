//! The call that a failure names: it succeeds when the client sends it unchanged.
//!
//! Invariant: it never changes more than the refused call would have changed. Where a change was
//! refused because something is different from what the client assumed, it reads.

use std::fmt;

use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind};
use svcfs_knowledge::access::RETRY_AFTER_KEY;

use super::elicitation::{self, CONFIRM};
use super::names::PREFIX;
use super::repair;
use super::tools::ToolEntry;

/// Longest call in the text of a failure, in bytes.
const MAX_CALL_BYTES: usize = 4_096;

/// How much of the arguments is copied, in bytes.
const MAX_COPY_BYTES: usize = 2 * MAX_CALL_BYTES;

/// Maximum number of files of a call whose paths are searched for in the message.
const MAX_FILES: usize = 1_000;

/// A call that a client sent: its tool and the short arguments.
pub(super) struct SentCall<'t> {
    pub tool: &'t ToolEntry,
    pub arguments: Map<String, Value>,
    /// The paths of its files, if it has several.
    files: Vec<String>,
    /// Whether nothing was left out.
    is_complete: bool,
}

/// A call to send next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NextCall {
    /// Full name of the tool.
    pub tool: String,
    pub arguments: Map<String, Value>,
    /// The file that must exist.
    pub needs: Option<String>,
    /// What it is for.
    purpose: &'static str,
}

impl fmt::Display for NextCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.purpose.is_empty() {
            writeln!(formatter, "{}", self.purpose)?;
        }
        write!(formatter, "Next call: {} {}", self.tool, json!(self.arguments))
    }
}

impl NextCall {
    /// A call of an operation.
    pub(super) fn of(operation: &str, arguments: Value) -> Self {
        let arguments = match arguments {
            Value::Object(members) => members,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
        };
        Self { tool: format!("{PREFIX}{operation}"), arguments, needs: None, purpose: "" }
    }

    /// A search for tools.
    pub(super) fn tool_search(query: &str) -> Self {
        Self::of("tool_search", json!({ "query": query }))
    }

    /// For an existing file only.
    fn if_exists(mut self, path: &str) -> Self {
        self.needs = Some(path.to_owned());
        self
    }

    fn to(mut self, purpose: &'static str) -> Self {
        self.purpose = purpose;
        self
    }

    /// The same call for clients whose list does not have the tool.
    pub(super) fn through_tool_call(self) -> Self {
        let call = Self::of("tool_call", json!({ "name": self.tool, "arguments": self.arguments }));
        Self { needs: self.needs, purpose: self.purpose, ..call }
    }

    /// Whether it fits into the text of a failure.
    fn is_short(&self) -> bool {
        json!(self.arguments).to_string().len() <= MAX_CALL_BYTES
    }
}

impl<'t> SentCall<'t> {
    /// Copies the arguments of a call, except long ones.
    pub(super) fn new(tool: &'t ToolEntry, arguments: &Map<String, Value>) -> Self {
        let (mut copied, mut rest, mut is_complete) = (Map::new(), MAX_COPY_BYTES, true);
        for (name, value) in arguments {
            match copy(value, &mut rest) {
                Some(value) => drop(copied.insert(name.clone(), value)),
                None => is_complete = false,
            }
        }
        let files = arguments.get("files").and_then(Value::as_array).into_iter().flatten().take(MAX_FILES);
        let files = files.filter_map(|file| file.get("path")?.as_str().map(str::to_owned)).collect();
        Self { tool, arguments: copied, files, is_complete }
    }

    /// The candidates for the next call, best first.
    pub(super) fn next_calls(&self, fault: &Fault) -> Vec<NextCall> {
        let token = fault.detail().get(CONFIRM).filter(|_| elicitation::may_ask(self.name()));
        if let Some(token) = token {
            // It changes what the refused call would have changed; the message says what that is.
            return self
                .same(|arguments| drop(arguments.insert(CONFIRM.to_owned(), token.clone())))
                .map(|call| call.to("Ask your user first. If there is none, be sure that this is what was asked for."))
                .into_iter()
                .collect();
        }
        let mut calls = match fault.kind() {
            Kind::NotFound | Kind::Stale => self.after_missing(fault),
            Kind::Conflict | Kind::PreconditionFailed => self.after_conflict(fault),
            Kind::Exists | Kind::Locked | Kind::NotEmpty | Kind::IsDirectory | Kind::NotDirectory | Kind::TooLarge => {
                self.look()
            }
            Kind::Invalid | Kind::NameTooLong | Kind::UnsupportedType => self.after_invalid(fault),
            Kind::Rejected if fault.message().starts_with("this request id") => self.look(),
            Kind::Rejected => self.after_rejection(),
            Kind::NotAllowed => self.after_rule(fault),
            Kind::Unauthenticated | Kind::Forbidden | Kind::ReadOnly => self.after_denial(fault),
            Kind::RateLimited => self.after_rate_limit(),
            Kind::Disabled | Kind::NotEnabled | Kind::Unavailable => self.without_component(fault),
            Kind::Upstream | Kind::FetchFailed => vec![NextCall::of("tree", json!({}))],
            Kind::NoSpace | Kind::DiskFailed | Kind::Internal => return Vec::new(),
        };
        // The arguments of the tool, whatever is wrong with them.
        let name = format!("{PREFIX}{}", self.tool.entry.name);
        calls.push(NextCall::tool_search(&name));
        calls.retain(NextCall::is_short);
        calls
    }

    /// The same call with other arguments; none if some of them are too long to repeat.
    fn same(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Option<NextCall> {
        let mut arguments = self.arguments.clone();
        change(&mut arguments);
        let call = NextCall::of(self.tool.entry.name, Value::Object(arguments));
        self.is_complete.then_some(call)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).and_then(Value::as_str)
    }

    /// The path that the call is about: the one in the message, if it has several.
    fn path(&self, fault: Option<&Fault>) -> Option<&str> {
        let named = ["path", "from", "to", "page"].into_iter().filter_map(|name| self.text(name));
        let paths: Vec<&str> = named.chain(self.files.iter().map(String::as_str)).collect();
        let is_named = |path: &&&str| fault.is_some_and(|fault| fault.message().contains(&format!("`{path}`")));
        paths.iter().find(is_named).or_else(|| paths.first()).copied()
    }

    fn read(path: &str) -> NextCall {
        NextCall::of("read", json!({ "path": path })).if_exists(path)
    }

    fn name(&self) -> &'static str {
        self.tool.entry.name
    }

    /// What is at a path: a file or the entries of a folder.
    fn look(&self) -> Vec<NextCall> {
        let mut calls = Vec::new();
        for path in ["to", "path", "from"].into_iter().filter_map(|name| self.text(name)) {
            calls.push(Self::read(path));
            // A folder exists, too, but `read` is for files: see the check of `needs`.
            calls.push(NextCall::of("tree", json!({ "path": path, "depth": 1 })).if_exists(&format!("{path}/")));
        }
        calls.extend(self.path(None).map(Self::read));
        calls.push(NextCall::of("tree", json!({})));
        calls
    }

    /// The nearest name for something that does not exist.
    fn after_missing(&self, fault: &Fault) -> Vec<NextCall> {
        let mut calls = Vec::new();
        if fault.message().starts_with("`as_of`") {
            calls.push(NextCall::of("timeline", json!({ "limit": 10 })));
        }
        if let Some(path) = self.text("path").filter(|_| fault.missing_path().is_some()) {
            let list = NextCall::of("tree", json!({ "path": path, "depth": 1 }));
            calls.push(list.if_exists(&format!("{}/", path.trim_end_matches('/'))).to("It is a folder; list it."));
        }
        let suggested = fault.detail().get("suggestions").and_then(|paths| paths.get(0)?.as_str());
        if let Some(suggested) = suggested {
            if self.tool.entry.is_read_only() {
                let missing = fault.missing_path().map(ToString::to_string).unwrap_or_default();
                let is_wrong = |value: &Value| value.as_str().is_some_and(|text| text.trim_matches('/') == missing);
                let wrong = self.arguments.iter().find(|(_, value)| is_wrong(value)).map(|(name, _)| name.clone());
                let repaired = wrong
                    .and_then(|name| self.same(|arguments| drop(arguments.insert(name, suggested.into()))))
                    .map(|call| call.if_exists(suggested));
                calls.extend(repaired);
            }
            // A change is not repeated for a page that was guessed.
            calls.push(Self::read(suggested));
        }
        if let Some(as_of) = self.text("as_of").filter(|_| fault.missing_path().is_some()) {
            calls.push(NextCall::of("tree", json!({ "as_of": as_of })));
        }
        let path = self.path(Some(fault));
        if self.text("draft_id").is_some() && fault.missing_path().is_none() {
            calls.push(NextCall::of("draft_list", json!({})));
        }
        if self.name().starts_with("workflow") || self.text("workflow").is_some() {
            calls.push(NextCall::of("workflow_list", json!({})));
        }
        if self.name().starts_with("view") {
            calls.push(NextCall::of("views_list", json!({})));
        }
        if let Some(path) = path.filter(|_| fault.missing_path().is_none()) {
            let details = match self.name() {
                "section" => "peek",
                "tree" => "read",
                _ => "versions",
            };
            calls.push(NextCall::of(details, json!({ "path": path })).if_exists(path));
        }
        let words = fault.missing_path().map(|path| search_words(path.name())).unwrap_or_default();
        if !words.is_empty() {
            calls.push(
                NextCall::of("search", json!({ "query": words })).to("No page has a similar name; search for it."),
            );
        }
        calls.push(NextCall::of("tree", json!({})));
        calls
    }

    /// What is there now, after another writer was first.
    fn after_conflict(&self, fault: &Fault) -> Vec<NextCall> {
        if let Some(active) = fault.detail().get("active_claim") {
            return self.after_lost_claim(fault, active);
        }
        let mut calls = Vec::new();
        match (self.text("draft_id"), self.name()) {
            (Some(draft), _) => calls.push(NextCall::of("draft_diff", json!({ "draft_id": draft }))),
            (None, "draft_create") => calls.push(NextCall::of("draft_list", json!({}))),
            (None, "workflow_save") => {
                calls.extend(self.text("name").map(|name| NextCall::of("workflow_get", json!({ "name": name }))));
            }
            (None, _) => {}
        }
        let stated = fault.detail().get("path").and_then(Value::as_str);
        calls.extend(self.path(Some(fault)).or(stated).map(Self::read));
        // The file is gone: without the precondition it is created.
        calls.extend(self.same(|arguments| drop(arguments.remove("if_match"))).filter(|_| self.name() == "write"));
        calls.extend(self.path(Some(fault)).map(|path| NextCall::of("versions", json!({ "path": path }))));
        calls
    }

    fn after_lost_claim(&self, fault: &Fault, active: &Value) -> Vec<NextCall> {
        let stated = fault.detail().get("path").and_then(Value::as_str);
        let Some(path) = stated.or_else(|| active["path"].as_str()).or_else(|| self.path(Some(fault))) else {
            return Vec::new();
        };
        let actor = self.text("actor");
        let is_own =
            active["actor"].as_str().or_else(|| active["claimed_by"].as_str()).is_some_and(|by| Some(by) == actor);
        let mut calls = Vec::new();
        if active.is_null() || is_own {
            let actor = actor.map_or_else(anonymous_name, str::to_owned);
            let claim = NextCall::of("claim", json!({ "path": path, "actor": actor }));
            calls.push(claim.to("Claim it, read it, and send the new `fence` with your write."));
        } else {
            let list = NextCall::of("claims_list", json!({ "path_prefix": path }));
            calls.push(list.to("Another actor has claimed it; wait until `expires_at`, or work on something else."));
        }
        calls
    }

    /// The same call with right arguments, or where right ones are found.
    fn after_invalid(&self, fault: &Fault) -> Vec<NextCall> {
        let (mut calls, message) = (Vec::new(), fault.message());
        if message.starts_with("actor is required") {
            calls.extend(self.same(|arguments| drop(arguments.insert("actor".to_owned(), anonymous_name().into()))));
        }
        if self.is_complete
            && let Some(arguments) = repair::repair(self.tool, &self.arguments)
        {
            calls.push(NextCall::of(self.name(), Value::Object(arguments)));
        }
        let missing = message.split_once(" is required").map(|(name, _)| name).unwrap_or_default();
        let path = self.path(None);
        if message.starts_with("path denied") {
            calls.push(NextCall::of("tree", json!({})).to("Paths are relative to the root, such as `notes/today.md`."));
        }
        match (missing, self.name()) {
            (_, "diff" | "version") if path.is_some() => {
                calls.extend(path.map(|path| NextCall::of("versions", json!({ "path": path })).if_exists(path)));
            }
            ("path" | "from" | "to" | "query", _) if !self.tool.entry.is_read_only() || missing != "query" => {
                calls.push(NextCall::of("tree", json!({})));
            }
            ("draft_id" | "id", _) => calls.push(NextCall::of("draft_list", json!({}))),
            ("name" | "target_state", name) if name.starts_with("workflow") => {
                calls.push(NextCall::of("workflow_list", json!({})));
            }
            ("name", name) if name.starts_with("views") => calls.push(NextCall::of("views_list", json!({}))),
            (_, "section") => {
                calls.extend(path.map(|path| NextCall::of("peek", json!({ "path": path })).if_exists(path)));
            }
            (_, "edit") => calls.extend(path.map(Self::read)),
            (_, "undo") => calls.push(NextCall::of("timeline", json!({}))),
            (_, "query") if message.starts_with("`q`") || message.starts_with("`query`") => {
                let example = json!({ "query": "TABLE title SORT _updated DESC", "limit": 10 });
                calls.push(NextCall::of("query", example).to("A query that works, as an example:"));
            }
            _ => {}
        }
        if message.starts_with("`as_of`") {
            calls.push(NextCall::of("timeline", json!({ "limit": 10 })));
        }
        calls.extend(self.without_named_argument(message));
        if self.arguments.contains_key("if_match") {
            calls.extend(path.map(Self::read));
        }
        calls
    }

    /// The same question without the optional argument that the message names.
    fn without_named_argument(&self, message: &str) -> Option<NextCall> {
        let name = message.strip_prefix('`')?.split_once("`:")?.0;
        let is_optional = || {
            let mut rest = self.arguments.clone();
            rest.remove(name).is_some() && self.tool.missing_argument(&rest).is_none()
        };
        let may_leave_out = self.tool.entry.is_read_only() && is_optional();
        may_leave_out.then(|| self.same(|arguments| drop(arguments.remove(name)))).flatten()
    }

    /// The findings about the text, or the rules for pages.
    fn after_rejection(&self) -> Vec<NextCall> {
        let content = self.text("content").map(|content| NextCall::of("lint", json!({ "content": content })));
        content.into_iter().chain([NextCall::of("context", json!({}))]).collect()
    }

    fn after_rule(&self, fault: &Fault) -> Vec<NextCall> {
        let workflow = fault.detail().get("workflow").and_then(Value::as_str);
        let mut calls = Vec::new();
        if let Some(name) = workflow {
            calls.push(NextCall::of("workflow_get", json!({ "name": name })));
        }
        if self.name().starts_with("workflow") {
            calls.push(NextCall::of("workflow_list", json!({})));
        }
        calls.extend(self.path(Some(fault)).map(Self::read));
        calls.push(NextCall::of("workflow_list", json!({})));
        calls
    }

    fn after_denial(&self, fault: &Fault) -> Vec<NextCall> {
        let mut calls = Vec::new();
        if let ("release", Some(path)) = (self.name(), self.path(Some(fault))) {
            calls.push(NextCall::of("claims_list", json!({ "path_prefix": path })));
        }
        if !self.tool.entry.is_read_only() {
            calls.extend(self.path(Some(fault)).map(Self::read));
        }
        calls.push(NextCall::of("tree", json!({})));
        calls
    }

    fn after_rate_limit(&self) -> Vec<NextCall> {
        if self.tool.entry.is_read_only() {
            return self.same(|_| ()).into_iter().collect();
        }
        if let ("draft_merge", Some(id)) = (self.name(), self.text("draft_id")) {
            let diff = NextCall::of("draft_diff", json!({ "draft_id": id }));
            return vec![diff.to("A person reviews and merges the draft.")];
        }
        let draft = NextCall::of("draft_create", json!({}));
        vec![draft.to("Propose more changes in a draft, which a person reviews.")]
    }

    /// The same question to a component that is there.
    fn without_component(&self, fault: &Fault) -> Vec<NextCall> {
        if fault.detail().contains_key(RETRY_AFTER_KEY) && self.tool.entry.is_read_only() {
            return self.same(|_| ()).into_iter().collect();
        }
        let mut calls = Vec::new();
        match (self.name(), self.path(None)) {
            ("search_semantic" | "recall" | "eval", _) => {
                calls.extend(self.text("query").map(|query| NextCall::of("search", json!({ "query": query }))));
            }
            ("suggestions", Some(path)) => {
                calls.push(NextCall::of("graph_walk", json!({ "path": path })).if_exists(path));
            }
            ("embeddings", Some(path)) => calls.push(NextCall::of("peek", json!({ "path": path })).if_exists(path)),
            _ => {}
        }
        calls.push(NextCall::of("tree", json!({})));
        calls
    }
}

/// A call with an unknown tool: with the nearest one.
pub(super) fn after_unknown_tool(tool: Option<&ToolEntry>, name: &str, arguments: &Map<String, Value>) -> NextCall {
    let search = || {
        let words = search_words(name);
        let query = if words.is_empty() { "read" } else { &words };
        NextCall::tool_search(query)
    };
    let Some(tool) = tool else { return search() };
    let sent = SentCall::new(tool, arguments);
    let valid = if repair::is_valid(tool, &sent.arguments) {
        Some(sent.arguments.clone())
    } else {
        repair::repair(tool, &sent.arguments)
    };
    let call = valid.filter(|_| sent.is_complete).map(|valid| NextCall::of(tool.entry.name, Value::Object(valid)));
    call.filter(NextCall::is_short).unwrap_or_else(search)
}

/// A name of its own for a caller without one: a shared name would share its claims.
fn anonymous_name() -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("agent-{}", &id[..8])
}

/// The words of a name for a search.
fn search_words(name: &str) -> String {
    let stem = name.strip_suffix(".md").unwrap_or(name);
    let words = stem.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// A copy of a value; none if it is longer than `rest`.
fn copy(value: &Value, rest: &mut usize) -> Option<Value> {
    let size = match value {
        Value::String(text) => text.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => 8,
    };
    *rest = rest.checked_sub(size)?;
    Some(match value {
        Value::Array(items) => items.iter().map(|item| copy(item, rest)).collect::<Option<Vec<_>>>()?.into(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| Some((name.clone(), copy(member, rest)?)));
            members.collect::<Option<Map<_, _>>>()?.into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    })
}
