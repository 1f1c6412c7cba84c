//! Computed pages: pages that hold the answer of their query (gaps.md 2.1, computed view pages; contract 4.6, POST /view/refresh).
//!
//! One rule: a page is written only when the answer differs from what it holds, so that each version of it is another answer. The
//! server writes it by the ordinary path, as itself or in the name of whoever asked, and always through [`Door::Internal`]: that is how
//! the [`Refresher`](super::Refresher) knows what set it off from what it wrote.

use serde::Serialize;
use serde_json::{Map, Value};
use svcfs_base::{Actor, Caller, Change, ChangeSet, Fault, Kind, Precondition, Protocol, Timestamp, TreePath};
use svcfs_config::DataviewSettings;
use svcfs_index::{DqlQuery, Index};
use svcfs_text::computed_block::{self, ComputedAnswer, END_MARKER, START_MARKER};
use svcfs_text::frontmatter::{FrontmatterBlock, split};

use crate::kernel::Space;
use crate::lint;
use crate::query::{MarkdownStyle, QueryResult, RenderTarget, RowWindow, render_markdown, run_query_below};

/// The key that makes a page a computed one when it is `true`.
pub(super) const FLAG: &str = "svc-view";
/// The key of its query.
pub(super) const QUERY: &str = "svc-query";
/// The key that says in which form the answer is written.
const FORM: &str = "svc-format";

/// How often a page is read again because somebody wrote it meanwhile.
const ATTEMPTS: usize = 4;

/// What the frontmatter of a computed page asks for.
#[derive(Debug)]
pub(super) struct ComputedQuery {
    pub(super) query: DqlQuery,
    form: ComputedFormat,
}

/// In which form an answer is written.
#[derive(Debug, Clone, Copy)]
enum ComputedFormat {
    Markdown(MarkdownStyle),
    Json,
}

/// What became of a computed page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RefreshOutcome {
    /// The answer was another one, and was written.
    Regenerated,
    /// The page holds the answer already.
    Unchanged,
}

/// Whether a frontmatter makes its page a computed one.
pub(super) fn is_computed(frontmatter: &Map<String, Value>) -> bool {
    frontmatter.get(FLAG) == Some(&Value::Bool(true))
}

impl ComputedQuery {
    /// Reads the frontmatter of a page.
    ///
    /// # Errors
    /// `Invalid` when it is no computed page, or asks for nothing that can be answered.
    pub(super) fn read(path: &TreePath, frontmatter: &Map<String, Value>) -> Result<Self, Fault> {
        if !is_computed(frontmatter) {
            let why = format!("`{path}` is no computed page; its frontmatter needs `{FLAG}: true` and `{QUERY}`");
            return Err(Fault::invalid("path", why));
        }
        let text = frontmatter.get(QUERY).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
        let text = text.ok_or_else(|| {
            let why = format!("`{path}` has no `{QUERY}`; give it one such as `TABLE status FROM \"tasks/\"`");
            Fault::invalid("path", why)
        })?;
        let query = DqlQuery::parse(text).map_err(|error| of_page(path, error.into()))?;
        let form = match frontmatter.get(FORM) {
            None | Some(Value::Null) => ComputedFormat::Markdown(MarkdownStyle::from_mode(query.mode())),
            Some(named) => form(named.as_str().unwrap_or_default()).ok_or_else(|| {
                let why = format!(
                    "`{FORM}` of `{path}` is {named}; `table`, `list`, `count`, `distinct`, `task` and `json` are known"
                );
                Fault::invalid("path", why)
            })?,
        };
        Ok(Self { query, form })
    }

    /// The answer as the lines between [`BEGIN`] and [`END`], as a formatted page has them.
    fn answered(&self, index: &Index, asking: (&DataviewSettings, Timestamp)) -> Result<String, Fault> {
        let (settings, now) = asking;
        // For whom the page may be answered was looked at when its query was written (`gate`).
        let answer = run_query_below(index, &self.query, (settings, now, None), RowWindow::default())?;
        let text = match self.form {
            ComputedFormat::Markdown(style) => render_markdown(&answer, style, RenderTarget::Page),
            ComputedFormat::Json => {
                let text = serde_json::to_string_pretty(&QueryResult::new(answer, None)).map_err(Fault::internal)?;
                format!("```json\n{text}\n```\n")
            }
        };
        // Whoever writes the page through an operation has it formatted: that is then no other answer.
        Ok(lint::format_text(&text).into_owned())
    }
}

