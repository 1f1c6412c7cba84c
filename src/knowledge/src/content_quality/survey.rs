//! The content quality of a whole tree, computed from the facts that the link graph has of each
//! page.
//!
//! The graph is updated incrementally, so that after a write only the affected pages are read.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use jiff::civil::Date;
use parking_lot::Mutex;
use svcfs_base::{Fault, Permissions, Seq, Timestamp, TreePath};
use svcfs_index::{GraphNode, LinkGraph, UnresolvedLink};
use svcfs_text::fold::fold_name;
use svcfs_text::lint::LintRule;

use super::disputes::{PageDispute, disputes_of};
use super::findings::{FindingKind, FindingSeverity, MAX_RELATED, PageFinding};
use super::groups::{FindingGroup, GroupCounts, GroupKey};
use super::linked_files::{self, LinkedFiles};
use super::lint_errors::LintErrors;
use super::{MAX_ISSUES, ReviewPolicy, messages};
use crate::kernel::Space;
use crate::schemas::SchemaFindings;

/// Entry pages, which need no incoming links.
const ENTRY_PAGES: [&str; 4] = ["index.md", "SCHEMA.md", "log.md", "README.md"];

/// The result of checking a whole tree.
#[derive(Debug, Clone)]
pub struct TreeSurvey {
    graph: Weak<LinkGraph>,
    /// The feed position as of which files were checked.
    at: Seq,
    /// Time of the survey.
    pub created_at: Timestamp,
    /// Days after which a page with `reviewed` is due again.
    pub stale_days: u32,
    /// Number of pages checked.
    pub scanned: usize,
    /// Number of pages without findings.
    pub healthy: usize,
    /// Number of links to pages and other files of the tree.
    pub links: usize,
    /// Number of links without a target.
    pub broken_links: usize,
    /// Total number of findings.
    pub findings: usize,
    /// Number of pages with a finding of each kind, in the order of [`FindingKind::ALL`].
    pages: [usize; FindingKind::ALL.len()],
    /// The first 1000 findings: errors first, then in path order.
    pub issues: Vec<PageFinding>,
    /// All findings, by reason.
    pub groups: Vec<FindingGroup>,
}

impl TreeSurvey {
    /// The number of pages with a finding of this kind.
    pub fn count(&self, kind: FindingKind) -> usize {
        self.pages[kind as usize]
    }

    fn is_from(&self, graph: &Arc<LinkGraph>) -> bool {
        std::ptr::eq(self.graph.as_ptr(), Arc::as_ptr(graph))
    }
}

/// The last survey of a tree.
#[derive(Default)]
pub struct SurveyCache {
    last: Mutex<Option<Arc<TreeSurvey>>>,
    /// Locked during a survey.
    files: Mutex<Option<LinkedFiles>>,
}

impl SurveyCache {
    /// The number of findings of the last survey; none before the first.
    pub fn finding_count(&self) -> Option<usize> {
        self.last.lock().as_ref().map(|survey| survey.findings)
    }

    /// The survey of the indexed tree for this day and review interval. Cached until something
    /// changes.
    pub fn current_survey(&self, space: &Space, now: Timestamp, stale_days: u32) -> Result<Arc<TreeSurvey>, Fault> {
        let mut files = self.files.lock();
        let files = files.get_or_insert_with(|| LinkedFiles::new(&space.vfs));
        let day = |timestamp: Timestamp| timestamp.as_second().div_euclid(86_400);
        let (at, graph) = (space.vfs.feed().last_seq(), space.index.graph()?);
        let is_current = |cached: &Arc<TreeSurvey>| {
            cached.is_from(&graph)
                && cached.at == at
                && cached.stale_days == stale_days
                && day(cached.created_at) == day(now)
        };
        if let Some(cached) = self.last.lock().as_ref().filter(|cached| is_current(cached)) {
            return Ok(Arc::clone(cached));
        }
        files.catch_up(&space.vfs)?;
        let survey = Arc::new(compute_survey(space, (&graph, at), files, (now, stale_days))?);
        *self.last.lock() = Some(Arc::clone(&survey));
        Ok(survey)
    }

