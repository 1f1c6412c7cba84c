//! `.svc/search/<words>/`, `.svc/tags/<tag>/`, `.svc/backlinks/<path>/`, `.svc/similar/<path>/`:
//! links to the matching pages.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{Fault, PathComponent, Protocol, Timestamp, TreePath};
use svcfs_text::fold::fold_name;
use svcfs_text::metadata::is_in_tag;
use svcfs_vfs::EntryKind;

use super::knowledge::PageHit;
use super::reader::ReaderRights;
use super::recent_cache::RecentCache;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};

/// File in the folder of an invalid query, with the error message.
const ERROR_FILE: &str = "ERROR.txt";
/// File in a folder that does not list everything: what is missing, and how to get it.
pub(super) const MORE_FILE: &str = "MORE";
const MIN_RANK_DIGITS: usize = 3;
const MAX_TITLE_BYTES: usize = 100;
/// How long lookups use a cached answer: as long as the kernel caches a name.
const MAX_ANSWER_AGE_SECONDS: i64 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkQuery {
    Search(String),
    /// Query language, or the name of a saved query.
    Query(String),
    Tag(String),
    Backlinks(TreePath),
    Similar(TreePath),
}

/// The time of an answer, and its pages or error message.
pub(super) struct TimedAnswer<T> {
    time: Timestamp,
    result: Result<Vec<T>, String>,
    /// Content of [`MORE_FILE`].
    missing: Option<String>,
}

/// Recent answers, by query and permissions of the reader.
#[derive(Default)]
pub(super) struct RecentAnswers {
    hits: RecentCache<(LinkQuery, Option<Arc<ReaderRights>>), TimedAnswer<PageHit>>,
    tags: RecentCache<Option<Arc<ReaderRights>>, TimedAnswer<String>>,
}

/// `.svc/search`: has a folder for every query, and lists none.
pub(super) struct SearchRoot;

impl ViewNode for SearchRoot {
    fn key(&self) -> Vec<u8> {
        b"search".to_vec()
    }

    fn lookup(
        &self,
        _views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        Ok(Some(Arc::new(SearchFolder(name.as_str().to_owned()))))
    }
}

struct SearchFolder(String);

impl ViewNode for SearchFolder {
    fn key(&self) -> Vec<u8> {
        format!("search {}", self.0).into_bytes()
    }

    fn is_user_independent(&self) -> bool {
        false
    }

    fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        self.query().lookup(views, reader, name)
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        self.query().list(views, reader)
    }
}

impl SearchFolder {
    fn query(&self) -> LinkQuery {
        LinkQuery::Search(self.0.clone())
    }
}

/// A tag, with the pages of its nested tags too, and folders for these (`area/work` is below
/// `area`); all tags are below the empty one.
pub(super) struct TagFolder(pub(super) String);

impl ViewNode for TagFolder {
    fn key(&self) -> Vec<u8> {
        format!("tags {}", self.0).into_bytes()
    }

    fn is_user_independent(&self) -> bool {
        false
    }

    fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let child = self.child(name.as_str());
        if tags(views, reader, AnswerFreshness::Recent)?.iter().any(|tag| is_in_tag(tag, &child)) {
            return Ok(Some(Arc::new(Self(child))));
        }
        match self.query() {
            Some(query) => query.lookup(views, reader, name),
            None => Ok(None),
        }
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let mut listed = match self.query() {
            Some(query) => query.list(views, reader)?,
            None => Vec::new(),
        };
        let depth = if self.0.is_empty() { 0 } else { self.0.split('/').count() };
        let all = tags(views, reader, AnswerFreshness::Now)?;
        let below = all.iter().filter(|tag| depth == 0 || is_in_tag(tag, &self.0));
        let mut names: Vec<&str> = below.filter_map(|tag| tag.split('/').nth(depth)).collect();
        names.sort_unstable();
        // Names that differ only in case are one tag.
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(fold_name(name).into_owned()));
        // A tag that is not a valid name, such as `..` or an empty one, has no folder.
        let names = names.into_iter().filter(|name| PathComponent::parse(name).is_ok());
        listed.extend(names.map(|name| ViewEntry { name: name.to_owned(), node: Arc::new(Self(self.child(name))) }));
        Ok(listed)
    }
}

impl TagFolder {
    fn child(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) }
    }

    fn query(&self) -> Option<LinkQuery> {
        (!self.0.is_empty()).then(|| LinkQuery::Tag(self.0.clone()))
    }
}

