use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{ETag, Fault, Kind, TreePath, VersionId};
use svcfs_text::lint::LintIssue;
use svcfs_text::sections::{SectionSelector, section};
use svcfs_text::{Heading, headings};

use super::page_summary::{self, PageSummary};
use super::templates;
use crate::append_only::external_rewrite;
use crate::kernel::{
    AsOf, FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, page_head, past_file,
    require_path, version_for_agents,
};
use crate::schemas::lint_page;

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Pages",
    operations: &[
        OperationEntry::new::<ListHeadings>(),
        OperationEntry::new::<ListTemplates>(),
        OperationEntry::new::<ReadTemplate>(),
        OperationEntry::new::<ResolveLinks>(),
        OperationEntry::new::<PeekPage>(),
        OperationEntry::new::<ReadSection>(),
        OperationEntry::new::<LintPage>(),
    ],
};

/// Limit of links in one request.
const MAX_LINKS: usize = 1000;

/// List the headings of a page
///
/// Use it to find a section to read with `section`. Returns level, text, slug and line of each
/// heading. Headings in code and empty headings are left out. Slugs are the anchors of GitHub,
/// unique in the page.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListHeadings {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

impl Operation for ListHeadings {
    const NAME: &'static str = "toc";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/toc")];
    type Output = Vec<Heading>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Vec<Heading>, Fault> {
        let file = super::file(cx, &self.path)?;
        Ok(headings::headings(&super::text(&file)))
    }
}

/// A template name: a file name that is not hidden.
const TEMPLATE_NAME: &str = r"^[^./\\\u0000-\u001f\u007f-\u009f][^/\\\u0000-\u001f\u007f-\u009f]*$";

/// List the templates for new pages
///
/// Templates are the files in `.svc/templates`. Returns their names; with `name`, returns that
/// template with its text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListTemplates {
    /// Return this template with its text, such as `meeting`
    #[serde(default)]
    #[schemars(regex(pattern = TEMPLATE_NAME))]
    pub name: Option<String>,
}

/// The names of all templates, or one template.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TemplatesResponse {
    /// All names, sorted
    Names(Vec<String>),
    /// The requested template
    One(TemplateText),
}

/// A template and its text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TemplateText {
    /// Name of the template: its file name without `.md`
    pub name: String,
    /// Text of the template, including frontmatter
    pub content: String,
}

impl Operation for ListTemplates {
    const NAME: &'static str = "templates";
    const HTTP: &'static [Route] = &[Route::get("/templates")];
    type Output = TemplatesResponse;
    fn run(self, cx: &OperationContext<'_>) -> Result<TemplatesResponse, Fault> {
        match self.name {
            None => Ok(TemplatesResponse::Names(templates::names(cx)?)),
            Some(name) => Ok(TemplatesResponse::One(templates::template(cx, &name)?)),
        }
    }
}

/// Read a template for a new page
///
/// Returns its text; over HTTP as the response body.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadTemplate {
    /// Name of the template, such as `meeting`
    #[schemars(example = &"meeting")]
    #[schemars(regex(pattern = TEMPLATE_NAME))]
    pub name: String,
}

impl Operation for ReadTemplate {
    const NAME: &'static str = "template";
    const HTTP: &'static [Route] = &[Route::get("/template").text("content", "text/markdown; charset=utf-8")];
    type Output = TemplateText;
    fn run(self, cx: &OperationContext<'_>) -> Result<TemplateText, Fault> {
        templates::template(cx, &self.name)
    }
}

/// Resolve wiki links to pages
///
/// Use it to check links before you write them. A link is matched in this order: full path, end of
/// a path, file name, `aliases`, title; of several matches the one in the nearest directory wins.
/// Returns path and title of each target, and the links without a target.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "links": ["welcome", "concepts/auth#tokens"] }))]
pub struct ResolveLinks {
    /// The links, such as `auth`, `concepts/auth#tokens` or `[[auth|Sign-in]]`; at most 1,000
    pub links: Vec<String>,
    /// The page that contains the links, to determine the nearest match; default: the root
    #[serde(default)]
    pub from: Option<TreePath>,
}

/// Resolved and unresolved links.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResolvedLinks {
    /// Targets by link, as in the request
    pub resolved: BTreeMap<String, LinkDestination>,
    /// Links without a target, in the order of the request, without duplicates
    pub unresolved: Vec<String>,
}

/// The target of a link.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkDestination {
    /// Path of the page, or of another file such as a picture
    pub path: TreePath,
    /// Title of the page, or name of the other file
    pub title: String,
}

impl Operation for ResolveLinks {
    const NAME: &'static str = "resolve_links";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::post("/resolve-links").read_only()];
    type Output = ResolvedLinks;
    fn run(self, cx: &OperationContext<'_>) -> Result<ResolvedLinks, Fault> {
        if self.links.len() > MAX_LINKS {
            let message = format!("{} links are too many; the limit is {MAX_LINKS}", self.links.len());
            return Err(Fault::invalid("links", message));
        }
        let permissions = &cx.caller.permissions;
        let from = self.from.unwrap_or_else(|| permissions.visible_root());
        let index = cx.index();
        let mut answer = ResolvedLinks { resolved: BTreeMap::new(), unresolved: Vec::new() };
        let mut seen = HashSet::with_capacity(self.links.len());
        for text in self.links {
            if !seen.insert(text.clone()) {
                continue;
            }
            let hit = match svcfs_text::links::parse_link(&text) {
                Some(link) => index.resolve(&from, &link.target)?,
                None => None,
            };
            match hit.filter(|hit| permissions.covers(&hit.path)) {
                Some(svcfs_index::ResolvedLink { path, title }) => {
                    answer.resolved.insert(text, LinkDestination { path, title });
                }
                None => answer.unresolved.push(text),
            }
        }
        Ok(answer)
    }
}

