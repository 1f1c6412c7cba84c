//! Selects the pages of FROM.

use std::collections::HashSet;
use std::sync::Arc;

use svcfs_text::fold::fold_name;

use super::evaluate::Evaluator;
use crate::error::{Evaluation, Failure};
use crate::page::Page;
use crate::syntax::Source;
use crate::value::Link;

/// A source with what it needs to know of other pages.
pub(super) enum SourceFilter {
    /// A folded tag with `#`.
    Tag(String),
    /// Pages below a folder; ends with `/`, or is empty.
    Folder(String),
    Paths(HashSet<String>),
    Not(Box<SourceFilter>),
    Chain(Box<SourceFilter>, Vec<(bool, SourceFilter)>),
}

impl SourceFilter {
    pub(super) fn new(evaluator: &Evaluator<'_>, source: &Source, pages: &[Arc<Page>]) -> Evaluation<Self> {
        Ok(match source {
            Source::Tag(tag) => Self::Tag(fold_name(tag).into_owned()),
            Source::Path(path) => {
                let path = path.trim_matches('/');
                let folder = if path.is_empty() { String::new() } else { format!("{path}/") };
                if pages.iter().any(|page| page.path.starts_with(&folder)) {
                    Self::Folder(folder)
                } else {
                    Self::Paths(HashSet::from([path.to_owned(), format!("{path}.md")]))
                }
            }
            Source::LinksTo(link) => {
                let page = linked_page(evaluator, link)?;
                Self::Paths(evaluator.vault.inlinks(&page.path)?.into_iter().collect())
            }
            Source::LinksFrom(link) => {
                let page = linked_page(evaluator, link)?;
                Self::Paths(page.links.iter().map(|link| link.path.clone()).collect())
            }
            Source::Not(inner) => Self::Not(Box::new(Self::new(evaluator, inner, pages)?)),
            Source::Chain(first, rest) => {
                let operand = |(is_and, source): &(bool, Source)| Ok((*is_and, Self::new(evaluator, source, pages)?));
                let rest = rest.iter().map(operand).collect::<Evaluation<_>>()?;
                Self::Chain(Box::new(Self::new(evaluator, first, pages)?), rest)
            }
        })
    }

    pub(super) fn matches(&self, page: &Page) -> bool {
        match self {
            Self::Tag(wanted) => page.tags.iter().any(|tag| {
                let tag = fold_name(tag.trim_start_matches('#'));
                let rest = tag.strip_prefix(&wanted[1..]);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }),
            Self::Folder(folder) => page.path.starts_with(folder.as_str()),
            Self::Paths(paths) => paths.contains(&page.path),
            Self::Not(inner) => !inner.matches(page),
            Self::Chain(first, rest) => rest.iter().fold(first.matches(page), |is_match, (is_and, operand)| {
                if *is_and { is_match && operand.matches(page) } else { is_match || operand.matches(page) }
            }),
        }
    }
}

/// The page of a link that must exist.
fn linked_page(evaluator: &Evaluator<'_>, link: &Link) -> Evaluation<Arc<Page>> {
    let page = evaluator.linked_page(link)?;
    let missing = || Failure::query(format!("FROM names the page `{}`, which does not exist", link.path));
    page.ok_or_else(missing)
}
