//! Computed pages: pages that contain the result of their query (`POST /view/refresh`).
//!
//! Invariant: a page is written only if the result differs from its content, so that each version
//! is a different result. Writes always have [`Protocol::Internal`], with the server or the caller
//! as author: so the [`ViewRefresher`](super::ViewRefresher) can ignore its own writes.

use serde::Serialize;
use serde_json::{Map, Value};
use svcfs_base::{Actor, Caller, Change, ChangeSet, Fault, Kind, Precondition, Protocol, Timestamp, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_dataview::DataviewQuery;
use svcfs_index::DqlQuery;
use svcfs_text::computed_block::{self, ComputedAnswer, DataviewBlock, END_MARKER, START_MARKER};
use svcfs_text::frontmatter::{FrontmatterBlock, split};

use crate::kernel::Space;
use crate::lint;
use crate::query::{
    DataviewScope, MarkdownStyle, QueryResult, RenderTarget, RowWindow, render_dataview, render_markdown, run_dataview,
    run_query_below,
};

/// Frontmatter key: `true` makes a page a computed one.
pub(crate) const FLAG_KEY: &str = "svc-view";
/// Frontmatter key of the query.
pub(crate) const QUERY_KEY: &str = "svc-query";
pub(crate) const FORMAT_KEY: &str = "svc-format";

const ATTEMPTS: usize = 4;

#[derive(Debug)]
pub(super) struct ComputedQuery {
    source: QuerySource,
}

/// Where the query of a computed page is, and its language.
#[derive(Debug)]
enum QuerySource {
    /// [`QUERY_KEY`] of the frontmatter.
    Frontmatter(Box<DqlQuery>, ComputedFormat),
    /// The ```` ```dataview ```` blocks of the page, whose results are shown one after the other.
    Blocks(Vec<DataviewQuery>),
}

#[derive(Debug, Clone, Copy)]
enum ComputedFormat {
    Markdown(MarkdownStyle),
    Json,
}

/// The outcome of refreshing a computed page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RefreshOutcome {
    /// The result changed and was written.
    Regenerated,
    /// The page is up to date.
    Unchanged,
}

/// Whether this frontmatter makes a page a computed one.
pub(super) fn is_computed(frontmatter: &Map<String, Value>) -> bool {
    frontmatter.get(FLAG_KEY) == Some(&Value::Bool(true))
}

impl ComputedQuery {
    /// Parses the frontmatter of a page.
    ///
    /// # Errors
    /// `Invalid` if it is not a computed page or its query is invalid.
    pub(super) fn read(path: &TreePath, frontmatter: &Map<String, Value>, body: &str) -> Result<Self, Fault> {
        if !is_computed(frontmatter) {
            let reason =
                format!("`{path}` is not a computed page; set `{FLAG_KEY}: true` and `{QUERY_KEY}` in its frontmatter");
            return Err(Fault::invalid("path", reason));
        }
        let text = frontmatter.get(QUERY_KEY).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let Some(text) = text else {
            return Self::of_blocks(path, frontmatter, &computed_block::dataview_blocks(body));
        };
        let query = DqlQuery::parse(text).map_err(|error| with_page(path, error.into()))?;
        let format = match frontmatter.get(FORMAT_KEY) {
            None | Some(Value::Null) => ComputedFormat::Markdown(MarkdownStyle::from_mode(query.mode())),
            Some(value) => format(value.as_str().unwrap_or_default()).ok_or_else(|| {
                let reason = format!(
                    "`{FORMAT_KEY}` of `{path}` is {value}; use `table`, `list`, `count`, `distinct`, `task` or `json`"
                );
                Fault::invalid("path", reason)
            })?,
        };
        Ok(Self { source: QuerySource::Frontmatter(Box::new(query), format) })
    }

    fn of_blocks(path: &TreePath, frontmatter: &Map<String, Value>, blocks: &[DataviewBlock]) -> Result<Self, Fault> {
        if blocks.is_empty() {
            let reason = format!(
                "`{path}` has no `{QUERY_KEY}` and no block ```dataview; add a query such as `TABLE status FROM \"tasks/\"`"
            );
            return Err(Fault::invalid("path", reason));
        }
        if frontmatter.get(FORMAT_KEY).is_some_and(|format| !format.is_null()) {
            let reason = format!(
                "`{FORMAT_KEY}` of `{path}` applies to `{QUERY_KEY}` only; blocks have the form of their query"
            );
            return Err(Fault::invalid("path", reason));
        }
        let read = |block: &DataviewBlock| {
            let at = format!("the block on line {} of `{path}`", block.line);
            if block.is_script {
                return Err(Fault::invalid("path", format!("{at}: `dataviewjs` is JavaScript and is not run")));
            }
            DataviewQuery::parse(&block.query).map_err(|error| Fault::invalid("path", format!("{at}: {error}")))
        };
        Ok(Self { source: QuerySource::Blocks(blocks.iter().map(read).collect::<Result<_, _>>()?) })
    }

