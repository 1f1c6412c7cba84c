//! The wire shapes of pages.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use svcfs_base::{Fault, Kind, TreePath};
use svcfs_text::lint::{self, LintIssue};
use svcfs_text::sections::{SectionSelector, section};
use svcfs_text::{Heading, headings};

use super::page_summary::{self, PageSummary};
use super::templates;
use crate::kernel::{FolderScope, Operation, OperationArea, OperationContext, OperationEntry, Route, given};

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

/// Most links of one question.
const MAX_LINKS: usize = 1000;

/// List the headings of a page
///
/// Headings inside code and empty ones are left out; two headings may have the same slug.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListHeadings {
    /// Which page
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

/// How the name of a template looks: that of a file which is not hidden.
const TEMPLATE_NAME: &str = r"^[^./\\\u0000-\u001f\u007f-\u009f][^/\\\u0000-\u001f\u007f-\u009f]*$";

/// List the templates a page can be begun from
///
/// Templates are the files of `.svc/templates`. With `name`, that template with its text.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ListTemplates {
    /// A template to show whole, such as `meeting`
    #[serde(default)]
    #[schemars(regex(pattern = TEMPLATE_NAME))]
    pub name: Option<String>,
}

/// The templates, or one of them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TemplatesResponse {
    /// The names of all, in order
    Names(Vec<String>),
    /// The one asked for
    One(TemplateText),
}

/// A template and its text.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TemplateText {
    /// Its name: that of its file, without `.md`
    pub name: String,
    /// Its text, frontmatter included
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

/// Read a template, to begin a new page with
///
/// The answer over HTTP is the text itself.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadTemplate {
    /// Its name, such as `meeting`
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

/// Find the pages that wiki links lead to
///
/// Tried in this order: full path, end of a path, file name, `aliases`, title; the nearest directory wins.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "links": ["welcome", "concepts/auth#tokens"] }))]
pub struct ResolveLinks {
    /// The links, such as `auth`, `concepts/auth#tokens` or `[[auth|Sign-in]]`; at most 1,000
    pub links: Vec<String>,
    /// The page they stand in, which decides what is near; the root when absent
    #[serde(default)]
    pub from: Option<TreePath>,
}

/// Where links lead.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResolvedLinks {
    /// The links that lead to a page, as they were asked for
    pub resolved: BTreeMap<String, LinkDestination>,
    /// The links that lead nowhere, each once, in the order asked
    pub unresolved: Vec<String>,
}

/// The page a link leads to.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LinkDestination {
    /// Its path
    pub path: TreePath,
    /// Its title
    pub title: String,
}

impl Operation for ResolveLinks {
    const NAME: &'static str = "resolve_links";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::post("/resolve-links").read_only()];
    type Output = ResolvedLinks;
    fn run(self, cx: &OperationContext<'_>) -> Result<ResolvedLinks, Fault> {
        if self.links.len() > MAX_LINKS {
            let why = format!("{} are too many; at most {MAX_LINKS} are resolved at once", self.links.len());
            return Err(Fault::invalid("links", why));
        }
        let reach = &cx.caller.permissions;
        let from = self.from.unwrap_or_else(|| reach.visible_root());
        let index = cx.index();
        let mut answer = ResolvedLinks { resolved: BTreeMap::new(), unresolved: Vec::new() };
        let mut seen = HashSet::with_capacity(self.links.len());
        for written in self.links {
            if !seen.insert(written.clone()) {
                continue;
            }
            let found = match svcfs_text::links::parse_link(&written) {
                Some(link) => index.resolve(&from, &link.target)?,
                None => None,
            };
            match found.filter(|found| reach.covers(&found.path)) {
                Some(svcfs_index::ResolvedLink { path, title }) => {
                    answer.resolved.insert(written, LinkDestination { path, title });
                }
                None => answer.unresolved.push(written),
            }
        }
        Ok(answer)
    }
}

