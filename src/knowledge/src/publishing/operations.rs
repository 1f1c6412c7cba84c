use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{Change, ETag, Fault, TreePath};
use svcfs_text::Heading;

use super::rendering::{self, check_visible};
use super::status::{PublishedEntry, list_published, view_count};
use super::{Audience, RenderedPage, frontmatter, public_path, read_admitted, render_page};
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, require_path};
use crate::{files, history};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Publishing",
    operations: &[
        OperationEntry::new::<RenderPage>(),
        OperationEntry::new::<RenderText>(),
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

/// Limit of a list of published pages; `count` and a note say how many there are.
const MAX_LISTED: usize = 10_000;

/// Limit of a text that is not a page yet.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Read a page as HTML
///
/// Sanitised HTML without script or inline style: links, embedded pages and the results of query
/// blocks are filled in as far as the caller may read them.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RenderPage {
    /// Path of the page
    pub path: TreePath,
    /// Commit hash, full or abbreviated: the page as it was then, with the links and embedded pages
    /// of now
    #[serde(default)]
    pub at: Option<String>,
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
        let Some(version) = &self.at else {
            let file = read_admitted(cx, &self.path, Audience::Caller)?;
            let page = Arc::unwrap_or_clone(rendering::render_for_caller(cx, &self.path, &file));
            return Ok(PageHtml::new(self.path, page, &file.content));
        };
        check_visible(cx, &self.path)?;
        if !self.path.is_page() {
            return Err(Fault::file_not_found(&self.path));
        }
        let names = history::names_of_page(cx, &self.path, true)?;
        let content = cx.space.vfs.read_version_under(&names, version)?;
        let page = render_page(cx, &self.path, (ETag::from_content(&content), &content), Audience::Caller);
        Ok(PageHtml::new(self.path, page, &content))
    }
}

impl PageHtml {
    fn new(path: TreePath, page: RenderedPage, content: &Bytes) -> Self {
        let RenderedPage { title, html, toc, etag, links, .. } = page;
        Self { path, title, etag, html, toc, frontmatter: files::frontmatter(content), links }
    }
}

/// Show text as the HTML of a page
///
/// Use it for a preview: nothing is stored. The text is rendered as if it were the page at `path`,
/// which need not exist.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RenderText {
    /// The text, frontmatter included; at most 4 MiB
    pub content: String,
    /// Path from which its links are resolved
    pub path: TreePath,
}

impl Operation for RenderText {
    const NAME: &'static str = "render_text";
    const HTTP: &'static [Route] = &[Route::post("/render").etag().read_only()];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = PageHtml;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageHtml, Fault> {
        require_path("path", &self.path)?;
        if !self.path.is_page() {
            return Err(Fault::invalid(
                "path",
                format_args!("`{}` is not the path of a page; it must end in `.md`", self.path),
            ));
        }
        if self.content.len() > MAX_TEXT_BYTES {
            let message = format!("has {} bytes; at most {MAX_TEXT_BYTES} are rendered", self.content.len());
            return Err(Fault::invalid("content", message));
        }
        let page = rendering::render_text(cx, &self.path, &self.content);
        Ok(PageHtml::new(self.path, page, &self.content.into()))
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
    /// How often it was read, with `publish.count_views`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_count: Option<u64>,
}

impl Operation for PublishPage {
    const NAME: &'static str = "publish";
    const HTTP: &'static [Route] = &[Route::post("/publish")];
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    type Output = PublishedPage;
    fn run(self, cx: &OperationContext<'_>) -> Result<PublishedPage, Fault> {
        let published_at = set_one(cx, &self.path, true)?;
        let public_url = Some(public_path(cx, &self.path));
        Ok(PublishedPage { path: self.path, published: true, published_at, public_url, view_count: None })
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
        set_one(cx, &self.path, false)?;
        Ok(UnpublishedPage { path: self.path, published: false })
    }
}

/// Publish several pages in one commit
///
/// Pages that are published already stay as they are. A page that cannot be published is listed in
/// `errors`; the others are published all the same.
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
    /// Each page that is in the wanted state now
    pub results: Vec<PublishedPage>,
    /// The pages that could not be changed
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<PublishError>,
}

/// Why a page could not be changed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PublishError {
    /// Path of the page
    pub path: TreePath,
    /// The reason
    pub error: String,
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
/// Pages that are not published stay as they are. A page that cannot be changed is listed in
/// `errors`; the others are withdrawn all the same.
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

const fn verb(published: bool) -> &'static str {
    if published { "publish" } else { "unpublish" }
}

/// Publishes or withdraws a page; returns the time of its first publication.
fn set_one(cx: &OperationContext<'_>, path: &TreePath, published: bool) -> Result<Option<String>, Fault> {
    let frontmatter::PublishState { published_at, change } = frontmatter::plan(cx, path, published)?;
    let refused = frontmatter::apply(cx, change.as_slice(), verb(published))?;
    refused.into_iter().next().map_or(Ok(published_at), |(_, fault)| Err(fault))
}

fn set_all(cx: &OperationContext<'_>, paths: Vec<TreePath>, published: bool) -> Result<BulkPublishResult, Fault> {
    paths.iter().try_for_each(|path| require_path("paths", path))?;
    let (mut states, mut errors) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for path in paths.into_iter().filter(|path| seen.insert(path.clone())) {
        match frontmatter::plan(cx, &path, published) {
            Ok(state) => states.push((path, state)),
            Err(fault) => errors.push((path, fault)),
        }
    }
    let changes: Vec<Change> = states.iter_mut().filter_map(|(_, state)| state.change.take()).collect();
    let refused = frontmatter::apply(cx, &changes, verb(published))?;
    let changed = changes.len() - refused.len();
    states.retain(|(path, _)| !refused.iter().any(|(refused, _)| refused == path));
    let result = |(path, state): (TreePath, frontmatter::PublishState)| {
        let public_url = published.then(|| public_path(cx, &path));
        PublishedPage { path, published, published_at: state.published_at, public_url, view_count: None }
    };
    let results: Vec<PublishedPage> = states.into_iter().map(result).collect();
    let error = |(path, fault): (TreePath, Fault)| PublishError { path, error: fault.message().to_owned() };
    let errors = errors.into_iter().chain(refused).map(error).collect();
    let skipped = results.len() - changed;
    Ok(BulkPublishResult { published: if published { results.len() } else { 0 }, changed, skipped, results, errors })
}

/// List the published pages
///
/// The latest first.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListPublished {}

/// The published pages.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PublishedList {
    /// Number of published pages
    pub count: usize,
    /// The pages, the latest first; at most 10,000
    pub pages: Vec<PublishedEntry>,
}

impl Operation for ListPublished {
    const NAME: &'static str = "publish_list";
    const HTTP: &'static [Route] = &[Route::get("/publish/list")];
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    type Output = PublishedList;
    fn run(self, cx: &OperationContext<'_>) -> Result<PublishedList, Fault> {
        let (pages, count) = list_published(cx, MAX_LISTED)?;
        cx.set_total(count, pages.len());
        Ok(PublishedList { count, pages })
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
        let view_count = view_count(cx, &self.path);
        Ok(PublishedPage { path: self.path, published, published_at, public_url, view_count })
    }
}
