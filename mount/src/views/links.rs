//! `.svc/search/<words>/`, `.svc/tags/<tag>/`, `.svc/backlinks/<path>/`: the pages that answer a question, as links to them.

use std::sync::Arc;

use bytes::Bytes;
use svcfs_base::{Fault, PathComponent, Protocol, Timestamp, TreePath};
use svcfs_vfs::EntryKind;

use super::knowledge::PageHit;
use super::reader::ReaderRights;
use super::recent_cache::RecentCache;
use super::{MountViews, ViewAttributes, ViewEntry, ViewNode, ViewNodeKind, ViewNodeRef, ViewReader};

/// What stands in a folder whose question cannot be answered, and says why.
const ERROR: &str = "ERROR.txt";
/// Fewest digits of a rank.
const DIGITS: usize = 3;
/// Most bytes of a title in a name.
const MAX_TITLE_BYTES: usize = 100;
/// For how long an answer is good for whoever looks at its lines: as long as the kernel believes a name.
const GOOD_SECONDS: i64 = 1;

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkQuery {
    Search(String),
    /// In the query language, or the name of a saved view.
    Query(String),
    Tag(String),
    Backlinks(TreePath),
}

/// When something was asked, and what came of it: pages, or what is wrong with the question.
pub(super) struct TimedAnswer<T> {
    at: Timestamp,
    found: Result<Vec<T>, String>,
}

/// What was asked last, by whom: others may not read the same pages.
#[derive(Default)]
pub(super) struct RecentAnswers {
    hits: RecentCache<(LinkQuery, Option<Arc<ReaderRights>>), TimedAnswer<PageHit>>,
    tags: RecentCache<Option<Arc<ReaderRights>>, TimedAnswer<String>>,
}

/// What `.svc/search` is: every question has a folder, so that none can be listed.
pub(super) struct SearchRoot;

impl ViewNode for SearchRoot {
    fn key(&self) -> Vec<u8> {
        b"search".to_vec()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&TreePath::root()))
    }

    fn find(
        &self,
        _views: &MountViews,
        _reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        Ok(Some(Arc::new(SearchFolder(name.as_str().to_owned()))))
    }
}

/// The pages with these words.
struct SearchFolder(String);

impl ViewNode for SearchFolder {
    fn key(&self) -> Vec<u8> {
        format!("search {}", self.0).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn is_for_all(&self) -> bool {
        false
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&TreePath::root()))
    }

    fn find(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        self.question().find(views, reader, name)
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        self.question().list(views, reader)
    }
}

impl SearchFolder {
    fn question(&self) -> LinkQuery {
        LinkQuery::Search(self.0.clone())
    }
}

/// A tag, and the tags below it (`area/work` is below `area`); every tag is below the empty one.
pub(super) struct TagFolder(pub(super) String);

impl ViewNode for TagFolder {
    fn key(&self) -> Vec<u8> {
        format!("tags {}", self.0).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn is_for_all(&self) -> bool {
        false
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&TreePath::root()))
    }

    fn find(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let below = self.below(name.as_str());
        let is_at = |tag: &String| tag == &below || tag.strip_prefix(&below).is_some_and(|rest| rest.starts_with('/'));
        if tags(views, reader, AnswerFreshness::Lately)?.iter().any(is_at) {
            return Ok(Some(Arc::new(Self(below))));
        }
        match self.question() {
            Some(question) => question.find(views, reader, name),
            None => Ok(None),
        }
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let mut listed = match self.question() {
            Some(question) => question.list(views, reader)?,
            None => Vec::new(),
        };
        let prefix = self.below("");
        let all = tags(views, reader, AnswerFreshness::Now)?;
        let mut names: Vec<&str> = all.iter().filter_map(|tag| tag.strip_prefix(&prefix)?.split('/').next()).collect();
        names.sort_unstable();
        names.dedup();
        // A tag that is no name, such as `..` or an empty one, has no folder.
        let names = names.into_iter().filter(|name| PathComponent::parse(name).is_ok());
        listed.extend(names.map(|name| ViewEntry { name: name.to_owned(), place: Arc::new(Self(self.below(name))) }));
        Ok(listed)
    }
}

