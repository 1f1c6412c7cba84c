//! The published and the public pages of a space, as the index knows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use svcfs_base::{Fault, TreePath};
use svcfs_index::VisiblePages;

use super::Audience;
use super::rendering::is_hidden;
use crate::kernel::{OperationContext, Space};

/// The frontmatter keys that decide.
const KEYS: [&str; 2] = ["published", "visibility"];

/// How long a page that is rendered anew waits for the index, so that it does not link to a page
/// that was withdrawn just before.
const INDEX_TIMEOUT: Duration = Duration::from_millis(500);

/// A page that is published, public, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedPage {
    /// Time of its first publication, if it is recorded.
    pub published_at: Option<String>,
    /// Whether it is published.
    pub is_published: bool,
    /// Whether its visibility is `public`.
    pub is_public: bool,
}

/// The pages at one generation of the index.
#[derive(Debug, Default)]
pub struct ListedPages {
    /// All of them.
    pub pages: BTreeMap<TreePath, ListedPage>,
    published: Arc<VisiblePages>,
    public: Arc<VisiblePages>,
}

impl ListedPages {
    fn new(pages: BTreeMap<TreePath, ListedPage>) -> Self {
        let of = |is_listed: fn(&ListedPage) -> bool| {
            Arc::new(VisiblePages::new(pages.iter().filter(|(_, page)| is_listed(page)).map(|(path, _)| path)))
        };
        Self { published: of(|page| page.is_published), public: of(|page| page.is_public), pages }
    }

    /// The published pages, the latest first.
    pub fn published(&self) -> Vec<(&TreePath, &ListedPage)> {
        let mut pages: Vec<_> = self.pages.iter().filter(|(_, page)| page.is_published).collect();
        pages.sort_by(|(a, first), (b, second)| second.published_at.cmp(&first.published_at).then_with(|| a.cmp(b)));
        pages
    }

    /// The pages that an audience may see; `None` without a limit.
    pub(super) fn visible(&self, audience: Audience, page: &TreePath) -> Option<Arc<VisiblePages>> {
        match audience {
            Audience::Caller => None,
            Audience::Published => Some(Arc::clone(&self.published)),
            Audience::Public => Some(Arc::clone(&self.public)),
            Audience::OnePage => Some(Arc::new(VisiblePages::new([page]))),
        }
    }
}

/// The pages of a space, re-read only as far as they changed.
#[derive(Debug, Default)]
pub(super) struct ListedPagesCache {
    generation: Option<u64>,
    pages: Arc<ListedPages>,
}

impl ListedPagesCache {
    fn refresh(&mut self, space: &Space) -> Result<(), Fault> {
        let index = &space.index;
        let (generation, changed) = index.changes_since(self.generation);
        let Some(changed) = changed else {
            let rows = index.pages_with_keys(&KEYS)?;
            let all = rows.into_iter().filter_map(|row| {
                let page = listed(space, &row.path, row.metadata.as_object()?)?;
                Some((row.path, page))
            });
            self.pages = Arc::new(ListedPages::new(all.collect()));
            self.generation = Some(generation);
            return Ok(());
        };
        let mut updates = BTreeMap::new();
        for path in changed.into_iter().filter(TreePath::is_page) {
            let page = index.page(&path)?.and_then(|row| listed(space, &path, &row.frontmatter));
            if page.as_ref() != self.pages.pages.get(&path) {
                updates.insert(path, page);
            }
        }
        if !updates.is_empty() {
            let mut pages = self.pages.pages.clone();
            for (path, page) in updates {
                match page {
                    Some(page) => drop(pages.insert(path, page)),
                    None => drop(pages.remove(&path)),
                }
            }
            self.pages = Arc::new(ListedPages::new(pages));
        }
        self.generation = Some(generation);
        Ok(())
    }
}

fn listed(space: &Space, path: &TreePath, frontmatter: &Map<String, Value>) -> Option<ListedPage> {
    let [is_published, is_public] =
        [Audience::Published, Audience::Public].map(|audience| audience.admits(frontmatter));
    if !is_published && !is_public || is_hidden(space, path) {
        return None;
    }
    let published_at = frontmatter.get("published_at").and_then(Value::as_str).map(str::to_owned);
    Some(ListedPage { published_at, is_published, is_public })
}

/// The published and public pages, with all changes that were announced before.
///
/// # Errors
/// Those of the index.
pub fn listed_pages(cx: &OperationContext<'_>) -> Result<Arc<ListedPages>, Fault> {
    let space = cx.space;
    space.wait_for_index(space.vfs.last_seq(), INDEX_TIMEOUT);
    let mut cache = space.publishing.listed.lock();
    cache.refresh(space)?;
    Ok(Arc::clone(&cache.pages))
}
