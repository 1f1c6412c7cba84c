//! The whole tree looked through.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use svcfs_base::{Door, Fault, Kind, Reach, Seq, Timestamp, TreePath};
use svcfs_index::{OutLink, Surveyed};
use svcfs_text::links::{LinkKind, candidates};
use svcfs_vfs::EntryKind;

use super::findings::{Finding, FindingKind};
use super::{Review, disputes};
use crate::kernel::Space;

/// Pages read in one slice; between slices writers and other questions come first.
const SLICE: usize = 500;
/// Pages that nobody needs to link to: readers begin there.
const ENTRANCES: [&str; 4] = ["index.md", "SCHEMA.md", "log.md", "README.md"];

/// What a look through a whole tree found.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// The state of the index it saw.
    pub at: Seq,
    /// When it was made.
    pub made: Timestamp,
    /// How reviews were judged: after how many days a page that was `reviewed` is due again.
    pub stale_days: u32,
    /// Pages looked at.
    pub scanned: usize,
    /// Pages without any finding.
    pub healthy: usize,
    /// Links between pages, and to other files of the tree.
    pub links: usize,
    /// Those of them that lead nowhere.
    pub broken_links: usize,
    /// Everything found, in path order.
    pub findings: Vec<Finding>,
}

impl Survey {
    /// How many pages have a finding of a kind.
    pub fn count(&self, kind: FindingKind) -> usize {
        let pages: HashSet<_> =
            self.findings.iter().filter(|finding| finding.kind == kind).map(|found| &found.path).collect();
        pages.len()
    }
}

/// A look through a tree that is under way.
pub struct Looking {
    at: Seq,
    now: Timestamp,
    review: Review,
    stale_days: u32,
    found: Found,
    behind: TreePath,
}

impl Looking {
    /// Begins to look through the tree of a space.
    ///
    /// # Errors
    /// Those of the index.
    pub fn begin(space: &Space, now: Timestamp, stale_days: u32) -> Result<Self, Fault> {
        let (at, review) = (space.index.cursor()?, Review::at(now, stale_days));
        Ok(Self { at, now, review, stale_days, found: Found::default(), behind: TreePath::root() })
    }

    /// Looks at the next pages; false when there are none.
    ///
    /// # Errors
    /// Those of the index and of the tree.
    pub fn slice(&mut self, space: &Space) -> Result<bool, Fault> {
        let pages = space.index.survey(&self.behind, SLICE)?;
        let Some(last) = pages.last() else { return Ok(false) };
        self.behind = last.path.clone();
        for page in pages {
            let findings = of_text(space, &self.review, &page, &Reach::FULL)?;
            self.found.page(page, findings);
        }
        Ok(true)
    }

    /// What was found, with what only shows when every page was seen.
    ///
    /// # Errors
    /// Those of the index.
    pub fn end(mut self, space: &Space) -> Result<Survey, Fault> {
        for dispute in disputes(&space.index, &Reach::FULL)? {
            for path in &dispute.pages {
                let finding = Finding::new(path.clone(), FindingKind::Contradiction, dispute.details.clone());
                self.found.findings.push(finding.about(&dispute.pages));
            }
        }
        let Self { at, now: made, stale_days, found, .. } = self;
        let found = found.finished();
        let ill: HashSet<&TreePath> = found.findings.iter().map(|finding| &finding.path).collect();
        Ok(Survey {
            at,
            made,
            stale_days,
            scanned: found.scanned,
            healthy: found.scanned - ill.len(),
            links: found.links,
            broken_links: found.broken,
            findings: found.findings,
        })
    }
}

/// Looks through the tree of a space, for somebody who waits for it.
///
/// # Errors
/// Those of the index and of the tree.
fn survey(space: &Space, now: Timestamp, stale_days: u32) -> Result<Survey, Fault> {
    let mut looking = Looking::begin(space, now, stale_days)?;
    while looking.slice(space)? {}
    looking.end(space)
}

/// The last look through a tree, kept until the tree is another one.
#[derive(Default)]
pub struct Kept {
    last: Mutex<Option<Arc<Survey>>>,
    /// Held while somebody looks.
    looking: Mutex<()>,
}

