//! The condition of a whole tree, worked out from the facts that the link graph has of each page.
//!
//! The graph is carried on from change to change, so that after a write only the pages it concerns are read. What is left to do for every page is
//! to count.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use jiff::civil::Date;
use parking_lot::Mutex;
use svcfs_base::{Fault, Permissions, Seq, Timestamp, TreePath};
use svcfs_index::{GraphNode, LinkGraph, UnresolvedLink};

use super::disputes::{PageDispute, disputes_of};
use super::findings::{FindingKind, FindingSeverity, MAX_RELATED, PageFinding};
use super::linked_files::LinkedFiles;
use super::{MAX_ISSUES, ReviewPolicy, messages};
use crate::kernel::Space;

/// Pages that nobody needs to link to: readers begin there.
const ENTRANCES: [&str; 4] = ["index.md", "SCHEMA.md", "log.md", "README.md"];

/// What a look through a whole tree found.
#[derive(Debug, Clone)]
pub struct TreeSurvey {
    /// The graph it was made from.
    graph: Weak<LinkGraph>,
    /// The position of the feed up to which files were looked at.
    at: Seq,
    /// When it was made.
    pub created_at: Timestamp,
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
    /// How many findings there are in all.
    pub findings: usize,
    /// How many pages have a finding of each kind, in the order of [`FindingKind::ALL`].
    pages: [usize; FindingKind::ALL.len()],
    /// The findings, errors first, then in path order; the first [`MAX_ISSUES`] of them.
    pub issues: Vec<PageFinding>,
}

impl TreeSurvey {
    /// How many pages have a finding of a kind.
    pub fn count(&self, kind: FindingKind) -> usize {
        self.pages[kind as usize]
    }

    fn is_of(&self, graph: &Arc<LinkGraph>) -> bool {
        std::ptr::eq(self.graph.as_ptr(), Arc::as_ptr(graph))
    }
}

/// The last look through a tree.
#[derive(Default)]
pub struct SurveyCache {
    last: Mutex<Option<Arc<TreeSurvey>>>,
    /// Held while somebody looks.
    files: Mutex<Option<LinkedFiles>>,
}

impl SurveyCache {
    /// The number of findings of the last look; none before the first.
    pub fn finding_count(&self) -> Option<usize> {
        self.last.lock().as_ref().map(|survey| survey.findings)
    }

    /// The condition of the tree as the index has it, on this day and by this rule. Nothing is looked at twice while nothing changes.
    ///
    /// # Errors
    /// Those of the index and of the tree.
    pub fn current_survey(&self, space: &Space, now: Timestamp, stale_days: u32) -> Result<Arc<TreeSurvey>, Fault> {
        let mut files = self.files.lock();
        let files = files.get_or_insert_with(|| LinkedFiles::new(&space.vfs));
        let day = |moment: Timestamp| moment.as_second().div_euclid(86_400);
        let (at, graph) = (space.vfs.feed().last_seq(), space.index.graph()?);
        let is_good = |known: &Arc<TreeSurvey>| {
            known.is_of(&graph) && known.at == at && known.stale_days == stale_days && day(known.created_at) == day(now)
        };
        if let Some(known) = self.last.lock().as_ref().filter(|known| is_good(known)) {
            return Ok(Arc::clone(known));
        }
        files.catch_up(&space.vfs)?;
        let made = Arc::new(survey(space, (&graph, at), files, (now, stale_days))?);
        *self.last.lock() = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The same with every file that a link leads to looked up again.
    ///
    /// # Errors
    /// Those of the index and of the tree.
    pub fn rebuild_survey(&self, space: &Space, now: Timestamp, stale_days: u32) -> Result<Arc<TreeSurvey>, Fault> {
        *self.files.lock() = None;
        *self.last.lock() = None;
        self.current_survey(space, now, stale_days)
    }
}

/// What is wrong with one page.
enum SurveyIssue<'g> {
    Stale(Date, i32),
    Orphan,
    BrokenLink(&'g UnresolvedLink),
    Empty,
    MissingFrontmatter,
    /// The number of the group of pages that share the title.
    Duplicate(usize),
    /// The number of the dispute.
    Contradiction(usize),
}

impl SurveyIssue<'_> {
    const fn kind(&self) -> FindingKind {
        match self {
            Self::Stale(..) => FindingKind::Stale,
            Self::Orphan => FindingKind::Orphan,
            Self::BrokenLink(_) => FindingKind::BrokenLink,
            Self::Empty => FindingKind::Empty,
            Self::MissingFrontmatter => FindingKind::MissingFrontmatter,
            Self::Duplicate(_) => FindingKind::Duplicate,
            Self::Contradiction(_) => FindingKind::Contradiction,
        }
    }
}