    /// As [`current_survey`](Self::current_survey), without any cache.
    pub fn rebuild_survey(&self, space: &Space, now: Timestamp, stale_days: u32) -> Result<Arc<TreeSurvey>, Fault> {
        *self.files.lock() = None;
        *self.last.lock() = None;
        self.current_survey(space, now, stale_days)
    }
}

enum SurveyIssue<'g> {
    Stale(Date, i32),
    Orphan,
    BrokenLink(&'g UnresolvedLink),
    Empty,
    MissingFrontmatter,
    Duplicate(usize),
    Contradiction(usize),
    LintError(LintRule, &'g str),
    SchemaViolation(&'g str),
}

impl<'g> SurveyIssue<'g> {
    const fn kind(&self) -> FindingKind {
        match self {
            Self::Stale(..) => FindingKind::Stale,
            Self::Orphan => FindingKind::Orphan,
            Self::BrokenLink(_) => FindingKind::BrokenLink,
            Self::Empty => FindingKind::Empty,
            Self::MissingFrontmatter => FindingKind::MissingFrontmatter,
            Self::Duplicate(_) => FindingKind::Duplicate,
            Self::Contradiction(_) => FindingKind::Contradiction,
            Self::LintError(..) => FindingKind::LintError,
            Self::SchemaViolation(_) => FindingKind::SchemaViolation,
        }
    }

    fn severity(&self) -> FindingSeverity {
        match self {
            Self::BrokenLink(link) => linked_files::severity(&link.target),
            _ => self.kind().severity(),
        }
    }

    fn group(&self) -> GroupKey<'g> {
        match self {
            Self::BrokenLink(link) if linked_files::is_generated_page(&link.target) => GroupKey::GeneratedPage,
            Self::BrokenLink(link) => GroupKey::Target(&link.target),
            Self::Duplicate(number) => GroupKey::Title(*number),
            Self::Contradiction(number) => GroupKey::Dispute(*number),
            Self::LintError(rule, _) => GroupKey::Rule(*rule),
            Self::Stale(..) | Self::Orphan | Self::Empty | Self::MissingFrontmatter | Self::SchemaViolation(_) => {
                GroupKey::Kind(self.kind())
            }
        }
    }
}

fn compute_survey(
    space: &Space,
    (graph, at): (&Arc<LinkGraph>, Seq),
    files: &mut LinkedFiles,
    (now, stale_days): (Timestamp, u32),
) -> Result<TreeSurvey, Fault> {
    let review = ReviewPolicy::new(now, stale_days);
    let groups = IssueGroups::new(space, graph)?;
    let mut group_issues = groups.by_page(graph).into_iter().peekable();
    let (lint_errors, schema_findings) = (LintErrors::read(space)?, SchemaFindings::read(space)?);
    let mut counts = SurveyCounts::default();
    let mut issues: Vec<SurveyIssue<'_>> = Vec::new();
    let canvases = space.index.broken_canvas_links()?;
    let mut canvases_ahead = canvases.iter().peekable();
    for node in graph.nodes() {
        let path = &graph.page(node).path;
        while let Some((canvas, links)) = canvases_ahead.next_if(|(canvas, _)| canvas < path) {
            counts.add_canvas(canvas, broken_links(space, files, links)?);
        }
        let facts = &graph.page(node).facts;
        issues.extend(
            facts.review.and_then(|day| review.check_overdue(day)).map(|(due, days)| SurveyIssue::Stale(due, days)),
        );
        if is_orphan(graph, node) {
            issues.push(SurveyIssue::Orphan);
        }
        issues.extend(broken_links(space, files, &facts.unresolved_links)?);
        if !facts.has_words {
            issues.push(SurveyIssue::Empty);
        }
        let lint_error = lint_errors.of_page(path);
        let is_broken = lint_error.is_some_and(|(rule, _)| rule == LintRule::FrontmatterYamlInvalid);
        if !facts.has_frontmatter && !is_broken {
            issues.push(SurveyIssue::MissingFrontmatter);
        }
        issues.extend(std::iter::from_fn(|| group_issues.next_if(|(at, _)| *at == node).map(|(_, issue)| issue)));
        issues.extend(lint_error.map(|(rule, message)| SurveyIssue::LintError(rule, message)));
        issues.extend(schema_findings.of_page(path).map(SurveyIssue::SchemaViolation));
        counts.links += facts.link_count as usize;
        counts.add(path, &mut issues);
    }
    for (canvas, links) in canvases_ahead {
        counts.add_canvas(canvas, broken_links(space, files, links)?);
    }
    let SurveyCounts { links, broken_links, findings, pages, healthy, worst, by_reason } = counts;
    let finding = |(path, issue)| groups.finding(graph, path, issue);
    let issues = worst.into_iter().rev().flatten().take(MAX_ISSUES).map(finding).collect();
    let by_reason = by_reason.finish(|key| groups.describe(graph, key));
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
        groups: by_reason,
    })
}

