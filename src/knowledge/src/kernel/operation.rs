//! The operation, and the table entry it becomes.

use std::time::Instant;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use svcfs_base::{Fault, Permissions, Precondition, Scope};
use svcfs_work::Lane;

use super::{FolderScope, HttpMethod, JsonText, OperationContext, Route};
use super::{arguments, scope};

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
    /// Whether a condition (`If-Match`, `if_match`) says something about it: what it changes is one file. A condition on any other
    /// operation that changes something is refused, because a caller who gives one relies on it.
    const CONDITIONAL: bool = false;
    /// Whether it changes the server and not its pages; needs the scope `admin`.
    const ADMIN: bool = false;
    /// How it keeps to the folder that a caller's key is limited to.
    const FOLDER_SCOPE: FolderScope = FolderScope::WholeTree;
    /// Other names of inputs, each with the input it means. Every door takes both; agents are shown the other name, because
    /// that is the one they know (gaps.md 4.21).
    const ALIASES: &'static [(&'static str, &'static str)] = &[];
    /// Whether agents get its words alone, because its answer is a text: beside the same text in a structure, some clients drop the
    /// text, and all of them pay for it twice. Without words (bytes that are no text) they get the content in a form of its own.
    const TEXT_ONLY: bool = false;
    /// Defaults for agents, whose memory is short, where they differ from those of everybody else: own names of inputs.
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[];
    /// What it answers.
    type Output: Serialize + JsonSchema;
    /// Does it.
    ///
    /// # Errors
    /// The refusal or failure, as the caller should read it.
    fn run(self, cx: &OperationContext<'_>) -> Result<Self::Output, Fault>;
    /// Does it, and writes its output as JSON. An operation whose output is as long as the tree writes it piece by piece; the text is
    /// the same as that of [`Operation::run`]'s output.
    ///
    /// # Errors
    /// Those of [`Operation::run`].
    fn run_to_json(self, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
        JsonText::from_value(&self.run(cx)?)
    }
    /// Takes out of an output what agents have no use for, such as marks for browsers.
    fn adapt_for_agents(_output: &mut Self::Output) {}
    /// An output in words, for a reader who takes text (gaps.md 4.21); none when its JSON says it best.
    fn render_text(_output: &Self::Output) -> Option<String> {
        None
    }
}

/// What an operation answered.
#[derive(Debug)]
pub struct OperationAnswer {
    /// The output as JSON.
    pub output: Value,
    /// The output in words, see [`Operation::words`].
    pub text: Option<String>,
}

/// A way to ask for an operation: reads the inputs from a JSON object and runs it.
pub type OperationHandler<T> = fn(Value, &OperationContext<'_>) -> Result<T, Fault>;

/// An operation with its type erased, so that tables can hold it.
#[derive(Clone, Copy)]
pub struct OperationEntry {
    /// [`Operation::NAME`]
    pub name: &'static str,
    /// [`Operation::HTTP`]
    pub http: &'static [Route],
    /// [`Operation::TOOL`]
    pub tool: bool,
    /// [`Operation::LANE`]
    pub lane: Lane,
    /// [`Operation::CONDITIONAL`]
    pub is_conditional: bool,
    /// [`Operation::ADMIN`]
    pub is_admin: bool,
    /// [`Operation::WITHIN`]
    pub folder_scope: FolderScope,
    /// [`Operation::ANSWERS_TEXT`]
    pub is_text_only: bool,
    /// [`Operation::AGENT_DEFAULTS`]
    pub agent_defaults: &'static [(&'static str, u32)],
    /// [`Operation::ALIASES`]
    pub aliases: &'static [(&'static str, &'static str)],
    /// Schema of the inputs, as one object; nested types go to the generator's definitions.
    pub input: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of the output, possibly a reference into the generator's definitions.
    pub output: fn(&mut SchemaGenerator) -> Schema,
    /// Reads the inputs from a JSON object, runs the operation and writes its output as JSON.
    pub call: OperationHandler<Value>,
    /// The same as text: for doors that look at nothing in the output, which may be as long as the tree.
    pub call_json: OperationHandler<JsonText>,
    /// The same as [`Entry::call`] for an agent: with its defaults, and with the output in words beside it.
    pub call_for_agent: OperationHandler<OperationAnswer>,
}

