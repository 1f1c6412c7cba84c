//! The tool list, generated from the operation table.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use svcfs_base::Fault;
use svcfs_knowledge::kernel::{HttpMethod, OperationArea, OperationEntry, OperationInputs};

use super::schema;
use crate::openapi::manual;

/// Prefix of tool names.
const PREFIX: &str = "svc_";

/// The description of `actor` for operations that have no default for it.
const REQUIRED_ACTOR: &str = "Your name, which the claim belongs to; required unless your key has a name";

/// Arguments that writing tools have besides the inputs of the operation; the last one only for
/// operations with preconditions.
const EXTRA_ARGUMENTS: [(&str, &str); 5] = [
    (ACTOR, "Your name; becomes the author of the version. `mcp-agent` when absent"),
    ("provenance", "Where the content comes from, as `type:id`, such as `run:249`; recorded in the page's frontmatter"),
    (FENCE, "Number `fence` of your claim on the page; refused if it is not the newest or the lease has ended"),
    ("request_id", "Any id of yours; a repeat with the same id is not done twice"),
    (
        PRECONDITION,
        "ETag of the file as you read it; the change is refused if the file has changed since. `*`: the file must exist",
    ),
];

/// The author.
const ACTOR: &str = "actor";

/// The number of a claim; the only one that is no text.
const FENCE: &str = "fence";

/// The precondition.
const PRECONDITION: &str = "if_match";

/// All tools.
pub(super) struct ToolList(Vec<ToolEntry>);

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
    /// The list for agents.
    pub(super) fn list(&self) -> Vec<Tool> {
        self.0.iter().map(|tool| tool.tool.clone()).collect()
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
        let method = entry.method();
        let annotations = ToolAnnotations::new()
            .read_only(entry.is_read_only())
            .destructive(method == HttpMethod::Delete)
            .idempotent(matches!(method, HttpMethod::Get | HttpMethod::Put | HttpMethod::Delete))
            .open_world(false);
        let tool = Tool::new(format!("{PREFIX}{}", entry.name), manual, Arc::new(input));
        let mut tool = tool.with_annotations(annotations);
        // Output with a schema must be structured, which would repeat the text.
        if !entry.is_text_only {
            tool = tool.with_raw_output_schema(Arc::new(output));
        }
        let extra_arguments = extra_arguments(entry).map(|(name, _)| name).collect();
        Self { entry, inputs: OperationInputs::from_entry(entry), extra_arguments, is_wrapped, tool }
    }

    /// The arguments in the form that the operation takes. Errors: `Invalid` for content that does
    /// not have its encoding.
    pub(super) fn decode(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let mut arguments = arguments.into();
        schema::decode(&mut arguments, &Value::Object((*self.tool.input_schema).clone()))?;
        match arguments {
            Value::Object(members) => Ok(members),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Ok(Map::new()),
        }
    }
    /// An output that matches the published schema.
    pub(super) fn to_structured(&self, output: Value) -> Value {
        let mut output = self.wrap(output);
        if let Some(schema) = &self.tool.output_schema {
            schema::prune(&mut output, &Value::Object((**schema).clone()));
        }
        output
    }
    /// An output as an object.
    pub(super) fn wrap(&self, output: Value) -> Value {
        if self.is_wrapped { json!({ "result": output }) } else { output }
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

/// The published schema of a tool's arguments, and the tool's description.
fn input(entry: &OperationEntry) -> (JsonObject, String) {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let schema = (entry.input)(&mut generator).to_value();
    let manual = manual(&schema);
    let mut object = schema::publish(&schema, &generator.take_definitions(true));
    object.remove("description");
    object.remove("title");
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

/// The aliases under which arguments are published.
const fn shown_aliases(entry: &OperationEntry) -> &'static [(&'static str, &'static str)] {
    if entry.shows_aliases { entry.aliases } else { &[] }
}

/// The additional arguments of a tool.
fn extra_arguments(entry: &OperationEntry) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (writes, is_conditional) = (!entry.is_read_only(), entry.is_conditional);
    let arguments =
        EXTRA_ARGUMENTS.into_iter().filter(move |(name, _)| writes && (is_conditional || *name != PRECONDITION));
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