/// Looks through all pages of a graph.
fn survey(
    space: &Space,
    (graph, at): (&Arc<LinkGraph>, Seq),
    files: &mut LinkedFiles,
    (now, stale_days): (Timestamp, u32),
) -> Result<TreeSurvey, Fault> {
    let review = ReviewPolicy::new(now, stale_days);
    let groups = IssueGroups::of(space, graph)?;
    let mut of_groups = groups.by_page(graph).into_iter().peekable();
    let mut counted = SurveyCounts::default();
    let mut issues: Vec<SurveyIssue<'_>> = Vec::new();
    for node in graph.nodes() {
        let facts = &graph.page(node).facts;
        issues.extend(
            facts.review.and_then(|day| review.check_overdue(day)).map(|(due, days)| SurveyIssue::Stale(due, days)),
        );
        if is_orphan(graph, node) {
            issues.push(SurveyIssue::Orphan);
        }
        for link in &facts.unresolved_links {
            let address = link.expected_path.as_ref();
            if !address.map_or(Ok(false), |address| files.has(&space.vfs, address, link.is_wiki))? {
                issues.push(SurveyIssue::BrokenLink(link));
            }
        }
        if !facts.has_words {
            issues.push(SurveyIssue::Empty);
        }
        if !facts.has_frontmatter {
            issues.push(SurveyIssue::MissingFrontmatter);
        }
        issues.extend(std::iter::from_fn(|| of_groups.next_if(|(of, _)| *of == node).map(|(_, issue)| issue)));
        counted.links += facts.link_count as usize;
        counted.add(node, &mut issues);
    }
    let SurveyCounts { links, broken_links, findings, pages, healthy, worst } = counted;
    let finding = |(node, issue)| groups.finding(graph, node, issue);
    let issues = worst.into_iter().rev().flatten().take(MAX_ISSUES).map(finding).collect();
    let (graph, scanned) = (Arc::downgrade(graph), graph.len());
    Ok(TreeSurvey {
        graph,
        at,
        created_at: now,
        stale_days,
        scanned,
        healthy,
        links,
        broken_links,
        findings,
        pages,
        issues,
    })
}

/// True for a page to which no other page links, unless readers begin there.
fn is_orphan(graph: &LinkGraph, node: GraphNode) -> bool {
    graph.links_in(node).is_empty() && !is_entrance(&graph.page(node).path)
}

/// True for a page that nobody needs to link to.
pub(super) fn is_entrance(path: &TreePath) -> bool {
    ENTRANCES.iter().any(|name| path.name().eq_ignore_ascii_case(name))
}

