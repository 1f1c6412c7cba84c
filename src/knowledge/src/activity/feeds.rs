//! Recent events as feed documents: Atom (RFC 4287) and JSON Feed 1.1.

use std::str::FromStr;

use atom_syndication as atom;
use percent_encoding::utf8_percent_encode;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Actor, Fault, HiddenFiles, Timestamp};
use svcfs_vfs::{ChangeFilter, NamePeriod, PathAction, TimelineEvent};

use crate::files::{SEGMENT, permalink};
use crate::kernel::OperationContext;

const TITLE: &str = "svcfs Activity Feed";
const DESCRIPTION: &str = "Recent changes to the knowledge base";

/// Recent events as a JSON Feed document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JsonFeed {
    /// URL of the JSON Feed version: 1.1
    pub version: &'static str,
    /// Title of the feed
    pub title: &'static str,
    /// Description of the feed
    pub description: &'static str,
    /// Public address of the server, if it has one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_page_url: Option<String>,
    /// Public address of this feed, if the server has one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_url: Option<String>,
    /// The events, newest first
    pub items: Vec<FeedItem>,
}

/// One event in a feed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FeedItem {
    /// Unique and stable id, made from commit and path
    pub id: String,
    /// Address of the page, if the server has a public address and the page was not deleted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What happened, such as `Updated: notes/today.md`
    pub title: String,
    /// Commit message
    pub content_text: String,
    /// Time of the change
    pub date_published: Timestamp,
    /// The author of the change: always one
    pub authors: Vec<FeedAuthor>,
}

/// The author of a change.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FeedAuthor {
    /// Name of the author
    pub name: Actor,
}

/// The rules for hidden files, if they apply to the caller.
pub fn hidden_files(cx: &OperationContext<'_>) -> Option<HiddenFiles> {
    cx.caller.protocol.serves_knowledge_only().then(|| cx.space.vfs.hidden_files().clone())
}

/// The newest events that the caller may see as a JSON Feed, at most `max`.
pub fn recent(cx: &OperationContext<'_>, max: usize) -> Result<JsonFeed, Fault> {
    let below = cx.caller.permissions.folder.clone().map(NamePeriod::always).into_iter().collect();
    let selection = ChangeFilter { below, hidden_files: hidden_files(cx), ..ChangeFilter::default() };
    let timeline = cx.space.vfs.timeline(&selection, 0, max)?;
    Ok(JsonFeed {
        version: "https://jsonfeed.org/version/1.1",
        title: TITLE,
        description: DESCRIPTION,
        home_page_url: cx.public_url().map(|site| site.as_str().to_owned()),
        feed_url: feed_url(cx, "feed.json"),
        items: timeline.events.into_iter().map(|event| feed_item(cx, event)).collect(),
    })
}

fn feed_item(cx: &OperationContext<'_>, event: TimelineEvent) -> FeedItem {
    let TimelineEvent { action, path, actor, time, message, id } = event;
    let (verb, url) = match action {
        PathAction::Write => ("Updated", permalink(cx.public_url(), &path)),
        PathAction::Delete => ("Deleted", None),
    };
    FeedItem {
        id: format!("urn:svc:{id}:{}", utf8_percent_encode(path.as_str(), SEGMENT)),
        url,
        title: format!("{verb}: {path}"),
        content_text: cx.visible_message(message),
        date_published: time,
        authors: vec![FeedAuthor { name: actor }],
    }
}

fn feed_url(cx: &OperationContext<'_>, document: &str) -> Option<String> {
    let space = utf8_percent_encode(&cx.space.name, SEGMENT);
    cx.public_url().map(|site| format!("{}/api/svc/{space}/{document}", site.as_str()))
}

/// The newest events that the caller may see as an Atom document, at most `max`.
pub fn atom(cx: &OperationContext<'_>, max: usize) -> Result<String, Fault> {
    let JsonFeed { items, home_page_url, .. } = recent(cx, max)?;
    let link = |rel: &str, href: String| atom::Link { rel: rel.to_owned(), href, ..atom::Link::default() };
    // A feed without events has no update time: a fixed one keeps the document stable.
    let updated = items.first().map_or(Timestamp::UNIX_EPOCH, |newest| newest.date_published);
    let links = home_page_url.map(|url| link("alternate", url)).into_iter();
    let document = atom::Feed {
        id: format!("urn:svc:{}", utf8_percent_encode(&cx.space.name, SEGMENT)),
        title: TITLE.into(),
        subtitle: Some(DESCRIPTION.into()),
        updated: to_atom_time(updated)?,
        links: links.chain(feed_url(cx, "feed.xml").map(|url| link("self", url))).collect(),
        entries: items.into_iter().map(atom_entry).collect::<Result<_, _>>()?,
        ..atom::Feed::default()
    };
    Ok(document.to_string())
}

fn atom_entry(feed_item: FeedItem) -> Result<atom::Entry, Fault> {
    let link = |href| atom::Link { rel: "alternate".to_owned(), href, ..atom::Link::default() };
    let (time, text) = (to_atom_time(feed_item.date_published)?, strip_invalid_xml(&feed_item.content_text));
    let person =
        |author: FeedAuthor| atom::Person { name: strip_invalid_xml(author.name.as_str()), ..atom::Person::default() };
    Ok(atom::Entry {
        id: feed_item.id,
        title: strip_invalid_xml(&feed_item.title).into(),
        updated: time,
        published: Some(time),
        summary: Some(text.clone().into()),
        // An entry needs content or a link (RFC 4287 4.1.2); there may be no link.
        content: Some(atom::Content {
            value: Some(text),
            content_type: Some("text".to_owned()),
            ..atom::Content::default()
        }),
        links: feed_item.url.map(link).into_iter().collect(),
        authors: feed_item.authors.into_iter().map(person).collect(),
        ..atom::Entry::default()
    })
}

/// Removes the characters that XML does not permit even escaped: a commit message may have any.
pub(crate) fn strip_invalid_xml(text: &str) -> String {
    let is_allowed =
        |c: &char| !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    text.chars().filter(is_allowed).collect()
}

pub(crate) fn to_atom_time(time: Timestamp) -> Result<atom::FixedDateTime, Fault> {
    atom::FixedDateTime::from_str(&time.to_string()).map_err(|error| Fault::internal(error.to_string()))
}