impl Kept {
    /// Keeps a look for whoever asks next.
    pub fn keep(&self, survey: Survey) {
        *self.last.lock() = Some(Arc::new(survey));
    }
    /// Lets go of the last look: the index read some pages again.
    pub fn forget(&self) {
        *self.last.lock() = None;
    }
    /// The number of findings of the last look; none before the first, and after [`Kept::forget`].
    pub fn findings(&self) -> Option<usize> {
        self.last.lock().as_ref().map(|survey| survey.findings.len())
    }
    /// The last look if it saw the tree as it is now, on this day and by this rule; else a new one. Who asks meanwhile waits for it.
    ///
    /// # Errors
    /// Those of the index and of the tree.
    pub fn now(&self, space: &Space, now: Timestamp, stale_days: u32) -> Result<Arc<Survey>, Fault> {
        let _looking = self.looking.lock();
        let day = |moment: Timestamp| moment.as_second().div_euclid(86_400);
        let at = space.index.cursor()?;
        let is_good =
            |known: &Arc<Survey>| known.at == at && known.stale_days == stale_days && day(known.made) == day(now);
        if let Some(known) = self.last.lock().as_ref().filter(|known| is_good(known)) {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(survey(space, now, stale_days)?);
        *self.last.lock() = Some(Arc::clone(&made));
        Ok(made)
    }
}

#[derive(Default)]
struct Found {
    scanned: usize,
    links: usize,
    broken: usize,
    findings: Vec<Finding>,
    /// Pages, and those that some other page links to.
    paths: Vec<TreePath>,
    linked: HashSet<TreePath>,
    /// Titles in lower case, with the pages that have them.
    titles: BTreeMap<String, Vec<TreePath>>,
}

/// What is wrong with a page by its own text and links, whatever other pages say. What the caller may not see is not there.
pub(super) fn of_text(space: &Space, review: &Review, page: &Surveyed, reach: &Reach) -> Result<Vec<Finding>, Fault> {
    let mut findings = Vec::new();
    let mut find = |kind, message: String| findings.push(Finding::new(page.path.clone(), kind, message));
    if let Some((due, days)) = review.overdue(&page.metadata) {
        find(FindingKind::Stale, format!("was to be looked at again by {due}, {days} days ago"));
    }
    for link in &page.links {
        let leads_to_page = link.resolved.as_ref().is_some_and(|target| reach.covers(target));
        if !leads_to_page && !leads_to_file(space, &page.path, link, reach)? {
            find(FindingKind::BrokenLink, format!("links to `{}`, which is not there", link.target));
        }
    }
    if page.word_count == 0 {
        find(FindingKind::Empty, "has no text".to_owned());
    }
    if page.metadata.as_object().is_none_or(serde_json::Map::is_empty) {
        find(FindingKind::MissingFrontmatter, "has no frontmatter that can be read".to_owned());
    }
    Ok(findings)
}

/// What is wrong with a page to which no other page links; nothing where readers begin.
pub(super) fn unlinked(path: &TreePath) -> Option<Finding> {
    let is_entrance = ENTRANCES.iter().any(|name| path.name().eq_ignore_ascii_case(name));
    (!is_entrance).then(|| Finding::new(path.clone(), FindingKind::Orphan, "is linked to by no other page"))
}

/// Whether a link that leads to no page gives the address of another file of the tree, such as a picture.
fn leads_to_file(space: &Space, from: &TreePath, link: &OutLink, reach: &Reach) -> Result<bool, Fault> {
    let kind = if link.is_wiki { LinkKind::Wiki } else { LinkKind::Markdown };
    let address = candidates(from.as_str(), kind, &link.target).into_iter().next();
    let path = address.and_then(|address| TreePath::parse(&address.text).ok());
    let Some(path) = path.filter(|path| reach.covers(path)) else { return Ok(false) };
    match space.vfs.stat(Door::Internal, &path) {
        // A markdown link to a folder opens its listing; a wiki link means a page.
        Ok(attributes) => Ok(attributes.kind != EntryKind::Directory || !link.is_wiki),
        Err(fault) if matches!(fault.kind(), Kind::NotFound | Kind::NotDirectory) => Ok(false),
        Err(fault) => Err(fault),
    }
}

impl Found {
    /// Adds a page, and what is wrong with it by itself.
    fn page(&mut self, page: Surveyed, findings: Vec<Finding>) {
        let Surveyed { path, title, metadata: _, word_count: _, modified: _, links } = page;
        self.scanned += 1;
        self.links += links.len();
        self.broken += findings.iter().filter(|finding| finding.kind == FindingKind::BrokenLink).count();
        self.findings.extend(findings);
        self.linked.extend(links.into_iter().filter_map(|link| link.resolved).filter(|target| *target != path));
        self.titles.entry(title.to_lowercase()).or_default().push(path.clone());
        self.paths.push(path);
    }

    /// Adds what only shows when every page was seen.
    fn finished(mut self) -> Self {
        let cut_off = self.paths.iter().filter(|path| !self.linked.contains(*path)).filter_map(unlinked);
        self.findings.extend(cut_off);
        for (_, pages) in std::mem::take(&mut self.titles).into_iter().filter(|(_, pages)| pages.len() > 1) {
            let others = pages.len() - 1;
            let message = format!("has the title of {others} other {}", if others == 1 { "page" } else { "pages" });
            let finding = |path: &TreePath| Finding::new(path.clone(), FindingKind::Duplicate, message.clone());
            self.findings.extend(pages.iter().map(|path| finding(path).about(&pages)));
        }
        self.findings.sort_by(|one, other| (&one.path, one.kind).cmp(&(&other.path, other.kind)));
        self
    }
}
