//! HTML of a page for one reader.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_index::DqlQuery;
use svcfs_render::{PageFiller, PageLink, ParsedPage, QueryBlock, escape_html};
use svcfs_text::computed_block::{ComputedAnswer, find_answer};
use svcfs_text::links::LinkKind;
use svcfs_text::sections::section_source;
use svcfs_text::{Heading, headings};
use svcfs_vfs::FileView;

use super::publish::public_prefix;
use crate::files;
use crate::kernel::OperationContext;
use crate::query::{
    DataviewScope, MarkdownStyle, RenderTarget, RowWindow, render_dataview, render_markdown, run_dataview, run_query,
};

/// Limit of pages within pages.
const MAX_EMBED_DEPTH: usize = 5;

/// Limit of embeds and queries in one answer.
const MAX_FILLED: usize = 200;

/// Number of parsed pages in memory.
const MAX_CACHED: usize = 512;

/// Which pages a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// All that the caller may read.
    Caller,
    /// Pages with `published: true`.
    Published,
    /// Pages with `visibility: public`.
    Public,
    /// The page itself and nothing else.
    OnePage,
}

impl Audience {
    /// Whether this audience is served a page with this frontmatter directly.
    fn admits(self, frontmatter: &Map<String, Value>) -> bool {
        match self {
            Self::Caller => true,
            Self::Published => frontmatter.get("published") == Some(&Value::Bool(true)),
            Self::Public => frontmatter.get("visibility").and_then(Value::as_str) == Some("public"),
            Self::OnePage => false,
        }
    }
}

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
}

/// Parsed pages by content hash and path; emptied when it is full.
static PARSED: Mutex<Option<ParsedPages>> = Mutex::new(None);

type ParsedPages = HashMap<(ETag, TreePath), Arc<ParsedPage>>;

/// The parsed page; without its computed result, which shows other pages, if `is_limited`.
fn parsed(path: &TreePath, file: &FileView, is_limited: bool) -> Arc<ParsedPage> {
    if is_limited && let Some(text) = without_computed_result(&String::from_utf8_lossy(&file.content)) {
        return Arc::new(svcfs_render::parse(path.as_str(), &text));
    }
    let key = (file.etag, path.clone());
    if let Some(page) = PARSED.lock().as_ref().and_then(|pages| pages.get(&key)) {
        return Arc::clone(page);
    }
    let page = Arc::new(svcfs_render::parse(path.as_str(), &String::from_utf8_lossy(&file.content)));
    let mut cache = PARSED.lock();
    let pages = cache.get_or_insert_default();
    if pages.len() >= MAX_CACHED {
        pages.clear();
    }
    pages.insert(key, Arc::clone(&page));
    page
}

/// One section of a page, as [`parsed`]; `None` without such a heading.
fn parsed_section(path: &TreePath, file: &FileView, heading: &str, is_limited: bool) -> Option<Arc<ParsedPage>> {
    let content = String::from_utf8_lossy(&file.content);
    let limited = if is_limited { without_computed_result(&content) } else { None };
    let section = section_source(limited.as_deref().unwrap_or(&content), &headings::anchor_of_link(heading))?;
    Some(Arc::new(svcfs_render::parse(path.as_str(), section)))
}

