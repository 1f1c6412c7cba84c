//! HTML of a page for one reader.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use svcfs_base::{ETag, Fault, Timestamp, TreePath};
use svcfs_render::{PageFiller, PageLink, QueryBlock, escape_html};
use svcfs_text::sections::section_source;
use svcfs_text::{Heading, headings};
use svcfs_vfs::FileView;

use super::cache::{CachedPage, LinkTargets, SpaceState};
use super::listed_pages::{ListedPages, listed_pages};
use super::{Audience, addresses, computed, queries};
use crate::files;
use crate::kernel::{OperationContext, Space};

/// Limit of pages within pages.
const MAX_EMBED_DEPTH: usize = 5;

/// Limit of embeds and queries in one answer.
const MAX_FILLED: usize = 200;

/// A page as HTML.
#[derive(Debug, Clone)]
pub struct RenderedPage {
    /// Title of the page.
    pub title: String,
    /// Sanitised HTML, to be placed in the body of a document.
    pub html: String,
    /// The headings.
    pub toc: Vec<Heading>,
    /// The first paragraph as text.
    pub excerpt: String,
    /// Hash of everything in the HTML, what was filled in included.
    pub etag: ETag,
    /// The files that its links and images lead to, as far as this reader sees them.
    pub links: Vec<TreePath>,
    /// Whether it has results of queries, which may depend on the time.
    pub has_queries: bool,
    /// Whether the index answered all that was asked: else links are shown as text.
    pub is_complete: bool,
}

/// What is done about the queries of a page, which may take seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryUse {
    /// They are run.
    Run,
    /// They are left out; what is rendered only shows whether there are any.
    Skip,
}

/// Whether a reader may see only some pages.
fn is_limited(cx: &OperationContext<'_>, audience: Audience) -> bool {
    audience != Audience::Caller || cx.caller.permissions.folder.is_some()
}

fn parse(path: &TreePath, content: &[u8], is_limited: bool) -> CachedPage {
    let text = String::from_utf8_lossy(content);
    let for_reader = computed::text_for_reader(&text, is_limited);
    CachedPage::new(svcfs_render::parse(path.as_str(), for_reader.as_deref().unwrap_or(&text)))
}

/// The parsed page, from the cache if it is there.
fn parsed(
    cx: &OperationContext<'_>,
    path: &TreePath,
    (etag, content): (ETag, &Bytes),
    audience: Audience,
) -> Arc<CachedPage> {
    let is_limited = is_limited(cx, audience);
    let key = (etag, path.clone(), is_limited);
    if let Some(page) = cx.space.publishing.parsed.lock().get(&key) {
        return page;
    }
    let page = Arc::new(parse(path, content, is_limited));
    cx.space.publishing.parsed.lock().put(key, Arc::clone(&page), content.len());
    page
}

/// One section of a page; `None` without such a heading.
fn parsed_section(path: &TreePath, content: &[u8], heading: &str, is_limited: bool) -> Option<Arc<CachedPage>> {
    let text = String::from_utf8_lossy(content);
    let for_reader = computed::text_for_reader(&text, is_limited);
    let section = section_source(for_reader.as_deref().unwrap_or(&text), &headings::anchor_of_link(heading))?;
    Some(Arc::new(CachedPage::new(svcfs_render::parse(path.as_str(), section))))
}

/// Reads a page that this audience is served directly.
///
/// # Errors
/// `NotFound` alike for a missing, hidden and not admitted page.
pub fn read_admitted(cx: &OperationContext<'_>, path: &TreePath, audience: Audience) -> Result<FileView, Fault> {
    let file = read_visible(cx, path)?;
    let is_admitted = path.is_page() && audience.admits(&files::frontmatter(&file.content));
    if is_admitted { Ok(file) } else { Err(Fault::file_not_found(path)) }
}

/// Whether a file is never rendered or published.
pub(super) fn is_hidden(space: &Space, path: &TreePath) -> bool {
    !space.vfs.hidden_files().lists(path) || path.as_str().starts_with('.')
}

/// Fails for a file that is hidden or that the caller may not read.
pub(super) fn check_visible(cx: &OperationContext<'_>, path: &TreePath) -> Result<(), Fault> {
    if is_hidden(cx.space, path) {
        return Err(Fault::file_not_found(path));
    }
    cx.space.check_path_access(&cx.caller.permissions, cx.caller.protocol, path)
}

fn read_visible(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    check_visible(cx, path)?;
    files::read_file(cx, path)
}

/// What lists of published pages say about a page; `None` if it is not published any more.
pub(super) struct PageSummary {
    pub(super) title: String,
    pub(super) excerpt: String,
    pub(super) modified: Timestamp,
}

