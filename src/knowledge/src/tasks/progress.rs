use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{ETag, Fault, Kind, TreePath, VersionId};
use svcfs_text::frontmatter;

use super::edits::{add_to_section, edit_page, lower_headings};
use crate::claims::{self, LeaseDuration};
use crate::files::set_fields;
use crate::kernel::{FolderScope, Operation, OperationContext, Route, require_path};

/// Maximum size of a message.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Add a progress note to a task
///
/// Adds `### <time> — <agent>` with the message at the end of the task's section `## Progress`.
/// Notes of concurrent writers are all kept. Renews your claim on the task, if you have one.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AddTaskProgress {
    /// Path of the task
    #[schemars(example = "tasks/a.md")]
    pub path: TreePath,
    /// The note, as markdown; at most 64 KiB
    pub message: String,
    /// Name in the heading of the note; your name when absent
    #[serde(default)]
    pub agent: Option<String>,
    /// How much of the task is done
    #[serde(default)]
    #[schemars(range(max = 100))]
    pub percent: Option<u8>,
}

/// The page after a progress note.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TaskProgress {
    /// Path of the task
    pub path: TreePath,
    /// Hash of the page
    pub etag: ETag,
    /// Its version; null when it is recorded later
    pub version: Option<VersionId>,
}

impl Operation for AddTaskProgress {
    const NAME: &'static str = "task_progress";
    const LIMITED: bool = false;
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/tasks/progress")];
    const TOOL: bool = true;
    type Output = TaskProgress;
    fn run(self, cx: &OperationContext<'_>) -> Result<TaskProgress, Fault> {
        let Self { path, message, agent, percent } = self;
        require_path("path", &path)?;
        let note = message.trim();
        if note.is_empty() {
            return Err(Fault::new(Kind::Invalid, "message is required"));
        }
        if message.len() > MAX_MESSAGE_BYTES {
            return Err(Fault::new(Kind::TooLarge, "`message` has more than 64 KiB; write a page, and name it here"));
        }
        if percent.is_some_and(|percent| percent > 100) {
            return Err(Fault::invalid("percent", "must be 0 to 100"));
        }
        let actor = cx.caller.actor();
        let agent = agent.as_deref().map(svcfs_base::Actor::new).unwrap_or_else(|| actor.clone());
        let note = lower_headings(&format!("### {:.0} — {agent}\n\n{note}", cx.now()));
        let edit = |text: &str| {
            super::check_is_task(&path, &frontmatter::parse(text).map)?;
            let text = match percent {
                Some(percent) => set_fields(text, &[("percent", json!(percent))])?,
                None => text.to_owned(),
            };
            Ok(Some(add_to_section(&text, "Progress", &note)))
        };
        let commit_message = format!("{actor}: progress: {path}");
        let edited = edit_page(cx.space, cx.caller, &path, &commit_message, edit)?;
        let (etag, applied) = edited.ok_or_else(|| Fault::file_not_found(&path))?;
        applied.notes.iter().for_each(|note| cx.add_note(note.as_str()));
        renew(cx, &path)?;
        Ok(TaskProgress { path, etag, version: applied.commit.map(VersionId::Commit) })
    }
}

/// Extends the caller's claim to the default length, unless it is longer.
fn renew(cx: &OperationContext<'_>, path: &TreePath) -> Result<(), Fault> {
    let Some(claim) = cx.space.vfs.claim_at(path).filter(|claim| claim.claimed_by == cx.caller.actor()) else {
        return Ok(());
    };
    let lease = LeaseDuration::default().get();
    let remaining = Duration::try_from(claim.expires_at.duration_since(cx.now())).unwrap_or_default();
    if remaining < lease {
        claims::claim(cx.space, &claim.claimed_by, path, lease)?;
    }
    Ok(())
}