    /// The path prefix of all pages that can change the result; `None` when any page can.
    pub(super) fn path_prefix(&self) -> Option<&str> {
        match &self.source {
            QuerySource::Frontmatter(query, _) => query.path_prefix(),
            QuerySource::Blocks(_) => None,
        }
    }

    /// The result as text between [`START_MARKER`] and [`END_MARKER`].
    fn run(&self, space: &Space, path: &TreePath, context: (&DataviewSettings, Timestamp)) -> Result<String, Fault> {
        let (settings, now) = context;
        let window = RowWindow::default();
        // Permissions were checked when the query was written (`gate`).
        let text = match &self.source {
            QuerySource::Frontmatter(query, format) => {
                let answer = run_query_below(&space.index, query, (settings, now, None), None, window)?;
                match format {
                    ComputedFormat::Markdown(style) => render_markdown(&answer, *style, RenderTarget::Page),
                    ComputedFormat::Json => {
                        let result = QueryResult::new(answer, None);
                        let text = serde_json::to_string_pretty(&result).map_err(Fault::internal)?;
                        format!("```json\n{text}\n```\n")
                    }
                }
            }
            QuerySource::Blocks(queries) => {
                let (vfs, index) = (&space.vfs, &space.index);
                let scope = DataviewScope { vfs, index, settings, now, below: None, visible: None, page: Some(path) };
                let run = |query| Ok(render_dataview(&run_dataview(query, &scope)?, window, RenderTarget::Page));
                queries.iter().map(run).collect::<Result<Vec<_>, Fault>>()?.join("\n")
            }
        };
        // A client that writes the page gets it formatted: that is not a different result.
        Ok(lint::format_text(None, &text).into_owned())
    }
}

fn format(name: &str) -> Option<ComputedFormat> {
    Some(match name {
        "table" => ComputedFormat::Markdown(MarkdownStyle::Table),
        "list" => ComputedFormat::Markdown(MarkdownStyle::List),
        "count" => ComputedFormat::Markdown(MarkdownStyle::Count),
        "distinct" => ComputedFormat::Markdown(MarkdownStyle::Distinct),
        "task" => ComputedFormat::Markdown(MarkdownStyle::Task),
        "json" => ComputedFormat::Json,
        _ => return None,
    })
}

fn with_page(path: &TreePath, fault: Fault) -> Fault {
    if fault.kind() == Kind::Invalid {
        Fault::invalid("path", format_args!("`{QUERY_KEY}` of `{path}`: {}", fault.message()))
    } else {
        fault
    }
}

/// Writes the current result of a computed page into it, if it changed. The default author is
/// svcfs.
///
/// # Errors
/// `Invalid` if there is no such computed page or its query fails; `Conflict` if it is written
/// concurrently too often; those of writing.
pub(super) fn refresh(
    space: &Space,
    author: Option<&Actor>,
    context: (&DataviewSettings, Timestamp),
    path: &TreePath,
) -> Result<RefreshOutcome, Fault> {
    let caller = Caller { actor: author.cloned(), ..Caller::new(Protocol::Internal) };
    let mut outcome = attempt(space, &caller, context, path);
    for _ in 1..ATTEMPTS {
        match &outcome {
            Err(fault) if matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed) => {
                outcome = attempt(space, &caller, context, path);
            }
            Ok(_) | Err(_) => break,
        }
    }
    outcome
}

/// Writes the error of an invalid query into its page, where the author sees it. Other problems are
/// ignored.
pub(super) fn write_query_error(space: &Space, path: &TreePath) -> Result<(), Fault> {
    let caller = Caller::new(Protocol::Internal);
    let file = space.vfs.read(caller.protocol, path)?;
    let Ok(text) = std::str::from_utf8(&file.content) else { return Ok(()) };
    let frontmatter = svcfs_text::frontmatter::parse(text).map;
    let Err(fault) = ComputedQuery::read(path, &frontmatter, split(text).body) else { return Ok(()) };
    if !is_computed(&frontmatter) || fault.kind() != Kind::Invalid {
        return Ok(());
    }
    // A code block, so that nothing in it is parsed as a link.
    let reason = fault.message().replace("```", "~~~");
    let notice = format!("> This page is not computed:\n\n```text\n{reason}\n```\n");
    let Ok(new_text) = insert_answer(text, &lint::format_text(None, &notice)) else { return Ok(()) };
    if new_text != text {
        let change = Change::put(path.clone(), new_text).with_precondition(Precondition::OneOf(vec![file.etag]));
        let message = format!("{}: the query of {path} is invalid", caller.actor());
        space.vfs.apply(&caller, ChangeSet::from(change).with_message(message))?;
    }
    Ok(())
}