impl PageSummary {
    pub(super) fn read(cx: &OperationContext<'_>, path: &TreePath) -> Option<Self> {
        let file = read_admitted(cx, path, Audience::Published).ok()?;
        let cached = parsed(cx, path, (file.etag, &file.content), Audience::Published);
        let (title, excerpt) = (cached.page.title.clone(), cached.page.excerpt.clone());
        Some(Self { title, excerpt, modified: files::to_timestamp(file.attributes.modified) })
    }
}

/// Renders a page that was read and admitted.
pub fn render_page(
    cx: &OperationContext<'_>,
    path: &TreePath,
    (etag, content): (ETag, &Bytes),
    audience: Audience,
) -> RenderedPage {
    let page = parsed(cx, path, (etag, content), audience);
    fill(cx, path, &page, (audience, QueryUse::Run))
}

/// As [`render_page`] for published pages; with [`QueryUse::Skip`], a page with queries is not
/// complete.
pub(super) fn render_published(
    cx: &OperationContext<'_>,
    path: &TreePath,
    file: &FileView,
    queries: QueryUse,
) -> RenderedPage {
    let page = parsed(cx, path, (file.etag, &file.content), Audience::Published);
    fill(cx, path, &page, (Audience::Published, queries))
}

/// Renders a page that was read and admitted for its caller; the same page only once for callers
/// with the same permissions, until something changes.
pub(super) fn render_for_caller(cx: &OperationContext<'_>, path: &TreePath, file: &FileView) -> Arc<RenderedPage> {
    let cache = &cx.space.publishing.caller_pages;
    let key = (path.clone(), file.etag, cx.caller.permissions.folder.clone());
    // A save through the mount is accepted before it is announced; a later read must see it.
    let is_announced = cx.space.vfs.wait_applied().is_ok();
    let state = SpaceState::of(cx.space);
    // The notes of an answer depend on the caller, and say that the index is behind.
    let is_cacheable = is_announced && state.is_indexed() && !cx.tree().is_draft();
    if is_cacheable && let Some((_, page)) = cache.lock().get(&key).filter(|(cached, _)| *cached == state) {
        return page;
    }
    let page = Arc::new(render_page(cx, path, (file.etag, &file.content), Audience::Caller));
    if is_cacheable && page.is_complete && !page.has_queries {
        cache.lock().put(key, (state, Arc::clone(&page)), page.html.len());
    }
    page
}

/// Renders text as if it were a page at this path, for its caller.
pub(super) fn render_text(cx: &OperationContext<'_>, path: &TreePath, text: &str) -> RenderedPage {
    let page = Arc::new(parse(path, text.as_bytes(), is_limited(cx, Audience::Caller)));
    fill(cx, path, &page, (Audience::Caller, QueryUse::Run))
}

fn fill(
    cx: &OperationContext<'_>,
    path: &TreePath,
    page: &Arc<CachedPage>,
    (audience, query_use): (Audience, QueryUse),
) -> RenderedPage {
    if audience == Audience::Caller {
        // Waits for what this caller wrote before.
        cx.index();
    }
    let mut filler = ReaderFiller {
        cx,
        audience,
        page: path,
        listed: None,
        stack: Vec::new(),
        filled: 0,
        query_use,
        queries_end: None,
        is_complete: true,
        links: Vec::new(),
    };
    let html = filler.fill_page(page, path.clone(), "");
    let (mut links, has_queries, is_complete) = (filler.links, filler.queries_end.is_some(), filler.is_complete);
    links.sort_unstable();
    links.dedup();
    let etag = ETag::from_content(html.as_bytes());
    let parsed = &page.page;
    let (title, toc, excerpt) = (parsed.title.clone(), parsed.toc.clone(), parsed.excerpt.clone());
    RenderedPage { title, toc, excerpt, html, etag, links, has_queries, is_complete }
}

struct ReaderFiller<'f, 'a> {
    cx: &'f OperationContext<'a>,
    audience: Audience,
    /// The page that is rendered.
    page: &'f TreePath,
    /// The pages that a limited audience may see, once a link needs them.
    listed: Option<Arc<ListedPages>>,
    /// The page and the embedded pages around the part that is filled, with what their links mean.
    stack: Vec<(TreePath, Arc<LinkTargets>)>,
    filled: usize,
    query_use: QueryUse,
    /// When the last query must have ended; none before the first one.
    queries_end: Option<Instant>,
    is_complete: bool,
    links: Vec<TreePath>,
}

impl ReaderFiller<'_, '_> {
    fn fill_page(&mut self, page: &CachedPage, path: TreePath, id_prefix: &str) -> String {
        if self.audience != Audience::Caller {
            // Before the links are resolved, so that the index has all that was announced.
            self.listed();
        }
        let targets = page.targets(self.cx.space, &path).unwrap_or_else(|error| {
            tracing::warn!(path = %path, error = ?error, "the links of a page cannot be resolved; they are shown as text");
            self.is_complete = false;
            Arc::default()
        });
        self.stack.push((path, targets));
        let html = page.page.fill(self, id_prefix);
        self.stack.pop();
        html
    }

