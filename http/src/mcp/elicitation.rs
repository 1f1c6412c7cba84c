//! Confirmation of calls with far-reaching effects: clients that can ask their user are given a
//! question (multi round-trip requests of version 2026-07-28), others a token with which the same
//! call succeeds.
//!
//! Invariant: a confirmation is for one call (tool, arguments, caller, space) with one effect, for
//! ten minutes: it is refused when the call would do something else now. REST and the command line
//! ask nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    BooleanSchema, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, ElicitationSchema, EnumSchema, InputRequest, InputRequiredResult, RequestStateCodec,
    RequestStateError, SealOptions,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use svcfs_base::{Fault, Kind, Protocol, TreePath};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::audit::RequestNotes;
use svcfs_knowledge::kernel::{Space, random_bytes};
use svcfs_work::Lane;

use super::http_request::{McpHttpRequest, is_new_version};
use super::tool_calls::wants_raw_output;
use super::tools::ToolEntry;
use super::{McpHandler, coerce};

/// Pages with more backlinks are deleted only after a confirmation.
const MAX_BACKLINKS: usize = 10;

/// How long a confirmation is valid.
const VALIDITY: Duration = Duration::from_mins(10);

/// Name of the argument with the token, of the question and of its answer.
pub(super) const CONFIRM: &str = "confirm";

/// Pages that a question names.
const NAMED_PAGES: usize = 10;

/// Conflicts of a merge that are put to the user; more are answered as an error.
const MAX_CONFLICTS: usize = 50;

/// Operations that may ask.
const ASKING: [&str; 3] = ["delete", "draft_merge", "undo"];

/// Whether calls of an operation may need a confirmation.
pub(super) fn may_ask(operation: &str) -> bool {
    ASKING.contains(&operation)
}

/// Signs the state that clients send back. The key is of this process: after a restart clients are
/// asked again.
#[derive(Default)]
pub(super) struct ConfirmationKey(OnceLock<RequestStateCodec>);

impl ConfirmationKey {
    fn codec(&self) -> Result<&RequestStateCodec, Fault> {
        if let Some(codec) = self.0.get() {
            return Ok(codec);
        }
        let key: [u8; RequestStateCodec::MIN_KEY_LENGTH] = random_bytes()?;
        let codec = RequestStateCodec::try_new(key.to_vec()).map_err(Fault::internal)?;
        Ok(self.0.get_or_init(|| codec))
    }

    /// A token for a call with this effect.
    fn seal(&self, call: &str, state: &str) -> Result<String, Fault> {
        let options = SealOptions::new().associated_data(call.as_bytes()).ttl(VALIDITY);
        Ok(self.codec()?.seal_with(&Sha256::digest(state), &options))
    }

    /// Checks a token. Errors: why it does not confirm this call.
    fn check(&self, token: &str, call: &str, state: &str) -> Result<Result<(), &'static str>, Fault> {
        Ok(match self.codec()?.open_with(token, call.as_bytes()) {
            Ok(sealed) if sealed == Sha256::digest(state).as_slice() => Ok(()),
            Ok(_) => Err("the knowledge base has changed since, and the call would do something else"),
            Err(RequestStateError::Expired) => Err("it has expired"),
            Err(_) => Err("it is of another call, or of another run of the server"),
        })
    }
}

/// What a call would do, which its user should know.
struct Risk {
    reason: String,
    /// All that it would do: a confirmation is for this, and other changes do not matter to it.
    state: String,
}

/// A call in its canonical form: what a confirmation is bound to.
fn canonical_call(tool: &str, arguments: &Map<String, Value>, caller: &CallerIdentity, space: &str) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members: BTreeMap<&String, Value> =
                    members.iter().map(|(name, value)| (name, sorted(value))).collect();
                json!(members.into_iter().collect::<Vec<_>>())
            }
            Value::Array(values) => values.iter().map(sorted).collect(),
            other => other.clone(),
        }
    }
    let key = caller.token.as_ref().map(svcfs_config::KeyDigest::encode);
    let actor = caller.actor.as_ref().map(svcfs_base::Actor::as_str);
    json!([tool, sorted(&Value::Object(arguments.clone())), key, actor, space]).to_string()
}

/// What a client answered to a question.
enum UserAnswer {
    /// It did not answer this question.
    None,
    Refused,
    Accepted(Map<String, Value>),
}

impl UserAnswer {
    fn of(request: &CallToolRequestParams) -> Self {
        let Some(answer) = request.input_responses.as_ref().and_then(|responses| responses.get(CONFIRM)) else {
            return Self::None;
        };
        match answer["action"].as_str() {
            Some("accept") => Self::Accepted(answer["content"].as_object().cloned().unwrap_or_default()),
            Some("decline" | "cancel") => Self::Refused,
            _ => Self::None,
        }
    }
}

