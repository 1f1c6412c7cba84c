//! Completion of arguments of prompts and of paths in URIs of resources.
//!
//! Invariant: every candidate is something that the caller may read: paths, titles, tags and authors
//! of the folder of its key. Candidates come from what is in memory, so that a completion takes
//! milliseconds.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, Reference};
use serde_json::{Map, Value, json};
use svcfs_base::{Caller, Fault, Protocol, Timestamp, TreePath};
use svcfs_index::GraphPage;
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::Space;
use svcfs_work::Lane;

use super::McpHandler;
use super::{prompts, resources};

/// Longest value that is completed, in bytes.
const MAX_VALUE_BYTES: usize = 500;

/// The arguments that can be completed.
const ARGUMENTS: [&str; 11] =
    ["actor", "draft", "draft_id", "heading", "path", "prefix", "state", "tag", "topic", "view", "workflow"];

/// Completes an argument. Errors: for an unknown prompt, template or argument.
pub(super) async fn complete(
    handler: &McpHandler,
    (identity, space): (CallerIdentity, Arc<Space>),
    request: CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let invalid = |message: String| ErrorData::invalid_params(message, None);
    let is_tree = check_reference(&request.r#ref).map_err(invalid)?;
    let (name, value) = (request.argument.name.as_str(), request.argument.value.as_str());
    if !ARGUMENTS.contains(&name) {
        let name = svcfs_base::escape_unprintable(name);
        return Err(invalid(format!("`{name}` cannot be completed; known arguments: {}", ARGUMENTS.join(", "))));
    }
    if value.len() > MAX_VALUE_BYTES {
        return Ok(CompleteResult::new(CompletionInfo::default()));
    }
    let context = |name: &str| request.context.as_ref().and_then(|context| context.get_argument(name)).cloned();
    let candidates = match name {
        "path" | "prefix" | "topic" | "tag" => {
            let (name, wants_folders) = (name.to_owned(), is_tree || name == "prefix");
            let read = move || indexed_candidates(&space, &identity, (&name, wants_folders));
            handler.app.blocking(Lane::Quick, read).await
        }
        "actor" => {
            let read = move || actors(&space, &identity);
            handler.app.blocking(Lane::Quick, read).await
        }
        _ => {
            let arguments = (context("path"), context("workflow"));
            listed_candidates(handler, (identity, space), (name, arguments)).await
        }
    };
    // A completion is a suggestion: where there is no answer there is none to suggest.
    let candidates = candidates.unwrap_or_else(|fault| {
        tracing::debug!(error = ?fault, argument = name, "cannot complete");
        Vec::new()
    });
    let (values, total) = rank(candidates, value);
    let has_more = total > values.len();
    CompletionInfo::with_pagination(values, u32::try_from(total).ok(), has_more)
        .map(CompleteResult::new)
        .map_err(|message| ErrorData::internal_error(message, None))
}

/// Checks that a prompt or template exists; whether it is the template of directories.
fn check_reference(reference: &Reference) -> Result<bool, String> {
    match reference {
        Reference::Prompt(prompt) if prompts::exists(&prompt.name) => Ok(false),
        Reference::Prompt(prompt) => Err(prompts::unknown(&prompt.name)),
        Reference::Resource(template) => {
            let templates = resources::resource_templates();
            let uri = template.uri.as_str();
            let is_known = templates.iter().any(|known| known.uri_template == uri) || is_readable(uri);
            let names: Vec<&str> = templates.iter().map(|template| template.uri_template.as_str()).collect();
            let uri = svcfs_base::escape_unprintable(uri);
            let unknown = || format!("there is no resource template `{uri}`; known are {}", names.join(" and "));
            is_known.then(|| template.uri.starts_with(resources::TREE)).ok_or_else(unknown)
        }
        // The enumeration is open for kinds that later revisions add.
        _ => Err("only prompts and resource templates can be completed".to_owned()),
    }
}

/// Whether a URI is one of a resource: some clients send the URI instead of its template.
fn is_readable(uri: &str) -> bool {
    uri.starts_with(resources::FILE) || uri.starts_with(resources::TREE)
}

/// Paths, folders, titles or tags from the graph of the pages, which is in memory.
fn indexed_candidates(
    space: &Space,
    identity: &CallerIdentity,
    (name, wants_folders): (&str, bool),
) -> Result<Vec<String>, Fault> {
    let permissions = &identity.permissions;
    let graph = space.index.graph()?;
    let folder = permissions.folder.clone().unwrap_or_else(TreePath::root);
    let hidden_files = space.vfs.hidden_files();
    let pages = || {
        let pages = graph.nodes_below(&folder).map(|node| graph.page(node));
        pages.filter(|page| permissions.covers(&page.path) && !hidden_files.hides(&page.path))
    };
    let tags = |page: &GraphPage| page.tags.iter().map(|tag| tag.to_string()).collect::<Vec<_>>();
    Ok(match name {
        "tag" => pages().flat_map(tags).collect::<BTreeSet<_>>().into_iter().collect(),
        "topic" => {
            let titles: BTreeSet<String> = pages().map(|page| page.title.clone()).collect();
            let tags: BTreeSet<String> = pages().flat_map(tags).collect();
            titles.into_iter().chain(tags).filter(|topic| !topic.is_empty()).collect()
        }
        _ if wants_folders => {
            let mut folders = BTreeSet::new();
            for page in pages() {
                let mut parent = page.path.parent();
                while let Some(path) = parent.filter(|path| !path.is_root() && permissions.covers(path)) {
                    parent = path.parent();
                    if !folders.insert(path.to_string()) {
                        break;
                    }
                }
            }
            folders.into_iter().collect()
        }
        _ => pages().map(|page| page.path.to_string()).collect(),
    })
}

/// The authors of changes that the caller may see.
fn actors(space: &Space, identity: &CallerIdentity) -> Result<Vec<String>, Fault> {
    let activity = space.vfs.activity(Timestamp::UNIX_EPOCH, identity.permissions.folder.as_ref())?;
    let names: BTreeSet<String> = activity.days.into_iter().map(|day| day.actor.as_str().to_owned()).collect();
    Ok(names.into_iter().collect())
}

/// Names from the answer of an operation, with its permissions.
async fn listed_candidates(
    handler: &McpHandler,
    caller: (CallerIdentity, Arc<Space>),
    (name, (path, workflow)): (&str, (Option<String>, Option<String>)),
) -> Result<Vec<String>, Fault> {
    let run = |operation: &'static str, arguments: Value| {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        handler.run_operation_for(caller.clone(), operation, arguments)
    };
    let named = |list: &Value, member: &str| -> Vec<String> {
        let entries = list.as_array().into_iter().flatten();
        entries.filter_map(|entry| Some(entry.get(member)?.as_str()?.to_owned())).collect()
    };
    match name {
        "heading" => match path {
            Some(path) => Ok(named(&run("toc", json!({ "path": path })).await?, "text")),
            None => Ok(Vec::new()),
        },
        "draft" | "draft_id" => Ok(named(&run("draft_list", json!({})).await?, "id")),
        "view" => Ok(named(&run("views_list", json!({})).await?["views"], "name")),
        "workflow" => Ok(named(&run("workflow_list", json!({})).await?["workflows"], "name")),
        _ => {
            let answer = run("workflow_list", json!({})).await?;
            let workflows = answer["workflows"].as_array().into_iter().flatten();
            let chosen = workflows.filter(|it| workflow.as_deref().is_none_or(|name| it["name"] == name));
            let states: BTreeSet<String> = chosen.flat_map(|workflow| named(&workflow["states"], "name")).collect();
            Ok(states.into_iter().collect())
        }
    }
}

