//! `svcfs drafts`

use std::io::IsTerminal;
use std::ops::RangeInclusive;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};

use crate::asking::RootTarget;
use crate::failure::CommandFailure;
use crate::root::cli_caller;
use crate::{manual, output};

const EXAMPLES: &str = "\
Examples:
  svcfs drafts list                                     open drafts and how many pages they change
  svcfs drafts diff 4f2a09c1                            numbered changes
  svcfs drafts diff 4f2a09c1 --unified | less           as git shows them
  svcfs drafts merge 4f2a09c1                           merge everything
  svcfs drafts merge 4f2a09c1 --hunks 1,4-6             merge some changes; the rest stays open
  svcfs drafts merge 4f2a09c1 --path notes/a.md --resolve notes/a.md=theirs
  svcfs drafts discard 4f2a09c1";

/// Limit of a range of hunks.
const MAX_RANGE: usize = 100_000;

/// Review drafts: changes of pages that wait for a merge
///
/// A draft is opened over HTTP or by an agent. Its pages are merged one by one with what others
/// changed meanwhile; changes that overlap are listed and nothing is merged.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DraftsArgs {
    #[command(subcommand)]
    what: DraftsCommand,
}

#[derive(Debug, Subcommand)]
enum DraftsCommand {
    List(ListArgs),
    Diff(DiffArgs),
    Merge(MergeArgs),
    Discard(DiscardArgs),
}

/// List the open drafts, oldest first
#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    shared: SharedArgs,
}

/// Show what a draft changes, as numbered hunks
#[derive(Debug, Args)]
struct DiffArgs {
    /// Id of the draft
    id: String,
    /// Print a unified diff, as git does
    #[arg(long)]
    unified: bool,
    /// Print only the pages, with the numbers of added and removed lines
    #[arg(long)]
    stat: bool,
    #[command(flatten)]
    shared: SharedArgs,
}

/// Merge a draft, or a part of it
#[derive(Debug, Args)]
struct MergeArgs {
    /// Id of the draft
    id: String,
    /// Merge only these hunks of `svcfs drafts diff`, such as `1,4-6`; the rest stays open
    #[arg(long, value_name = "N,N-N", value_delimiter = ',', value_parser = hunk_range)]
    hunks: Vec<RangeInclusive<usize>>,
    /// Merge only this page or folder; may be repeated
    #[arg(long = "path", value_name = "PATH")]
    paths: Vec<String>,
    /// Refuse the merge unless the draft has this ETag, which `svcfs drafts diff` prints
    #[arg(long, value_name = "ETAG")]
    etag: Option<String>,
    /// Who wins where both changed the same: `ours` keeps the tree, `theirs` takes the draft; may
    /// be repeated
    #[arg(long, value_name = "PATH=SIDE", value_parser = resolution)]
    resolve: Vec<(String, Side)>,
    /// Who merges [default: the login name]
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    #[command(flatten)]
    shared: SharedArgs,
}

/// Discard a draft with its changes
#[derive(Debug, Args)]
struct DiscardArgs {
    /// Id of the draft
    id: String,
    #[command(flatten)]
    shared: SharedArgs,
}

#[derive(Debug, Args)]
struct SharedArgs {
    #[command(flatten)]
    target: RootTarget,
    /// Print the exact output as JSON, also of a refused merge
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Side {
    Ours,
    Theirs,
}

fn resolution(text: &str) -> Result<(String, Side), String> {
    let (path, side) = text.rsplit_once('=').ok_or("expected PATH=ours or PATH=theirs")?;
    Ok((path.to_owned(), Side::from_str(side, false).map_err(|_| "the side must be `ours` or `theirs`")?))
}

/// A number, or the first and the last one.
fn hunk_range(text: &str) -> Result<RangeInclusive<usize>, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if first <= last && last - first < MAX_RANGE => Ok(first..=last),
        _ => Err(format!("expected a number or a range such as `4-6`, of {MAX_RANGE} hunks at most")),
    }
}

