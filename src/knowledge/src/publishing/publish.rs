//! Publishing: `published` and `published_at` in the frontmatter of a page.

use percent_encoding::utf8_percent_encode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use svcfs_base::{Change, ChangeSet, Fault, Precondition, TreePath};
use svcfs_index::{AnswerLimit, MetaCondition, MetaQuery};
use svcfs_text::frontmatter;

use super::rendering::{Audience, is_hidden, read_admitted};
use crate::files;
use crate::kernel::{OperationContext, require_path};

/// A published page.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PublishedEntry {
    /// Path of the page
    pub path: TreePath,
    /// Time of its first publication, if it is recorded
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_at: Option<String>,
    /// Its public address on this server
    pub public_url: String,
}

/// The state of a page after a request.
pub(super) struct PublishState {
    pub published_at: Option<String>,
    pub is_changed: bool,
    change: Option<Change>,
}

/// Where the published pages of a space begin.
pub(super) fn public_prefix(cx: &OperationContext<'_>) -> String {
    if cx.spaces().first().name == cx.space.name {
        return "/p".to_owned();
    }
    format!("/p/@{}", utf8_percent_encode(&cx.space.name, files::SEGMENT))
}

/// The public address of a page on this server, without host.
pub fn public_path(cx: &OperationContext<'_>, path: &TreePath) -> String {
    files::url_below(public_prefix(cx), path, None)
}

/// The change that publishes or withdraws a page.
pub(super) fn plan(cx: &OperationContext<'_>, path: &TreePath, publish: bool) -> Result<PublishState, Fault> {
    require_path("path", path)?;
    if !path.is_page() || is_hidden(cx, path) {
        let reason = format!("`{path}` cannot be published; only `.md` pages that are not hidden can");
        return Err(Fault::invalid("path", reason));
    }
    let file = files::read_file(cx, path)?;
    let not_text = |_| Fault::invalid("path", format_args!("`{path}` is not UTF-8 text"));
    let text = std::str::from_utf8(&file.content).map_err(not_text)?;
    let parsed = frontmatter::parse(text);
    let to_fault = |reason: String| Fault::invalid("path", format_args!("the frontmatter of `{path}`: {reason}"));
    if let Some(error) = parsed.error {
        return Err(to_fault(error.to_string()));
    }
    let published_at = parsed.text("published_at");
    let is_published = parsed.map.get("published") == Some(&Value::Bool(true));
    if is_published == publish && (!publish || published_at.is_some()) {
        return Ok(PublishState { published_at, is_changed: false, change: None });
    }
    let set = |text: &str, key, value: Value| {
        frontmatter::set(text, key, &value).map_err(|error| to_fault(error.to_string()))
    };
    let mut edited = set(text, "published", publish.into())?;
    let published_at = match published_at {
        None if publish => {
            let now = cx.now().to_string();
            edited = set(&edited, "published_at", now.as_str().into())?;
            Some(now)
        }
        known => known,
    };
    let change = Change::put(path.clone(), edited).with_precondition(Precondition::OneOf(vec![file.etag]));
    Ok(PublishState { published_at, is_changed: true, change: Some(change) })
}

/// Writes planned changes as one commit.
pub(super) fn apply(cx: &OperationContext<'_>, states: &mut [PublishState], verb: &str) -> Result<(), Fault> {
    let changes: Vec<Change> = states.iter_mut().filter_map(|state| state.change.take()).collect();
    let message = match changes.as_slice() {
        [] => return Ok(()),
        [change] => format!("{}: {verb} {}", cx.caller.actor(), change.path()),
        many => format!("{}: {verb} {} pages", cx.caller.actor(), many.len()),
    };
    cx.apply(ChangeSet::new(changes).with_message(message))?;
    Ok(())
}

/// The published pages that the caller may read, the latest first.
///
/// # Errors
/// Those of the index.
pub fn list_published(cx: &OperationContext<'_>, max: usize) -> Result<Vec<PublishedEntry>, Fault> {
    let index = cx.index();
    let mut pages = Vec::new();
    loop {
        let query = MetaQuery {
            conditions: vec![MetaCondition::parse("$.published=true")?],
            folder: cx.caller.permissions.folder.clone(),
            limit: AnswerLimit::default(),
            offset: u32::try_from(pages.len()).unwrap_or(u32::MAX),
            ..MetaQuery::default()
        };
        let rows = index.query_metadata(&query)?;
        let is_last = rows.is_empty();
        pages.extend(rows);
        if is_last || pages.len() >= max {
            break;
        }
    }
    let mut entries: Vec<PublishedEntry> = pages
        .into_iter()
        .filter(|row| read_admitted(cx, &row.path, Audience::Published).is_ok())
        .map(|row| PublishedEntry {
            published_at: row.metadata.get("published_at").and_then(Value::as_str).map(str::to_owned),
            public_url: public_path(cx, &row.path),
            path: row.path,
        })
        .collect();
    entries.sort_by(|a, b| b.published_at.cmp(&a.published_at).then_with(|| a.path.cmp(&b.path)));
    Ok(entries)
}