fn form(name: &str) -> Option<ComputedFormat> {
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

/// A refusal of a query, as one of the page that asks it.
fn of_page(path: &TreePath, fault: Fault) -> Fault {
    if fault.kind() == Kind::Invalid {
        Fault::invalid("path", format_args!("`{QUERY}` of `{path}`: {}", fault.message()))
    } else {
        fault
    }
}

/// Writes the present answer of a computed page into it, if it holds another one. Without a name svcfs itself is the author.
///
/// # Errors
/// `Invalid` when there is no such page, when it is none that is computed, or when its query cannot be answered; `Conflict` when somebody
/// writes it again and again; those of the write path.
pub(super) fn refresh(
    space: &Space,
    author: Option<&Actor>,
    asking: (&DataviewSettings, Timestamp),
    path: &TreePath,
) -> Result<RefreshOutcome, Fault> {
    let caller = Caller { actor: author.cloned(), ..Caller::new(Protocol::Internal) };
    let mut outcome = attempt(space, &caller, asking, path);
    for _ in 1..ATTEMPTS {
        match &outcome {
            Err(fault) if matches!(fault.kind(), Kind::Conflict | Kind::PreconditionFailed) => {
                outcome = attempt(space, &caller, asking, path);
            }
            Ok(_) | Err(_) => break,
        }
    }
    outcome
}

/// Says in a computed page why its query cannot be read, where its author looks; what else is wrong with the page is left alone.
///
/// # Errors
/// Those of reading and writing the page.
pub(super) fn tell_unreadable(space: &Space, path: &TreePath) -> Result<(), Fault> {
    let caller = Caller::new(Protocol::Internal);
    let file = space.vfs.read(caller.protocol, path)?;
    let Ok(text) = std::str::from_utf8(&file.content) else { return Ok(()) };
    let frontmatter = svcfs_text::frontmatter::parse(text).map;
    let Err(fault) = ComputedQuery::read(path, &frontmatter) else { return Ok(()) };
    if !is_computed(&frontmatter) || fault.kind() != Kind::Invalid {
        return Ok(());
    }
    // In a block of code nothing of the query is a link.
    let why = fault.message().replace("```", "~~~");
    let told = format!("> This page is not computed:\n\n```text\n{why}\n```\n");
    let Ok(written) = with_answer(text, &lint::format_text(&told)) else { return Ok(()) };
    if written != text {
        let change = Change::put(path.clone(), written).with_precondition(Precondition::OneOf(vec![file.etag]));
        let message = format!("{}: the query of {path} cannot be read", caller.actor());
        space.vfs.apply(&caller, ChangeSet::from(change).with_message(message))?;
    }
    Ok(())
}

fn attempt(
    space: &Space,
    caller: &Caller,
    asking: (&DataviewSettings, Timestamp),
    path: &TreePath,
) -> Result<RefreshOutcome, Fault> {
    let file = space.vfs.read(caller.protocol, path).map_err(|fault| {
        let is_missing = matches!(fault.kind(), Kind::NotFound | Kind::IsDirectory | Kind::NotDirectory);
        if is_missing { Fault::invalid("path", format_args!("there is no page at `{path}`")) } else { fault }
    })?;
    let no_text = |_| Fault::invalid("path", format_args!("`{path}` is no text"));
    let text = std::str::from_utf8(&file.content).map_err(no_text)?;
    let asked = ComputedQuery::read(path, &svcfs_text::frontmatter::parse(text).map)?;
    let answer = asked.answered(&space.index, asking).map_err(|fault| of_page(path, fault))?;
    let written = with_answer(text, &answer).map_err(|why| Fault::invalid("path", format_args!("`{path}` {why}")))?;
    if written == text {
        return Ok(RefreshOutcome::Unchanged);
    }
    let change = Change::put(path.clone(), written).with_precondition(Precondition::OneOf(vec![file.etag]));
    let message = format!("{}: refresh {path}", caller.actor());
    space.vfs.apply(caller, ChangeSet::from(change).with_message(message))?;
    Ok(RefreshOutcome::Regenerated)
}

/// The page with this answer between its marker lines; without such lines, behind the frontmatter.
fn with_answer(text: &str, answer: &str) -> Result<String, String> {
    let page = split(text);
    if page.block != FrontmatterBlock::Present {
        return Err("has no valid frontmatter".to_owned());
    }
    let block = format!("{START_MARKER}\n\n{answer}\n{END_MARKER}\n");
    match computed_block::find_answer(page.body) {
        ComputedAnswer::Present(range) => {
            let [begin, end] = [range.start, range.end].map(|offset| page.body_offset + offset);
            Ok([&text[..begin], &block, &text[end..]].concat())
        }
        ComputedAnswer::Unterminated(_) => Err(format!(
            "has a line `{START_MARKER}` and no line `{END_MARKER}` behind it; what stands between is replaced"
        )),
        ComputedAnswer::Absent => {
            let head = &text[..page.body_offset];
            let (ending, gap) =
                (if head.ends_with('\n') { "" } else { "\n" }, if page.body.is_empty() { "" } else { "\n" });
            let rest = page.body.strip_prefix('\n').unwrap_or(page.body);
            Ok([head, ending, "\n", &block, gap, rest].concat())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::with_answer;

    const HEAD: &str = "---\nsvc-view: true\n---\n";

    #[test]
    fn an_answer_stands_behind_the_frontmatter_or_where_its_markers_are() {
        let block = "<!-- svc:auto -->\n\n| A |\n\n<!-- /svc-view -->\n";
        for (body, written) in [
            ("", format!("\n{block}")),
            ("# Title\n", format!("\n{block}\n# Title\n")),
            ("\n# Title\n", format!("\n{block}\n# Title\n")),
            ("# Title\n<!-- svc:auto -->\nold\n<!-- /svc-view -->\nmore", format!("# Title\n{block}more")),
            ("a\n  <!-- svc:auto -->\r\n<!-- /svc-view -->", format!("a\n{block}")),
            // What looks like the end inside of a row is a cell.
            ("<!-- svc:auto -->\n| <!-- /svc-view --> |\n<!-- /svc-view -->\n", block.to_owned()),
        ] {
            let page = with_answer(&format!("{HEAD}{body}"), "| A |\n").unwrap();
            assert_eq!(page, format!("{HEAD}{written}"), "{body:?}");
            assert_eq!(with_answer(&page, "| A |\n").unwrap(), page, "the same answer again");
        }
    }

    #[test]
    fn a_block_without_an_end_is_refused_and_not_written_over() {
        let why = with_answer(&format!("{HEAD}<!-- svc:auto -->\nby hand\n"), "x\n").unwrap_err();
        assert!(why.starts_with("has a line `<!-- svc:auto -->` and no line `<!-- /svc-view -->` behind it"), "{why}");
        assert_eq!(with_answer("# No head", "x\n").unwrap_err(), "has no valid frontmatter");
    }
}
