//! Fills the budget with the sections that are worth most.

use svcfs_base::{Fault, Timestamp};
use svcfs_vfs::NewestVersion;

use super::budget::TokenCount;
use super::candidates::{CandidatePage, CandidateSection, Candidates, CitedVersion};
use super::operations::{DroppedSection, RecallExcerpt};
use super::sections::PageLines;
use super::text::{self, NOT_INCLUDED};
use crate::kernel::OperationContext;

/// Sections shorter than this share of the budget are not preferred for being short.
const SHORT_SHARE: usize = 16;

/// A section may use this share of the budget; a longer one ends at a paragraph.
const MAX_SHARE: usize = 3;

/// Share of the budget that is reserved for the list of what is not in the answer.
const LIST_SHARE: usize = 10;

/// Sections in that list.
const MAX_DROPPED: usize = 20;

/// The number with the most digits that an excerpt can have.
const LONGEST_NUMBER: usize = 99;

/// What fits into a budget.
#[derive(Default)]
pub struct Selection {
    /// The excerpts, best first; outdated ones last.
    pub excerpts: Vec<RecallExcerpt>,
    /// The best sections that do not fit.
    pub dropped: Vec<DroppedSection>,
}

/// Selects excerpts until the text of the answer, which starts with `head`, meets the budget.
///
/// # Errors
/// If the history cannot be read.
pub fn select(
    cx: &OperationContext<'_>,
    candidates: &Candidates,
    (head, budget, min_trust): (&str, usize, f64),
) -> Result<Selection, Fault> {
    let max_tokens = budget - budget / LIST_SHARE;
    let mut used = TokenCount::of(head);
    let mut taken: Vec<(usize, RecallExcerpt)> = Vec::new();
    let mut dropped: Vec<(usize, DroppedSection)> = Vec::new();
    let mut citations: Vec<Option<PageCitation>> = vec![None; candidates.pages.len()];
    for at in by_value(candidates, budget) {
        let section = &candidates.sections[at];
        let page = &candidates.pages[section.page];
        let citation = &mut citations[section.page];
        if citation.is_none() {
            *citation = PageCitation::of(cx, page, candidates.time)?;
        }
        let Some(citation) = citation else { continue };
        if citation.trust < min_trust {
            continue;
        }
        let Ok(text) = std::str::from_utf8(&page.content) else { continue };
        let lines = PageLines::of(text);
        let cut = lines.cut(&section.lines, section.anchor, (budget / MAX_SHARE).max(1));
        let excerpt = cut.map(|range| citation.excerpt(page, section, (range.clone(), lines.text(range))));
        let cost = |excerpt: &RecallExcerpt| TokenCount::of(&text::render_excerpt(LONGEST_NUMBER, excerpt));
        match excerpt.filter(|excerpt| (used + cost(excerpt)).tokens() <= max_tokens) {
            Some(excerpt) if taken.len() < LONGEST_NUMBER => {
                used = used + cost(&excerpt);
                taken.push((at, excerpt));
            }
            _ => dropped.push((at, dropped_section(page, section, &lines))),
        }
    }
    // Sections are in the order of their score.
    taken.sort_by_key(|(at, excerpt)| (excerpt.outdated.is_some(), *at));
    dropped.sort_by_key(|(at, _)| *at);
    let mut listed = Vec::new();
    for (_, section) in dropped.into_iter().take(MAX_DROPPED) {
        let line = if listed.is_empty() { NOT_INCLUDED.to_owned() } else { String::new() };
        let cost = TokenCount::of(&(line + &text::render_dropped(&section)));
        if (used + cost).tokens() > budget {
            break;
        }
        used = used + cost;
        listed.push(section);
    }
    Ok(Selection { excerpts: taken.into_iter().map(|(_, excerpt)| excerpt).collect(), dropped: listed })
}

/// The sections by score per token, outdated ones last.
fn by_value(candidates: &Candidates, budget: usize) -> Vec<usize> {
    let value = |section: &CandidateSection| {
        let page = &candidates.pages[section.page];
        let text = String::from_utf8_lossy(&page.content);
        let tokens = TokenCount::of(&PageLines::of(&text).text(section.lines.clone())).tokens();
        let tokens = tokens.clamp((budget / SHORT_SHARE).max(1), (budget / MAX_SHARE).max(1));
        (page.validity.outdated.is_some(), section.score / tokens as f64)
    };
    let values: Vec<(bool, f64)> = candidates.sections.iter().map(value).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| {
        let ((a_outdated, a_value), (b_outdated, b_value)) = (values[*a], values[*b]);
        a_outdated.cmp(&b_outdated).then_with(|| b_value.total_cmp(&a_value)).then_with(|| a.cmp(b))
    });
    order
}

/// The version of a page that its excerpts cite, and how far it can be relied on.
#[derive(Debug, Clone)]
struct PageCitation {
    version: CitedVersion,
    trust: f64,
}

impl PageCitation {
    /// The newest version of a page; none if it is not the text that was read, which an edit
    /// outside svcfs replaced a moment ago.
    fn of(cx: &OperationContext<'_>, page: &CandidatePage, now: Timestamp) -> Result<Option<Self>, Fault> {
        let version = match &page.version {
            Some(version) => version.clone(),
            None => {
                let newest = cx.space.vfs.newest_version(&page.path)?;
                let Some(NewestVersion { version, .. }) = newest.filter(|newest| newest.etag == page.etag) else {
                    return Ok(None);
                };
                CitedVersion { commit: version.hash.to_string(), actor: version.author, time: version.timestamp }
            }
        };
        let trust = page.validity.trust(version.time, now);
        Ok(Some(Self { version, trust }))
    }

    fn excerpt(
        &self,
        page: &CandidatePage,
        section: &CandidateSection,
        (lines, text): (std::ops::Range<usize>, String),
    ) -> RecallExcerpt {
        RecallExcerpt {
            path: page.path.clone(),
            heading: section.heading.clone(),
            commit: self.version.commit.clone(),
            lines: [lines.start + 1, lines.end],
            text,
            score: (section.score * 1e4).round() / 1e4,
            sources: page.sources.clone(),
            trust: self.trust,
            actor: svcfs_base::escape_unprintable(&self.version.actor).to_string(),
            date: self.version.time.strftime("%Y-%m-%d").to_string(),
            outdated: page.validity.outdated,
            is_external: page.validity.is_external,
        }
    }
}

fn dropped_section(page: &CandidatePage, section: &CandidateSection, lines: &PageLines<'_>) -> DroppedSection {
    DroppedSection {
        path: page.path.clone(),
        heading: section.heading.clone(),
        lines: [section.lines.start + 1, section.lines.end],
        tokens: TokenCount::of(&lines.text(section.lines.clone())).tokens(),
    }
}