/// Pages that are related to a page; for a directory, the paths below it.
pub(super) struct RelatedFolder {
    name: &'static str,
    query: fn(TreePath) -> LinkQuery,
    path: TreePath,
}

impl ViewNode for RelatedFolder {
    fn key(&self) -> Vec<u8> {
        format!("{} {}", self.name, self.path).into_bytes()
    }

    fn is_user_independent(&self) -> bool {
        false
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&self.path))
    }

    fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        if !self.path.is_root() && views.vfs.stat(Protocol::Fuse, &self.path)?.kind != EntryKind::Directory {
            return self.query().lookup(views, reader, name);
        }
        let path = self.path.join(name);
        Ok(if views.is_shown(&path)? { Some(Arc::new(self.child(path))) } else { None })
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let Some(children) = views.directory(&self.path)? else {
            return self.query().list(views, reader);
        };
        let listed = |path: TreePath| ViewEntry { name: path.name().to_owned(), node: Arc::new(self.child(path)) };
        Ok(children.into_iter().map(|(path, _)| listed(path)).collect())
    }
}

impl RelatedFolder {
    /// Pages that link to a page.
    pub(super) fn backlinks() -> Self {
        Self { name: "backlinks", query: LinkQuery::Backlinks, path: TreePath::root() }
    }

    /// Pages whose meaning is similar, and neither links to the other.
    pub(super) fn similar() -> Self {
        Self { name: "similar", query: LinkQuery::Similar, path: TreePath::root() }
    }

    fn child(&self, path: TreePath) -> Self {
        Self { path, ..*self }
    }

    fn query(&self) -> LinkQuery {
        (self.query)(self.path.clone())
    }
}

/// How new an answer must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerFreshness {
    /// For listing a folder.
    Now,
    /// For the lookups that follow a listing.
    Recent,
}

/// A recent answer if it suffices, else a new one.
fn cached_answer<K: PartialEq, T>(
    views: &MountViews,
    recent: &RecentCache<K, TimedAnswer<T>>,
    (key, freshness): (K, AnswerFreshness),
    compute: impl FnOnce() -> Result<(Vec<T>, Option<String>), Fault>,
) -> Result<Arc<TimedAnswer<T>>, Fault> {
    if freshness == AnswerFreshness::Recent
        && let Some(answer) = recent.get(&key)
        && views.clock.now().as_second() - answer.time.as_second() <= MAX_ANSWER_AGE_SECONDS
    {
        return Ok(answer);
    }
    let (result, missing) = match compute() {
        Ok((result, missing)) => (Ok(result), missing),
        // Errors of the query become content of the folder; others fail the request.
        Err(fault) if fault.kind().http() < 500 => (Err(format!("{}\n", fault.message())), None),
        Err(fault) => return Err(fault),
    };
    // Timestamped after the query: a slow answer would expire before the lookups.
    Ok(recent.insert(key, TimedAnswer { time: views.clock.now(), result, missing }))
}

fn tags(views: &MountViews, reader: &ViewReader, freshness: AnswerFreshness) -> Result<Vec<String>, Fault> {
    let knowledge = views.knowledge()?;
    let compute = || {
        let mut access = reader.access(&views.vfs);
        let tags = if access.is_unrestricted() {
            knowledge.tags(&reader.caller, None)
        } else {
            knowledge.tags(&reader.caller, Some(&mut |page| access.can_read(page)))
        };
        Ok((tags?, None))
    };
    let answer = cached_answer(views, &views.recent_answers.tags, (reader.rights(), freshness), compute)?;
    Ok(answer.result.clone().unwrap_or_default())
}

impl LinkQuery {
    /// Matching pages that the reader may read.
    fn answer(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        freshness: AnswerFreshness,
    ) -> Result<Arc<TimedAnswer<PageHit>>, Fault> {
        let (knowledge, caller) = (views.knowledge()?, &reader.caller);
        cached_answer(views, &views.recent_answers.hits, ((self.clone(), reader.rights()), freshness), || {
            let hits = match self {
                Self::Search(words) => knowledge.search(caller, words)?,
                Self::Query(text) => knowledge.query(caller, text)?,
                Self::Tag(tag) => knowledge.pages_by_tag(caller, tag)?.into(),
                Self::Backlinks(page) => knowledge.backlinks(caller, page)?.into(),
                Self::Similar(page) => knowledge.similar(caller, page)?.into(),
            };
            Ok((views.filter_readable(reader, hits.pages)?, hits.missing))
        })
    }