fn attempt(
    space: &Space,
    caller: &Caller,
    context: (&DataviewSettings, Timestamp),
    path: &TreePath,
) -> Result<RefreshOutcome, Fault> {
    let file = space.vfs.read(caller.protocol, path).map_err(|fault| {
        let is_missing = matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory | Kind::NotDirectory);
        if is_missing { Fault::invalid("path", format_args!("no page at `{path}`")) } else { fault }
    })?;
    let not_text = |_| Fault::invalid("path", format_args!("`{path}` is not text"));
    let text = std::str::from_utf8(&file.content).map_err(not_text)?;
    let computed = ComputedQuery::read(path, &svcfs_text::frontmatter::parse(text).map, split(text).body)?;
    let answer = computed.run(space, path, context).map_err(|fault| with_page(path, fault))?;
    let new_text =
        insert_answer(text, &answer).map_err(|reason| Fault::invalid("path", format_args!("`{path}` {reason}")))?;
    if new_text == text {
        return Ok(RefreshOutcome::Unchanged);
    }
    let change = Change::put(path.clone(), new_text).with_precondition(Precondition::OneOf(vec![file.etag]));
    let message = format!("{}: refresh {path}", caller.actor());
    space.vfs.apply(caller, ChangeSet::from(change).with_message(message))?;
    Ok(RefreshOutcome::Regenerated)
}

/// The page with this result between its marker lines; without such lines, after the last
/// ```` ```dataview ```` block, else after the frontmatter.
fn insert_answer(text: &str, answer: &str) -> Result<String, String> {
    let page = split(text);
    if page.block != FrontmatterBlock::Present {
        return Err("has no valid frontmatter".to_owned());
    }
    let block_text = format!("{START_MARKER}\n\n{answer}\n{END_MARKER}\n");
    match computed_block::find_answer(page.body) {
        ComputedAnswer::Present(range) => {
            let [start, end] = [range.start, range.end].map(|offset| page.body_offset + offset);
            Ok([&text[..start], &block_text, &text[end..]].concat())
        }
        ComputedAnswer::Unterminated(_) => Err(format!(
            "has a line `{START_MARKER}` without `{END_MARKER}` after it; add the line where the result ends"
        )),
        ComputedAnswer::Absent => {
            if let Some(block) = computed_block::dataview_blocks(page.body).last() {
                let (head, rest) = text.split_at(page.body_offset + block.end);
                let line_end = if head.ends_with('\n') { "" } else { "\n" };
                let gap = if rest.is_empty() { "" } else { "\n" };
                return Ok([head, line_end, "\n", &block_text, gap, rest.strip_prefix('\n').unwrap_or(rest)].concat());
            }
            let head = &text[..page.body_offset];
            let (line_end, gap) =
                (if head.ends_with('\n') { "" } else { "\n" }, if page.body.is_empty() { "" } else { "\n" });
            let rest = page.body.strip_prefix('\n').unwrap_or(page.body);
            Ok([head, line_end, "\n", &block_text, gap, rest].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::insert_answer;

    const HEAD: &str = "---\nsvc-view: true\n---\n";

    #[test]
    fn an_answer_is_placed_behind_frontmatter_or_at_its_markers() {
        let block = "<!-- svc:auto -->\n\n| A |\n\n<!-- /svc-view -->\n";
        for (body, new_text) in [
            ("", format!("\n{block}")),
            ("# Title\n", format!("\n{block}\n# Title\n")),
            ("\n# Title\n", format!("\n{block}\n# Title\n")),
            ("# Title\n<!-- svc:auto -->\nold\n<!-- /svc-view -->\nmore", format!("# Title\n{block}more")),
            ("a\n  <!-- svc:auto -->\r\n<!-- /svc-view -->", format!("a\n{block}")),
            // What looks like the end inside of a row is a cell.
            ("<!-- svc:auto -->\n| <!-- /svc-view --> |\n<!-- /svc-view -->\n", block.to_owned()),
        ] {
            let page = insert_answer(&format!("{HEAD}{body}"), "| A |\n").unwrap();
            assert_eq!(page, format!("{HEAD}{new_text}"), "{body:?}");
            assert_eq!(insert_answer(&page, "| A |\n").unwrap(), page, "the same answer again");
        }
    }

    #[test]
    fn a_block_without_an_end_is_refused_and_not_written_over() {
        let reason = insert_answer(&format!("{HEAD}<!-- svc:auto -->\nby hand\n"), "x\n").unwrap_err();
        assert!(reason.starts_with("has a line `<!-- svc:auto -->` without `<!-- /svc-view -->` after it"), "{reason}");
        assert_eq!(insert_answer("# No head", "x\n").unwrap_err(), "has no valid frontmatter");
    }
}
