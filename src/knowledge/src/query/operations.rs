//! The wire shapes of queries.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svcfs_base::{Fault, Kind, Protocol, TreePath};
use svcfs_index::{AnswerLimit, QueryAnswer};

use super::render::{MarkdownStyle, RenderTarget, render_markdown};
use super::{RowWindow, answer_from, run_query};
use crate::kernel::{FolderScope, MinSeq, Operation, OperationArea, OperationContext, OperationEntry, Route};

/// The operations of this area.
pub const AREA: OperationArea = OperationArea {
    title: "Queries",
    operations: &[OperationEntry::new::<RunQuery>(), OperationEntry::new::<AggregatePages>()],
};

/// List pages by what their frontmatter says
///
/// A query begins with `TABLE field, …`, `LIST`, `COUNT`, `DISTINCT field`, `TASK`, `CALENDAR field` or `JSON field, …`. Clauses follow in any
/// order: `FROM "folder/"` or `FROM #tag AND -#other`, `WHERE`, `SORT field DESC`, `GROUP BY field`, `FLATTEN list`, `LIMIT`, `OFFSET`.
///
/// Fields are frontmatter keys, with dots into nested ones (`author.name`, `tags[0]`, `sources[*].id`); odd ones stand in back-ticks. Every
/// page also has `_path`, `_name`, `_folder`, `_ext`, `_updated`, `_size`, `_word_count`, `_link_count`, `_heading_count`, `_backlink_count` and
/// `_has_frontmatter`. Numbers, dates, booleans and lists compare as what they are; `due < now() + 7d` works, and so do `contains(tags, "x")`,
/// `length(outlinks())`, `sum(hours)` and many more. Minus needs spaces around it, because names hold hyphens.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct RunQuery {
    /// The query, such as `TABLE status, due FROM "tasks/" WHERE status != "done" SORT due`; at most 64 KiB
    #[schemars(example = "TABLE status FROM \"concepts/\" WHERE status = \"draft\" SORT _updated DESC")]
    #[schemars(regex(pattern = r"\S"))]
    pub q: String,
    /// Rows in the answer; beats the query's LIMIT. Without either 50
    #[serde(default)]
    pub limit: Option<AnswerLimit>,
    /// How many of the first rows to leave out; beats the query's OFFSET
    #[serde(default)]
    pub offset: u32,
    /// The answer as JSON, or rendered as markdown text
    #[serde(default)]
    pub format: QueryFormat,
    #[serde(default)]
    pub at_least: MinSeq,
}

/// What form an answer has.
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
    /// Task lists under their pages.
    Task,
}

impl QueryFormat {
    const fn style(self) -> Option<MarkdownStyle> {
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

/// What a query answers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct QueryResult {
    /// `table`, `list`, `count`, `distinct`, `task`, `calendar` or `json`
    pub mode: &'static str,
    /// What the cells of a row are; `path` first where rows are pages
    pub headers: Vec<String>,
    /// The rows asked for, a cell for each header
    pub rows: Vec<Vec<Value>>,
    /// How many rows there are in all
    pub total: usize,
    /// Whether rows follow behind these
    pub has_more: bool,
    /// Whether more pages would have to be looked at than one query may (`dataview.max_scan_rows`): rows, totals and counts are of those that were
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// With COUNT, how many there are
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// With GROUP BY, the same rows under what they have in common
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<ResultGroup>>,
    /// With a view, what is made of all cells of its columns
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summaries: Option<Map<String, Value>>,
    /// The answer as markdown, when `format` asks for it
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Rows with something in common.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultGroup {
    /// What they have in common
    pub key: Value,
    /// How many rows the group has in all
    pub count: usize,
    /// Those of its rows that are in the answer
    pub rows: Vec<Vec<Value>>,
}

impl QueryResult {
    /// The wire shape of an answer.
    pub fn new(answer: QueryAnswer, style: Option<MarkdownStyle>) -> Self {
        let text = style.map(|style| render_markdown(&answer, style, RenderTarget::Response));
        let QueryAnswer { mode, headers, rows, total, scanned_rows: looked_at, has_more, count, groups, summaries } =
            answer;
        let group = |svcfs_index::RowGroup { key, count, rows }| ResultGroup { key, count, rows };
        let groups = groups.map(|groups| groups.into_iter().map(group).collect());
        Self {
            mode: mode.name(),
            headers,
            rows,
            total,
            has_more,
            truncated: looked_at.is_some(),
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
        let query = svcfs_index::DqlQuery::parse(&self.q)?;
        let window = RowWindow { limit: self.limit.map(AnswerLimit::get), offset: self.offset as usize };
        let answer = answer_from(cx, cx.index_at_seq(self.at_least)?, &query, window)?;
        Ok(QueryResult::new(answer, self.format.style()))
    }
    fn render_text(output: &QueryResult) -> Option<String> {
        output.text.clone()
    }
}

/// Count, sum and average pages by the values of a field
///
/// One object a value of `group`: the value under the field's name, `count`, and `<function>_<field>` for each calculation. A page whose field
/// is a list counts for each of its items; pages without the field are under null.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct AggregatePages {
    /// The field to group by, such as `status` or `author.name`
    #[schemars(example = &"status")]
    pub group: String,
    /// What to calculate: `count`, or `avg`, `sum`, `min`, `max`, `count` of a field, such as `avg:priority`; a list, or a text with commas.
    /// Only agents may leave it out
    #[schemars(required, example = ["count", "avg:priority"], extend("default" = "count"))]
    pub calc: Option<CalculationList>,
    /// Only pages for which this is true, such as `status != "archived" AND priority > 2`
    #[serde(default, rename = "where")]
    pub condition: Option<String>,
    /// Only pages at or below this path
    #[serde(default)]
    pub path_prefix: Option<TreePath>,
}

/// Calculations as they are asked for.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum CalculationList {
    /// One in each text.
    List(Vec<String>),
    /// In one text, with commas between them.
    Text(String),
}

impl CalculationList {
    /// What agents mean who do not say what (gaps.md 4.21).
    fn count() -> Self {
        Self::Text("count".to_owned())
    }
    fn each(self) -> Vec<String> {
        match self {
            Self::List(each) => each,
            Self::Text(text) => {
                text.split(',').map(str::trim).filter(|each| !each.is_empty()).map(str::to_owned).collect()
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
        let by_default = || (cx.caller.protocol == Protocol::Mcp).then(CalculationList::count);
        let asked = self.calc.or_else(by_default).ok_or_else(|| Fault::new(Kind::Invalid, "calc is required"))?;
        let query =
            svcfs_index::DqlQuery::aggregate(&self.group, &asked.each(), self.condition.as_deref(), prefix.as_deref())?;
        let answer = run_query(cx, &query, RowWindow::default())?;
        let object = |row: Vec<Value>| answer.headers.iter().cloned().zip(row).collect();
        Ok(answer.rows.into_iter().map(object).collect())
    }
}
