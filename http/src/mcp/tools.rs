//! The tool list, generated from the operation table.

use std::sync::Arc;

use rmcp::model::{JsonObject, MetaObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use svcfs_base::{Fault, Kind};
use svcfs_knowledge::kernel::{HttpMethod, OperationArea, OperationEntry, OperationInputs};

use super::elicitation::{self, CONFIRM};
use super::names::PREFIX;
use super::{coerce, descriptions, names, schema, tool_search};
use crate::openapi::manual;

/// The description of `actor` for operations that have no default for it.
const REQUIRED_ACTOR: &str = "Your name, to which the claim belongs; required unless your key has a name";

/// Arguments that writing tools have besides the inputs of the operation; the last one only for
/// operations with preconditions.
const EXTRA_ARGUMENTS: [(&str, &str); 6] = [
    (ACTOR, "Your name: author of the change"),
    (PROVENANCE, "Source of the content, such as `run:249`"),
    (FENCE, "`fence` of your claim on the page"),
    (REQUEST_ID, "Your id of this call; a repeat is not done twice"),
    (PRECONDITION, "ETag you read; refused if the file changed since"),
    (CONFIRM, "Token of the answer that asked you to confirm this same call"),
];

/// Arguments that are accepted and not shown: they are of use to other programs, or seldom.
/// Operation (none: all) and argument.
const HIDDEN_ARGUMENTS: [(&str, &str); 8] = [
    ("", "at_least"),
    ("rename", "as_mount"),
    ("search", "boost"),
    ("write", "force"),
    ("write", "symlink"),
    ("task_next", FENCE),
    ("remember", FENCE),
    ("remember", PROVENANCE),
];

/// The author.
const ACTOR: &str = "actor";

/// The source.
const PROVENANCE: &str = "provenance";

/// The number of a claim; the only one that is no text.
const FENCE: &str = "fence";

/// The id of a request.
const REQUEST_ID: &str = "request_id";

/// The precondition.
const PRECONDITION: &str = "if_match";

/// `_meta` of tools whose text may be long: how many characters a client may show.
const MAX_RESULT_SIZE: &str = "anthropic/maxResultSizeChars";

/// The value for [`MAX_RESULT_SIZE`], which is the most that clients accept.
pub(super) const MAX_RESULT_CHARS: usize = 500_000;

/// All tools.
pub(super) struct ToolList(Vec<ToolEntry>);

/// The form in which tools are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ToolOptions {
    /// With the schemas of the outputs: then structure must conform to it, so it is checked.
    pub has_output_schema: bool,
}

/// A tool and its operation.
pub(super) struct ToolEntry {
    pub entry: &'static OperationEntry,
    pub inputs: OperationInputs,
    /// Names of its additional arguments.
    pub extra_arguments: Vec<&'static str>,
    /// Whether the output is not an object and is returned as `{"result": …}`.
    is_wrapped: bool,
    tool: Tool,
}

impl ToolList {
    /// The tools of a catalogue.
    pub(super) fn of(catalogue: &'static [OperationArea]) -> Self {
        let entries = catalogue.iter().flat_map(|area| area.operations);
        Self(entries.filter(|entry| entry.tool).map(ToolEntry::new).collect())
    }
    /// All tools, as the profile `full` lists them.
    pub(super) fn all(&self) -> Vec<Tool> {
        self.list(None, &[], |_| true)
    }
    /// The tools that a caller may use, of a list of operations or all, and additional ones.
    pub(super) fn list(
        &self,
        operations: Option<&[&str]>,
        additional: &[&str],
        may_use: impl Fn(&ToolEntry) -> bool,
    ) -> Vec<Tool> {
        let options = ToolOptions { has_output_schema: operations.is_none() };
        let find = |name: &&str| self.0.iter().find(|tool| tool.entry.name == *name);
        let chosen: Vec<&ToolEntry> = match operations {
            Some(names) => {
                let mut chosen: Vec<&ToolEntry> = names.iter().chain(additional).filter_map(find).collect();
                let mut seen = std::collections::BTreeSet::new();
                chosen.retain(|tool| seen.insert(tool.entry.name));
                chosen
            }
            None => self.iter().collect(),
        };
        let mut list: Vec<Tool> =
            chosen.into_iter().filter(|tool| may_use(tool)).map(|tool| tool.listed(options)).collect();
        list.push(tool_search::search_tool(options));
        if operations.is_some() {
            list.push(tool_search::call_tool());
        }
        list
    }
    /// All tools in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ToolEntry> {
        self.0.iter()
    }
    /// The tool with a similar name; none if there is none.
    pub(super) fn nearest(&self, name: &str) -> Option<&ToolEntry> {
        let name = names::operation(name);
        let nearest = names::nearest(name, self.iter().map(|tool| tool.entry.name))?;
        self.iter().find(|tool| tool.entry.name == nearest)
    }
    /// Finds a tool by its full name.
    pub(super) fn find(&self, name: &str) -> Option<&ToolEntry> {
        let name = name.strip_prefix(PREFIX)?;
        self.0.iter().find(|tool| tool.entry.name == name)
    }
}