/// Look at a page without reading all of it
///
/// Title, first paragraph, frontmatter, headings, links in both directions and size: enough to decide whether to read it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct PeekPage {
    /// Which page
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
        page_summary::glance(cx, self.path)
    }
}

/// Read one section of a page
///
/// A section ends at the next heading of the same or a higher level. Give either `heading` or `index`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ReadSection {
    /// Which page
    #[schemars(example = "index.md")]
    pub path: TreePath,
    /// Words of its heading, in any case, in full or in part; `Parent > Child` for a heading below another one
    #[serde(default)]
    pub heading: Option<String>,
    /// Its place among the headings of the page, from 0
    #[serde(default)]
    pub index: Option<usize>,
}

/// One section of a page.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SectionText {
    /// The page
    pub path: TreePath,
    /// The words of the heading
    pub heading: String,
    /// 1 for `#` to 6 for `######`
    pub level: u8,
    /// What stands under the heading, sections below it included
    pub content: String,
    /// Line of the heading in the page, from 1
    pub line_start: usize,
    /// Last line of the section, from 1
    pub line_end: usize,
}

impl Operation for ReadSection {
    const NAME: &'static str = "section";
    const FOLDER_SCOPE: FolderScope = FolderScope::GivenPaths;
    const HTTP: &'static [Route] = &[Route::get("/section")];
    const TOOL: bool = true;
    const TEXT_ONLY: bool = true;
    type Output = SectionText;
    fn run(self, cx: &OperationContext<'_>) -> Result<SectionText, Fault> {
        let select = match (&self.heading, self.index) {
            (Some(heading), None) => SectionSelector::Heading(heading),
            (None, Some(index)) => SectionSelector::Index(index),
            (None, None) => return Err(Fault::new(Kind::Invalid, "heading or index is required")),
            (Some(_), Some(_)) => {
                return Err(Fault::new(Kind::Invalid, "give either `heading` or `index`, not both"));
            }
        };
        let file = super::file(cx, &self.path)?;
        let text = super::text(&file);
        let found = section(&text, select).ok_or_else(|| match select {
            SectionSelector::Heading(heading) => Fault::not_found(format!("section \"{heading}\" not found")),
            SectionSelector::Index(index) => {
                let count = headings::headings(&text).len();
                Fault::invalid("index", format_args!("{index} is past the last section; `{}` has {count}", self.path))
            }
        })?;
        Ok(SectionText {
            path: self.path,
            heading: found.heading,
            level: found.level,
            content: found.content,
            line_start: found.line_start,
            line_end: found.line_end,
        })
    }
    fn render_text(section: &SectionText) -> Option<String> {
        let SectionText { path, heading, level, content, line_start, line_end } = section;
        let marks = "#".repeat(usize::from(*level));
        Some(format!("[{path}, lines {line_start}-{line_end}]\n\n{marks} {heading}\n\n{content}"))
    }
}

/// Check a page, or text that is not written yet
///
/// Errors would refuse a write; warnings never do. Give `path` or `content`; `content` wins when both are given.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "content": "# A\n\n| x | y |\n|---|\n" }))]
pub struct LintPage {
    /// Which page
    #[serde(default)]
    pub path: Option<TreePath>,
    /// Markdown text to check
    #[serde(default)]
    pub content: Option<String>,
}

/// What is wrong with a text.
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
        self.path.iter().try_for_each(|path| given("path", path))?;
        let issues = match (self.content, self.path) {
            (Some(content), _) => lint::lint(&content),
            (None, Some(path)) => lint::lint(&super::text(&super::file(cx, &path)?)),
            (None, None) => return Err(Fault::new(Kind::Invalid, "path or content is required")),
        };
        Ok(LintReport { issues })
    }
    fn render_text(found: &LintReport) -> Option<String> {
        found.issues.is_empty().then(|| "No issues found".to_owned())
    }
}
