//! Lists tools and runs them: the way of a call from its name to its answer.

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject, ListToolsResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value};
use svcfs_base::{Caller, Fault, Kind, Permissions, Protocol, escape_unprintable};
use svcfs_knowledge::audit::RequestNotes;
use svcfs_knowledge::kernel::EntryKind;
use svcfs_work::Lane;

use super::next_call::{self, NextCall, SentCall};
use super::profiles::{ToolSelection, operations_of};
use super::tools::ToolEntry;
use super::{AuditTarget, McpHandler, answers, oversized, tool_search};
use crate::bind::from_arguments;

/// Member of a request's `_meta` with which the svcfs command line requests the unchanged output.
const RAW_OUTPUT_FLAG: &str = "svcfs/structure";

/// How long clients may keep a list of tools, in milliseconds.
const LIST_TTL_MS: u64 = 300_000;

type Context = RequestContext<RoleServer>;

/// Whether a caller may use a tool.
fn may_use(tool: &ToolEntry, permissions: &Permissions, selection: &ToolSelection) -> bool {
    let is_selected = !selection.is_read_only || tool.entry.is_read_only();
    is_selected && tool.entry.check_permissions(permissions).is_ok()
}

impl McpHandler {
    /// The tools that the client has chosen: in the URL of the request, or when it connected.
    pub(super) fn selection<'s>(&'s self, context: &'s Context) -> &'s ToolSelection {
        let parts = context.extensions.get::<http::request::Parts>();
        parts.and_then(|parts| parts.extensions.get()).unwrap_or(&self.selection)
    }

