//! What a webhook is notified of, by the changes of the feed.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};
use svcfs_base::{ETag, EventAnnouncement, MAX_PAGE_BYTES, Protocol, TreePath, WebhookEvent};
use svcfs_text::frontmatter;
use svcfs_vfs::{EventChange, FeedEvent, commented_page};

use super::hook::Hook;
use super::signature::message_id;
use crate::kernel::Space;
use crate::publishing::Audience;

/// A notification without its place in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Notification {
    pub message: String,
    pub event: WebhookEvent,
    pub path: TreePath,
    pub former_path: Option<TreePath>,
    pub body: String,
}

/// Pages whose frontmatter is remembered: that of all webhooks for a set is read once.
const MAX_REMEMBERED: usize = 4_096;

/// The frontmatter of the versions that several webhooks compare; none for a content that is not
/// stored.
#[derive(Default)]
pub(super) struct FrontmatterCache(RefCell<HashMap<(TreePath, ETag), FrontmatterMap>>);

type FrontmatterMap = Option<Rc<Map<String, Value>>>;

impl FrontmatterCache {
    fn get_or_read(&self, key: (&TreePath, ETag), read: impl FnOnce() -> FrontmatterMap) -> FrontmatterMap {
        let key = (key.0.clone(), key.1);
        if let Some(known) = self.0.borrow().get(&key) {
            return known.clone();
        }
        let map = read();
        let mut known = self.0.borrow_mut();
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        known.insert(key, map.clone());
        map
    }
}

/// A change set, as a webhook reads it.
pub(super) struct EventReader<'a> {
    space: &'a Space,
    pages: &'a FrontmatterCache,
    hook: &'a Hook,
    event: &'a FeedEvent,
    /// Index of the new name of a renamed file, and of its former name.
    renames: HashMap<usize, usize>,
    /// Indexes of the former names.
    former_names: HashSet<usize>,
}

impl<'a> EventReader<'a> {
    pub fn new((space, pages): (&'a Space, &'a FrontmatterCache), hook: &'a Hook, event: &'a FeedEvent) -> Self {
        let mut reader = Self { space, pages, hook, event, renames: HashMap::new(), former_names: HashSet::new() };
        if hook.wants(WebhookEvent::FileRenamed) {
            let both = |index: usize| reader.is_sent(&event.changes[index].path);
            reader.renames = renames(event).into_iter().filter(|(new, old)| both(*new) && both(*old)).collect();
            reader.former_names = reader.renames.values().copied().collect();
        }
        reader
    }

    /// The notifications about one change; after the last change also about the set.
    pub fn notifications(&self, index: usize) -> Vec<Notification> {
        let mut notifications = Vec::new();
        let Some(change) = self.event.changes.get(index) else { return notifications };
        if self.event.announcement.is_comment() {
            notifications.extend(self.comment(index, change));
        } else if self.is_sent(&change.path) {
            notifications.extend(self.file(index, change));
            notifications.extend(self.page(index, change));
        }
        if self.event.announcement == EventAnnouncement::Merge && index + 1 == self.event.changes.len() {
            notifications.extend(self.merge());
        }
        notifications
    }

    /// Whether the webhook gets events of a path: not those of internal and hidden files.
    fn is_sent(&self, path: &TreePath) -> bool {
        path.components().next() != Some(".svc")
            && !self.space.vfs.hidden_files().hides(path)
            && self.hook.matches(path)
    }

    /// The former name of a renamed file.
    fn former(&self, index: usize) -> Option<&EventChange> {
        self.renames.get(&index).and_then(|old| self.event.changes.get(*old))
    }

    fn file(&self, index: usize, change: &EventChange) -> Option<Notification> {
        if let Some(former) = self.former(index) {
            let details = [("from", json!(former.path)), ("etag", json!(change.new))];
            let renamed = self.notification(WebhookEvent::FileRenamed, &change.path, details)?;
            return Some(Notification { former_path: Some(former.path.clone()), ..renamed });
        }
        if self.former_names.contains(&index) {
            return None;
        }
        let event = match (change.old, change.new) {
            (None, Some(_)) => WebhookEvent::FileCreated,
            (Some(_), Some(_)) => WebhookEvent::FileUpdated,
            (_, None) => WebhookEvent::FileDeleted,
        };
        self.notification(event, &change.path, change.new.map(|etag| ("etag", json!(etag))))
    }

    /// Publication and workflow state, by the frontmatter before and after. A page that is removed
    /// is not published any more.
    fn page(&self, index: usize, change: &EventChange) -> Vec<Notification> {
        use WebhookEvent::{PagePublished, PageTransition, PageUnpublished};
        let wants_any = [PagePublished, PageUnpublished, PageTransition].iter().any(|event| self.hook.wants(*event));
        // The former name of a page that was renamed: its new name has the event.
        if !wants_any || !change.path.is_page() || self.former_names.contains(&index) {
            return Vec::new();
        }
        let before = self.former(index).unwrap_or(change);
        let (old, new) = (self.frontmatter(before, before.old), self.frontmatter(change, change.new));
        // The content is not stored, so nothing is known about the change.
        let (Some(old), Some(new)) = (old, new) else { return Vec::new() };
        let mut notifications = Vec::new();
        match (Audience::Published.admits(&old), Audience::Published.admits(&new)) {
            (false, true) => notifications.extend(self.notification(PagePublished, &change.path, [])),
            (true, false) => notifications.extend(self.notification(PageUnpublished, &change.path, [])),
            (false, false) | (true, true) => {}
        }
        let state = |page: &Map<String, Value>| page.get("state").and_then(Value::as_str).map(str::to_owned);
        let workflow = new.get("workflow").and_then(Value::as_str);
        if let (Some(workflow), Some(to_state)) = (workflow, state(&new))
            && before.old.is_some()
            && state(&old).as_ref() != Some(&to_state)
        {
            let details = [
                ("workflow", json!(workflow)),
                ("field", json!("state")),
                ("from_state", json!(state(&old))),
                ("to_state", json!(to_state)),
            ];
            notifications.extend(self.notification(PageTransition, &change.path, details));
        }
        notifications
    }