impl McpHandler {
    /// Runs an operation for a caller that may run it; the output as JSON.
    pub(super) async fn run_operation_for(
        &self,
        (identity, space): (CallerIdentity, Arc<Space>),
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, Fault> {
        let mut entries = self.app.catalogue.iter().flat_map(|area| area.operations);
        let entry = entries.find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| Fault::internal(format!("there is no operation `{name}`")))?;
        entry.check_permissions(&identity.permissions)?;
        let caller = identity.apply_to(Caller::new(Protocol::Mcp));
        Ok(self.app.run_operation((entry, entry.call), space, caller, arguments.into()).await?.0)
    }
}

/// How well a candidate fits; the smallest is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// It begins with the value.
    Prefix,
    /// A word or path component in it begins with the value.
    Word,
    /// It contains the characters of the value in this order.
    Subsequence,
}

/// The best candidates, and the number of all that fit.
fn rank(candidates: Vec<String>, value: &str) -> (Vec<String>, usize) {
    let wanted: Vec<char> = value.chars().flat_map(char::to_lowercase).collect();
    let fitting = candidates.into_iter().filter_map(|candidate| Some((fit(&candidate, &wanted)?, candidate)));
    let mut fitting: Vec<(Fit, String)> = fitting.collect();
    let total = fitting.len();
    // Stable: candidates that fit equally well keep their order.
    fitting.sort_by_key(|(fit, _)| *fit);
    (fitting.into_iter().map(|(_, candidate)| candidate).take(CompletionInfo::MAX_VALUES).collect(), total)
}

fn fit(candidate: &str, wanted: &[char]) -> Option<Fit> {
    let lower = || candidate.chars().flat_map(char::to_lowercase);
    let begins = |text: &mut dyn Iterator<Item = char>| wanted.iter().all(|wanted| text.next() == Some(*wanted));
    if begins(&mut lower()) {
        return Some(Fit::Prefix);
    }
    let mut rest = wanted.iter().peekable();
    for character in lower() {
        let _is_next = rest.next_if_eq(&&character);
    }
    if rest.peek().is_some() {
        return None;
    }
    let mut words = candidate.split(|character: char| !character.is_alphanumeric()).skip(1);
    let is_word = words.any(|word| begins(&mut word.chars().flat_map(char::to_lowercase)));
    Some(if is_word { Fit::Word } else { Fit::Subsequence })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_ranked_by_prefix_word_and_subsequence() {
        let candidates =
            || ["notes/today.md", "archive/notes.md", "index.md", "News.md", "ÄRGER.md"].map(str::to_owned);
        for (value, expected) in [
            ("", &["notes/today.md", "archive/notes.md", "index.md", "News.md", "ÄRGER.md"][..]),
            ("no", &["notes/today.md", "archive/notes.md"]),
            ("NE", &["News.md", "notes/today.md", "archive/notes.md", "index.md"]),
            ("idx", &["index.md"]),
            ("är", &["ÄRGER.md"]),
            ("zz", &[]),
        ] {
            assert_eq!(rank(candidates().to_vec(), value).0, expected, "{value}");
        }
        let many: Vec<String> = (0..1000).map(|n| format!("page-{n}.md")).collect();
        let (values, total) = rank(many, "page");
        assert_eq!((values.len(), total), (CompletionInfo::MAX_VALUES, 1000));
    }
}
