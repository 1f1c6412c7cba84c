use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{ETag, Fault, TreePath};
use svcfs_text::Heading;

use super::publish::{self, PublishedEntry};
use super::{Audience, list_published, public_path, read_admitted, render_page};
use crate::files;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, require_path};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Publishing",
    operations: &[
        OperationEntry::new::<RenderPage>(),
        OperationEntry::new::<PublishPage>(),
        OperationEntry::new::<UnpublishPage>(),
        OperationEntry::new::<PublishPages>(),
        OperationEntry::new::<UnpublishPages>(),
        OperationEntry::new::<ListPublished>(),
        OperationEntry::new::<ReadPublishStatus>(),
    ],
};

/// Limit of the pages of one bulk request.
const MAX_PAGES: usize = 1_000;

/// Limit of a list of published pages.
const MAX_LISTED: usize = 10_000;

/// Read a page as HTML
///
/// Sanitised HTML without script or inline style: links, embedded pages and the results of query
/// blocks are filled in as far as the caller may read them.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RenderPage {
    /// Path of the page
    pub path: TreePath,
}

/// A page as HTML.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PageHtml {
    /// Path of the page
    pub path: TreePath,
    /// Its title
    pub title: String,
    /// Hash of the HTML, embedded content included
    pub etag: ETag,
    /// Sanitised HTML, for the body of a document
    pub html: String,
    /// Its headings
    pub toc: Vec<Heading>,
    /// Its frontmatter
    pub frontmatter: Map<String, Value>,
    /// The files that it links to
    pub links: Vec<TreePath>,
}

impl Operation for RenderPage {
    const NAME: &'static str = "render";
    const HTTP: &'static [Route] = &[Route::get("/render").etag()];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = PageHtml;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageHtml, Fault> {
        require_path("path", &self.path)?;
        let file = read_admitted(cx, &self.path, Audience::Caller)?;
        let page = render_page(cx, &self.path, &file, Audience::Caller);
        let frontmatter = files::frontmatter(&file.content);
        let (title, etag, html, toc, links) = (page.title, page.etag, page.html, page.toc, page.links);
        Ok(PageHtml { path: self.path, title, etag, html, toc, frontmatter, links })
    }
}

/// Publish a page
///
/// Sets `published: true` and, the first time, `published_at` in its frontmatter. Anyone can then
/// read the page at its public address, without credentials.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PublishPage {
    /// Path of the page
    pub path: TreePath,
}

/// Whether a page is published.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PublishedPage {
    /// Path of the page
    pub path: TreePath,
    /// Whether it is published
    pub published: bool,
    /// Time of its first publication
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
    /// Its public address on this server, if it is published
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
}

impl Operation for PublishPage {
    const NAME: &'static str = "publish";
    const HTTP: &'static [Route] = &[Route::post("/publish")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = PublishedPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<PublishedPage, Fault> {
        let mut states = [publish::plan(cx, &self.path, true)?];
        publish::apply(cx, &mut states, "publish")?;
        let [state] = states;
        let public_url = Some(public_path(cx, &self.path));
        Ok(PublishedPage { path: self.path, published: true, published_at: state.published_at, public_url })
    }
}

/// Withdraw a published page
///
/// Sets `published: false`; `published_at` stays. Its public address is 404 from then on.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UnpublishPage {
    /// Path of the page
    pub path: TreePath,
}

/// A page that is not published any more.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnpublishedPage {
    /// Path of the page
    pub path: TreePath,
    /// Always false
    pub published: bool,
}

impl Operation for UnpublishPage {
    const NAME: &'static str = "unpublish";
    const HTTP: &'static [Route] = &[Route::post("/unpublish")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = UnpublishedPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<UnpublishedPage, Fault> {
        publish::apply(cx, &mut [publish::plan(cx, &self.path, false)?], "unpublish")?;
        Ok(UnpublishedPage { path: self.path, published: false })
    }
}

