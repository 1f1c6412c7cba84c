//! The lint gate: what every written page must pass (gaps.md, write-time lint and format; D5).
//!
//! One rule: the text decides, not the door. A page with a lint error is refused through every door while
//! `lint.reject_errors` is on; warnings never refuse. Edits made behind the server do not come here: they can only be recorded.
//!
//! Tidying is split by who knows that a whole text is the writer's own. Operations know, and tidy what a caller hands in
//! before they write it (an append or a rewritten link leaves the rest of a page alone). Filesystem doors have no
//! operations, so the gate tidies for those that `lint.format_doors` names.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;
use svcfs_base::{Caller, Fault};
use svcfs_config::LintSettings;
use svcfs_text::lint::{LintIssue, first_error, reject_message};
use svcfs_vfs::{ProposedFile, WriteGate};

/// Tidies and checks pages on their way into the tree.
#[derive(Debug, Clone)]
pub struct LintGate {
    settings: LintSettings,
}

impl LintGate {
    /// A gate that does what `[lint]` says.
    pub const fn new(settings: LintSettings) -> Self {
        Self { settings }
    }
}

impl WriteGate for LintGate {
    fn check(&self, caller: &Caller, proposal: &mut ProposedFile) -> Result<(), Fault> {
        if !proposal.path.is_page() {
            return Ok(());
        }
        // What is not text has no lint rules; operations refuse it before it comes here, a filesystem door keeps it as it is.
        let Ok(text) = std::str::from_utf8(&proposal.content) else {
            return Ok(());
        };
        if caller.protocol.is_filesystem()
            && self.settings.should_format(caller.protocol)
            && let Cow::Owned(tidy) = format_text(text)
        {
            proposal.content = Bytes::from(tidy);
        }
        if !self.settings.reject_errors {
            return Ok(());
        }
        let text = std::str::from_utf8(&proposal.content).unwrap_or_default();
        refusal(&svcfs_text::lint::lint(text))
            .map_or(Ok(()), |fault| Err(fault.with_detail("path", proposal.path.as_str())))
    }
}

/// The text of a page, tidied; borrowed when it is tidy.
pub fn format_text(text: &str) -> Cow<'_, str> {
    svcfs_text::format::format(text)
}

/// Why a page with these issues is refused: its first error, with all issues beside it. None when it has no error.
fn refusal(issues: &[LintIssue]) -> Option<Fault> {
    let fault = Fault::rejected(reject_message(first_error(issues)?));
    Some(fault.with_detail("issues", serde_json::to_value(issues).unwrap_or(Value::Null)))
}
