//! The wire shapes of what happened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Door, Fault, Limit, Timestamp, TreePath, VersionId};
use svcfs_vfs::{Action, Selection, TimelineEvent};

use super::feeds;
use crate::kernel::{Area, Cx, Entry, Operation, Route, Within};

/// The operations of this area.
pub const AREA: Area =
    Area { title: "Activity", operations: &[Entry::of::<Timeline>(), Entry::of::<Feed>(), Entry::of::<FeedXml>()] };

/// Events in a feed document, and for agents (gaps.md 4.4, 4.21).
const IN_DOCUMENT: usize = 50;
const FOR_AGENTS: usize = 20;

/// See what happened lately, newest first
///
/// An event is one path of one commit; a rename is a `delete` and a `write`. What svcfs keeps for itself (`.svc/`) is left out.
/// To follow every change without missing one, use `changes`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Timeline {
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
    pub kind: Option<Action>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
}

/// A stretch of what happened.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Events {
    /// The events, newest first
    pub events: Vec<Event>,
    /// How many events fit the question in all
    pub total: usize,
}

/// Something that happened to a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Event {
    /// What happened
    #[serde(rename = "type")]
    pub kind: Action,
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

impl From<TimelineEvent> for Event {
    fn from(event: TimelineEvent) -> Self {
        let TimelineEvent { action, path, actor, time, message, id } = event;
        // A bulk write names its files in the body: repeated in the event of each of them it would fill pages.
        let subject = message.lines().next().unwrap_or_default().to_owned();
        Self { kind: action, path, actor, timestamp: time, message: subject, hash: id }
    }
}

impl Operation for Timeline {
    const NAME: &'static str = "timeline";
    const WITHIN: Within = Within::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/timeline")];
    const TOOL: bool = true;
    type Output = Events;
    fn run(self, cx: &Cx<'_>) -> Result<Events, Fault> {
        let is_removal = self.kind.map(|kind| match kind {
            Action::Delete => true,
            Action::Write => false,
        });
        let selection = Selection { actor: self.actor, is_removal, below: self.path_prefix };
        let timeline = cx.space.vfs.timeline(&selection, self.offset as usize, self.limit.get())?;
        let reach = &cx.caller.reach;
        let told = |event| {
            let event = Event::from(event);
            Event { message: reach.of_message(event.message), ..event }
        };
        Ok(Events { events: timeline.events.into_iter().map(told).collect(), total: timeline.total })
    }
}

/// Read recent events as a JSON Feed
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Feed {
    /// At most this many events; without it 50, for agents 20
    #[serde(default)]
    pub limit: Option<Limit<50, 500>>,
}

impl Operation for Feed {
    const NAME: &'static str = "feed";
    const WITHIN: Within = Within::Own;
    const HTTP: &'static [Route] = &[Route::get("/feed.json").json_as("application/feed+json; charset=utf-8")];
    const TOOL: bool = true;
    type Output = feeds::Feed;
    fn run(self, cx: &Cx<'_>) -> Result<feeds::Feed, Fault> {
        let by_default = if cx.caller.door == Door::Mcp { FOR_AGENTS } else { IN_DOCUMENT };
        feeds::recent(cx, self.limit.map_or(by_default, Limit::get))
    }
}

/// Read recent events as an Atom feed
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FeedXml {}

/// An Atom document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Document {
    /// The document
    pub xml: String,
}

impl Operation for FeedXml {
    const NAME: &'static str = "feed_xml";
    const WITHIN: Within = Within::Own;
    const HTTP: &'static [Route] = &[Route::get("/feed.xml").text("xml", "application/atom+xml; charset=utf-8")];
    type Output = Document;
    fn run(self, cx: &Cx<'_>) -> Result<Document, Fault> {
        Ok(Document { xml: feeds::atom(cx, IN_DOCUMENT)? })
    }
}