impl DraftsArgs {
    /// Runs the operation and prints its output.
    ///
    /// # Errors
    /// The refusal of the operation.
    pub fn run(self) -> Result<(), CommandFailure> {
        match self.what {
            DraftsCommand::List(ListArgs { shared }) => shared.run("draft_list", json!({}), None, list_text),
            DraftsCommand::Diff(DiffArgs { id, unified, stat, shared }) => {
                let format = if unified { "unified" } else { "hunks" };
                shared.run("draft_diff", json!({ "id": id, "format": format, "stat": stat }), None, diff_text)
            }
            DraftsCommand::Merge(MergeArgs { id, hunks, paths, etag, resolve, actor, shared }) => {
                let side = |side| match side {
                    Side::Ours => "ours",
                    Side::Theirs => "theirs",
                };
                let resolve = resolve.into_iter().map(|(path, winner)| (path, json!(side(winner))));
                let mut arguments = json!({ "id": id, "etag": etag, "resolve": resolve.collect::<Map<_, _>>() });
                if !hunks.is_empty() {
                    arguments["hunks"] = json!(hunks.into_iter().flatten().collect::<Vec<_>>());
                }
                if !paths.is_empty() {
                    arguments["paths"] = json!(paths);
                }
                shared.run("draft_merge", arguments, actor.as_deref(), merge_text)
            }
            DraftsCommand::Discard(DiscardArgs { id, shared }) => {
                shared.run("draft_discard", json!({ "id": id }), None, |answer| {
                    format!("discarded {}\n", text(answer, "id"))
                })
            }
        }
    }
}

impl SharedArgs {
    fn run(
        self,
        operation: &str,
        arguments: Value,
        actor: Option<&str>,
        to_text: impl Fn(&Value) -> String,
    ) -> Result<(), CommandFailure> {
        let Self { target, json } = self;
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let given = arguments.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let outcome = target.run_operation(manual::find(operation)?, given, cli_caller(actor), None);
        if json && let Some(refusal) = outcome.as_ref().err().and_then(CommandFailure::to_json) {
            output::json(&refusal)?;
        }
        let answer = outcome?;
        if json {
            return output::json(&answer);
        }
        let shown = to_text(&answer);
        match operation {
            _ if !shown.is_empty() => {}
            "draft_list" => output::complain("no open drafts"),
            "draft_merge" => output::complain("nothing to merge; the draft is closed"),
            _ => output::complain("no changes"),
        }
        if std::io::stdout().is_terminal() { output::say(&visible(&shown)) } else { output::say(&shown) }
    }
}

/// Lines of pages for a terminal, which control characters in them could change unseen.
fn visible(lines: &str) -> String {
    lines.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c }).collect()
}

fn text(value: &Value, name: &str) -> String {
    output::one_line(value[name].as_str().unwrap_or_default())
}

fn list_text(drafts: &Value) -> String {
    let line = |draft: &Value| {
        let (id, actor, changed) =
            (text(draft, "id"), text(draft, "actor"), output::minute(&text(draft, "changed_at")));
        let count = draft["ahead"].as_u64().unwrap_or_default();
        format!("{id}\t{actor}\t{changed}\t{count} page{}\n", if count == 1 { "" } else { "s" })
    };
    drafts.as_array().into_iter().flatten().map(line).collect()
}

fn diff_text(answer: &Value) -> String {
    if let Some(diff) = answer["diff"].as_str() {
        return diff.to_owned();
    }
    let hunk = |hunk: &Value| {
        let (path, author) = (text(hunk, "path"), text(hunk, "author"));
        format!("hunk {}: {path} ({author})\n{}\n", hunk["id"], hunk["text"].as_str().unwrap_or_default())
    };
    let page = |page: &Value| format!("{}\t+{} -{}\n", text(page, "path"), page["added"], page["removed"]);
    let hunks = answer["hunks"].as_array().into_iter().flatten().map(hunk);
    let pages = answer["stat"].as_array().into_iter().flatten().map(page);
    format!("{}etag {}\n", hunks.chain(pages).collect::<String>(), text(answer, "etag"))
}

fn merge_text(answer: &Value) -> String {
    let paths =
        |name: &str| answer[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    let line = |word: &str, path: &str| format!("{word} {}\n", output::one_line(path));
    let merged = paths("paths").into_iter().map(|path| line("merged", path));
    let remaining = paths("remaining").into_iter().map(|path| line("still open", path));
    merged.chain(remaining).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_numbers_and_ranges() {
        assert_eq!((hunk_range("3"), hunk_range("4-6"), hunk_range(" 4 - 4 ")), (Ok(3..=3), Ok(4..=6), Ok(4..=4)));
        for text in ["", "-", "3-", "-3", "6-4", "x", "1-2-3", "0-18446744073709551615", "1..3"] {
            assert!(hunk_range(text).is_err(), "{text}");
        }
    }
}
