use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Fault, Limit, Protocol, Timestamp, TreePath, VersionId, deserialize_selected_actor};
use svcfs_vfs::{ChangeFilter, NamePeriod, PathAction, TimelineEvent};

use super::feeds;
use crate::history;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, default_true};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Activity",
    operations: &[
        OperationEntry::new::<ListEvents>(),
        OperationEntry::new::<ReadJsonFeed>(),
        OperationEntry::new::<ReadAtomFeed>(),
    ],
};

/// Default number of events in a feed document, and for agents.
const DEFAULT_EVENTS: usize = 50;
const DEFAULT_AGENT_EVENTS: usize = 20;

/// List recent changes, newest first
///
/// An event is one path of one commit; a rename is a `delete` and a `write`. Internal files
/// (`.svc/`) and hidden files are left out. Use it to see what changed lately and who changed it;
/// to follow every change without missing one, use `changes`. Returns the events and how many match
/// in total.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListEvents {
    #[serde(default)]
    pub limit: Limit<50, 500>,
    /// Number of newest events to skip
    #[serde(default)]
    pub offset: u32,
    /// Only changes by this actor (exact name)
    #[serde(default, deserialize_with = "deserialize_selected_actor")]
    pub actor: Option<Actor>,
    /// Only events of this kind
    #[serde(default, rename = "type")]
    pub kind: Option<PathAction>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
    /// Follow renames: changes under former names of the path count, too
    #[serde(default = "default_true")]
    pub follow: bool,
}

/// A page of events.
#[derive(Debug, Serialize, JsonSchema)]
pub struct EventList {
    /// The events, newest first
    pub events: Vec<ActivityEvent>,
    /// Total number of matching events
    pub total: usize,
}

/// One change of one page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ActivityEvent {
    /// Kind of change
    #[serde(rename = "type")]
    pub kind: PathAction,
    /// Path of the page
    pub path: TreePath,
    /// Author of the change
    pub actor: Actor,
    /// Time of the change
    pub timestamp: Timestamp,
    /// First line of the commit message
    pub message: String,
    /// Commit hash, or a timestamp if there is no git history
    pub hash: VersionId,
}

impl From<TimelineEvent> for ActivityEvent {
    fn from(event: TimelineEvent) -> Self {
        let TimelineEvent { action, path, actor, time, message, id } = event;
        // The body of a bulk write's message lists all its files; the subject is enough here.
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
        let hidden_files = feeds::hidden_files(cx);
        let below = match self.path_prefix {
            Some(path) if self.follow && !path.is_root() => {
                cx.space.vfs.names_at_or_below(&path, |former| history::can_read(cx, former))?
            }
            path => path.map(NamePeriod::always).into_iter().collect(),
        };
        let filter = ChangeFilter { actor: self.actor, is_removal, below, hidden_files };
        let timeline = cx.space.vfs.timeline(&filter, self.offset as usize, self.limit.get())?;
        let permissions = &cx.caller.permissions;
        let to_event = |event| {
            let event = ActivityEvent::from(event);
            ActivityEvent { message: permissions.redact_message(event.message), ..event }
        };
        Ok(EventList { events: timeline.events.into_iter().map(to_event).collect(), total: timeline.total })
    }
}

/// Read recent changes as a JSON Feed
///
/// The newest 50 changes (20 for agents) as a JSON Feed 1.1 document, for feed readers. For filters
/// and paging use `timeline`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadJsonFeed {
    /// Maximum number of events; default 50, for agents 20
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
        let default = if cx.caller.protocol == Protocol::Mcp { DEFAULT_AGENT_EVENTS } else { DEFAULT_EVENTS };
        feeds::recent(cx, self.limit.map_or(default, Limit::get))
    }
}

/// Read recent changes as an Atom feed
///
/// The newest 50 changes as an Atom document (RFC 4287), for feed readers.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadAtomFeed {}

/// An Atom document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AtomDocument {
    /// The XML text
    pub xml: String,
}

impl Operation for ReadAtomFeed {
    const NAME: &'static str = "feed_xml";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/feed.xml").text("xml", "application/atom+xml; charset=utf-8")];
    type Output = AtomDocument;
    fn run(self, cx: &OperationContext<'_>) -> Result<AtomDocument, Fault> {
        Ok(AtomDocument { xml: feeds::atom(cx, DEFAULT_EVENTS)? })
    }
}