/// What is counted while the pages are looked at in path order.
#[derive(Default)]
struct SurveyCounts<'g> {
    links: usize,
    broken_links: usize,
    findings: usize,
    healthy: usize,
    pages: [usize; FindingKind::ALL.len()],
    /// The first findings of each severity.
    worst: [Vec<(GraphNode, SurveyIssue<'g>)>; 3],
}

impl<'g> SurveyCounts<'g> {
    /// Takes the issues of a page, which are in the order of their kinds.
    fn add(&mut self, node: GraphNode, issues: &mut Vec<SurveyIssue<'g>>) {
        self.healthy += usize::from(issues.is_empty());
        self.findings += issues.len();
        let mut last = None;
        for issue in issues.drain(..) {
            let kind = issue.kind();
            self.broken_links += usize::from(kind == FindingKind::BrokenLink);
            self.pages[kind as usize] += usize::from(last != Some(kind));
            last = Some(kind);
            let severity = match kind.severity() {
                FindingSeverity::Info => 0,
                FindingSeverity::Warning => 1,
                FindingSeverity::Error => 2,
            };
            if self.worst[severity].len() < MAX_ISSUES {
                self.worst[severity].push((node, issue));
            }
        }
    }
}

/// Pages that only together have an issue.
struct IssueGroups {
    /// Pages that share a title, in path order.
    titles: Vec<Vec<GraphNode>>,
    disputes: Vec<PageDispute>,
}

impl IssueGroups {
    fn of(space: &Space, graph: &LinkGraph) -> Result<Self, Fault> {
        let disputing: Vec<TreePath> = graph
            .nodes()
            .map(|node| graph.page(node))
            .filter(|page| page.facts.is_disputing)
            .map(|page| page.path.clone())
            .collect();
        let disputes = disputes_of(&space.index, &disputing, &Permissions::FULL)?;
        Ok(Self { titles: same_titles(graph), disputes })
    }

    /// The issues of each page that it has as one of a group, in the order of nodes and kinds.
    fn by_page<'g>(&self, graph: &LinkGraph) -> Vec<(GraphNode, SurveyIssue<'g>)> {
        let mut of_page: Vec<(GraphNode, SurveyIssue<'g>)> = Vec::new();
        for (number, group) in self.titles.iter().enumerate() {
            of_page.extend(group.iter().map(|node| (*node, SurveyIssue::Duplicate(number))));
        }
        for (number, dispute) in self.disputes.iter().enumerate() {
            let nodes = dispute.pages.iter().filter_map(|path| graph.node(path));
            of_page.extend(nodes.map(|node| (node, SurveyIssue::Contradiction(number))));
        }
        of_page.sort_by_key(|(node, issue)| (*node, issue.kind()));
        of_page
    }

    /// A finding in words.
    fn finding(&self, graph: &LinkGraph, node: GraphNode, issue: SurveyIssue<'_>) -> PageFinding {
        let kind = issue.kind();
        let finding = |message: String| PageFinding::new(graph.page(node).path.clone(), kind, message);
        match issue {
            SurveyIssue::Stale(due, days) => finding(messages::stale(due, days)),
            SurveyIssue::Orphan => finding(messages::ORPHAN.to_owned()),
            SurveyIssue::BrokenLink(link) => finding(messages::broken_link(&link.target)),
            SurveyIssue::Empty => finding(messages::EMPTY.to_owned()),
            SurveyIssue::MissingFrontmatter => finding(messages::MISSING_FRONTMATTER.to_owned()),
            SurveyIssue::Duplicate(number) => {
                let group = &self.titles[number];
                // One more than are named, because the page itself is not.
                let first = group.iter().take(MAX_RELATED + 1).map(|node| graph.page(*node).path.clone());
                finding(messages::duplicate(group.len() - 1)).about(&first.collect::<Vec<_>>())
            }
            SurveyIssue::Contradiction(number) => {
                let PageDispute { pages, details, .. } = &self.disputes[number];
                finding(details.clone()).about(pages)
            }
        }
    }
}

/// The groups of pages that share a title in any case.
fn same_titles(graph: &LinkGraph) -> Vec<Vec<GraphNode>> {
    let mut hashes: Vec<(u64, GraphNode)> =
        graph.nodes().map(|node| (graph.page(node).facts.title_hash, node)).collect();
    hashes.sort_unstable();
    let several = hashes.chunk_by(|(one, _), (other, _)| one == other).filter(|pages| pages.len() > 1);
    several.flat_map(|pages| of_one_title(graph, pages.iter().map(|(_, node)| *node))).collect()
}

/// Pages with one hash of their titles, those of each title together.
fn of_one_title(graph: &LinkGraph, nodes: impl Iterator<Item = GraphNode>) -> impl Iterator<Item = Vec<GraphNode>> {
    let mut by_title: BTreeMap<String, Vec<GraphNode>> = BTreeMap::new();
    for node in nodes {
        let title = &graph.page(node).title;
        match by_title.get_mut(title.as_str()) {
            // Most of them are written in one way, which needs no other case.
            Some(group) => group.push(node),
            None => by_title.entry(title.to_lowercase()).or_default().push(node),
        }
    }
    by_title.into_values().filter(|pages| pages.len() > 1)
}
