use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind, Protocol, TreePath};
use svcfs_dataview::DataviewQuery;
use svcfs_index::{AnswerLimit, QueryAnswer};

use super::render::{MarkdownStyle, RenderTarget, render_markdown};
use super::{DataviewScope, RowWindow, answer_from, dataview, run_query};
use crate::kernel::{FolderScope, MinSeq, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Queries",
    operations: &[OperationEntry::new::<RunQuery>(), OperationEntry::new::<AggregatePages>()],
};

/// Query pages by their fields
///
/// Use it to list, filter, sort or count pages by fields; to find pages by words use `search`.
/// Returns rows of cells with their headers. A query starts with `TABLE field, …`, `LIST`, `COUNT`,
/// `DISTINCT field`, `TASK`, `CALENDAR field` or `JSON field, …`. Clauses follow in any order:
/// `FROM "folder/"` or `FROM #tag AND -#other`, `WHERE`, `SORT field DESC`, `GROUP BY field`,
/// `FLATTEN list`, `LIMIT`, `OFFSET`.
///
/// Fields are frontmatter keys and inline fields (`key:: value`, `[key:: value]`); nested ones have
/// dots or brackets (`author.name`, `tags[0]`, `sources[*].id`); quote special names with
/// backticks. `#tag` includes nested tags, in any case. Every page also has `_path`, `_name`,
/// `_folder`, `_ext`, `_updated`, `_size`, `_word_count`, `_link_count`, `_heading_count`,
/// `_backlink_count` and `_has_frontmatter`. Numbers, dates, booleans and lists are compared by
/// type; examples: `due < now() + 7d`, `contains(tags, "x")`, `length(outlinks())`, `sum(hours)`.
/// Put spaces around minus, because names may contain hyphens.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RunQuery {
    /// The query, such as `TABLE status, due FROM "tasks/" WHERE status != "done" SORT due`; at
    /// most 64 KiB
    #[schemars(example = "TABLE status FROM \"concepts/\" WHERE status = \"draft\" SORT _updated DESC")]
    #[schemars(regex(pattern = r"\S"))]
    pub q: String,
    /// The language of the query: `dql` as above, or `dataview` for queries of Obsidian's Dataview
    /// plugin, unchanged (`file.name`, `FROM [[Page]]`, `date(today)`; rows have no default limit
    /// of 50)
    #[serde(default)]
    pub dialect: QueryDialect,
    /// With `dialect=dataview`: the page that contains the query, for `this` and `[[]]`
    #[serde(default)]
    pub page: Option<TreePath>,
    /// Maximum number of rows; overrides the query's LIMIT; default 50
    #[serde(default)]
    pub limit: Option<AnswerLimit>,
    /// Number of rows to skip; overrides the query's OFFSET
    #[serde(default)]
    pub offset: u32,
    /// Return JSON, or text rendered as markdown
    #[serde(default)]
    pub format: QueryFormat,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// Language of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryDialect {
    /// The query language of svcfs.
    #[default]
    Dql,
    /// The query language of the Dataview plugin.
    Dataview,
}

/// Output format of a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QueryFormat {
    /// JSON.
    #[default]
    Json,
    /// A markdown table.
    Table,
    /// A markdown list of links.
    List,
    /// The number of results.
    Count,
    /// A markdown list of values.
    Distinct,
    /// Task lists grouped by page.
    Task,
}

impl QueryFormat {
    /// The format of a name in lower case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        serde_json::from_value(Value::from(name)).ok()
    }
    pub(crate) const fn style(self) -> Option<MarkdownStyle> {
        match self {
            Self::Json => None,
            Self::Table => Some(MarkdownStyle::Table),
            Self::List => Some(MarkdownStyle::List),
            Self::Count => Some(MarkdownStyle::Count),
            Self::Distinct => Some(MarkdownStyle::Distinct),
            Self::Task => Some(MarkdownStyle::Task),
        }
    }
}

/// The result of a query.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QueryResult {
    /// `table`, `list`, `count`, `distinct`, `task`, `calendar` or `json`
    pub mode: &'static str,
    /// Names of the cells of a row; `path` first if rows are pages
    pub headers: Vec<String>,
    /// The rows, with one cell per header
    pub rows: Vec<Vec<Value>>,
    /// Total number of rows
    pub total: usize,
    /// Whether more rows follow
    pub has_more: bool,
    /// Whether the scan limit (`dataview.max_scan_rows`) was reached: rows, totals and counts are
    /// of the scanned part only
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// With COUNT: the number of results
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// With GROUP BY: the same rows by group
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<ResultGroup>>,
    /// For a view: summaries of its columns
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summaries: Option<Map<String, Value>>,
    /// The result as markdown, if requested by `format`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A group of rows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultGroup {
    /// The common value of the group
    pub key: Value,
    /// Total number of rows in the group
    pub count: usize,
    /// The rows of the group that are in this result
    pub rows: Vec<Vec<Value>>,
}

impl QueryResult {
    /// The result of an answer of the index.
    pub fn new(answer: QueryAnswer, style: Option<MarkdownStyle>) -> Self {
        let text = style.map(|style| render_markdown(&answer, style, RenderTarget::Response));
        let QueryAnswer { mode, headers, rows, total, scanned_rows, has_more, count, groups, summaries, notes: _ } =
            answer;
        let group = |svcfs_index::RowGroup { key, count, rows }| ResultGroup { key, count, rows };
        let groups = groups.map(|groups| groups.into_iter().map(group).collect());
        Self {
            mode: mode.name(),
            headers,
            rows,
            total,
            has_more,
            truncated: scanned_rows.is_some(),
            count,
            groups,
            summaries: summaries.map(Map::from_iter),
            text,
        }
    }
}

