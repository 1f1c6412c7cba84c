//! `svc_tool_search` and `svc_tool_call`: all tools for clients whose list has only some of them.
//!
//! Invariant: a tool that is called through `svc_tool_call` takes the same way as one that is
//! called directly, with the same checks and the same answer.

use std::sync::Arc;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind};

use super::tools::{ToolEntry, ToolList, ToolOptions};
use super::{coerce, names};

/// The tool that finds tools.
pub(super) const SEARCH: &str = "svc_tool_search";

/// The tool that runs tools.
pub(super) const CALL: &str = "svc_tool_call";

/// Maximum number of tools in an answer.
const MAX_TOOLS: usize = 8;

/// Words shorter than this must match completely.
const MIN_STEM: usize = 4;

/// Whether a name is that of the search.
pub(super) fn is_search(name: &str) -> bool {
    names::operation(name) == names::operation(SEARCH)
}

fn is_call(name: &str) -> bool {
    names::operation(name) == names::operation(CALL)
}

/// The tool and the arguments that a call is about.
///
/// # Errors
/// `Invalid` when the arguments of `svc_tool_call` name no tool.
pub(super) fn unwrap_call(name: String, mut arguments: JsonObject) -> Result<(String, JsonObject), Fault> {
    if !is_call(&name) {
        return Ok((name, arguments));
    }
    coerce::coerce_members(&mut arguments, &call_schema());
    if let Some(unknown) = arguments.keys().find(|name| !matches!(name.as_str(), "name" | "arguments")) {
        let unknown = svcfs_base::escape_unprintable(unknown);
        let message = format!("unknown parameter `{unknown}`; the arguments of the tool belong into `arguments`");
        return Err(Fault::new(Kind::Invalid, message));
    }
    let inner = match arguments.remove("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(inner)) => inner,
        Some(_) => return Err(Fault::invalid("arguments", "must be an object with the arguments of the tool")),
    };
    match arguments.remove("name") {
        Some(Value::String(name)) if is_call(&name) => {
            Err(Fault::invalid("name", format_args!("`{CALL}` cannot call itself; name the tool to run")))
        }
        Some(Value::String(name)) => Ok((name, inner)),
        Some(_) => Err(Fault::invalid("name", "must be a text")),
        None => Err(Fault::new(Kind::Invalid, format!("name is required; find tools with `{SEARCH}`"))),
    }
}

/// The search, as tools/list shows it; with the schema of its output where others have theirs.
pub(super) fn search_tool(options: ToolOptions) -> Tool {
    let description = "Find tools that are not in this list\n\nAnswers the tools that fit the query best, with the \
                       schemas of their arguments, or one by its full name. Run a tool that your list does not have with \
                       `svc_tool_call`.";
    let schema = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "What the tool should do, such as `versions of a page`, or its name" },
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    let annotations = ToolAnnotations::with_title("Tool search").read_only(true).destructive(false);
    let annotations = annotations.idempotent(true).open_world(false);
    let tool = Tool::new(SEARCH, description, members(schema)).with_annotations(annotations);
    if !options.has_output_schema {
        return tool;
    }
    let found = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": { "type": "object", "description": "JSON Schema of the arguments" },
        },
        "required": ["name", "description"],
    });
    let output = json!({
        "type": "object",
        "properties": { "tools": { "type": "array", "items": found, "description": "The tools, best first" } },
        "required": ["tools"],
    });
    tool.with_raw_output_schema(members(output))
}

/// The caller of other tools, as tools/list shows it.
pub(super) fn call_tool() -> Tool {
    let description = "Run a tool that is not in this list\n\nTakes the name and the arguments that `svc_tool_search` \
                       returned, and answers as that tool does. Call the tools of your list directly.";
    let annotations = ToolAnnotations::with_title("Tool call").read_only(false).destructive(true);
    let annotations = annotations.idempotent(false).open_world(true);
    Tool::new(CALL, description, members(call_schema())).with_annotations(annotations)
}

