use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use svcfs_text::links::{LinkKind, LinkTargets};

use crate::{DataviewError, DataviewQuery, Page, PageText, QueryResult, RunLimits, Vault, VaultError};

/// Pages in memory.
pub(super) struct MemoryVault {
    now: Timestamp,
    targets: LinkTargets,
    pages: BTreeMap<String, Arc<Page>>,
}

/// A file: path, text, time of creation, time of the last change.
pub(super) type VaultFile = (String, String, Timestamp, Timestamp);

impl MemoryVault {
    pub(super) fn new(now: Timestamp, files: Vec<VaultFile>) -> Self {
        let mut targets = LinkTargets::new();
        for (path, text, ..) in &files {
            let page = svcfs_text::Page::parse(path, text);
            targets.insert(path, Some(&page.title), &page.aliases);
        }
        let read = |(path, text, created, modified): VaultFile| {
            let parsed = svcfs_text::Page::parse(&path, &text);
            let split = svcfs_text::frontmatter::split(&text);
            let page = PageText {
                path: path.clone(),
                size: text.len() as u64,
                created,
                modified,
                frontmatter: parsed.frontmatter,
                tags: parsed.tags,
                aliases: parsed.aliases,
                body: split.body,
                first_body_line: split.first_body_line,
            };
            let mut resolve =
                |target: &str, kind: LinkKind| targets.resolve_target(&path, kind, target).map(str::to_owned);
            (path.clone(), Arc::new(Page::read(page, &mut resolve)))
        };
        let pages = files.into_iter().map(read).collect();
        Self { now, targets, pages }
    }

    pub(super) fn run(&self, page: Option<&str>, query: &str) -> Result<QueryResult, DataviewError> {
        let limits = RunLimits { page, timeout: std::time::Duration::from_secs(5) };
        DataviewQuery::parse(query)?.run(self, &limits)
    }

    pub(super) fn resolve_path(&self, target: &str) -> Option<String> {
        self.targets.resolve_target("", LinkKind::Wiki, target).map(str::to_owned)
    }
}

impl Vault for MemoryVault {
    fn now(&self) -> Timestamp {
        self.now
    }
    fn time_zone(&self) -> TimeZone {
        TimeZone::UTC
    }
    fn pages(&self) -> Result<Vec<Arc<Page>>, VaultError> {
        Ok(self.pages.values().cloned().collect())
    }
    fn page(&self, path: &str) -> Result<Option<Arc<Page>>, VaultError> {
        Ok(self.pages.get(path).cloned())
    }
    fn resolve(&self, target: &str, from: &str) -> Result<Option<String>, VaultError> {
        Ok(self.targets.resolve_target(from, LinkKind::Wiki, target).map(str::to_owned))
    }
    fn inlinks(&self, path: &str) -> Result<Vec<String>, VaultError> {
        let links_here = |page: &&Arc<Page>| page.links.iter().any(|link| link.path == path);
        let sources: BTreeSet<String> = self.pages.values().filter(links_here).map(|page| page.path.clone()).collect();
        Ok(sources.into_iter().collect())
    }
}
