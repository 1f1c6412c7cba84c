//! The tool list, made from the operation table.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use svcfs_base::Fault;
use svcfs_knowledge::kernel::{HttpMethod, OperationArea, OperationEntry, OperationInputs};

use super::schema;
use crate::openapi::manual;

/// What every tool's name begins with.
const PREFIX: &str = "svc_";

/// What a writing tool takes beside the operation's own inputs; the last one only when a condition says something about it.
const ATTRIBUTION: [(&str, &str); 3] = [
    ("actor", "Name the change is attributed to; becomes the commit author. `mcp-agent` when absent"),
    ("provenance", "Where the content comes from, as `type:id`, such as `run:249`; recorded in the page's frontmatter"),
    (
        CONDITION,
        "ETag the file was read with; the change is refused when somebody changed the file since. `*` means that it must exist",
    ),
];

/// The condition among them.
const CONDITION: &str = "if_match";

/// Every tool.
pub(super) struct ToolList(Vec<ToolEntry>);

/// One tool, and what a call of it needs.
pub(super) struct ToolEntry {
    /// The operation.
    pub entry: &'static OperationEntry,
    /// What it reads.
    pub inputs: OperationInputs,
    /// What it takes beside that.
    pub attribution: Vec<&'static str>,
    /// Whether the output is no object, and is answered as `{"result": …}`.
    is_wrapped: bool,
    tool: Tool,
}

impl ToolList {
    /// The tools of a catalogue.
    pub(super) fn of(catalogue: &'static [OperationArea]) -> Self {
        let entries = catalogue.iter().flat_map(|area| area.operations);
        Self(entries.filter(|entry| entry.tool).map(ToolEntry::new).collect())
    }
    /// As agents read it.
    pub(super) fn list(&self) -> Vec<Tool> {
        self.0.iter().map(|known| known.tool.clone()).collect()
    }
    /// The tool of a full name.
    pub(super) fn find(&self, name: &str) -> Option<&ToolEntry> {
        let name = name.strip_prefix(PREFIX)?;
        self.0.iter().find(|known| known.entry.name == name)
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
        // A declared schema makes a structure mandatory, in which the text would stand a second time.
        if !entry.is_text_only {
            tool = tool.with_raw_output_schema(Arc::new(output));
        }
        let attribution = attribution(entry).map(|(name, _)| name).collect();
        Self { entry, inputs: OperationInputs::from_entry(entry), attribution, is_wrapped, tool }
    }
}

impl ToolEntry {
    /// The arguments as the operation reads them.
    ///
    /// # Errors
    /// `Invalid` for content that is not encoded as it says.
    pub(super) fn decoded(&self, arguments: Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let mut arguments = arguments.into();
        schema::decode(&mut arguments, &Value::Object((*self.tool.input_schema).clone()))?;
        match arguments {
            Value::Object(members) => Ok(members),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Ok(Map::new()),
        }
    }
    /// An output as the published schema has it.
    pub(super) fn structured(&self, output: Value) -> Value {
        let mut output = self.wrapped(output);
        if let Some(schema) = &self.tool.output_schema {
            schema::prune(&mut output, &Value::Object((**schema).clone()));
        }
        output
    }
    /// An output as it is, in an object.
    pub(super) fn wrapped(&self, output: Value) -> Value {
        if self.is_wrapped { json!({ "result": output }) } else { output }
    }
    /// A required argument that is not there, under the name the agent knows.
    pub(super) fn missing(&self, arguments: &Map<String, Value>) -> Option<&str> {
        let required = self.tool.input_schema.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        let own = |name| self.entry.aliases.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| *own);
        names.into_iter().find(|name| !arguments.contains_key(*name) && !arguments.contains_key(own(name)))
    }
}

/// The schema of a tool's arguments, and the manual that stood in it.
fn input(entry: &OperationEntry) -> (JsonObject, String) {
    let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let schema = (entry.input)(&mut generator).to_value();
    let manual = manual(&schema);
    let mut object = schema::publish(&schema, &generator.take_definitions(true));
    object.remove("description");
    object.remove("title");
    if let Some(properties) = object.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        for (name, description) in attribution(entry) {
            let described = || json!({ "type": "string", "description": description });
            properties.entry(name).or_insert_with(described);
        }
        for (name, default) in entry.agent_defaults {
            let property = properties.get_mut(*name).and_then(Value::as_object_mut);
            property.into_iter().for_each(|property| drop(property.insert("default".to_owned(), (*default).into())));
        }
        for (other, own) in entry.aliases {
            *properties = renamed(std::mem::take(properties), own, other);
        }
    }
    let properties = object.get("properties").and_then(Value::as_object).into_iter().flatten();
    let with_default: Vec<String> =
        properties.filter(|(_, schema)| schema.get("default").is_some()).map(|(name, _)| name.clone()).collect();
    if let Some(required) = object.get_mut("required").and_then(Value::as_array_mut) {
        for (other, own) in entry.aliases {
            required.iter_mut().filter(|name| *name == own).for_each(|name| *name = json!(other));
        }
        // What other doors insist on although it has a default.
        required.retain(|name| !with_default.iter().any(|other| name == other));
    }
    // An unknown argument is refused; a client that knows so does not send it.
    object.insert("additionalProperties".to_owned(), false.into());
    (object, manual)
}

/// What a tool takes beside its operation's inputs.
fn attribution(entry: &OperationEntry) -> impl Iterator<Item = (&'static str, &'static str)> {
    let (writes, is_conditional) = (!entry.is_read_only(), entry.is_conditional);
    ATTRIBUTION.into_iter().filter(move |(name, _)| writes && (is_conditional || *name != CONDITION))
}

/// The same members in the same order, one of them under another name.
fn renamed(members: Map<String, Value>, from: &str, to: &str) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| if name == from { (to.to_owned(), value) } else { (name, value) }).collect()
}

/// The schema of a tool's result, which must be an object; anything else is wrapped.
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
