//! The tree as it was earlier.

use schemars::JsonSchema;
use serde::Deserialize;
use svcfs_base::{Fault, Kind, TreePath, escape_unprintable};
use svcfs_vfs::{PastFile, PastState};

use super::{OperationContext, suggestions};
use crate::history;

/// Longer texts name nothing: git refuses them with an error of its own.
const MAX_NAME_BYTES: usize = 255;

/// Answer from the tree as it was then: a time such as `2026-11-22T10:15:00Z`, a date (its start,
/// UTC), a commit hash, a branch or a tag
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct AsOf(pub Option<String>);

impl AsOf {
    /// The tree that was requested; none for the present one.
    ///
    /// # Errors
    /// `Invalid` for an empty or a long text, and for control characters; `Unauthenticated` without
    /// a key in an unlisted space, whose history and drafts are not for everyone; `NotFound` for an
    /// unknown name, and for a time before the first commit; `Disabled` without git history.
    pub fn state(&self, cx: &OperationContext<'_>) -> Result<Option<PastState>, Fault> {
        let Some(text) = &self.0 else { return Ok(None) };
        if text.is_empty() {
            return Err(Fault::invalid("as_of", "is empty; use a time, a commit, a branch or a tag"));
        }
        if text.len() > MAX_NAME_BYTES {
            let message = format!("is {} bytes long; the limit is {MAX_NAME_BYTES} bytes", text.len());
            return Err(Fault::invalid("as_of", message));
        }
        // git refuses control characters with an error of its own.
        if text.contains(char::is_control) {
            let message = format!("`{}` has control characters", escape_unprintable(text));
            return Err(Fault::invalid("as_of", message));
        }
        if !suggestions::may_list(cx.space, cx.caller) {
            return Err(Fault::new(Kind::Unauthenticated, "`as_of` needs a key in an unlisted space"));
        }
        if !cx.space.vfs.has_past_states() {
            let message = "`as_of` needs git history: set `versioning.strategy = \"git\"`";
            return Err(Fault::new(Kind::Disabled, message));
        }
        let state = cx.space.vfs.past_state(text)?.ok_or_else(|| {
            let text = escape_unprintable(text);
            Fault::not_found(format!(
                "`as_of`: `{text}` is no time, commit, branch or tag of this space; a time must be after its first commit"
            ))
        })?;
        cx.set_as_of(state.commit);
        Ok(Some(state))
    }

    /// The tree that was requested; a note names its commit, for outputs without a place for it.
    ///
    /// # Errors
    /// Those of [`Self::state`].
    pub fn noted_state(&self, cx: &OperationContext<'_>) -> Result<Option<PastState>, Fault> {
        let state = self.state(cx)?;
        state.iter().for_each(|state| cx.add_note(format!("as of commit {}", state.commit)));
        Ok(state)
    }

    /// The tree that was requested, for operations with options that only the present tree has.
    ///
    /// # Errors
    /// `Invalid` with an option that only the present tree has; those of [`Self::state`].
    pub fn state_without(
        &self,
        cx: &OperationContext<'_>,
        options: &[(&str, bool)],
    ) -> Result<Option<PastState>, Fault> {
        let state = self.state(cx)?;
        match options.iter().find(|(_, is_used)| *is_used && state.is_some()) {
            Some((option, _)) => Err(Fault::invalid("as_of", format_args!("cannot be combined with `{option}`"))),
            None => Ok(state),
        }
    }
}

/// A file of an earlier tree.
///
/// # Errors
/// `NotFound`, with the name that the page had then, if it was renamed since.
pub fn past_file(cx: &OperationContext<'_>, state: &PastState, path: &TreePath) -> Result<PastFile, Fault> {
    history::check_readable(&cx.space.vfs, cx.caller.protocol, path)?;
    if let Some(file) = cx.space.vfs.past_file(state, path)? {
        return Ok(file);
    }
    if cx.space.vfs.past_directory(state, path)?.is_some() {
        return Err(Fault::not_found(format!("file not found: {path} was a directory at that time")));
    }
    for name in history::names_of_page(cx, path, true)?.iter().skip(1) {
        if cx.space.vfs.past_file(state, &name.path)?.is_some() {
            let message = format!("file not found: {path} at that time; it was `{}` then: read that path", name.path);
            return Err(Fault::not_found(message));
        }
    }
    Err(Fault::not_found(format!("file not found: {path} did not exist at that time")))
}
