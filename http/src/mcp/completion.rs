//! Completion of arguments of prompts and of paths in URIs of resources.
//!
//! Invariant: every candidate is something that the caller may read: paths, titles, tags and
//! authors of the folder of its key. Candidates come from what is in memory, so that a completion
//! takes milliseconds.

use std::collections::BTreeSet;
use std::sync::Arc;

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, Reference};
use serde_json::{Map, Value, json};
use svcfs_base::{Actor, Caller, Fault, Protocol, Timestamp, TreePath};
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
    let mut ranking = Ranking::new(value);
    let ranking = match name {
        "path" | "prefix" | "topic" | "tag" => {
            let (name, wants_folders) = (name.to_owned(), is_tree || name == "prefix");
            let read = move || {
                offer_indexed(&mut ranking, (&space, &identity), (&name, wants_folders))?;
                Ok(ranking)
            };
            handler.app.blocking(Lane::Quick, read).await
        }
        "actor" => {
            let read = move || {
                actors(&space, &identity)?.iter().for_each(|actor| ranking.offer(actor));
                Ok(ranking)
            };
            handler.app.blocking(Lane::Quick, read).await
        }
        _ => {
            let arguments = (context("path"), context("workflow"));
            let candidates = listed_candidates(handler, (identity, space), (name, arguments)).await;
            candidates.map(|candidates| {
                candidates.iter().for_each(|candidate| ranking.offer(candidate));
                ranking
            })
        }
    };
    // A completion is a suggestion: where there is no answer there is none to suggest.
    let ranking = ranking.unwrap_or_else(|fault| {
        tracing::debug!(error = ?fault, argument = name, "cannot complete");
        Ranking::new("")
    });
    let (values, total) = ranking.finish();
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

/// Offers paths, folders, titles or tags from the graph of the pages, which is in memory. The index
/// has no hidden pages.
fn offer_indexed(
    ranking: &mut Ranking,
    (space, identity): (&Space, &CallerIdentity),
    (name, wants_folders): (&str, bool),
) -> Result<(), Fault> {
    let permissions = &identity.permissions;
    let graph = space.index.graph()?;
    let nodes = permissions.folder.as_ref().map_or_else(|| graph.nodes(), |folder| graph.nodes_below(folder));
    let pages = || nodes.clone().map(|node| graph.page(node)).filter(|page| permissions.covers(&page.path));
    let tags = || {
        let tags: BTreeSet<&str> = pages().flat_map(|page| page.tags.iter().map(|tag| &**tag)).collect();
        tags
    };
    match name {
        "tag" => tags().into_iter().for_each(|tag| ranking.offer(tag)),
        "topic" => {
            let titles: BTreeSet<&str> = pages().map(|page| page.title.as_str()).collect();
            let topics = titles.into_iter().chain(tags()).filter(|topic| !topic.is_empty());
            topics.for_each(|topic| ranking.offer(topic));
        }
        _ if wants_folders => {
            let mut folders = BTreeSet::new();
            for page in pages() {
                let mut path = page.path.as_str();
                while let Some((folder, _)) = path.rsplit_once('/') {
                    path = folder;
                    if !folders.insert(folder) {
                        break;
                    }
                }
            }
            let is_covered = |folder: &&str| TreePath::parse(folder).is_ok_and(|path| permissions.covers(&path));
            folders.into_iter().filter(is_covered).for_each(|folder| ranking.offer(folder));
        }
        _ => pages().for_each(|page| ranking.offer(page.path.as_str())),
    }
    Ok(())
}

/// The authors of changes that the caller may see.
fn actors(space: &Space, identity: &CallerIdentity) -> Result<Vec<String>, Fault> {
    let actors: BTreeSet<Actor> = match identity.permissions.folder.as_ref() {
        None => space.vfs.actors()?.into_iter().collect(),
        folder => {
            let activity = space.vfs.activity(Timestamp::UNIX_EPOCH, folder)?;
            activity.days.into_iter().map(|day| day.actor).collect()
        }
    };
    Ok(actors.into_iter().map(|actor| actor.as_str().to_owned()).collect())
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

/// The best candidates, each kind in the order in which they were offered.
struct Ranking {
    /// The value in lower case.
    wanted: Vec<char>,
    /// Those that begin with the value.
    prefixed: Vec<String>,
    /// Those with a word or path component that begins with the value.
    with_word: Vec<String>,
    /// Those that contain the characters of the value in this order.
    scattered: Vec<String>,
    /// The number of all that fit.
    total: usize,
}

impl Ranking {
    fn new(value: &str) -> Self {
        let wanted = value.chars().flat_map(char::to_lowercase).collect();
        Self { wanted, prefixed: Vec::new(), with_word: Vec::new(), scattered: Vec::new(), total: 0 }
    }

    fn offer(&mut self, candidate: &str) {
        let list = if begins_with(candidate, &self.wanted) {
            &mut self.prefixed
        } else if !is_subsequence(candidate, &self.wanted) {
            return;
        } else if words(candidate).any(|word| begins_with(word, &self.wanted)) {
            &mut self.with_word
        } else {
            &mut self.scattered
        };
        self.total += 1;
        if list.len() < CompletionInfo::MAX_VALUES {
            list.push(candidate.to_owned());
        }
    }

    /// The best candidates and the number of all that fit.
    fn finish(self) -> (Vec<String>, usize) {
        let best = self.prefixed.into_iter().chain(self.with_word).chain(self.scattered);
        (best.take(CompletionInfo::MAX_VALUES).collect(), self.total)
    }
}

fn begins_with(text: &str, wanted: &[char]) -> bool {
    let mut text = text.chars().flat_map(char::to_lowercase);
    wanted.iter().all(|wanted| text.next() == Some(*wanted))
}

/// Most names are ASCII, for which lower case costs a tenth.
fn is_subsequence(text: &str, wanted: &[char]) -> bool {
    match text.is_ascii() {
        true => contains_in_order(text.bytes().map(|byte| char::from(byte.to_ascii_lowercase())), wanted),
        false => contains_in_order(text.chars().flat_map(char::to_lowercase), wanted),
    }
}

fn contains_in_order(text: impl Iterator<Item = char>, wanted: &[char]) -> bool {
    let mut rest = wanted.iter();
    let mut next = rest.next();
    for character in text {
        if next == Some(&character) {
            next = rest.next();
        }
        if next.is_none() {
            break;
        }
    }
    next.is_none()
}

/// The words of a text but the first, which a prefix covers.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).skip(1)
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
            let mut ranking = Ranking::new(value);
            candidates().iter().for_each(|candidate| ranking.offer(candidate));
            assert_eq!(ranking.finish().0, expected, "{value}");
        }
        let mut ranking = Ranking::new("page");
        (0..1000).for_each(|n| ranking.offer(&format!("page-{n}.md")));
        let (values, total) = ranking.finish();
        assert_eq!((values.len(), total), (CompletionInfo::MAX_VALUES, 1000));
    }
}