/// Whether the client can ask its user with a form, in a revision with multi round-trip requests.
fn can_ask_user(context: &RequestContext<RoleServer>) -> bool {
    let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // Without a mode, forms are meant.
    is_new_version(context) && elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

impl McpHandler {
    /// Calls a tool; asks first where its effects are far-reaching.
    pub(super) async fn call_confirmed(
        &self,
        tool: &ToolEntry,
        mut request: CallToolRequestParams,
        (context, notes): (&RequestContext<RoleServer>, &RequestNotes),
    ) -> Result<CallToolResponse, Fault> {
        notes.set_operation(tool.entry.name);
        let mut arguments = request.arguments.take().unwrap_or_default();
        let (identity, space) = self.authenticate(context, notes)?;
        if let Err(fault) = tool.entry.check_scope(&identity.permissions) {
            if let Some(http) = McpHttpRequest::of(context) {
                // The first one counts.
                let _is_first = http.missing_scope.set(tool.entry.required_scope());
            }
            return Err(fault);
        }
        // The command line has asked its user already.
        let is_for_agent = !wants_raw_output(&context.meta);
        // What is proposed is reviewed anyway.
        let needs_no_question =
            !is_for_agent || identity.permissions.is_proposing() || self.selection(context).is_read_only;
        if needs_no_question
            || !may_ask(tool.entry.name)
            || tool.entry.check_permissions(&identity.permissions).is_err()
        {
            return self.call_long(tool, arguments, (context, notes)).await;
        }
        let token = arguments.remove(CONFIRM);
        let call = canonical_call(tool.entry.name, &arguments, &identity, &space.name);
        if tool.entry.name == "draft_merge" {
            let state = space.vfs.last_seq().to_string();
            let confirmation = Confirmation { handler: self, tool, call, state };
            return confirmation.merge(arguments, &request, (context, notes)).await;
        }
        let Some(Risk { reason, state }) = self.risk(tool, &arguments, (identity, space)).await? else {
            return self.call_long(tool, arguments, (context, notes)).await;
        };
        let confirmation = Confirmation { handler: self, tool, call, state };
        match confirmation.check(token.as_ref(), &request)? {
            Outcome::Confirmed => self.call_long(tool, arguments, (context, notes)).await,
            Outcome::Refused => Ok(refused(tool)),
            Outcome::Missing(note) => confirmation.ask(&reason, note, context),
        }
    }

    /// Why a call needs a confirmation, and of what; none if it does not.
    async fn risk(
        &self,
        tool: &ToolEntry,
        arguments: &Map<String, Value>,
        (identity, space): (CallerIdentity, Arc<Space>),
    ) -> Result<Option<Risk>, Fault> {
        if tool.entry.name == "delete" {
            if dry_run(arguments) == Some(true) {
                return Ok(None);
            }
            let path = arguments.get("path").and_then(Value::as_str).and_then(|path| TreePath::parse(path).ok());
            let Some(path) = path else { return Ok(None) };
            let count = move || {
                let pages = space.index.linking_pages(&path)?;
                let visible: Vec<&str> =
                    pages.iter().filter(|page| identity.permissions.covers(page)).map(TreePath::as_str).collect();
                let count = visible.len();
                if count <= MAX_BACKLINKS {
                    return Ok(None);
                }
                // A page that another has rewritten is not the one that was to be deleted. Without
                // a page the call itself answers; a repeat of it gets its first answer.
                let etag = match space.vfs.read(Protocol::Mcp, &path) {
                    Ok(file) => file.etag,
                    Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory) => return Ok(None),
                    Err(fault) => return Err(fault),
                };
                let reason = format!("{count} pages link to `{path}`; deleting it breaks their links");
                Ok(Some(Risk { reason, state: format!("{etag}\n{}", visible.join("\n")) }))
            };
            return self.app.blocking(Lane::Quick, count).await;
        }
        if dry_run(arguments) != Some(false) {
            return Ok(None);
        }
        let mut trial = arguments.clone();
        trial.insert("dry_run".to_owned(), true.into());
        let is_extra = |name: &str| tool.extra_arguments.contains(&name) && tool.inputs.get(name).is_none();
        trial.retain(|name, _| !is_extra(name));
        // In the form of the call: a trial that fails for another reason confirms nothing.
        let trial = tool.decode(trial)?;
        let plan = match self.run_operation_for((identity, space), tool.entry.name, trial).await {
            Ok(plan) => plan,
            // The call itself answers what is wrong with its arguments.
            Err(fault) if fault.kind() == Kind::Invalid => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let paths: Vec<&str> =
            plan["undone"].as_array().into_iter().flatten().filter_map(|page| page["path"].as_str()).collect();
        let conflicts = plan["conflicts"].as_array().map_or(0, Vec::len);
        if paths.is_empty() {
            return Ok(None);
        }
        let conflicts = if conflicts == 0 { String::new() } else { format!("; {conflicts} changes conflict and stay") };
        let pages = if paths.len() == 1 { "page" } else { "pages" };
        let reason = format!("this undoes changes of {} {pages}: {}{conflicts}", paths.len(), named(&paths));
        Ok(Some(Risk { reason, state: json!([plan["undone"], plan["conflicts"]]).to_string() }))
    }
}

/// The argument `dry_run`, converted as the call itself will convert it; none if it is absent.
fn dry_run(arguments: &Map<String, Value>) -> Option<bool> {
    let mut value = arguments.get("dry_run")?.clone();
    coerce::coerce(&mut value, &json!({ "type": "boolean" }));
    value.as_bool()
}

/// Paths as text, the first of many.
fn named(paths: &[&str]) -> String {
    let shown: Vec<String> = paths.iter().take(NAMED_PAGES).map(|path| format!("`{path}`")).collect();
    let more = paths.len().saturating_sub(NAMED_PAGES);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{}{more}", shown.join(", "))
}

/// Whether a call is confirmed.
enum Outcome {
    Confirmed,
    Refused,
    /// It is not; a note about a token that is not valid any more.
    Missing(Option<&'static str>),
}

/// A call that needs a confirmation.
struct Confirmation<'c> {
    handler: &'c McpHandler,
    tool: &'c ToolEntry,
    call: String,
    state: String,
}

impl Confirmation<'_> {
    /// Checks the token of a model, or the answer of a user.
    fn check(&self, token: Option<&Value>, request: &CallToolRequestParams) -> Result<Outcome, Fault> {
        let check = |token: &str| self.handler.confirmations.check(token, &self.call, &self.state);
        if let Some(token) = token {
            let token = token.as_str().ok_or_else(|| Fault::invalid(CONFIRM, "must be a text"))?;
            return Ok(check(token)?.map_or_else(|note| Outcome::Missing(Some(note)), |()| Outcome::Confirmed));
        }
        let Some(state) = &request.request_state else { return Ok(Outcome::Missing(None)) };
        Ok(match (check(state)?, UserAnswer::of(request)) {
            (_, UserAnswer::Refused) => Outcome::Refused,
            (Ok(()), UserAnswer::Accepted(content)) if content.get(CONFIRM) == Some(&true.into()) => Outcome::Confirmed,
            (Ok(()), UserAnswer::Accepted(_)) => Outcome::Refused,
            (Ok(()), UserAnswer::None) => Outcome::Missing(None),
            (Err(note), _) => Outcome::Missing(Some(note)),
        })
    }

    /// Asks the user, or answers with a token.
    fn ask(
        &self,
        reason: &str,
        note: Option<&'static str>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Fault> {
        let token = self.handler.confirmations.seal(&self.call, &self.state)?;
        let note = note.map_or_else(String::new, |note| format!(" The earlier confirmation does not count: {note}."));
        if can_ask_user(context) {
            let question = BooleanSchema::new().title("Do it").with_default(false);
            let schema = ElicitationSchema::builder()
                .required_property(CONFIRM, rmcp::model::PrimitiveSchemaDefinition::Boolean(question))
                .build()
                .map_err(Fault::internal)?;
            let message = format!("svc_{}: {reason}. Do it?{note}", self.tool.entry.name);
            return Ok(question_result(message, schema, token));
        }
        let message = format!(
            "not done: {reason}.{note} To do it all the same, send the same call with `{CONFIRM}: \"{token}\"` within 10 \
             minutes; the token is invalid if the call would do something else by then"
        );
        Err(Fault::new(Kind::Conflict, message).with_detail(CONFIRM, token))
    }

    /// Merges a draft; puts conflicts to the user, who chooses a side for each page.
    async fn merge(
        &self,
        mut arguments: Map<String, Value>,
        request: &CallToolRequestParams,
        (context, notes): (&RequestContext<RoleServer>, &RequestNotes),
    ) -> Result<CallToolResponse, Fault> {
        if let Some(state) = &request.request_state
            && self.handler.confirmations.check(state, &self.call, &self.state)?.is_ok()
        {
            match UserAnswer::of(request) {
                UserAnswer::Refused => return Ok(refused(self.tool)),
                UserAnswer::Accepted(content) => {
                    let sides = content.into_iter().filter(|(_, side)| side.is_string());
                    let mut resolve = arguments.get("resolve").and_then(Value::as_object).cloned().unwrap_or_default();
                    resolve.extend(sides);
                    arguments.insert("resolve".to_owned(), resolve.into());
                }
                UserAnswer::None => {}
            }
        }
        let outcome = self.handler.call_long(self.tool, arguments, (context, notes)).await;
        let Err(fault) = &outcome else { return outcome };
        let conflicts = fault.detail().get("conflicts").and_then(Value::as_array);
        let Some(conflicts) = conflicts.filter(|_| fault.kind() == Kind::Conflict && can_ask_user(context)) else {
            return outcome;
        };
        let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for conflict in conflicts {
            let headings = conflict["headings"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let headings: Vec<&str> = headings.collect();
            let path = conflict["path"].as_str().unwrap_or_default();
            places.entry(path).or_default().push(headings.join(" / "));
        }
        if places.len() > MAX_CONFLICTS {
            return outcome;
        }
        let mut schema = ElicitationSchema::builder();
        for (path, headings) in &places {
            let headings: Vec<&str> = headings.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
            let description = match headings.is_empty() {
                true => "ours: the tree wins; theirs: the draft wins".to_owned(),
                false => format!("{}. ours: the tree wins; theirs: the draft wins", headings.join("; ")),
            };
            let sides = EnumSchema::builder(vec!["ours".to_owned(), "theirs".to_owned()]);
            schema = schema.required_enum_schema(*path, sides.description(description).build());
        }
        let schema = schema.build().map_err(Fault::internal)?;
        let paths: Vec<&str> = places.keys().copied().collect();
        let message = format!(
            "The tree and the draft changed the same in {}. Which side wins in each page? Nothing is merged yet.",
            named(&paths)
        );
        let token = self.handler.confirmations.seal(&self.call, &self.state)?;
        Ok(question_result(message, schema, token))
    }
}

/// A result that puts a question to the user.
fn question_result(message: String, requested_schema: ElicitationSchema, state: String) -> CallToolResponse {
    let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    let question = InputRequest::Elicitation(ElicitRequest::new(params));
    InputRequiredResult::new(Some([(CONFIRM.to_owned(), question)].into()), Some(state)).into()
}

/// The result of a call that the user refused.
fn refused(tool: &ToolEntry) -> CallToolResponse {
    let text = format!("svc_{} was not run: the user did not confirm it. Nothing has changed", tool.entry.name);
    CallToolResult::error(vec![ContentBlock::text(text)]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: Value, caller: &CallerIdentity) -> String {
        canonical_call("delete", arguments.as_object().unwrap(), caller, "default")
    }

    #[test]
    fn dry_run_is_read_as_the_call_reads_it() {
        for (sent, expected) in [
            (json!(false), Some(false)),
            (json!("false"), Some(false)),
            (json!(" FALSE "), Some(false)),
            (json!("true"), Some(true)),
            (json!(null), None),
            (json!("no"), None),
        ] {
            let arguments = json!({ "dry_run": sent });
            assert_eq!(dry_run(arguments.as_object().unwrap()), expected, "{arguments}");
        }
        assert_eq!(dry_run(&Map::new()), None);
    }

    #[test]
    fn a_token_confirms_one_call_of_one_caller_on_one_state() {
        let (key, other_key) = (ConfirmationKey::default(), ConfirmationKey::default());
        let local = CallerIdentity::UNRESTRICTED;
        let named = CallerIdentity { actor: Some(svcfs_base::Actor::new("eve")), ..local.clone() };
        let confirmed = call(json!({ "path": "a.md", "actor": "x" }), &local);
        let token = key.seal(&confirmed, "7").unwrap();
        let check =
            |key: &ConfirmationKey, token: &str, call: &str, state: &str| key.check(token, call, state).unwrap();
        assert_eq!(check(&key, &token, &confirmed, "7"), Ok(()));
        // The order of arguments does not matter.
        assert_eq!(check(&key, &token, &call(json!({ "actor": "x", "path": "a.md" }), &local), "7"), Ok(()));
        assert!(check(&key, &token, &confirmed, "8").unwrap_err().contains("changed"));
        for other in [
            call(json!({ "path": "b.md", "actor": "x" }), &local),
            call(json!({ "path": "a.md" }), &local),
            call(json!({ "path": "a.md", "actor": "x" }), &named),
            canonical_call("undo", json!({ "path": "a.md", "actor": "x" }).as_object().unwrap(), &local, "default"),
            canonical_call("delete", json!({ "path": "a.md", "actor": "x" }).as_object().unwrap(), &local, "other"),
        ] {
            assert!(check(&key, &token, &other, "7").is_err(), "{other}");
        }
        assert!(check(&other_key, &token, &confirmed, "7").is_err());
        for forged in ["", "x", "rs1.AAAA.BBBB", &token[..token.len() - 2]] {
            assert!(check(&key, forged, &confirmed, "7").is_err(), "{forged}");
        }
    }
}