/// The links without a target in the index that mean no other file either.
fn broken_links<'g>(
    space: &Space,
    files: &mut LinkedFiles,
    links: &'g [UnresolvedLink],
) -> Result<Vec<SurveyIssue<'g>>, Fault> {
    let mut broken = Vec::new();
    for link in links {
        let address = link.expected_path.as_ref();
        if !address.map_or(Ok(false), |address| files.has(&space.vfs, address, link.is_wiki))? {
            broken.push(SurveyIssue::BrokenLink(link));
        }
    }
    Ok(broken)
}

fn is_orphan(graph: &LinkGraph, node: GraphNode) -> bool {
    graph.links_in(node).is_empty() && !is_entry_page(&graph.page(node).path)
}

pub(super) fn is_entry_page(path: &TreePath) -> bool {
    ENTRY_PAGES.iter().any(|name| path.name().eq_ignore_ascii_case(name))
}

/// Totals while the pages are checked in path order.
#[derive(Default)]
struct SurveyCounts<'g> {
    links: usize,
    broken_links: usize,
    findings: usize,
    healthy: usize,
    pages: [usize; FindingKind::ALL.len()],
    worst: [Vec<(&'g TreePath, SurveyIssue<'g>)>; 3],
    by_reason: GroupCounts<'g>,
}

impl<'g> SurveyCounts<'g> {
    /// Counts the issues of a page, which are ordered by kind.
    fn add(&mut self, path: &'g TreePath, issues: &mut Vec<SurveyIssue<'g>>) {
        self.healthy += usize::from(issues.is_empty());
        self.add_issues(path, issues);
    }

    /// Counts the broken links of a canvas, which is not one of the pages. Its other links are not
    /// counted, but the broken ones must not be more than all links.
    fn add_canvas(&mut self, path: &'g TreePath, mut issues: Vec<SurveyIssue<'g>>) {
        self.links += issues.len();
        self.add_issues(path, &mut issues);
    }

    fn add_issues(&mut self, path: &'g TreePath, issues: &mut Vec<SurveyIssue<'g>>) {
        self.findings += issues.len();
        let mut last = None;
        for issue in issues.drain(..) {
            let kind = issue.kind();
            self.broken_links += usize::from(kind == FindingKind::BrokenLink);
            self.pages[kind as usize] += usize::from(last != Some(kind));
            last = Some(kind);
            self.by_reason.add(issue.group(), path);
            let severity = match issue.severity() {
                FindingSeverity::Info => 0,
                FindingSeverity::Warning => 1,
                FindingSeverity::Error => 2,
            };
            if self.worst[severity].len() < MAX_ISSUES {
                self.worst[severity].push((path, issue));
            }
        }
    }
}

/// Issues that concern groups of pages.
struct IssueGroups {
    /// Pages that share a title, in path order.
    titles: Vec<Vec<GraphNode>>,
    disputes: Vec<PageDispute>,
}

impl IssueGroups {
    fn new(space: &Space, graph: &LinkGraph) -> Result<Self, Fault> {
        let disputed_pages: Vec<TreePath> = graph
            .nodes()
            .map(|node| graph.page(node))
            .filter(|page| page.facts.is_disputing)
            .map(|page| page.path.clone())
            .collect();
        let disputes = disputes_of(&space.index, &disputed_pages, &Permissions::FULL)?;
        Ok(Self { titles: find_duplicate_titles(graph), disputes })
    }

