//! The operation trait and its entry in the table.

use std::time::Instant;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svcfs_base::{Fault, Permissions, Precondition, Scope};
use svcfs_work::Lane;

use super::{FolderScope, HttpMethod, JsonText, OperationContext, Route};
use super::{arguments, scope, suggestions};

/// A question or command of a caller, for every protocol.
///
/// The doc comment of the type is the manual. Its first line, short and imperative, is the summary
/// in OpenAPI, the tool list and the command line; the rest is the description. The doc comments of
/// the fields describe the parameters.
pub trait Operation: DeserializeOwned + JsonSchema + Send + 'static {
    /// Name in snake_case: OpenAPI operationId and CLI verb; the agent tool is `svc_` + NAME.
    const NAME: &'static str;
    /// HTTP routes; none if it is only a tool.
    const HTTP: &'static [Route] = &[];
    /// Whether it is an agent tool.
    const TOOL: bool = false;
    /// The lane it runs in, by expected duration.
    const LANE: Lane = Lane::Quick;
    /// Whether a precondition (`If-Match`, `if_match`) applies to it, because it changes one file.
    /// For any other writing operation a precondition is refused, because a caller who sends one
    /// relies on it.
    const CONDITIONAL: bool = false;
    /// Whether callers with the scope `propose` may run it, although it writes: its changes are of
    /// pages and go into the caller's draft, or it changes no page.
    const PROPOSABLE: bool = false;
    /// Whether it removes or undoes what was there, so that clients may ask their user before they
    /// run it. Replacing a page is not destructive: its versions stay.
    const DESTRUCTIVE: bool = match Self::HTTP.first() {
        Some(route) => matches!(route.method, HttpMethod::Delete),
        None => false,
    };
    /// Whether it reads documents of other servers.
    const OPEN_WORLD: bool = false;
    /// Whether the limits of agents apply: it replaces or removes pages with what the caller says.
    /// Not for operations that add to pages, change their state, or undo changes.
    const LIMITED: bool = true;
    /// Whether its caller must have a name, because a default name would be shared by many.
    const REQUIRES_ACTOR: bool = false;
    /// Whether callers need the scope `write` although it changes nothing: its answer is only for
    /// those who may change what it shows.
    const NEEDS_WRITE_SCOPE: bool = false;
    /// Whether it administers the server; needs the scope `admin`.
    const ADMIN: bool = false;
    /// How it respects the folder that a key is limited to.
    const FOLDER_SCOPE: FolderScope = FolderScope::WholeTree;
    /// Pairs of alias and argument name. Every protocol accepts both; agents are shown the alias.
    const ALIASES: &'static [(&'static str, &'static str)] = &[];
    /// Whether agents are shown the aliases instead of the names.
    const SHOWS_ALIASES: bool = true;
    /// Whether agents get only the text form, because the answer is a text. With structured content
    /// beside it some clients drop the text, and the text is sent twice. Without a text form
    /// (binary content) agents get the content in its own form.
    const TEXT_ONLY: bool = false;
    /// Default arguments for agents where they differ, because their context is small.
    const AGENT_DEFAULTS: &'static [(&'static str, u32)] = &[];
    /// The output.
    type Output: Serialize + JsonSchema;
    /// Runs the operation.
    ///
    /// # Errors
    /// The fault as the caller sees it.
    fn run(self, cx: &OperationContext<'_>) -> Result<Self::Output, Fault>;
    /// Runs the operation and writes the output as JSON. An operation whose output grows with the
    /// tree overrides it to write in pieces; the JSON must equal that of [`Operation::run`].
    fn run_to_json(self, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
        JsonText::from_value(&self.run(cx)?)
    }
    /// Removes what agents do not need from an output, such as markup for browsers.
    fn adapt_for_agents(_output: &mut Self::Output) {}
    /// The output as text, for clients that read text; none if JSON is best.
    fn render_text(_output: &Self::Output) -> Option<String> {
        None
    }
}

