//! Publishing: `published` and `published_at` in the frontmatter of a page.

use serde_json::Value;
use svcfs_base::{Change, ChangeSet, Fault, Kind, Precondition, TreePath};
use svcfs_text::frontmatter;

use super::Audience;
use super::rendering::is_hidden;
use crate::files;
use crate::kernel::{OperationContext, require_path};

/// The state of a page after a request.
pub(super) struct PublishState {
    pub published_at: Option<String>,
    /// None if the page is in the wanted state already.
    pub change: Option<Change>,
}

/// The change that publishes or withdraws a page.
pub(super) fn plan(cx: &OperationContext<'_>, path: &TreePath, publish: bool) -> Result<PublishState, Fault> {
    require_path("path", path)?;
    if !path.is_page() || is_hidden(cx.space, path) {
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
    let is_published = Audience::Published.admits(&parsed.map);
    if is_published == publish && (!publish || published_at.is_some()) {
        return Ok(PublishState { published_at, change: None });
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
    Ok(PublishState { published_at, change: Some(change) })
}

/// Writes planned changes as one commit. If it is refused because of one of the pages, the halves
/// are tried, so that this page does not block the others. Returns the refused pages.
///
/// # Errors
/// Those that are not about a page, such as a full disk.
pub(super) fn apply(
    cx: &OperationContext<'_>,
    changes: &[Change],
    verb: &str,
) -> Result<Vec<(TreePath, Fault)>, Fault> {
    let message = match changes {
        [] => return Ok(Vec::new()),
        [change] => format!("{}: {verb} {}", cx.caller.actor(), change.path()),
        many => format!("{}: {verb} {} pages", cx.caller.actor(), many.len()),
    };
    match (cx.apply(ChangeSet::new(changes.to_vec()).with_message(message)), changes) {
        (Ok(_), _) => Ok(Vec::new()),
        (Err(fault), _) if is_about_all(&fault) => Err(fault),
        (Err(fault), [change]) => Ok(vec![(change.path().clone(), fault)]),
        (Err(_), many) => {
            let (first, second) = many.split_at(many.len() / 2);
            let mut refused = apply(cx, first, verb)?;
            refused.extend(apply(cx, second, verb)?);
            Ok(refused)
        }
    }
}

/// Whether a fault would be the same for every page.
fn is_about_all(fault: &Fault) -> bool {
    matches!(fault.kind(), Kind::Unavailable | Kind::Internal | Kind::Unauthenticated | Kind::RateLimited)
}
