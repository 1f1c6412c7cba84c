//! The wire shapes of what happened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Fault, Limit, Protocol, Timestamp, TreePath, VersionId};
use svcfs_vfs::{ChangeFilter, PathAction, TimelineEvent};

use super::feeds;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Activity",
    operations: &[
        OperationEntry::new::<ListEvents>(),
        OperationEntry::new::<ReadJsonFeed>(),
        OperationEntry::new::<ReadAtomFeed>(),
    ],
};

/// Events in a feed document, and for agents (gaps.md 4.4, 4.21).
const IN_DOCUMENT: usize = 50;
const FOR_AGENTS: usize = 20;

/// See what happened lately, newest first
///
/// An event is one path of one commit; a rename is a `delete` and a `write`. What svcfs keeps for itself (`.svc/`) is left out.
/// To follow every change without missing one, use `changes`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListEvents {
    #[serde(default)]
    pub limit: Limit<50, 500>,
    /// How many of the newest events to leave out
    #[serde(default)]
    pub offset: u32,
    /// Only what this one did, by exact name
    #[serde(default)]
    pub actor: Option<Actor>,
    /// Only events of this kind
    #[serde(default, rename = "type")]
    pub kind: Option<PathAction>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
}

/// A stretch of what happened.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EventList {
    /// The events, newest first
    pub events: Vec<ActivityEvent>,
    /// How many events fit the question in all
    pub total: usize,
}

/// Something that happened to a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ActivityEvent {
    /// What happened
    #[serde(rename = "type")]
    pub kind: PathAction,
    /// To which page
    pub path: TreePath,
    /// Who did it
    pub actor: Actor,
    /// When
    pub timestamp: Timestamp,
    /// Subject of the commit
    pub message: String,
    /// Commit hash, or moment where git keeps no history
    pub hash: VersionId,
}

impl From<TimelineEvent> for ActivityEvent {
    fn from(event: TimelineEvent) -> Self {
        let TimelineEvent { action, path, actor, time, message, id } = event;
        // A bulk write names its files in the body: repeated in the event of each of them it would fill pages.
        let subject = message.lines().next().unwrap_or_default().to_owned();
        Self { kind: action, path, actor, timestamp: time, message: subject, hash: id }
    }
}

impl Operation for ListEvents {
    const NAME: &'static str = "timeline";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/timeline")];
    const TOOL: bool = true;
    type Output = EventList;
    fn run(self, cx: &OperationContext<'_>) -> Result<EventList, Fault> {
        let is_removal = self.kind.map(|kind| match kind {
            PathAction::Delete => true,
            PathAction::Write => false,
        });
        let selection = ChangeFilter { actor: self.actor, is_removal, below: self.path_prefix };
        let timeline = cx.space.vfs.timeline(&selection, self.offset as usize, self.limit.get())?;
        let reach = &cx.caller.permissions;
        let told = |event| {
            let event = ActivityEvent::from(event);
            ActivityEvent { message: reach.redact_message(event.message), ..event }
        };
        Ok(EventList { events: timeline.events.into_iter().map(told).collect(), total: timeline.total })
    }
}

/// Read recent events as a JSON Feed
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadJsonFeed {
    /// At most this many events; without it 50, for agents 20
    #[serde(default)]
    pub limit: Option<Limit<50, 500>>,
}

impl Operation for ReadJsonFeed {
    const NAME: &'static str = "feed";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/feed.json").json_media_type("application/feed+json; charset=utf-8")];
    const TOOL: bool = true;
    type Output = feeds::JsonFeed;
    fn run(self, cx: &OperationContext<'_>) -> Result<feeds::JsonFeed, Fault> {
        let by_default = if cx.caller.protocol == Protocol::Mcp { FOR_AGENTS } else { IN_DOCUMENT };
        feeds::recent(cx, self.limit.map_or(by_default, Limit::get))
    }
}

/// Read recent events as an Atom feed
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadAtomFeed {}

/// An Atom document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AtomDocument {
    /// The document
    pub xml: String,
}

impl Operation for ReadAtomFeed {
    const NAME: &'static str = "feed_xml";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/feed.xml").text("xml", "application/atom+xml; charset=utf-8")];
    type Output = AtomDocument;
    fn run(self, cx: &OperationContext<'_>) -> Result<AtomDocument, Fault> {
        Ok(AtomDocument { xml: feeds::atom(cx, IN_DOCUMENT)? })
    }
}
