use std::collections::BTreeSet;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svcfs_base::{Caller, Change, ChangeSet, Claim, ETag, Fault, Kind, Precondition, Protocol, TreePath, VersionId};
use svcfs_config::templates::TASK_WORKFLOW as DEFAULT_DEFINITION;
use svcfs_text::headings::slug;

use crate::claims::{self, LeaseDuration};
use crate::files::format_new_page;
use crate::files::set_fields;
use crate::kernel::{FolderScope, Operation, OperationContext, Route, Space};
use crate::workflows::{WorkflowDefinition, blocker_names, definition_path, read_definition};

/// The workflow of created tasks.
const TASK_WORKFLOW: &str = "tasks";
/// The folder of created tasks.
const TASK_FOLDER: &str = "tasks";
const MAX_TITLE_CHARS: usize = 500;
const MAX_SLUG_CHARS: usize = 60;
/// Attempts to find a free name beside concurrent writers.
const ATTEMPTS: usize = 256;
/// Maximum number of pages that are followed to find a cycle.
const MAX_FOLLOWED_PAGES: usize = 10_000;

/// Create a task
///
/// Writes `tasks/<title>.md` with `type: task`, `status: todo`, and the first state of the workflow
/// `tasks`; a title that is taken gets `-2`. Where that workflow is missing, it is created in the
/// same commit. With `claim`, the task is yours from the start.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct CreateTask {
    /// Title, one line: what will be different when it is done
    pub title: String,
    /// Text of the page, as markdown
    #[serde(default)]
    pub description: Option<String>,
    /// Who is responsible
    #[serde(default)]
    pub assignee: Option<String>,
    /// 1 is the most urgent, 5 the least
    #[serde(default = "default_priority")]
    #[schemars(range(min = 1, max = 5))]
    pub priority: u8,
    /// Pages that must be finished before
    #[serde(default)]
    pub blocked_by: Vec<TreePath>,
    /// Labels, to choose tasks by
    #[serde(default)]
    pub labels: Vec<String>,
    /// The page that this task is a part of
    #[serde(default)]
    pub parent: Option<TreePath>,
    /// Pages or files that belong to it
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// The day it is due, such as `2026-12-31`
    #[serde(default)]
    #[schemars(example = "2026-12-31")]
    pub due: Option<String>,
    /// Claim it for 30m, so that no other worker takes it
    #[serde(default)]
    pub claim: bool,
}

const fn default_priority() -> u8 {
    3
}

/// A created task.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CreatedTask {
    /// Path of its page
    pub path: TreePath,
    /// Hash of the page
    pub etag: ETag,
    /// Its version; null when it is recorded later
    pub version: Option<VersionId>,
    /// Your claim, if you asked for one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
}

impl Operation for CreateTask {
    const NAME: &'static str = "task_create";
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/tasks").created()];
    const TOOL: bool = true;
    type Output = CreatedTask;
    fn run(self, cx: &OperationContext<'_>) -> Result<CreatedTask, Fault> {
        self.check(cx)?;
        let actor = if self.claim { Some(claims::require_actor(cx)?) } else { None };
        let mut attempt = 1;
        loop {
            let path = free_path(cx, &self.title)?;
            check_no_cycle(cx.space, &path, &self.blocked_by)?;
            // The claim starts before the page exists, so that no other worker takes it.
            let started = match &actor {
                Some(actor) => match claims::start(cx.space, actor, &path, LeaseDuration::default().get())? {
                    Ok(mut started) => {
                        started.set_attempt(1);
                        Some(started)
                    }
                    Err(_) => None,
                },
                None => None,
            };
            let (set, is_new_workflow) = self.to_change_set(cx, &path)?;
            let fault = match cx.apply_as(&self.writer(cx, &path, is_new_workflow)?, set) {
                Ok(applied) => {
                    let etag = applied.files.first().and_then(|file| file.etag);
                    let etag = etag.ok_or_else(|| Fault::file_not_found(&path))?;
                    let claim = started.map(svcfs_vfs::StartedClaim::confirm).transpose()?;
                    return Ok(CreatedTask { path, etag, version: applied.commit.map(VersionId::Commit), claim });
                }
                Err(fault) => fault,
            };
            let exists = |path: &TreePath| cx.space.vfs.stat(Protocol::Internal, path).is_ok();
            let has_workflow = exists(&definition_path(TASK_WORKFLOW)?);
            if attempt == ATTEMPTS || !(exists(&path) || is_new_workflow && has_workflow) {
                return Err(fault);
            }
            attempt += 1;
        }
    }
}

impl CreateTask {
    /// The caller, who may write the page of the task. Creating the shipped definition of the
    /// workflow is an act of the server: a key of a folder does not need access to it.
    fn writer(&self, cx: &OperationContext<'_>, path: &TreePath, is_new_workflow: bool) -> Result<Caller, Fault> {
        let mut caller = cx.caller.clone();
        if is_new_workflow {
            caller.permissions.check_path(path)?;
            caller.permissions.folder = None;
        }
        Ok(caller)
    }