impl TagFolder {
    fn below(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) }
    }

    fn question(&self) -> Option<LinkQuery> {
        (!self.0.is_empty()).then(|| LinkQuery::Tag(self.0.clone()))
    }
}

/// The pages that link to a page; of a directory, the paths below it.
pub(super) struct BacklinkFolder(pub(super) TreePath);

impl ViewNode for BacklinkFolder {
    fn key(&self) -> Vec<u8> {
        format!("backlinks {}", self.0).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Folder
    }

    fn is_for_all(&self) -> bool {
        false
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::folder(&self.0))
    }

    fn find(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        if !self.0.is_root() && views.vfs.stat(Protocol::Fuse, &self.0)?.kind != EntryKind::Directory {
            return LinkQuery::Backlinks(self.0.clone()).find(views, reader, name);
        }
        let path = self.0.join(name);
        Ok(if views.is_shown(&path)? { Some(Arc::new(Self(path))) } else { None })
    }

    fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let Some(below) = views.directory(&self.0)? else {
            return LinkQuery::Backlinks(self.0.clone()).list(views, reader);
        };
        let listed = |path: TreePath| ViewEntry { name: path.name().to_owned(), place: Arc::new(Self(path)) };
        Ok(below.into_iter().map(|(path, _)| listed(path)).collect())
    }
}

/// How new an answer must be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AnswerFreshness {
    /// Who lists a folder gets what is true now,
    Now,
    /// and who looks at its lines then, what was listed.
    Lately,
}

/// The answer given lately, if that will do, or the one that is given now.
fn answered<K: PartialEq, T>(
    views: &MountViews,
    recent: &RecentCache<K, TimedAnswer<T>>,
    (key, wanted): (K, AnswerFreshness),
    ask: impl FnOnce() -> Result<Vec<T>, Fault>,
) -> Result<Arc<TimedAnswer<T>>, Fault> {
    if wanted == AnswerFreshness::Lately
        && let Some(answer) = recent.get(&key)
        && views.clock.now().as_second() - answer.at.as_second() <= GOOD_SECONDS
    {
        return Ok(answer);
    }
    let found = match ask() {
        Ok(found) => Ok(found),
        // The caller's mistake is the folder's content; ours is an error of the call.
        Err(fault) if fault.kind().http() < 500 => Err(format!("{}\n", fault.message())),
        Err(fault) => return Err(fault),
    };
    // From now on: one that took long would be old before anybody could look up what it names.
    Ok(recent.keep(key, TimedAnswer { at: views.clock.now(), found }))
}

fn tags(views: &MountViews, reader: &ViewReader, wanted: AnswerFreshness) -> Result<Vec<String>, Fault> {
    let knowledge = views.knowledge()?;
    let ask = || {
        let mut readable = reader.readable(&views.vfs);
        if readable.is_all() {
            return knowledge.tags(&reader.caller, None);
        }
        knowledge.tags(&reader.caller, Some(&mut |page| readable.has(page)))
    };
    let answer = answered(views, &views.asked.tags, (reader.rights(), wanted), ask)?;
    Ok(answer.found.clone().unwrap_or_default())
}

impl LinkQuery {
    /// The pages that answer it, of those that the reader may read.
    fn ask(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        wanted: AnswerFreshness,
    ) -> Result<Arc<TimedAnswer<PageHit>>, Fault> {
        let (knowledge, caller) = (views.knowledge()?, &reader.caller);
        answered(views, &views.asked.hits, ((self.clone(), reader.rights()), wanted), || {
            let found = match self {
                Self::Search(words) => knowledge.search(caller, words),
                Self::Query(text) => knowledge.query(caller, text),
                Self::Tag(tag) => knowledge.pages_by_tag(caller, tag),
                Self::Backlinks(page) => knowledge.backlinks(caller, page),
            };
            views.shown(reader, found?)
        })
    }

    pub(super) fn list(&self, views: &MountViews, reader: &ViewReader) -> Result<Vec<ViewEntry>, Fault> {
        let answer = self.ask(views, reader, AnswerFreshness::Now)?;
        Ok(match &answer.found {
            Ok(hits) => (1..)
                .zip(hits)
                .map(|(rank, hit)| ViewEntry { name: name_of(rank, hits.len(), hit), place: self.link(hit) })
                .collect(),
            Err(text) => vec![ViewEntry { name: ERROR.to_owned(), place: Arc::new(ErrorFile(text.clone())) }],
        })
    }