/// The result of an operation for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationAnswer {
    /// The output as JSON.
    pub output: Value,
    /// The output as text, see [`Operation::render_text`].
    pub text: Option<String>,
}

/// Deserializes the arguments from a JSON object and runs an operation.
pub type OperationHandler<T> = fn(Value, &OperationContext<'_>) -> Result<T, Fault>;

/// An operation with its type erased, as an entry of the table.
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
    /// [`Operation::PROPOSABLE`]
    pub is_proposable: bool,
    /// [`Operation::DESTRUCTIVE`]
    pub is_destructive: bool,
    /// [`Operation::OPEN_WORLD`]
    pub is_open_world: bool,
    /// [`Operation::REQUIRES_ACTOR`]
    pub requires_actor: bool,
    /// [`Operation::NEEDS_WRITE_SCOPE`]
    pub needs_write_scope: bool,
    /// [`Operation::ADMIN`]
    pub is_admin: bool,
    /// [`Operation::FOLDER_SCOPE`]
    pub folder_scope: FolderScope,
    /// [`Operation::TEXT_ONLY`]
    pub is_text_only: bool,
    /// [`Operation::AGENT_DEFAULTS`]
    pub agent_defaults: &'static [(&'static str, u32)],
    /// [`Operation::ALIASES`]
    pub aliases: &'static [(&'static str, &'static str)],
    /// [`Operation::SHOWS_ALIASES`]
    pub shows_aliases: bool,
    /// Schema of the arguments, as one object; nested types go to the generator's definitions.
    pub input: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of the output, possibly a reference into the generator's definitions.
    pub output: fn(&mut SchemaGenerator) -> Schema,
    /// Runs the operation; the output is a JSON value.
    pub call: OperationHandler<Value>,
    /// Runs the operation; the output is JSON text, possibly in pieces.
    pub call_json: OperationHandler<JsonText>,
    /// As [`call`](Self::call) for an agent: with its defaults and with the output as text.
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
            is_proposable: O::PROPOSABLE,
            is_destructive: O::DESTRUCTIVE,
            is_open_world: O::OPEN_WORLD,
            requires_actor: O::REQUIRES_ACTOR,
            needs_write_scope: O::NEEDS_WRITE_SCOPE,
            is_admin: O::ADMIN,
            folder_scope: O::FOLDER_SCOPE,
            is_text_only: O::TEXT_ONLY,
            agent_defaults: O::AGENT_DEFAULTS,
            aliases: O::ALIASES,
            shows_aliases: O::SHOWS_ALIASES,
            input: O::json_schema,
            output: output::<O>,
            call: call::<O>,
            call_json: call_json::<O>,
            call_for_agent: call_for_agent::<O>,
        }
    }
    /// Whether it changes nothing; a tool without a route counts as writing.
    pub fn is_read_only(&self) -> bool {
        self.http.first().is_some_and(|route| route.is_read_only)
    }
    /// The scope that its callers need.
    pub fn required_scope(&self) -> Scope {
        match (self.is_admin, self.is_read_only()) {
            (true, _) => Scope::Admin,
            (false, true) if !self.needs_write_scope => Scope::Read,
            (false, _) => Scope::Write,
        }
    }
    /// Checks that a caller may run it, whatever the arguments. Protocols may check early, before
    /// they read a body.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn check_permissions(&self, permissions: &Permissions) -> Result<(), Fault> {
        self.check_scope(permissions)?;
        scope::check_folder_support(self, permissions)
    }
    /// Checks the scope alone.
    ///
    /// # Errors
    /// `Forbidden`.
    pub fn check_scope(&self, permissions: &Permissions) -> Result<(), Fault> {
        if self.is_proposable && permissions.scope == Scope::Propose {
            return Ok(());
        }
        permissions.check_scope(self.required_scope(), self.name)
    }
    /// The method of its first route; `POST` for a tool without one.
    pub fn method(&self) -> HttpMethod {
        self.http.first().map_or(HttpMethod::Post, |route| route.method)
    }
}