    fn listed(&mut self) -> Arc<ListedPages> {
        let (cx, is_complete) = (self.cx, &mut self.is_complete);
        let read = || {
            listed_pages(cx).unwrap_or_else(|error| {
                tracing::warn!(error = ?error, "the published pages cannot be listed; links to them are shown as text");
                *is_complete = false;
                Arc::default()
            })
        };
        Arc::clone(self.listed.get_or_insert_with(read))
    }

    /// The file of a link, if it exists and this reader may see it.
    fn resolve(&mut self, link: &PageLink) -> Option<TreePath> {
        let (_, targets) = self.stack.last()?;
        let path = targets.get(&(link.is_wiki, link.target.clone()))?.clone();
        let (space, permissions) = (self.cx.space, &self.cx.caller.permissions);
        if is_hidden(space, &path) || !permissions.covers(&path) {
            return None;
        }
        let is_shown = match self.audience {
            // A link in the folder of a key may lead out of it.
            Audience::Caller => permissions.folder.is_none() || check_visible(self.cx, &path).is_ok(),
            // A file is served if a published page uses it.
            Audience::Published if !path.is_page() => true,
            Audience::OnePage => false,
            audience => self.listed().visible(audience, self.page).is_some_and(|pages| pages.contains(path.as_str())),
        };
        is_shown.then_some(path)
    }

    fn address(&self, path: &TreePath, heading: Option<&str>) -> String {
        match self.audience {
            Audience::Published => addresses::relative(self.page, path, heading),
            Audience::Public => addresses::public_file(path),
            Audience::Caller | Audience::OnePage => {
                files::file_url(self.cx.public_url().map_or("", |site| site.as_str()), path, heading)
            }
        }
    }

    fn shown(&mut self, path: TreePath, heading: Option<&str>) -> String {
        let address = self.address(&path, heading);
        self.links.push(path);
        address
    }

    fn is_full(&mut self) -> bool {
        self.filled += 1;
        self.filled > MAX_FILLED
    }
}

impl PageFiller for ReaderFiller<'_, '_> {
    fn link(&mut self, link: &PageLink) -> Option<String> {
        let path = self.resolve(link)?;
        Some(self.shown(path, link.heading.as_deref()))
    }

    fn image(&mut self, link: &PageLink) -> Option<String> {
        let path = self.resolve(link).filter(|path| !path.is_page())?;
        Some(self.shown(path, None))
    }

    fn shows_external_images(&self) -> bool {
        self.cx.settings().render.external_images
    }

    fn embed(&mut self, link: &PageLink) -> Option<String> {
        let path = self.resolve(link)?;
        if !path.is_page() {
            let source = self.shown(path, None);
            let alt = escape_html(&link.display_text());
            return Some(format!("<img src=\"{}\" alt=\"{alt}\">", escape_html(&source)));
        }
        let embeds_itself = self.stack.iter().any(|(page, _)| *page == path);
        if self.is_full() || embeds_itself || self.stack.len() > MAX_EMBED_DEPTH {
            let reason = if embeds_itself { "embeds itself" } else { "is embedded too deeply" };
            return Some(format!("<p class=\"embed-error\">{} {reason}</p>", escape_html(&link.display_text())));
        }
        // The index may be older than the file.
        let file = read_admitted(self.cx, &path, self.audience).ok()?;
        let is_limited = is_limited(self.cx, self.audience);
        let heading = link.heading.as_deref();
        let section = heading.and_then(|heading| parsed_section(&path, &file.content, heading, is_limited));
        let page = section.unwrap_or_else(|| parsed(self.cx, &path, (file.etag, &file.content), self.audience));
        let prefix = format!("e{}-", self.filled);
        let html = self.fill_page(&page, path, &prefix);
        Some(format!("<div class=\"embed\">\n{html}</div>\n"))
    }

    fn query(&mut self, query: &QueryBlock) -> String {
        let timeout = self.cx.settings().dataview.query_timeout;
        let end = *self.queries_end.get_or_insert_with(|| Instant::now() + timeout);
        if self.query_use == QueryUse::Skip {
            self.is_complete = false;
            return String::new();
        }
        if self.is_full() {
            return format!("<pre><code>{}</code></pre>\n", escape_html(&query.text));
        }
        let Some((path, _)) = self.stack.last() else { return String::new() };
        let path = path.clone();
        let visible = match self.audience {
            Audience::Caller => None,
            audience => self.listed().visible(audience, self.page),
        };
        match queries::run(self.cx, query, (&path, visible.as_ref()), end) {
            Ok(markdown) => {
                let prefix = format!("q{}-", self.filled);
                let result = CachedPage::new(svcfs_render::parse("", &markdown));
                self.fill_page(&result, path, &prefix)
            }
            Err(fault) => format!("<p class=\"embed-error\">{}</p>\n", escape_html(fault.message())),
        }
    }
}