impl ToolEntry {
    fn new(entry: &'static OperationEntry) -> Self {
        let (input, manual) = input(entry);
        let (output, is_wrapped) = output(entry);
        let description = descriptions::of_tool(entry.name).map_or(manual, str::to_owned);
        let tool = Tool::new(format!("{PREFIX}{}", entry.name), description, Arc::new(input));
        let mut tool = tool.with_annotations(annotations(entry));
        // Output with a schema must be structured, which would repeat the text.
        if entry.is_text_only {
            let meta = json!({ MAX_RESULT_SIZE: MAX_RESULT_CHARS });
            tool.meta = meta.as_object().cloned().map(MetaObject);
        } else {
            tool = tool.with_raw_output_schema(Arc::new(output));
        }
        let extra_arguments = extra_arguments(entry).map(|(name, _)| name).collect();
        Self { entry, inputs: OperationInputs::from_entry(entry), extra_arguments, is_wrapped, tool }
    }

    /// The tool as it is listed.
    pub(super) fn listed(&self, options: ToolOptions) -> Tool {
        let mut tool = self.tool.clone();
        if !options.has_output_schema {
            tool.output_schema = None;
        }
        tool
    }

    /// The full name.
    pub(super) fn name(&self) -> &str {
        &self.tool.name
    }

    /// The published description.
    pub(super) fn description(&self) -> &str {
        self.tool.description.as_deref().unwrap_or_default()
    }

    /// The published schema of the arguments.
    pub(super) fn input_schema(&self) -> &JsonObject {
        &self.tool.input_schema
    }

    /// The arguments in the form that the operation takes. Errors: `Invalid` for content that does
    /// not have its encoding.
    pub(super) fn decode(&self, mut arguments: Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let properties = self.tool.input_schema.get("properties").and_then(Value::as_object);
        for (name, value) in &mut arguments {
            let schema = properties.and_then(|properties| properties.get(name));
            if let Some(schema) = schema.filter(|_| !(value.is_string() && self.takes_text(name))) {
                coerce::coerce(value, schema);
            }
        }
        schema::decode_members(&mut arguments, self.tool.input_schema.get("properties"))?;
        Ok(arguments)
    }

    /// Whether the operation itself reads a text, although a list is published.
    fn takes_text(&self, name: &str) -> bool {
        let own = self.inputs.get(name).and_then(|field| field.schema.get("type"));
        own.is_some_and(|kind| {
            kind == "string" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "string"))
        })
    }

    /// An output that matches the published schema.
    pub(super) fn to_structured(&self, output: Value) -> Value {
        let mut output = self.wrap(output);
        if let (Some(schema), Value::Object(members)) = (&self.tool.output_schema, &mut output) {
            schema::prune_members(members, schema.get("properties"));
        }
        output
    }
    /// An output as an object.
    pub(super) fn wrap(&self, output: Value) -> Value {
        if self.is_wrapped { json!({ "result": output }) } else { output }
    }
    /// Checks the names of arguments.
    ///
    /// # Errors
    /// `Invalid`, with the name that is meant, for an unknown one.
    pub(super) fn check_names(&self, arguments: &JsonObject) -> Result<(), Fault> {
        let unknown = arguments.keys().find(|name| self.inputs.get(name).is_none());
        let Some(unknown) = unknown else { return Ok(()) };
        let names = self.tool.input_schema.get("properties").and_then(Value::as_object);
        let free: Vec<&str> = names
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .filter(|name| !arguments.contains_key(*name))
            .collect();
        match names::meant_argument(unknown, &free) {
            Some(meant) => {
                let unknown = svcfs_base::escape_unprintable(unknown);
                Err(Fault::new(Kind::Invalid, format!("unknown parameter `{unknown}`; did you mean `{meant}`?")))
            }
            None => self.inputs.check_names(arguments, &self.extra_arguments),
        }
    }
    /// A missing required argument, by its published name.
    pub(super) fn missing_argument(&self, arguments: &Map<String, Value>) -> Option<&str> {
        let required = self.tool.input_schema.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        let own_name = |name| {
            self.entry
                .aliases
                .iter()
                .find(|(published_name, _)| *published_name == name)
                .map_or(name, |(_, own_name)| *own_name)
        };
        names.into_iter().find(|name| !arguments.contains_key(*name) && !arguments.contains_key(own_name(name)))
    }
}

/// What clients may assume of a tool, such as whether to ask their user before it runs.
fn annotations(entry: &OperationEntry) -> ToolAnnotations {
    let is_read_only = entry.is_read_only();
    let method = entry.method();
    let mut title = entry.name.replace('_', " ");
    title.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
    ToolAnnotations::with_title(title)
        .read_only(is_read_only)
        .destructive(!is_read_only && entry.is_destructive)
        .idempotent(is_read_only || matches!(method, HttpMethod::Put | HttpMethod::Delete))
        .open_world(entry.is_open_world)
}

