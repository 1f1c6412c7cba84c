//! Long calls: tasks (extension `io.modelcontextprotocol/tasks`) for clients that declare it,
//! progress notifications for the others.
//!
//! Invariant: a call is executed once. A client that gets a task can ask for its result for a day,
//! also after a restart; the record of a call that the restart interrupted says so.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolResponse, CallToolResult, CreateTaskResult, DetailedTask, ErrorCode, ErrorData, GetTaskResult,
    ProgressNotificationParam, Task, TaskPayload, TaskStatus,
};
use rmcp::service::RequestContext;
use serde_json::{Map, Value, json};
use svcfs_base::Fault;
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::audit::RequestNotes;
use svcfs_knowledge::jobs::{JOB_TTL, Job, JobState};
use svcfs_knowledge::kernel::Space;
use svcfs_work::Lane;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::http_request::McpHttpRequest;
use super::tools::ToolEntry;
use super::{McpHandler, answers};

/// Operations whose calls can become tasks.
const LONG_OPERATIONS: [&str; 3] = ["clip", "eval", "undo"];

/// A call that takes longer becomes a task.
const TASK_AFTER: Duration = Duration::from_secs(2);

/// How often clients should ask for a task.
const POLL_INTERVAL_MS: u64 = 1_000;

/// How often a call reports that it runs.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

type CallOutcome = Result<CallToolResult, Fault>;

impl McpHandler {
    /// Calls a tool, as a task if it takes long and the client knows tasks.
    pub(super) async fn call_long(
        &self,
        tool: &ToolEntry,
        arguments: Map<String, Value>,
        (context, notes): (&RequestContext<RoleServer>, &RequestNotes),
    ) -> Result<CallToolResponse, Fault> {
        let knows_tasks = context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks());
        if !knows_tasks || !LONG_OPERATIONS.contains(&tool.entry.name) {
            let call = self.call(tool, arguments, (context, notes));
            return with_progress(context, tool, call).await.map(Into::into);
        }
        let (handler, name) = (self.clone(), tool.name().to_owned());
        let (call_context, call_notes) = (context.clone(), notes.clone());
        let work = async move {
            let tool = handler.tools.find(&name).ok_or_else(|| Fault::internal("the tool is gone"))?;
            handler.call(tool, arguments, (&call_context, &call_notes)).await
        }
        .in_current_span();
        let mut call: JoinHandle<CallOutcome> = tokio::spawn(work);
        match tokio::time::timeout(TASK_AFTER, &mut call).await {
            Ok(outcome) => outcome.map_err(Fault::internal)?.map(Into::into),
            Err(_elapsed) => self.become_task(tool, call, context).await,
        }
    }

    /// Records a running call; its outcome is recorded when it ends. Without a record the client
    /// waits for the call.
    async fn become_task(
        &self,
        tool: &ToolEntry,
        call: JoinHandle<CallOutcome>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Fault> {
        let (identity, space) = self.authenticate(context, &RequestNotes::default())?;
        let (owner, now) = (owner_of(&identity), self.app.server.now());
        let (recorded_in, operation) = (Arc::clone(&space), tool.entry.name);
        let record = move || recorded_in.jobs.start(operation, &owner, now);
        let job = match self.app.blocking(Lane::Quick, record).await {
            Ok(job) => job,
            Err(fault) => {
                tracing::warn!(error = ?fault, "cannot record a long call; its client waits");
                return call.await.map_err(Fault::internal)?.map(Into::into);
            }
        };
        let task = to_task(&job);
        let (handler, name) = (self.clone(), tool.name().to_owned());
        tokio::spawn(async move {
            let state = match call.await {
                Ok(outcome) => to_state(outcome, &name),
                Err(error) => {
                    tracing::error!(%error, "a long call panicked");
                    JobState::Failed { reason: "internal error; the server's log has the details".to_owned() }
                }
            };
            let now = handler.app.server.now();
            let record = move || {
                space.jobs.finish(job, state, now);
                Ok(())
            };
            if let Err(fault) = handler.app.blocking(Lane::Quick, record).await {
                tracing::error!(error = ?fault, "cannot record the end of a long call");
            }
        });
        Ok(CreateTaskResult::new(task).into())
    }

    /// The state of a task of the caller. Errors: for an unknown one.
    pub(super) async fn find_task(
        &self,
        id: &str,
        (identity, space): (CallerIdentity, Arc<Space>),
    ) -> Result<GetTaskResult, ErrorData> {
        let (owner, job_id) = (owner_of(&identity), id.to_owned());
        let found = self.app.blocking(Lane::Quick, move || space.jobs.find(&job_id, &owner)).await;
        let unavailable = |fault: Fault| ErrorData::internal_error(fault.message().to_owned(), None);
        let Some(job) = found.map_err(unavailable)? else {
            let id = svcfs_base::escape_unprintable(id);
            let message = format!("there is no task `{id}`; results are available for 24 hours");
            return Err(ErrorData::invalid_params(message, None));
        };
        let error = |reason: &str| json!({ "code": ErrorCode::INTERNAL_ERROR.0, "message": reason });
        let payload = match &job.state {
            JobState::Running => TaskPayload::Working,
            JobState::Finished { result } => {
                TaskPayload::Completed { result: result.as_object().cloned().unwrap_or_default() }
            }
            JobState::Failed { reason } => {
                TaskPayload::Failed { error: error(reason).as_object().cloned().unwrap_or_default() }
            }
        };
        Ok(GetTaskResult::new(DetailedTask::new(to_task(&job), payload)))
    }
}

