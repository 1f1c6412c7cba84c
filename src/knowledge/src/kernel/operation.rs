//! The operation, and the table entry it becomes.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use svcfs_base::Fault;
use svcfs_work::Lane;

use super::arguments;
use super::{Cx, Method, Route};

/// One thing a caller may ask, whichever door the caller came through.
///
/// The type's doc comment is the manual: its first line, short and imperative, is the summary in OpenAPI, in the tool list and
/// on the command line; the rest is the description. The fields' doc comments describe the parameters.
pub trait Operation: DeserializeOwned + JsonSchema + Send + 'static {
    /// The type's name in snake_case: OpenAPI operationId, CLI verb; the agent tool is `svc_` + NAME.
    const NAME: &'static str;
    /// Ways to reach it over HTTP; none for operations that are tools only.
    const HTTP: &'static [Route] = &[];
    /// Whether agents have it as a tool.
    const TOOL: bool = false;
    /// How long it may take.
    const LANE: Lane = Lane::Quick;
    /// What it answers.
    type Output: Serialize + JsonSchema;
    /// Does it.
    ///
    /// # Errors
    /// The refusal or failure, as the caller should read it.
    fn run(self, cx: &Cx<'_>) -> Result<Self::Output, Fault>;
}

/// An operation with its type erased, so that tables can hold it.
#[derive(Clone, Copy)]
pub struct Entry {
    /// [`Operation::NAME`]
    pub name: &'static str,
    /// [`Operation::HTTP`]
    pub http: &'static [Route],
    /// [`Operation::TOOL`]
    pub tool: bool,
    /// [`Operation::LANE`]
    pub lane: Lane,
    /// Schema of the inputs, as one object; nested types go to the generator's definitions.
    pub input: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of the output, possibly a reference into the generator's definitions.
    pub output: fn(&mut SchemaGenerator) -> Schema,
    /// Reads the inputs from a JSON object, runs the operation and writes its output as JSON.
    pub call: fn(Value, &Cx<'_>) -> Result<Value, Fault>,
    type_name: fn() -> &'static str,
}

impl Entry {
    /// The entry of an operation.
    pub const fn of<O: Operation>() -> Self {
        Self {
            name: O::NAME,
            http: O::HTTP,
            tool: O::TOOL,
            lane: O::LANE,
            input: O::json_schema,
            output: output::<O>,
            call: call::<O>,
            type_name: std::any::type_name::<O>,
        }
    }
    /// The name of the Rust type, without its module.
    pub fn type_name(&self) -> &'static str {
        let full = (self.type_name)();
        full.rsplit("::").next().unwrap_or(full)
    }
    /// Whether it changes nothing; a tool without a route is taken to write.
    pub fn is_reading(&self) -> bool {
        self.http.first().is_some_and(|route| route.is_reading)
    }
    /// The method of its first route; `POST` for a tool without one.
    pub fn method(&self) -> Method {
        self.http.first().map_or(Method::Post, |route| route.method)
    }
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Entry({})", self.name)
    }
}

fn output<O: Operation>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<O::Output>()
}

fn call<O: Operation>(arguments: Value, cx: &Cx<'_>) -> Result<Value, Fault> {
    let operation: O = arguments::read(arguments)?;
    serde_json::to_value(operation.run(cx)?).map_err(Fault::internal)
}

/// A group of operations over one subject; one folder of this crate.
#[derive(Debug, Clone, Copy)]
pub struct Area {
    /// Heading in the OpenAPI document and in lists.
    pub title: &'static str,
    /// Its operations.
    pub operations: &'static [Entry],
}