/// The published schema of a tool's arguments, and the tool's description.
fn input(entry: &OperationEntry) -> (JsonObject, String) {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let schema = (entry.input)(&mut generator).to_value();
    let manual = manual(&schema);
    let mut object = schema::publish(&schema, &generator.take_definitions(true));
    object.remove("description");
    object.remove("title");
    object.remove("examples");
    if let Some(properties) = object.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        for (name, description) in extra_arguments(entry) {
            let kind = if name == FENCE { "integer" } else { "string" };
            let described = || json!({ "type": kind, "description": description });
            properties.entry(name).or_insert_with(described);
        }
        for (name, default) in entry.agent_defaults {
            let property = properties.get_mut(*name).and_then(Value::as_object_mut);
            property.into_iter().for_each(|property| drop(property.insert("default".to_owned(), (*default).into())));
        }
        for (published_name, own_name) in shown_aliases(entry) {
            *properties = rename_member(std::mem::take(properties), own_name, published_name);
        }
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        let is_hidden = |name: &str| {
            let is_same = |(operation, hidden): &(&str, &str)| {
                *hidden == name && (operation.is_empty() || *operation == entry.name)
            };
            HIDDEN_ARGUMENTS.iter().any(is_same)
        };
        properties.retain(|name, _| !is_hidden(name));
        if !["content", "files"].iter().any(|name| properties.contains_key(*name)) {
            // It is recorded in the text of a page.
            properties.remove(PROVENANCE);
        }
        for (name, property) in properties.iter_mut() {
            remove_details(property);
            let description = descriptions::of_argument(entry.name, name);
            let members = property.as_object_mut().zip(description);
            members.into_iter().for_each(|(members, text)| drop(members.insert("description".to_owned(), text.into())));
        }
    }
    let properties = object.get("properties").and_then(Value::as_object).into_iter().flatten();
    let with_default: Vec<String> =
        properties.filter(|(_, schema)| schema.get("default").is_some()).map(|(name, _)| name.clone()).collect();
    if let Some(required) = object.get_mut("required").and_then(Value::as_array_mut) {
        for (published_name, own_name) in shown_aliases(entry) {
            required.iter_mut().filter(|name| *name == own_name).for_each(|name| *name = json!(published_name));
        }
        // Inputs that other protocols require although they have a default.
        required.retain(|name| !with_default.iter().any(|published_name| name == published_name));
    }
    // Unknown arguments are refused; clients that know this do not send them.
    object.insert("additionalProperties".to_owned(), false.into());
    (object, manual)
}

/// Removes what says little, because every agent pays for each byte: examples, which descriptions
/// have in words, defaults that mean "not given", and descriptions of items beside that of their
/// list.
fn remove_details(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    members.remove("examples");
    if members.get("default").is_some_and(|default| [json!(false), json!([]), json!(0)].contains(default)) {
        members.remove("default");
    }
    if let Some(items) = members.get_mut("items").and_then(Value::as_object_mut) {
        items.remove("description");
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(remove_details);
    for name in ["items", "additionalProperties"] {
        members.get_mut(name).into_iter().for_each(remove_details);
    }
}

/// The aliases under which arguments are published.
const fn shown_aliases(entry: &OperationEntry) -> &'static [(&'static str, &'static str)] {
    if entry.shows_aliases { entry.aliases } else { &[] }
}

/// The additional arguments of a tool.
fn extra_arguments(entry: &OperationEntry) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (writes, is_conditional) = (!entry.is_read_only(), entry.is_conditional);
    let arguments = EXTRA_ARGUMENTS.into_iter().filter(move |(name, _)| match *name {
        PRECONDITION => writes && is_conditional,
        CONFIRM => elicitation::may_ask(entry.name),
        _ => writes,
    });
    let is_required = entry.requires_actor;
    arguments.map(move |(name, text)| (name, if is_required && name == ACTOR { REQUIRED_ACTOR } else { text }))
}

/// The same members in the same order, one of them renamed.
fn rename_member(members: Map<String, Value>, from: &str, to: &str) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| if name == from { (to.to_owned(), value) } else { (name, value) }).collect()
}

/// The schema of a tool's result, and whether the result must be wrapped in an object.
fn output(entry: &OperationEntry) -> (JsonObject, bool) {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let schema = (entry.output)(&mut generator).to_value();
    let definitions = generator.take_definitions(true);
    let published = schema::publish(&schema, &definitions);
    if published.get("type").is_some_and(|kind| kind == "object") {
        return (published, false);
    }
    let wrapped = json!({ "type": "object", "properties": { "result": published }, "required": ["result"] });
    (schema::publish(&wrapped, &Map::new()), true)
}
