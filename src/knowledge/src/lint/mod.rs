//! The lint gate: checks that every written page must pass.
//!
//! Invariant: the text decides, not the protocol. While `lint.reject_errors` is on, a page with a
//! lint error is refused through every protocol; warnings never refuse. Out-of-band edits do not
//! pass the gate: they can only be recorded.
//!
//! Only full texts by one writer are formatted. Operations know which ones are, and format them
//! before they write (an append or a rewritten link leaves the rest of a page unchanged). File
//! protocols have no operations, so the gate formats for those in `lint.format_protocols`.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;
use svcfs_base::{Caller, Fault};
use svcfs_config::LintSettings;
use svcfs_text::lint::{LintIssue, first_error, reject_message};
use svcfs_vfs::{ProposedFile, WriteGate};

/// Formats and checks pages before they are written.
#[derive(Debug, Clone)]
pub struct LintGate {
    settings: LintSettings,
}

impl LintGate {
    /// A gate with the settings `[lint]`.
    pub const fn new(settings: LintSettings) -> Self {
        Self { settings }
    }
}

impl WriteGate for LintGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        if !proposal.path.is_page() {
            return Ok(());
        }
        // Binary content has no lint rules: operations refuse it earlier, file protocols store it.
        let Ok(text) = std::str::from_utf8(&proposal.content) else {
            return Ok(());
        };
        if caller.protocol.is_filesystem()
            && self.settings.should_format(caller.protocol)
            && let Cow::Owned(formatted) = format_text(text)
        {
            proposal.content = Bytes::from(formatted);
        }
        if !self.settings.reject_errors {
            return Ok(());
        }
        let text = std::str::from_utf8(&proposal.content).unwrap_or_default();
        refusal(&svcfs_text::lint::lint(text))
            .map_or(Ok(()), |fault| Err(fault.with_detail("path", proposal.path.as_str())))
    }
}

/// The formatted text of a page; borrowed if nothing changes.
pub fn format_text(text: &str) -> Cow<'_, str> {
    svcfs_text::format::format(text)
}

/// The refusal of a page with these issues: its first error, with all issues as details.
fn refusal(issues: &[LintIssue]) -> Option<Fault> {
    let fault = Fault::rejected(reject_message(first_error(issues)?));
    Some(fault.with_detail("issues", serde_json::to_value(issues).unwrap_or(Value::Null)))
}