/// The caller that may see a job: the one with this key, or anyone without authentication.
fn owner_of(identity: &CallerIdentity) -> String {
    identity.token.as_ref().map(svcfs_config::KeyDigest::encode).unwrap_or_default()
}

fn to_task(job: &Job) -> Task {
    let (status, message) = match &job.state {
        JobState::Running => (TaskStatus::Working, format!("svc_{} is running", job.operation)),
        JobState::Finished { .. } => (TaskStatus::Completed, format!("svc_{} has ended", job.operation)),
        JobState::Failed { reason } => (TaskStatus::Failed, reason.clone()),
    };
    let ttl = u64::try_from(JOB_TTL.as_millis()).unwrap_or(u64::MAX);
    Task::new(job.id.clone(), status, job.created.to_string(), job.updated.to_string())
        .with_status_message(message)
        .with_ttl_ms(ttl)
        .with_poll_interval_ms(POLL_INTERVAL_MS)
}

/// The state of a job that ended, with the result that the call would have had.
fn to_state(outcome: CallOutcome, tool: &str) -> JobState {
    let response = outcome.map(CallToolResponse::from).or_else(|fault| answers::failure(&fault, tool, None));
    match response {
        Ok(CallToolResponse::Complete(result)) => {
            JobState::Finished { result: serde_json::to_value(result).unwrap_or_default() }
        }
        Ok(_) => JobState::Failed { reason: "the call did not end".to_owned() },
        Err(error) => JobState::Failed { reason: error.message.into_owned() },
    }
}

/// Awaits a call and reports once a second that it runs, if the client requested progress and can
/// read notifications before the result.
async fn with_progress(
    context: &RequestContext<RoleServer>,
    tool: &ToolEntry,
    call: impl Future<Output = CallOutcome>,
) -> CallOutcome {
    let can_notify = McpHttpRequest::of(context).is_none_or(|request| request.accepts_events);
    let Some(token) = context.meta.get_progress_token().filter(|_| can_notify) else { return call.await };
    let mut call = std::pin::pin!(call);
    let mut seconds = 0_u32;
    loop {
        tokio::select! {
            biased;
            outcome = &mut call => return outcome,
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {
                seconds += 1;
                let message = format!("svc_{} has been running for {seconds} s", tool.entry.name);
                let progress = ProgressNotificationParam::new(token.clone(), seconds.into()).with_message(message);
                // A client that is gone is noticed by the transport.
                let _is_sent = context.peer.notify_progress(progress).await;
            }
        }
    }
}