impl OperationEntry {
    /// The entry of an operation.
    pub const fn new<O: Operation>() -> Self {
        Self {
            name: O::NAME,
            http: O::HTTP,
            tool: O::TOOL,
            lane: O::LANE,
            is_conditional: O::CONDITIONAL,
            is_admin: O::ADMIN,
            folder_scope: O::FOLDER_SCOPE,
            is_text_only: O::TEXT_ONLY,
            agent_defaults: O::AGENT_DEFAULTS,
            aliases: O::ALIASES,
            input: O::json_schema,
            output: output::<O>,
            call: call::<O>,
            call_json: call_json::<O>,
            call_for_agent: tell::<O>,
        }
    }
    /// Whether it changes nothing; a tool without a route is taken to write.
    pub fn is_read_only(&self) -> bool {
        self.http.first().is_some_and(|route| route.is_read_only)
    }
    /// The scope its callers need.
    pub fn required_scope(&self) -> Scope {
        match (self.is_admin, self.is_read_only()) {
            (true, _) => Scope::Admin,
            (false, true) => Scope::Read,
            (false, false) => Scope::Write,
        }
    }
    /// Checks that somebody may ask for it at all, whatever the inputs: asked where all doors meet, and by doors that would rather not read
    /// inputs for nothing.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn check_permissions(&self, reach: &Permissions) -> Result<(), Fault> {
        reach.check_scope(self.required_scope(), self.name)?;
        scope::allow(self, reach)
    }
    /// The method of its first route; `POST` for a tool without one.
    pub fn method(&self) -> HttpMethod {
        self.http.first().map_or(HttpMethod::Post, |route| route.method)
    }
}

impl std::fmt::Debug for OperationEntry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Entry({})", self.name)
    }
}

fn output<O: Operation>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<O::Output>()
}

fn call<O: Operation>(arguments: Value, cx: &OperationContext<'_>) -> Result<Value, Fault> {
    told::<O>(&run(arguments, cx, O::run)?, cx)
}

fn call_json<O: Operation>(arguments: Value, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
    match cx.caller.permissions.folder {
        None => run(arguments, cx, O::run_to_json),
        Some(_) if O::FOLDER_SCOPE != FolderScope::Rows => run(arguments, cx, O::run_to_json),
        Some(_) => JsonText::from_value(&call::<O>(arguments, cx)?),
    }
}

fn tell<O: Operation>(arguments: Value, cx: &OperationContext<'_>) -> Result<OperationAnswer, Fault> {
    let mut arguments = arguments::under_own_names(arguments, O::ALIASES)?;
    if let Some(members) = arguments.as_object_mut() {
        for (name, default) in O::AGENT_DEFAULTS {
            members.entry(*name).or_insert_with(|| (*default).into());
        }
    }
    let mut output = run(arguments, cx, O::run)?;
    O::adapt_for_agents(&mut output);
    // Words may tell of the rows that are left out of the output.
    let is_whole = cx.caller.permissions.folder.is_none() || O::FOLDER_SCOPE != FolderScope::Rows;
    let words = if is_whole { O::render_text(&output) } else { None };
    Ok(OperationAnswer { output: told::<O>(&output, cx)?, text: words })
}

fn told<O: Operation>(output: &O::Output, cx: &OperationContext<'_>) -> Result<Value, Fault> {
    let output = serde_json::to_value(output).map_err(Fault::internal)?;
    Ok(scope::leave_out(&OperationEntry::new::<O>(), output, &cx.caller.permissions))
}

/// Runs an operation by one of its methods, and counts it.
fn run<O: Operation, T>(
    arguments: Value,
    cx: &OperationContext<'_>,
    act: impl FnOnce(O, &OperationContext<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let begun = Instant::now();
    let outcome = admitted(arguments, cx, act);
    cx.metrics().requests.record_operation(cx.caller.protocol, O::NAME, &outcome, begun.elapsed());
    outcome
}

fn admitted<O: Operation, T>(
    arguments: Value,
    cx: &OperationContext<'_>,
    act: impl FnOnce(O, &OperationContext<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let entry = OperationEntry::new::<O>();
    entry.check_permissions(&cx.caller.permissions)?;
    let arguments = arguments::under_own_names(arguments, O::ALIASES)?;
    let operation: O = arguments::read(scope::admit(&entry, arguments, cx)?)?;
    if !O::CONDITIONAL && !entry.is_read_only() && cx.caller.precondition != Precondition::Any {
        let why = format!(
            "`{}` does not change one single file, so no condition can be held against it; where it takes several files, \
             each of them takes an `if_match` of its own",
            O::NAME
        );
        return Err(Fault::invalid("If-Match", why));
    }
    let output = act(operation, cx)?;
    if !entry.is_read_only() && !cx.space.wait_for_indexed_writes(cx.caller) {
        cx.add_note("the change is stored, but the search index has not read it yet");
    }
    Ok(output)
}

/// A group of operations over one subject; one folder of this crate.
#[derive(Debug, Clone, Copy)]
pub struct OperationArea {
    /// Heading in the OpenAPI document and in lists.
    pub title: &'static str,
    /// Its operations.
    pub operations: &'static [OperationEntry],
}