    fn check(&self, cx: &OperationContext<'_>) -> Result<(), Fault> {
        let title = self.title.trim();
        if title.is_empty() {
            return Err(Fault::new(Kind::Invalid, "title is required"));
        }
        if title.chars().count() > MAX_TITLE_CHARS || title.contains(char::is_control) {
            return Err(Fault::invalid("title", "must be one line of at most 500 characters"));
        }
        if !(1..=5).contains(&self.priority) {
            return Err(Fault::invalid("priority", "must be 1 (most urgent) to 5"));
        }
        if self.due.as_ref().is_some_and(|day| day.parse::<jiff::civil::Date>().is_err()) {
            return Err(Fault::invalid("due", "must be a day, such as `2026-12-31`"));
        }
        let named = self.blocked_by.iter().map(|path| ("blocked_by", path));
        for (field, path) in named.chain(self.parent.iter().map(|path| ("parent", path))) {
            if path.is_root() || cx.space.vfs.stat(cx.caller.protocol, path).is_err() {
                let message = format!("`{field}`: file not found: {path}; name a page that exists");
                return Err(Fault::not_found(message).with_missing_path(path));
            }
            // A name that is no page may be the title of another one.
            if !path.is_page() {
                return Err(Fault::invalid(field, format_args!("`{path}` is not a page; name a `.md` file")));
            }
        }
        Ok(())
    }

    /// The page, and the definition of its workflow where that is missing.
    fn to_change_set(&self, cx: &OperationContext<'_>, path: &TreePath) -> Result<(ChangeSet, bool), Fault> {
        let definition_path = definition_path(TASK_WORKFLOW)?;
        let is_new_workflow = cx.space.vfs.stat(Protocol::Internal, &definition_path).is_err();
        let definition = if is_new_workflow {
            WorkflowDefinition::parse(TASK_WORKFLOW, DEFAULT_DEFINITION.as_bytes())?
        } else {
            read_definition(&cx.space.vfs, TASK_WORKFLOW)?
        };
        let state = definition.first_state().map_or("backlog", |state| state.name.as_str());
        let page = format_new_page(cx, path, self.to_text(state)?)?;
        let put = |path, content: Bytes| Change::put(path, content).with_precondition(Precondition::Absent);
        let mut changes = vec![put(path.clone(), page)];
        if is_new_workflow {
            changes.push(put(definition_path, DEFAULT_DEFINITION.into()));
        }
        let message = format!("{}: task: {path}", cx.caller.actor());
        Ok((ChangeSet::new(changes).with_message(message), is_new_workflow))
    }

    fn to_text(&self, state: &str) -> Result<String, Fault> {
        let title = self.title.trim();
        let description = self.description.as_deref().map(str::trim).filter(|text| !text.is_empty());
        let body = match description {
            Some(description) => format!("# {title}\n\n{description}\n"),
            None => format!("# {title}\n"),
        };
        let mut fields = vec![
            ("type", json!(super::TASK_TYPE)),
            ("title", json!(title)),
            ("workflow", json!(TASK_WORKFLOW)),
            ("state", json!(state)),
            ("status", json!(super::OPEN_STATUS)),
            ("priority", json!(self.priority)),
        ];
        let optional = [
            ("assignee", self.assignee.as_ref().map(|name| json!(name))),
            ("blocked_by", list(&self.blocked_by)),
            ("labels", list(&self.labels)),
            ("parent", self.parent.as_ref().map(|path| json!(path))),
            ("artifacts", list(&self.artifacts)),
            ("due", self.due.as_ref().map(|day| json!(day))),
        ];
        fields.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
        set_fields(&body, &fields)
    }
}

fn list<T: Serialize>(items: &[T]) -> Option<Value> {
    (!items.is_empty()).then(|| json!(items))
}

/// A path for a title where nothing is yet.
fn free_path(cx: &OperationContext<'_>, title: &str) -> Result<TreePath, Fault> {
    let name: String = slug(title.trim()).chars().take(MAX_SLUG_CHARS).collect();
    let name = name.trim_matches(['-', '_']);
    let name = if name.is_empty() { "task" } else { name };
    let mut number = 1_u32;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = TreePath::parse(&format!("{TASK_FOLDER}/{name}{suffix}.md"))?;
        let is_claimed = cx.space.vfs.claim_at(&path).is_some();
        match cx.space.vfs.stat(Protocol::Internal, &path) {
            Err(fault) if fault.kind() == Kind::NotFound && !is_claimed => return Ok(path),
            Err(fault) if fault.kind() != Kind::NotFound => return Err(fault),
            Ok(_) | Err(_) => number += 1,
        }
    }
}

/// Refuses a task that would wait for itself: pages may name a task that does not exist yet.
fn check_no_cycle(space: &Space, new: &TreePath, blocked_by: &[TreePath]) -> Result<(), Fault> {
    let mut followed: BTreeSet<TreePath> = blocked_by.iter().cloned().collect();
    let mut next: Vec<TreePath> = blocked_by.to_vec();
    while let Some(page) = next.pop() {
        let fields = super::stored_fields(space, &page).unwrap_or_default();
        for name in blocker_names(&Value::Object(fields)) {
            let target = super::resolve_page(space, &page, &name)?;
            if target.is_none() && super::names_path(&page, &name, new) {
                let message =
                    format!("`blocked_by`: `{page}` waits for `{new}` already; the two would wait for each other");
                return Err(Fault::new(Kind::Conflict, message));
            }
            if let Some(target) = target
                && followed.len() < MAX_FOLLOWED_PAGES
                && followed.insert(target.clone())
            {
                next.push(target);
            }
        }
    }
    Ok(())
}