fn call_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "description": "Name of the tool, such as `svc_versions`" },
            "arguments": { "type": "object", "description": "Its arguments" },
        },
        "required": ["name"],
        "additionalProperties": false,
    })
}

fn members(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(members) => Arc::new(members),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Arc::default(),
    }
}

/// Runs the search over the tools that a caller may use.
///
/// # Errors
/// `Invalid` without a query.
pub(super) fn search(
    tools: &ToolList,
    may_use: impl Fn(&ToolEntry) -> bool,
    arguments: &JsonObject,
) -> Result<CallToolResult, Fault> {
    let query = match arguments.get("query") {
        Some(Value::String(query)) => query.trim(),
        Some(Value::Null) | None => return Err(Fault::new(Kind::Invalid, "query is required")),
        Some(_) => return Err(Fault::invalid("query", "must be a text")),
    };
    if let Some(unknown) = arguments.keys().find(|name| *name != "query") {
        let unknown = svcfs_base::escape_unprintable(unknown);
        return Err(Fault::new(Kind::Invalid, format!("unknown parameter `{unknown}`; did you mean `query`?")));
    }
    let usable: Vec<&ToolEntry> = tools.iter().filter(|tool| may_use(tool)).collect();
    let best = best_tools(&usable, query);
    let (mut text, mut found) = (String::new(), Vec::new());
    if best.is_empty() {
        text.push_str("No tool fits these words. These are all; search for a name to get its arguments.\n");
    }
    for tool in &best {
        let (name, description, schema) = (tool.name(), tool.description(), tool.input_schema());
        text.push_str(&format!("{name}: {description}\narguments: {}\n\n", json!(schema)));
        found.push(json!({ "name": name, "description": description, "inputSchema": schema }));
    }
    for tool in usable.iter().filter(|_| best.is_empty()) {
        let (name, summary) = (tool.name(), tool.description().lines().next().unwrap_or_default());
        text.push_str(&format!("{name}: {summary}\n"));
        found.push(json!({ "name": name, "description": summary }));
    }
    let mut result = CallToolResult::structured(json!({ "tools": found }));
    result.content = vec![ContentBlock::text(text.trim_end())];
    Ok(result)
}

/// The tools that fit a query, best first; the named one alone if it names one.
fn best_tools<'t>(tools: &[&'t ToolEntry], query: &str) -> Vec<&'t ToolEntry> {
    let name = names::operation(query);
    if let Some(named) = tools.iter().find(|tool| tool.entry.name == name) {
        return vec![named];
    }
    let wanted: Vec<String> = words(query).collect();
    let mut rated: Vec<(usize, &ToolEntry)> = tools.iter().map(|tool| (rate(tool, &wanted), *tool)).collect();
    rated.retain(|(score, _)| *score > 0);
    // The order of the list decides between equal ones.
    rated.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    rated.into_iter().take(MAX_TOOLS).map(|(_, tool)| tool).collect()
}

/// How well a tool fits: words of its name count most, then those of its summary, then others.
fn rate(tool: &ToolEntry, wanted: &[String]) -> usize {
    let description = tool.description();
    let (summary, rest) = description.split_once('\n').unwrap_or((description, ""));
    let arguments = tool.input_schema().get("properties").and_then(Value::as_object);
    let arguments: String = arguments.into_iter().flatten().map(|(name, _)| format!("{name} ")).collect();
    let parts = [(8, tool.entry.name), (4, summary), (1, rest), (1, arguments.as_str())];
    let parts = parts.map(|(weight, text)| (weight, words(text).collect::<Vec<_>>()));
    let score = |wanted: &String| {
        let found = parts.iter().filter(|(_, words)| words.iter().any(|word| is_same(word, wanted)));
        found.map(|(weight, _)| *weight).sum::<usize>()
    };
    wanted.iter().map(score).sum()
}

/// The words of a text in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 1).map(str::to_lowercase)
}

/// Whether two words have the same stem, such as `version` and `versions`.
fn is_same(a: &str, b: &str) -> bool {
    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let longest = a.len().max(b.len());
    common == longest || (common >= MIN_STEM && longest - common <= 3)
}