    pub(super) fn find(
        &self,
        views: &MountViews,
        reader: &ViewReader,
        name: &PathComponent,
    ) -> Result<Option<ViewNodeRef>, Fault> {
        let answer = self.ask(views, reader, AnswerFreshness::Lately)?;
        Ok(match &answer.found {
            Ok(hits) => {
                let digits = name.as_str().split('-').next().unwrap_or_default();
                let rank = digits.parse::<usize>().ok().filter(|rank| (1..=hits.len()).contains(rank));
                let hit = rank.map(|rank| (rank, &hits[rank - 1]));
                let hit = hit.filter(|(rank, hit)| name_of(*rank, hits.len(), hit) == name.as_str());
                hit.map(|(_, hit)| self.link(hit))
            }
            Err(text) if name.as_str() == ERROR => Some(Arc::new(ErrorFile(text.clone()))),
            Err(_) => None,
        })
    }

    /// The link to a page. The folder lies below `.svc/`, as deep as the question has parts.
    fn link(&self, hit: &PageHit) -> ViewNodeRef {
        let parts = match self {
            Self::Search(_) => 1,
            Self::Query(text) => text.split('/').count(),
            Self::Tag(tag) => tag.split('/').count(),
            Self::Backlinks(path) => path.components().count(),
        };
        Arc::new(PageLink { target: format!("{}{}", "../".repeat(2 + parts), hit.path), page: hit.path.clone() })
    }
}

/// A link to a page.
struct PageLink {
    target: String,
    page: TreePath,
}

impl ViewNode for PageLink {
    fn key(&self) -> Vec<u8> {
        format!("link {}", self.target).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::Link
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::of(self.target.len(), &self.page))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::copy_from_slice(self.target.as_bytes()))
    }
}

/// Why a question has no answer.
struct ErrorFile(String);

impl ViewNode for ErrorFile {
    fn key(&self) -> Vec<u8> {
        format!("mistake {}", self.0).into_bytes()
    }

    fn shape(&self) -> ViewNodeKind {
        ViewNodeKind::File
    }

    fn look(&self, _views: &MountViews) -> Result<ViewAttributes, Fault> {
        Ok(ViewAttributes::of(self.0.len(), &TreePath::root()))
    }

    fn content(&self, _views: &MountViews) -> Result<Bytes, Fault> {
        Ok(Bytes::copy_from_slice(self.0.as_bytes()))
    }
}

fn name_of(rank: usize, count: usize, hit: &PageHit) -> String {
    let digits = count.to_string().len().max(DIGITS);
    let name = hit.path.name();
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, format!(".{extension}")),
        Some(_) | None => (name, String::new()),
    };
    let words = [&hit.title, stem].into_iter().map(plain).find(|words| !words.is_empty());
    format!("{rank:0digits$}-{}{extension}", words.as_deref().unwrap_or("page"))
}

/// The words of a title with `-` between them: part of a file's name that needs no quotes in a shell.
fn plain(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut plain = String::new();
    for word in words {
        if plain.len() + word.len() >= MAX_TITLE_BYTES {
            break;
        }
        if !plain.is_empty() {
            plain.push('-');
        }
        plain.push_str(word);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_link_is_the_rank_and_the_title_without_what_a_shell_minds() {
        let named = |path: &str, title: &str, count| {
            name_of(7, count, &PageHit { path: TreePath::parse(path).unwrap(), title: title.to_owned() })
        };
        assert_eq!(named("a/tides.md", "Tides & the Moon", 20), "007-Tides-the-Moon.md");
        assert_eq!(named("a/tides.md", "../../etc/passwd", 20_000), "00007-etc-passwd.md");
        assert_eq!(named("a/tides.md", "???", 1), "007-tides.md");
        assert_eq!(named("LICENSE", "日本 Zoë", 1), "007-日本-Zoë");
        assert_eq!(named(".a", "", 1), "007-a");
        assert!(named("a.md", &"word ".repeat(1000), 1).len() < 120);
    }
}