    /// The frontmatter of a content; empty for a file that did not exist.
    fn frontmatter(&self, change: &EventChange, etag: Option<ETag>) -> FrontmatterMap {
        let Some(etag) = etag else { return Some(Rc::default()) };
        self.pages.get_or_read((&change.path, etag), || self.read_frontmatter(change, etag).map(Rc::new))
    }

    fn read_frontmatter(&self, change: &EventChange, etag: ETag) -> Option<Map<String, Value>> {
        let stored = self.space.vfs.recorded_content(&change.path, etag).ok().flatten();
        let content = stored.or_else(|| {
            // A content without version can still be in the tree.
            let file = self.space.vfs.read(Protocol::Internal, &change.path).ok()?;
            (file.etag == etag).then_some(file.content)
        })?;
        let text = std::str::from_utf8(&content).ok().filter(|text| text.len() <= MAX_PAGE_BYTES)?;
        Some(frontmatter::parse(text).map)
    }

    fn comment(&self, index: usize, change: &EventChange) -> Option<Notification> {
        let page = commented_page(&change.path).filter(|page| self.is_sent(page))?;
        // Of several files, the last was that of a former name of the page.
        let is_first = !self.event.changes[..index].iter().any(|earlier| commented_page(&earlier.path).is_some());
        let event = match self.event.announcement {
            EventAnnouncement::CommentAdd => WebhookEvent::CommentAdded,
            EventAnnouncement::CommentResolve => WebhookEvent::CommentResolved,
            _ => WebhookEvent::CommentDeleted,
        };
        if is_first { self.notification(event, &page, []) } else { None }
    }

    /// The merge of a draft, about the root: it has its own order.
    fn merge(&self) -> Option<Notification> {
        let changed = self.event.changes.iter().map(|change| &change.path);
        let paths: Vec<&TreePath> = changed.filter(|path| self.is_sent(path)).collect();
        let (first, count) = (*paths.first()?, paths.len());
        // The subject is `NAME: merge draft ID — N files`, and names have no colon.
        let draft = self.event.message.lines().next().and_then(|subject| subject.split_once(": merge draft "));
        let draft = draft.and_then(|(_, rest)| rest.split(' ').next()).unwrap_or_default().to_owned();
        let details =
            [("draft", json!(draft)), ("count", json!(count)), ("paths", json!(&paths[..count.min(MAX_PATHS)]))];
        self.notification(WebhookEvent::DraftMerged, first, details)
    }

    fn notification(
        &self,
        event: WebhookEvent,
        path: &TreePath,
        details: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Option<Notification> {
        if !self.hook.wants(event) {
            return None;
        }
        let FeedEvent { seq, time, actor, .. } = self.event;
        let mut body = Map::new();
        body.insert("type".to_owned(), event.type_name().into());
        body.insert("event".to_owned(), event.name().into());
        body.insert("path".to_owned(), path.as_str().into());
        body.insert("actor".to_owned(), json!(actor));
        body.insert("timestamp".to_owned(), json!(time));
        body.insert("space".to_owned(), self.space.name.as_str().into());
        body.insert("seq".to_owned(), seq.0.into());
        body.extend(details.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let body = Value::Object(body).to_string();
        let hook = (self.space.name.as_str(), self.hook.stored.id.as_str());
        let message = message_id(hook, (*seq, *time), event, path);
        Some(Notification { message, event, path: path.clone(), former_path: None, body })
    }
}

/// Paths that the notification about a merge names.
const MAX_PATHS: usize = 100;

/// The renames in a set: index of the new name, and of the former. A file has the same content as
/// before, or it is the only one that went and the only one that came in a set of svcfs, which may
/// have rewritten its links.
fn renames(event: &FeedEvent) -> HashMap<usize, usize> {
    let indexed = || event.changes.iter().enumerate();
    let removed: Vec<(usize, ETag)> = indexed()
        .filter(|(_, change)| change.new.is_none())
        .filter_map(|(at, change)| Some((at, change.old?)))
        .collect();
    let created: Vec<(usize, ETag)> = indexed()
        .filter(|(_, change)| change.old.is_none())
        .filter_map(|(at, change)| Some((at, change.new?)))
        .collect();
    if let ([(old, _)], [(new, _)]) = (&removed[..], &created[..])
        && event.protocol != Protocol::Direct
        && event.announcement == EventAnnouncement::Files
    {
        return HashMap::from([(*new, *old)]);
    }
    let mut by_content: HashMap<ETag, Vec<usize>> = HashMap::new();
    removed.iter().rev().for_each(|(at, etag)| by_content.entry(*etag).or_default().push(*at));
    created.into_iter().filter_map(|(new, etag)| Some((new, by_content.get_mut(&etag)?.pop()?))).collect()
}