impl std::fmt::Debug for OperationEntry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "OperationEntry({})", self.name)
    }
}

fn output<O: Operation>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<O::Output>()
}

fn call<O: Operation>(arguments: Value, cx: &OperationContext<'_>) -> Result<Value, Fault> {
    to_json::<O>(&run(arguments, cx, O::run)?, cx)
}

fn call_json<O: Operation>(arguments: Value, cx: &OperationContext<'_>) -> Result<JsonText, Fault> {
    match cx.caller.permissions.folder {
        None => run(arguments, cx, O::run_to_json),
        Some(_) if O::FOLDER_SCOPE != FolderScope::Rows => run(arguments, cx, O::run_to_json),
        Some(_) => JsonText::from_value(&call::<O>(arguments, cx)?),
    }
}

fn call_for_agent<O: Operation>(arguments: Value, cx: &OperationContext<'_>) -> Result<OperationAnswer, Fault> {
    let mut arguments = arguments::resolve_aliases(arguments, O::ALIASES)?;
    if let Some(members) = arguments.as_object_mut() {
        for (name, default) in O::AGENT_DEFAULTS {
            members.entry(*name).or_insert_with(|| (*default).into());
        }
    }
    let mut output = run(arguments, cx, O::run)?;
    O::adapt_for_agents(&mut output);
    // The text could reveal the rows that are removed from the output.
    let is_complete = cx.caller.permissions.folder.is_none() || O::FOLDER_SCOPE != FolderScope::Rows;
    let text = if is_complete { O::render_text(&output) } else { None };
    Ok(OperationAnswer { output: to_json::<O>(&output, cx)?, text })
}

fn to_json<O: Operation>(output: &O::Output, cx: &OperationContext<'_>) -> Result<Value, Fault> {
    let output = serde_json::to_value(output).map_err(Fault::internal)?;
    Ok(scope::retain_covered_rows(&OperationEntry::new::<O>(), output, &cx.caller.permissions))
}

/// Runs one of the methods of an operation and records metrics.
fn run<O: Operation, T>(
    arguments: Value,
    cx: &OperationContext<'_>,
    method: impl FnOnce(O, &OperationContext<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let started_at = Instant::now();
    let outcome = check_and_run(arguments, cx, method).map_err(|fault| suggestions::add(fault, cx.space, cx.caller));
    cx.metrics().requests.record_operation(cx.caller.protocol, O::NAME, &outcome, started_at.elapsed());
    outcome
}

fn check_and_run<O: Operation, T>(
    arguments: Value,
    cx: &OperationContext<'_>,
    method: impl FnOnce(O, &OperationContext<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let entry = OperationEntry::new::<O>();
    entry.check_permissions(&cx.caller.permissions)?;
    let arguments = arguments::resolve_aliases(arguments, O::ALIASES)?;
    if !O::LIMITED {
        cx.lift_limits();
    }
    let operation: O = arguments::read(scope::check_arguments(&entry, arguments, cx)?)?;
    if !O::CONDITIONAL && !entry.is_read_only() && cx.caller.precondition != Precondition::Any {
        let message = format!(
            "`{}` does not change a single file, so it has no precondition; if it takes several files, \
             use the `if_match` of each file",
            O::NAME
        );
        return Err(Fault::invalid("If-Match", message));
    }
    let output = method(operation, cx)?;
    if !entry.is_read_only() && !cx.space.wait_for_indexed_writes(cx.caller) {
        cx.add_note("the change is stored, but not indexed yet");
    }
    Ok(output)
}

/// A group of operations on one subject: one folder of this crate.
#[derive(Debug, Clone, Copy)]
pub struct OperationArea {
    /// Heading in the OpenAPI document and in lists.
    pub title: &'static str,
    /// The operations of the area.
    pub operations: &'static [OperationEntry],
}