    /// The operations whose tools are listed; none for all. The settings are those of the space.
    fn operations(&self, context: &Context) -> Option<&'static [&'static str]> {
        let space = self.authenticate(context, &RequestNotes::default()).map(|(_, space)| space);
        let settings = space.as_ref().map_or_else(|_| self.app.server.settings(), |space| &space.settings);
        operations_of(self.selection(context).profile(settings.mcp.profile))
    }

    /// The list of tools: those of the profile that the caller may use.
    pub(super) fn listed_tools(&self, context: &Context) -> Result<ListToolsResult, ErrorData> {
        let selection = self.selection(context);
        let identity = self.identity(context);
        let identity = identity.map_err(|fault| ErrorData::invalid_request(fault.message().to_owned(), None))?;
        let operations = self.operations(context);
        let may_use = |tool: &ToolEntry| may_use(tool, &identity.permissions, selection);
        let list = self.tools.list(operations, &selection.additional, may_use);
        // The URL is the same for all callers, and their credentials are not.
        let is_complete = self.tools.iter().all(|tool| tool.entry.check_permissions(&identity.permissions).is_ok());
        let scope = if is_complete { CacheScope::Public } else { CacheScope::Private };
        Ok(ListToolsResult::with_all_items(list).with_ttl_ms(LIST_TTL_MS).with_cache_scope(scope))
    }

    /// Runs a tool, or explains why not.
    pub(super) async fn run_tool(
        &self,
        mut request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = std::mem::take(&mut request.name).into_owned();
        let arguments = request.arguments.take().unwrap_or_default();
        if tool_search::is_search(&name) {
            return self.search_tools(&arguments, &context).await;
        }
        let (name, arguments) = match tool_search::unwrap_call(name, arguments) {
            Ok(call) => call,
            Err(fault) => {
                let next = NextCall::tool_search("tools");
                return answers::failure(&fault, tool_search::CALL, Some(next));
            }
        };
        if tool_search::is_search(&name) {
            return self.search_tools(&arguments, &context).await;
        }
        let Some(tool) = self.tools.find(&name) else {
            return Err(self.unknown_tool(&name, &arguments, &context));
        };
        // The command line shows whole outputs, and its user needs no next call.
        let is_for_agent = !wants_raw_output(&context.meta);
        let sent = SentCall::new(tool, &arguments);
        let audit_target = AuditTarget::of(&self.app, &context, ("tools/call", &name));
        request.arguments = Some(arguments);
        let outcome = self.call_confirmed(tool, request, (&context, audit_target.notes())).await;
        let refused = match &outcome {
            Ok(CallToolResponse::Complete(result)) if is_for_agent => {
                oversized::check(&sent, result).map(|(fault, next)| (fault, Some(self.reachable(next, &context))))
            }
            // Questions to the user and tasks are short.
            Ok(_) | Err(_) => None,
        };
        let next = match &outcome {
            Err(fault) if is_for_agent => {
                self.first_possible(sent.next_calls(fault), &context, audit_target.notes()).await
            }
            Ok(_) | Err(_) => None,
        };
        audit_target.end(outcome.as_ref().err());
        match (outcome, refused) {
            (Ok(_), Some((fault, next))) => answers::failure(&fault, &name, next),
            (Ok(response), None) => Ok(response),
            (Err(fault), _) => answers::failure(&fault, &name, next),
        }
    }

    /// Runs a tool without questions.
    pub(super) async fn call(
        &self,
        tool: &ToolEntry,
        mut arguments: JsonObject,
        (context, notes): (&Context, &RequestNotes),
    ) -> Result<CallToolResult, Fault> {
        let (identity, space) = self.authenticate(context, notes)?;
        // Before validation: a caller without permission gets no other error.
        tool.entry.check_permissions(&identity.permissions)?;
        if self.selection(context).is_read_only && !tool.entry.is_read_only() {
            let message = "this connection only reads (`/readonly`); connect without it to change something";
            return Err(Fault::new(Kind::Forbidden, message));
        }
        let is_for_agent = !wants_raw_output(&context.meta);
        arguments = tool.decode(arguments)?;
        let inputs = &tool.inputs;
        let caller = if tool.entry.is_read_only() {
            Caller::new(Protocol::Mcp)
        } else {
            from_arguments(&mut arguments, |name| inputs.get(name).is_some())?
        };
        let mut caller = identity.apply_to(caller);
        caller.is_limited |= is_for_agent && !identity.is_admin_key();
        notes.set_actor(caller.actor());
        notes.set_arguments(&arguments);
        tool.check_names(&arguments)?;
        if let Some(missing) = tool.missing_argument(&arguments) {
            return Err(Fault::new(Kind::Invalid, format!("{missing} is required")));
        }
        if is_for_agent {
            let operation = (tool.entry, tool.entry.call_for_agent);
            let (answer, meta) = self.app.run_once(operation, space, caller, arguments.into()).await?;
            return Ok(answers::to_tool_result(tool, answer, &meta));
        }
        let operation = (tool.entry, tool.entry.call);
        let (output, meta) = self.app.run_once(operation, space, caller, arguments.into()).await?;
        let mut result = CallToolResult::success(vec![ContentBlock::text("See structuredContent")]);
        result.structured_content = Some(tool.wrap(output));
        answers::mark_replayed(&mut result, &meta);
        result.content.extend(meta.lines().map(ContentBlock::text));
        Ok(result)
    }

    /// Runs `svc_tool_search`.
    async fn search_tools(&self, arguments: &JsonObject, context: &Context) -> Result<CallToolResponse, ErrorData> {
        let selection = self.selection(context);
        let found = self.identity(context).and_then(|identity| {
            tool_search::search(&self.tools, |tool| may_use(tool, &identity.permissions, selection), arguments)
        });
        found.map(Into::into).or_else(|fault| {
            let next = NextCall::tool_search("read a page");
            answers::failure(&fault, tool_search::SEARCH, Some(next))
        })
    }

    /// The error for an unknown tool: with the nearest one.
    fn unknown_tool(&self, name: &str, arguments: &Map<String, Value>, context: &Context) -> ErrorData {
        let nearest = self.tools.nearest(name);
        let hint = match nearest {
            Some(tool) => format!("did you mean `{}`?", tool.name()),
            None => format!("tools/list names them, and `{}` finds them", tool_search::SEARCH),
        };
        let (identity, selection) = (self.identity(context), self.selection(context));
        let is_usable =
            |tool: &&ToolEntry| identity.as_ref().is_ok_and(|identity| may_use(tool, &identity.permissions, selection));
        let next = next_call::after_unknown_tool(nearest.filter(is_usable), name, arguments);
        let next = self.reachable(next, context);
        let message = format!("there is no tool `{}`; {hint}\n{next}", escape_unprintable(name));
        ErrorData::invalid_params(message, None)
    }

    /// The first of several calls that this caller can send with success.
    async fn first_possible(&self, calls: Vec<NextCall>, context: &Context, notes: &RequestNotes) -> Option<NextCall> {
        let (identity, space) = self.authenticate(context, notes).ok()?;
        let caller = identity.apply_to(Caller::new(Protocol::Mcp));
        let selection = self.selection(context);
        for call in calls {
            let is_usable = tool_search::is_search(&call.tool)
                || self.tools.find(&call.tool).is_some_and(|tool| may_use(tool, &caller.permissions, selection));
            if !is_usable {
                continue;
            }
            let Some(needed) = &call.needs else { return Some(self.reachable(call, context)) };
            let (space, caller, needed) = (std::sync::Arc::clone(&space), caller.clone(), needed.clone());
            let exists = move || {
                let path = space.parse_path(&needed)?;
                space.check_path_access(&caller.permissions, Protocol::Mcp, &path)?;
                let kind = space.vfs.tree_of(&caller).stat(Protocol::Mcp, &path)?.kind;
                Ok((kind == EntryKind::Directory) == needed.ends_with('/'))
            };
            if self.app.blocking(Lane::Quick, exists).await.unwrap_or(false) {
                return Some(self.reachable(call, context));
            }
        }
        None
    }

    /// A call in the form for a client whose list may not have its tool.
    fn reachable(&self, call: NextCall, context: &Context) -> NextCall {
        let selection = self.selection(context);
        let listed = self.operations(context);
        let is_listed = |listed: &[&str]| {
            let name = super::names::operation(&call.tool);
            listed.contains(&name) || selection.additional.contains(&name) || tool_search::is_search(name)
        };
        if listed.is_none_or(is_listed) { call } else { call.through_tool_call() }
    }
}

/// Whether the caller requested the output unchanged and without text, as the svcfs command line
/// does.
pub(super) fn wants_raw_output(meta: &Map<String, Value>) -> bool {
    meta.get(RAW_OUTPUT_FLAG).is_some_and(|wanted| wanted == true)
}
