//! Recent events as feed documents: Atom (RFC 4287) and JSON Feed 1.1.

use std::str::FromStr;

use atom_syndication as atom;
use percent_encoding::utf8_percent_encode;
use schemars::JsonSchema;
use serde::Serialize;
use svcfs_base::{Actor, Fault, Timestamp};
use svcfs_vfs::{ChangeFilter, PathAction, TimelineEvent};

use crate::files::{SEGMENT, permalink};
use crate::kernel::OperationContext;

const TITLE: &str = "svcfs Activity Feed";
const DESCRIPTION: &str = "Recent changes to the knowledge base";

/// Recent events as a JSON Feed document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct JsonFeed {
    /// Which form of feed: JSON Feed 1.1
    pub version: &'static str,
    /// Title of the feed
    pub title: &'static str,
    /// What it is about
    pub description: &'static str,
    /// Address of the server, when it has a public one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_page_url: Option<String>,
    /// Address of this feed, when the server has a public one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_url: Option<String>,
    /// The events, newest first
    pub items: Vec<FeedItem>,
}

/// One event in a feed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FeedItem {
    /// Never the same for two events, and never another for one: made of commit and path
    pub id: String,
    /// Where the page can be read, when the server has a public address and the page was not deleted
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What happened, such as `Updated: notes/today.md`
    pub title: String,
    /// Message of the commit
    pub content_text: String,
    /// When
    pub date_published: Timestamp,
    /// Who did it: one author
    pub authors: Vec<FeedAuthor>,
}

/// Who did it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FeedAuthor {
    /// Name
    pub name: Actor,
}

/// The newest events that the caller may see as a feed, at most `max`.
///
/// # Errors
/// `Internal` when the log cannot be read.
pub fn recent(cx: &OperationContext<'_>, max: usize) -> Result<JsonFeed, Fault> {
    let selection = ChangeFilter { below: cx.caller.permissions.folder.clone(), ..ChangeFilter::default() };
    let timeline = cx.space.vfs.timeline(&selection, 0, max)?;
    Ok(JsonFeed {
        version: "https://jsonfeed.org/version/1.1",
        title: TITLE,
        description: DESCRIPTION,
        home_page_url: cx.public_url().map(|site| site.as_str().to_owned()),
        feed_url: address(cx, "feed.json"),
        items: timeline.events.into_iter().map(|event| entry(cx, event)).collect(),
    })
}

fn entry(cx: &OperationContext<'_>, event: TimelineEvent) -> FeedItem {
    let TimelineEvent { action, path, actor, time, message, id } = event;
    let (verb, url) = match action {
        PathAction::Write => ("Updated", permalink(cx.public_url(), &path)),
        PathAction::Delete => ("Deleted", None),
    };
    FeedItem {
        id: format!("urn:svc:{id}:{}", utf8_percent_encode(path.as_str(), SEGMENT)),
        url,
        title: format!("{verb}: {path}"),
        content_text: cx.caller.permissions.redact_message(message),
        date_published: time,
        authors: vec![FeedAuthor { name: actor }],
    }
}

/// Where a document of this space is found, when the server has a public address.
fn address(cx: &OperationContext<'_>, document: &str) -> Option<String> {
    let space = utf8_percent_encode(&cx.space.name, SEGMENT);
    cx.public_url().map(|site| format!("{}/api/svc/{space}/{document}", site.as_str()))
}

/// The newest events as an Atom document, at most `max`.
///
/// # Errors
/// `Internal` when the log cannot be read.
pub fn atom(cx: &OperationContext<'_>, max: usize) -> Result<String, Fault> {
    let JsonFeed { items, home_page_url, .. } = recent(cx, max)?;
    let link = |rel: &str, href: String| atom::Link { rel: rel.to_owned(), href, ..atom::Link::default() };
    // A feed without events was never updated: any fixed moment is as true, and keeps the document the same.
    let updated = items.first().map_or(Timestamp::UNIX_EPOCH, |newest| newest.date_published);
    let links = home_page_url.map(|url| link("alternate", url)).into_iter();
    let document = atom::Feed {
        id: format!("urn:svc:{}", utf8_percent_encode(&cx.space.name, SEGMENT)),
        title: TITLE.into(),
        subtitle: Some(DESCRIPTION.into()),
        updated: moment(updated)?,
        links: links.chain(address(cx, "feed.xml").map(|url| link("self", url))).collect(),
        entries: items.into_iter().map(atom_entry).collect::<Result<_, _>>()?,
        ..atom::Feed::default()
    };
    Ok(document.to_string())
}

fn atom_entry(entry: FeedItem) -> Result<atom::Entry, Fault> {
    let link = |href| atom::Link { rel: "alternate".to_owned(), href, ..atom::Link::default() };
    let (time, text) = (moment(entry.date_published)?, shown(&entry.content_text));
    let person = |author: FeedAuthor| atom::Person { name: shown(author.name.as_str()), ..atom::Person::default() };
    Ok(atom::Entry {
        id: entry.id,
        title: shown(&entry.title).into(),
        updated: time,
        published: Some(time),
        summary: Some(text.clone().into()),
        // An entry has this or a link (RFC 4287 4.1.2), and without a public address nothing has one.
        content: Some(atom::Content {
            value: Some(text),
            content_type: Some("text".to_owned()),
            ..atom::Content::default()
        }),
        links: entry.url.map(link).into_iter().collect(),
        authors: entry.authors.into_iter().map(person).collect(),
        ..atom::Entry::default()
    })
}

/// A text without the characters that no XML document may hold, escaped or not: a commit message may have any.
fn shown(text: &str) -> String {
    let is_allowed =
        |c: &char| !matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    text.chars().filter(is_allowed).collect()
}

/// A moment as the document's own library has it.
fn moment(time: Timestamp) -> Result<atom::FixedDateTime, Fault> {
    atom::FixedDateTime::from_str(&time.to_string()).map_err(|error| Fault::internal(error.to_string()))
}