    pub(super) fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let answer = self.answer(views, reader, AnswerFreshness::Now)?;
        Ok(match &answer.result {
            Ok(hits) => {
                let more = answer.missing.clone().map(TextFile::entry);
                let links = (1..).zip(hits);
                links
                    .map(|(rank, hit)| ViewEntry { name: link_name(rank, hits.len(), hit), node: self.link(hit) })
                    .chain(more)
                    .collect()
            }
            Err(text) => vec![ViewEntry { name: ERROR_FILE.to_owned(), node: Arc::new(TextFile(text.clone())) }],
        })
    }

    pub(super) fn lookup(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let answer = self.answer(views, reader, AnswerFreshness::Recent)?;
        if let (MORE_FILE, Some(text)) = (name.as_str(), &answer.missing) {
            return Ok(Some(Arc::new(TextFile(text.clone()))));
        }
        Ok(match &answer.result {
            Ok(hits) => {
                let digits = name.as_str().split('-').next().unwrap_or_default();
                let rank = digits.parse::<usize>().ok().filter(|rank| (1..=hits.len()).contains(rank));
                let hit = rank.map(|rank| (rank, &hits[rank - 1]));
                let hit = hit.filter(|(rank, hit)| link_name(*rank, hits.len(), hit) == name.as_str());
                hit.map(|(_, hit)| self.link(hit))
            }
            Err(text) if name.as_str() == ERROR_FILE => Some(Arc::new(TextFile(text.clone()))),
            Err(_) => None,
        })
    }

    /// The link to a page, relative to the folder's depth below `.svc/`.
    fn link(&self, hit: &PageHit) -> ViewNodeRef {
        let parts = match self {
            Self::Search(_) => 1,
            Self::Query(text) => text.split('/').count(),
            Self::Tag(tag) => tag.split('/').count(),
            Self::Backlinks(path) | Self::Similar(path) => path.components().count(),
        };
        Arc::new(PageLink { target: format!("{}{}", "../".repeat(2 + parts), hit.path), page: hit.path.clone() })
    }
}

pub(super) struct PageLink {
    pub(super) target: String,
    pub(super) page: TreePath,
}

impl ViewNode for PageLink {
    fn key(&self) -> Vec<u8> {
        format!("link {}", self.target).into_bytes()
    }

    fn node_kind(&self) -> ViewNodeKind {
        ViewNodeKind::Link
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::sized(self.target.len(), &self.page))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::copy_from_slice(self.target.as_bytes()))
    }
}

/// A file with a message for the user.
pub(super) struct TextFile(pub(super) String);

impl TextFile {
    /// The entry that says what a folder does not list.
    pub(super) fn entry(missing: String) -> ViewEntry {
        ViewEntry { name: MORE_FILE.to_owned(), node: Arc::new(Self(missing)) }
    }
}

impl ViewNode for TextFile {
    fn key(&self) -> Vec<u8> {
        format!("text {}", self.0).into_bytes()
    }

    fn node_kind(&self) -> ViewNodeKind {
        ViewNodeKind::File
    }

    fn attributes(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::sized(self.0.len(), &TreePath::root()))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::copy_from_slice(self.0.as_bytes()))
    }
}

fn link_name(rank: usize, count: usize, hit: &PageHit) -> String {
    let digits = count.to_string().len().max(MIN_RANK_DIGITS);
    let name = hit.path.name();
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        Some(_) | None => (name, String::new()),
    };
    let words = [&hit.title, stem].into_iter().map(slug).find(|words| !words.is_empty());
    format!("{rank:0digits$}-{}{extension}", words.as_deref().unwrap_or("page"))
}

/// The words of a title joined by `-`: part of a file name that needs no quotes in a shell.
fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = String::new();
    for word in words {
        if slug.len() + word.len() >= MAX_TITLE_BYTES {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(word);
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_name_is_rank_and_title_without_shell_characters() {
        let named = |path: &str, title: &str, count| {
            link_name(7, count, &PageHit { path: TreePath::parse(path).unwrap(), title: title.to_owned() })
        };
        assert_eq!(named("a/tides.md", "Tides & the Moon", 20), "007-Tides-the-Moon.md");
        assert_eq!(named("a/tides.md", "../../etc/passwd", 20_000), "00007-etc-passwd.md");
        assert_eq!(named("a/tides.md", "???", 1), "007-tides.md");
        assert_eq!(named("LICENSE", "日本 Zoë", 1), "007-日本-Zoë");
        assert_eq!(named(".a", "", 1), "007-a");
        assert!(named("a.md", &"word ".repeat(1000), 1).len() < 120);
    }
}