/// Publish several pages in one commit
///
/// All or none: an error of one page is the answer. Pages that are published already stay as they
/// are.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PublishPages {
    /// Paths of the pages
    #[schemars(length(min = 1, max = MAX_PAGES))]
    pub paths: Vec<TreePath>,
}

/// The outcome of a bulk request.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BulkPublishResult {
    /// Number of pages that are published now
    pub published: usize,
    /// Number of pages that were changed
    pub changed: usize,
    /// Number of pages that were in that state already
    pub skipped: usize,
    /// Each page
    pub results: Vec<PublishedPage>,
}

impl Operation for PublishPages {
    const NAME: &'static str = "publish_bulk";
    const HTTP: &'static [Route] = &[Route::post("/publish/bulk")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = BulkPublishResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<BulkPublishResult, Fault> {
        set_all(cx, self.paths, true)
    }
}

/// Withdraw several published pages in one commit
///
/// All or none: an error of one page is the answer. Pages that are not published stay as they are.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct UnpublishPages {
    /// Paths of the pages
    #[schemars(length(min = 1, max = MAX_PAGES))]
    pub paths: Vec<TreePath>,
}

impl Operation for UnpublishPages {
    const NAME: &'static str = "unpublish_bulk";
    const HTTP: &'static [Route] = &[Route::post("/unpublish/bulk")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = BulkPublishResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<BulkPublishResult, Fault> {
        set_all(cx, self.paths, false)
    }
}

fn set_all(cx: &OperationContext<'_>, paths: Vec<TreePath>, published: bool) -> Result<BulkPublishResult, Fault> {
    let mut unique = paths;
    let mut seen = std::collections::HashSet::new();
    unique.retain(|path| seen.insert(path.clone()));
    let mut states = unique.iter().map(|path| publish::plan(cx, path, published)).collect::<Result<Vec<_>, _>>()?;
    publish::apply(cx, &mut states, if published { "publish" } else { "unpublish" })?;
    let changed = states.iter().filter(|state| state.is_changed).count();
    let result = |(path, state): (TreePath, publish::PublishState)| {
        let public_url = published.then(|| public_path(cx, &path));
        PublishedPage { path, published, published_at: state.published_at, public_url }
    };
    let results: Vec<PublishedPage> = unique.into_iter().zip(states).map(result).collect();
    let skipped = results.len() - changed;
    Ok(BulkPublishResult { published: if published { results.len() } else { 0 }, changed, skipped, results })
}

/// List the published pages
///
/// The latest first.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListPublished {}

/// The published pages.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PublishedList {
    /// Number of pages
    pub count: usize,
    /// The pages, the latest first
    pub pages: Vec<PublishedEntry>,
}

impl Operation for ListPublished {
    const NAME: &'static str = "publish_list";
    const HTTP: &'static [Route] = &[Route::get("/publish/list")];
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    type Output = PublishedList;
    fn run(self, cx: &OperationContext<'_>) -> Result<PublishedList, Fault> {
        let pages = list_published(cx, MAX_LISTED)?;
        Ok(PublishedList { count: pages.len(), pages })
    }
}

/// Show whether a page is published
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadPublishStatus {
    /// Path of the page
    pub path: TreePath,
}

impl Operation for ReadPublishStatus {
    const NAME: &'static str = "publish_status";
    const HTTP: &'static [Route] = &[Route::get("/publish/status")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = PublishedPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<PublishedPage, Fault> {
        require_path("path", &self.path)?;
        let file = files::read_file(cx, &self.path)?;
        let text = String::from_utf8_lossy(&file.content);
        let published_at = svcfs_text::frontmatter::parse(&text).text("published_at");
        let published = read_admitted(cx, &self.path, Audience::Published).is_ok();
        let public_url = published.then(|| public_path(cx, &self.path));
        Ok(PublishedPage { path: self.path, published, published_at, public_url })
    }
}