    /// The group issues of each page, ordered by node and kind.
    fn by_page<'g>(&self, graph: &LinkGraph) -> Vec<(GraphNode, SurveyIssue<'g>)> {
        let mut issues: Vec<(GraphNode, SurveyIssue<'g>)> = Vec::new();
        for (number, group) in self.titles.iter().enumerate() {
            issues.extend(group.iter().map(|node| (*node, SurveyIssue::Duplicate(number))));
        }
        for (number, dispute) in self.disputes.iter().enumerate() {
            let nodes = dispute.pages.iter().filter_map(|path| graph.node(path));
            issues.extend(nodes.map(|node| (node, SurveyIssue::Contradiction(number))));
        }
        issues.sort_by_key(|(node, issue)| (*node, issue.kind()));
        issues
    }

    /// The common reason of a group of pages.
    fn describe(&self, graph: &LinkGraph, key: GroupKey<'_>) -> String {
        match key {
            GroupKey::Title(number) => {
                let title = self.titles[number].first().map_or("", |node| graph.page(*node).title.as_str());
                messages::shared_title(title)
            }
            GroupKey::Dispute(number) => self.disputes[number].details.clone(),
            _ => String::new(),
        }
    }

    /// The issue as a finding with a message.
    fn finding(&self, graph: &LinkGraph, path: &TreePath, issue: SurveyIssue<'_>) -> PageFinding {
        let kind = issue.kind();
        let severity = issue.severity();
        let finding = |message: String| PageFinding::new(path.clone(), kind, message).with_severity(severity);
        match issue {
            SurveyIssue::Stale(due, days) => finding(messages::stale(due, days)),
            SurveyIssue::Orphan => finding(messages::ORPHAN.to_owned()),
            SurveyIssue::BrokenLink(link) => finding(messages::broken_link(&link.target)),
            SurveyIssue::LintError(_, message) | SurveyIssue::SchemaViolation(message) => finding(message.to_owned()),
            SurveyIssue::Empty => finding(messages::EMPTY.to_owned()),
            SurveyIssue::MissingFrontmatter => finding(messages::MISSING_FRONTMATTER.to_owned()),
            SurveyIssue::Duplicate(number) => {
                let group = &self.titles[number];
                // One more than the limit, because the page itself is left out.
                let first = group.iter().take(MAX_RELATED + 1).map(|node| graph.page(*node).path.clone());
                finding(messages::duplicate(group.len() - 1)).with_related(&first.collect::<Vec<_>>())
            }
            SurveyIssue::Contradiction(number) => {
                let PageDispute { pages, details, .. } = &self.disputes[number];
                finding(details.clone()).with_related(pages)
            }
        }
    }
}

/// The groups of pages with the same title, ignoring case.
fn find_duplicate_titles(graph: &LinkGraph) -> Vec<Vec<GraphNode>> {
    let mut hashes: Vec<(u64, GraphNode)> =
        graph.nodes().map(|node| (graph.page(node).facts.title_hash, node)).collect();
    hashes.sort_unstable();
    let shared = hashes.chunk_by(|(a, _), (b, _)| a == b).filter(|pages| pages.len() > 1);
    shared.flat_map(|pages| group_by_title(graph, pages.iter().map(|(_, node)| *node))).collect()
}

/// Groups nodes with the same title hash by title.
fn group_by_title(graph: &LinkGraph, nodes: impl Iterator<Item = GraphNode>) -> impl Iterator<Item = Vec<GraphNode>> {
    let mut by_title: BTreeMap<String, Vec<GraphNode>> = BTreeMap::new();
    for node in nodes {
        let title = &graph.page(node).title;
        match by_title.get_mut(title.as_str()) {
            // Fast path: most titles of a group have the same case.
            Some(group) => group.push(node),
            None => by_title.entry(fold_name(title).into_owned()).or_default().push(node),
        }
    }
    by_title.into_values().filter(|pages| pages.len() > 1)
}