/// Get a summary of a page without its full text
///
/// Use it to decide whether to read the page. Returns title, first paragraph, frontmatter,
/// headings, links in both directions and size.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PeekPage {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
}

impl Operation for PeekPage {
    const NAME: &'static str = "peek";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/peek")];
    const TOOL: bool = true;
    type Output = PageSummary;
    fn run(self, cx: &OperationContext<'_>) -> Result<PageSummary, Fault> {
        page_summary::summarize(cx, self.path)
    }
}

/// Read one section of a page
///
/// Use it instead of `read` for long pages; `toc` lists the headings. Select the section by either
/// `heading` or `index`. Returns its text up to the next heading of the same or a higher level.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadSection {
    /// Path of the page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Text of the heading, its slug, or a part of its text, ignoring case; `Parent > Child` for a
    /// heading below another one
    #[serde(default)]
    pub heading: Option<String>,
    /// Position among the headings of the page, from 0
    #[serde(default)]
    pub index: Option<usize>,
    #[serde(default)]
    pub as_of: AsOf,
}

/// One section of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SectionText {
    /// Path of the page
    pub path: TreePath,
    /// Text of the heading
    pub heading: String,
    /// 1 for `#` to 6 for `######`
    pub level: u8,
    /// Text below the heading, including subsections
    pub content: String,
    /// Line of the heading in the page, from 1
    pub line_start: usize,
    /// Last line of the section, from 1
    pub line_end: usize,
    #[serde(skip)]
    etag: ETag,
    #[serde(skip)]
    version: Option<VersionId>,
}

impl Operation for ReadSection {
    const NAME: &'static str = "section";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/section")];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = SectionText;
    fn run(self, cx: &OperationContext<'_>) -> Result<SectionText, Fault> {
        let selector = match (&self.heading, self.index) {
            (Some(heading), None) => SectionSelector::Heading(heading),
            (None, Some(index)) => SectionSelector::Index(index),
            (None, None) => return Err(Fault::new(Kind::Invalid, "heading or index is required")),
            (Some(_), Some(_)) => {
                return Err(Fault::new(Kind::Invalid, "use either `heading` or `index`, not both"));
            }
        };
        let (content, etag, version) = match self.as_of.noted_state(cx)? {
            Some(state) => {
                let content = past_file(cx, &state, &self.path)?.content;
                let etag = ETag::from_content(&content);
                (content, etag, None)
            }
            None => {
                let file = super::file(cx, &self.path)?;
                let version = version_for_agents(cx, &self.path, file.etag);
                (file.content, file.etag, version)
            }
        };
        let text = String::from_utf8_lossy(&content);
        let hit = section(&text, selector).ok_or_else(|| match selector {
            SectionSelector::Heading(heading) => Fault::not_found(format!("section \"{heading}\" not found")),
            SectionSelector::Index(index) => {
                let count = headings::headings(&text).len();
                Fault::invalid("index", format_args!("{index} is past the last section; `{}` has {count}", self.path))
            }
        })?;
        Ok(SectionText {
            path: self.path,
            heading: hit.heading,
            level: hit.level,
            content: hit.content,
            line_start: hit.line_start,
            line_end: hit.line_end,
            etag,
            version,
        })
    }
    fn render_text(section: &SectionText) -> Option<String> {
        let SectionText { path, heading, level, content, line_start, line_end, etag, version } = section;
        let head = page_head(*etag, version.as_ref());
        let prefix = "#".repeat(usize::from(*level));
        Some(format!("{head}\n[{path}, lines {line_start}-{line_end}]\n\n{prefix} {heading}\n\n{content}"))
    }
}

/// Check a page, or text before you write it
///
/// Give `path` or `content`; if both are given, `content` is checked. Returns the lint issues: with
/// errors a write is refused, with warnings it is not.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "content": "# A\n\n| x | y |\n|---|\n" }))]
pub struct LintPage {
    /// Path of the page
    #[serde(default)]
    pub path: Option<TreePath>,
    /// Markdown text to check
    #[serde(default)]
    pub content: Option<String>,
}

/// The lint issues of a text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LintReport {
    /// The issues in line order; empty when there are none
    pub issues: Vec<LintIssue>,
}

impl Operation for LintPage {
    const NAME: &'static str = "lint";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::post("/lint").read_only().required_one_of(&["path", "content"])];
    const TOOL: bool = true;
    type Output = LintReport;
    fn run(self, cx: &OperationContext<'_>) -> Result<LintReport, Fault> {
        self.path.iter().try_for_each(|path| require_path("path", path))?;
        let issues = match (self.content, self.path) {
            (Some(content), _) => lint_page(cx.space, &content)?,
            (None, Some(path)) => {
                let mut issues = lint_page(cx.space, &super::text(&super::file(cx, &path)?))?;
                issues.extend(external_rewrite(cx.space, &path)?);
                issues
            }
            (None, None) => return Err(Fault::new(Kind::Invalid, "path or content is required")),
        };
        Ok(LintReport { issues })
    }
    fn render_text(hit: &LintReport) -> Option<String> {
        hit.issues.is_empty().then(|| "No issues found".to_owned())
    }
}