/// A page without the result of its query, which was computed from all pages; `None` without one.
fn without_computed_result(text: &str) -> Option<String> {
    let page = svcfs_text::frontmatter::split(text);
    let range = match find_answer(page.body) {
        ComputedAnswer::Absent => return None,
        ComputedAnswer::Unterminated(start) => start..page.body.len(),
        ComputedAnswer::Present(range) => range,
    };
    Some([&text[..page.body_offset + range.start], &page.body[range.end..]].concat())
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
pub(super) fn is_hidden(cx: &OperationContext<'_>, path: &TreePath) -> bool {
    !cx.space.vfs.hidden_files().lists(path) || path.as_str().starts_with('.')
}

/// Reads a file that is not hidden and that the caller may read.
fn read_visible(cx: &OperationContext<'_>, path: &TreePath) -> Result<FileView, Fault> {
    if is_hidden(cx, path) {
        return Err(Fault::file_not_found(path));
    }
    cx.space.check_path_access(&cx.caller.permissions, cx.caller.protocol, path)?;
    files::read_file(cx, path)
}

/// Renders a page that was read and admitted.
pub fn render_page(cx: &OperationContext<'_>, path: &TreePath, file: &FileView, audience: Audience) -> RenderedPage {
    let page = parsed(path, file, audience != Audience::Caller);
    let mut filler = ReaderFiller {
        cx,
        audience,
        stack: vec![path.clone()],
        admitted: HashMap::new(),
        filled: 0,
        links: Vec::new(),
    };
    let html = page.fill(&mut filler, "");
    let mut links = filler.links;
    links.sort_unstable();
    links.dedup();
    let etag = ETag::from_content(html.as_bytes());
    RenderedPage { title: page.title.clone(), toc: page.toc.clone(), excerpt: page.excerpt.clone(), html, etag, links }
}

/// Whether a published page uses a file that is not a page.
///
/// # Errors
/// Those of the index.
pub fn uses_asset(cx: &OperationContext<'_>, asset: &TreePath) -> Result<bool, Fault> {
    let (links, _) = cx.index().backlinks(asset, &TreePath::root(), MAX_FILLED)?;
    for link in links.into_iter().filter(|link| link.path.is_page()) {
        if let Ok(file) = read_admitted(cx, &link.path, Audience::Published)
            && render_page(cx, &link.path, &file, Audience::Published).links.contains(asset)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

struct ReaderFiller<'f, 'a> {
    cx: &'f OperationContext<'a>,
    audience: Audience,
    /// The page and the embedded pages around the part that is filled.
    stack: Vec<TreePath>,
    admitted: HashMap<TreePath, bool>,
    filled: usize,
    links: Vec<TreePath>,
}

impl ReaderFiller<'_, '_> {
    /// The file of a link, if it exists and the caller may read it.
    fn resolve(&self, link: &PageLink) -> Option<TreePath> {
        let kind = if link.is_wiki { LinkKind::Wiki } else { LinkKind::Markdown };
        let from = self.stack.last()?;
        let found = self.cx.space.index.resolve_link(from, kind, &link.target).ok()??;
        let is_visible = self.cx.caller.permissions.covers(&found.path);
        is_visible.then_some(found.path)
    }

    fn admits_page(&mut self, path: &TreePath) -> bool {
        if let Some(is_admitted) = self.admitted.get(path) {
            return *is_admitted;
        }
        let is_admitted = match self.audience {
            Audience::OnePage => false,
            Audience::Caller => read_visible(self.cx, path).is_ok(),
            audience => read_admitted(self.cx, path, audience).is_ok(),
        };
        self.admitted.insert(path.clone(), is_admitted);
        is_admitted
    }

    fn address(&self, path: &TreePath, heading: Option<&str>) -> String {
        match self.audience {
            Audience::Published => files::url_below(public_prefix(self.cx), path, heading),
            Audience::Caller | Audience::Public | Audience::OnePage => files::file_url("", path, heading),
        }
    }

    fn run(&mut self, query: &QueryBlock) -> Result<String, Fault> {
        if query.language == "dql" {
            let parsed = DqlQuery::parse(&query.text)?;
            let answer = run_query(self.cx, &parsed, RowWindow::default())?;
            return Ok(render_markdown(&answer, MarkdownStyle::from_mode(parsed.mode()), RenderTarget::Page));
        }
        let parsed = svcfs_dataview::DataviewQuery::parse(&query.text)
            .map_err(|error| Fault::invalid("query", error.to_string()))?;
        let scope = DataviewScope {
            vfs: &self.cx.space.vfs,
            index: self.cx.index(),
            settings: &self.cx.settings().dataview,
            now: self.cx.now(),
            below: self.cx.caller.permissions.folder.as_ref(),
            page: self.stack.last(),
        };
        Ok(render_dataview(&run_dataview(&parsed, &scope)?, RowWindow::default(), RenderTarget::Page))
    }
}

impl PageFiller for ReaderFiller<'_, '_> {
    fn link(&mut self, link: &PageLink) -> Option<String> {
        let path = self.resolve(link)?;
        // A link to another file is served only if that file is an asset of a published page.
        let is_shown = if path.is_page() { self.admits_page(&path) } else { self.audience != Audience::OnePage };
        let is_shown = is_shown && self.cx.space.vfs.hidden_files().lists(&path);
        if !is_shown {
            return None;
        }
        let address = self.address(&path, link.heading.as_deref());
        self.links.push(path);
        Some(address)
    }

    fn image(&mut self, link: &PageLink) -> Option<String> {
        let path = self.resolve(link).filter(|path| !path.is_page())?;
        let is_shown = self.audience != Audience::OnePage && self.cx.space.vfs.hidden_files().lists(&path);
        if !is_shown {
            return None;
        }
        let address = self.address(&path, None);
        self.links.push(path);
        Some(address)
    }

    fn shows_external_images(&self) -> bool {
        true
    }

    fn embed(&mut self, link: &PageLink) -> Option<String> {
        let path = self.resolve(link)?;
        if !path.is_page() {
            let source = self.image(link)?;
            let alt = escape_html(&link.display_text());
            return Some(format!("<img src=\"{}\" alt=\"{alt}\">", escape_html(&source)));
        }
        if !self.admits_page(&path) {
            return None;
        }
        self.filled += 1;
        if self.stack.contains(&path) || self.stack.len() > MAX_EMBED_DEPTH || self.filled > MAX_FILLED {
            let reason = if self.stack.contains(&path) { "embeds itself" } else { "is embedded too deeply" };
            return Some(format!("<p class=\"embed-error\">{} {reason}</p>", escape_html(&link.display_text())));
        }
        let file = read_visible(self.cx, &path).ok()?;
        let is_limited = self.audience != Audience::Caller;
        let section = link.heading.as_deref().and_then(|heading| parsed_section(&path, &file, heading, is_limited));
        let page = section.unwrap_or_else(|| parsed(&path, &file, is_limited));
        let prefix = format!("e{}-", self.filled);
        self.stack.push(path);
        let html = page.fill(self, &prefix);
        self.stack.pop();
        Some(format!("<div class=\"embed\">\n{html}</div>\n"))
    }

    fn query(&mut self, query: &QueryBlock) -> String {
        self.filled += 1;
        // A query sees all pages; what it would show of others is not known to be public.
        if self.audience != Audience::Caller || self.filled > MAX_FILLED {
            return format!("<pre><code>{}</code></pre>\n", escape_html(&query.text));
        }
        match self.run(query) {
            Ok(markdown) => {
                let prefix = format!("q{}-", self.filled);
                svcfs_render::fill_markdown(&markdown, self, &prefix)
            }
            Err(fault) => format!("<p class=\"embed-error\">{}</p>\n", escape_html(fault.message())),
        }
    }
}