impl Operation for RunQuery {
    const NAME: &'static str = "query";
    const FOLDER_SCOPE: FolderScope = FolderScope::CallerFolder;
    const HTTP: &'static [Route] = &[Route::get("/query").text("text", "text/plain; charset=utf-8")];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("query", "q")];
    type Output = QueryResult;
    fn run(self, cx: &OperationContext<'_>) -> Result<QueryResult, Fault> {
        if self.q.trim().is_empty() {
            return Err(Fault::new(Kind::Invalid, "q is required"));
        }
        let window = RowWindow { limit: self.limit.map(AnswerLimit::get), offset: self.offset as usize };
        let index = cx.index_at_seq(self.at_least)?;
        if self.dialect == QueryDialect::Dataview {
            return self.run_dataview(cx, index, window);
        }
        if self.page.is_some() {
            return Err(Fault::invalid("page", "only queries with `dialect=dataview` refer to a page"));
        }
        let query = svcfs_index::DqlQuery::parse(&self.q)?;
        let answer = answer_from(cx, index, &query, window)?;
        Ok(QueryResult::new(answer, self.format.style()))
    }
    fn render_text(output: &QueryResult) -> Option<String> {
        output.text.clone()
    }
}

impl RunQuery {
    fn run_dataview(
        &self,
        cx: &OperationContext<'_>,
        index: &svcfs_index::Index,
        window: RowWindow,
    ) -> Result<QueryResult, Fault> {
        let query = DataviewQuery::parse(&self.q).map_err(|error| Fault::invalid("q", error))?;
        let scope = DataviewScope {
            vfs: &cx.space.vfs,
            index,
            settings: &cx.settings().dataview,
            now: cx.now(),
            below: cx.caller.permissions.folder.as_ref(),
            visible: None,
            page: self.page.as_ref(),
        };
        let answer = super::run_dataview(&query, &scope)?;
        dataview::notes(&answer).into_iter().for_each(|note| cx.add_note(note));
        let style = self.format.style();
        let text = style.filter(|style| *style == dataview::style(&answer));
        let text = text.map(|_| super::render_dataview(&answer, window, RenderTarget::Response));
        let result = QueryResult::new(dataview::to_query_answer(&answer, window), style);
        Ok(QueryResult { text: text.or(result.text), ..result })
    }
}

/// Aggregate pages by a field: count, sum, average, minimum, maximum
///
/// Use it for statistics over frontmatter. Returns one object for each value of `group`: the value
/// under the name of the field, `count`, and `<function>_<field>` for each calculation. A page
/// whose field is a list counts for each of its items; pages without the field are under null.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AggregatePages {
    /// Field to group by, such as `status` or `author.name`
    #[schemars(example = &"status")]
    pub group: String,
    /// Calculations: `count`, or `avg`, `sum`, `min`, `max`, `count` of a field, such as
    /// `avg:priority`; a list, or a text with commas. Optional only for agents
    #[schemars(required, example = ["count", "avg:priority"], extend("default" = "count"))]
    pub calc: Option<CalculationList>,
    /// Only pages that match this condition, such as `status != "archived" AND priority > 2`
    #[serde(default, rename = "where")]
    pub condition: Option<String>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
}

/// Calculations as a list or as text.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum CalculationList {
    /// One per string.
    List(Vec<String>),
    /// Comma-separated.
    Text(String),
}

impl CalculationList {
    /// The default for agents.
    fn count() -> Self {
        Self::Text("count".to_owned())
    }
    fn into_list(self) -> Vec<String> {
        match self {
            Self::List(list) => list,
            Self::Text(text) => {
                text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
            }
        }
    }
}

impl JsonSchema for CalculationList {
    fn schema_name() -> Cow<'static, str> {
        "Calculations".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["array", "string"], "items": { "type": "string" } })
    }
}

impl Operation for AggregatePages {
    const NAME: &'static str = "aggregate";
    const FOLDER_SCOPE: FolderScope = FolderScope::Folder("path_prefix");
    const HTTP: &'static [Route] = &[Route::get("/query/aggregate")];
    const TOOL: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("group_by", "group"), ("calculate", "calc")];
    type Output = Vec<Map<String, Value>>;
    fn run(self, cx: &OperationContext<'_>) -> Result<Self::Output, Fault> {
        let prefix = self.path_prefix.filter(|path| !path.is_root()).map(|path| path.to_string());
        let default = || (cx.caller.protocol == Protocol::Mcp).then(CalculationList::count);
        let calculations = self.calc.or_else(default).ok_or_else(|| Fault::new(Kind::Invalid, "calc is required"))?;
        let query = svcfs_index::DqlQuery::aggregate(
            &self.group,
            &calculations.into_list(),
            self.condition.as_deref(),
            prefix.as_deref(),
        )?;
        let answer = run_query(cx, &query, RowWindow::default())?;
        let object = |row: Vec<Value>| answer.headers.iter().cloned().zip(row).collect();
        Ok(answer.rows.into_iter().map(object).collect())
    }
}
