//! Append-only pages: `append_only: true` in the frontmatter.
//!
//! Invariant: all text of such a page stays. New text goes to the end of the page, or to the end of
//! a section. The frontmatter stays, too, except for the keys that svcfs writes by itself.

use serde_json::Value;

use crate::frontmatter::{self, split};
use crate::headings::headings;

/// The key in the frontmatter.
pub const APPEND_ONLY_KEY: &str = "append_only";

/// Keys that svcfs writes when it stores a page.
const OWN_KEYS: [&str; 2] = ["modified", "derived-from"];

/// Why a text is not an addition to an append-only page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The frontmatter differs.
    #[error("the frontmatter was changed")]
    Frontmatter,
    /// Text of the body was changed or removed, or text was added within a section.
    #[error("line {line} was changed, removed or moved")]
    Body {
        /// The first line of the old page that differs.
        line: usize,
    },
}

impl RewriteError {
    /// The line in the old page, from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        match self {
            Self::Frontmatter => 1,
            Self::Body { line } => *line,
        }
    }
}

/// Whether a page is append-only.
#[must_use]
pub fn is_append_only(text: &str) -> bool {
    let split = split(text);
    // Fast path: most pages have neither the key nor an escape sequence.
    split.content().is_some_and(|content| content.contains(APPEND_ONLY_KEY) || content.contains('\\'))
        && frontmatter::parse_split(&split).map.get(APPEND_ONLY_KEY) == Some(&Value::Bool(true))
}

/// Checks that the new text of an append-only page only adds text: at its end, or at the end of a
/// section.
///
/// # Errors
/// The first line that is not only an addition.
pub fn check_addition(old: &str, new: &str) -> Result<(), RewriteError> {
    let (old_split, new_split) = (split(old), split(new));
    if old[..old_split.body_offset] != new[..new_split.body_offset] && frontmatter_rest(old) != frontmatter_rest(new) {
        return Err(RewriteError::Frontmatter);
    }
    check_body(old, old_split.body_offset, new_split.body)
}

/// The frontmatter block without the keys that svcfs writes; none if it cannot be edited.
fn frontmatter_rest(text: &str) -> Option<String> {
    let mut head = text[..split(text).body_offset].to_owned();
    for key in OWN_KEYS {
        head = frontmatter::remove(&head, key).ok()?;
    }
    Some(head)
}

fn check_body(old_page: &str, body_offset: usize, new: &str) -> Result<(), RewriteError> {
    let old = &old_page[body_offset..];
    let prefix = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let suffix = old.bytes().rev().zip(new.bytes().rev()).take_while(|(a, b)| a == b).count();
    if prefix == old.len() {
        return Ok(());
    }
    let changed = || RewriteError::Body {
        line: 1 + old_page.as_bytes()[..body_offset + prefix].iter().filter(|byte| **byte == b'\n').count(),
    };
    if new.len() < old.len() || prefix + suffix < old.len() {
        return Err(changed());
    }
    // The text was inserted at any of these places; they give the same result.
    let places = old.len() - suffix..=prefix;
    // Not before the first heading: no section ends there.
    let ends = headings(old_page).into_iter().filter(|heading| !heading.is_nested).skip(1);
    let ends = ends.filter_map(|heading| line_start(old_page, heading.range.start).checked_sub(body_offset));
    for end in ends.chain([old.len()]) {
        let first = old[..end].trim_end_matches([' ', '\t', '\r', '\n']).len();
        // The first line end after the text belongs to its line.
        let first = old[first..end].find('\n').map_or(end, |at| first + at + 1);
        let (from, to) = (first.max(*places.start()), end.min(*places.end()));
        if from > to {
            continue;
        }
        let inserted = &new.as_bytes()[to..to + new.len() - old.len()];
        // Else the heading would no longer begin a line.
        if to < end || end == old.len() || inserted.ends_with(b"\n") {
            return Ok(());
        }
    }
    Err(changed())
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "---\ntitle: Log\nappend_only: true\n---\n";

    #[test]
    fn the_key_must_be_true() {
        for (text, expected) in [
            (HEAD, true),
            ("+++\nappend_only = true\n+++\n", true),
            ("---\r\nappend_only: true\r\n---\r\n", true),
            ("---\n\"append\\x5fonly\": true\n---\n", true),
            ("---\nappend_only: yes\n---\n", false),
            ("---\nappend_only: \"true\"\n---\n", false),
            ("---\nappend_only: false\n---\n", false),
            ("---\nx: {append_only: true}\n---\n", false),
            ("append_only: true\n", false),
            ("---\nappend_only: [\n---\n", false),
        ] {
            assert_eq!(is_append_only(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_additions_at_the_end_of_page_or_section_pass() {
        let old = "# Log\n\n## June\n\n- one\n\n## July\n\n- two\n";
        let changed = |line: usize| Err(RewriteError::Body { line: line + 4 });
        for (new, expected) in [
            (old, Ok(())),
            ("# Log\n\n## June\n\n- one\n\n## July\n\n- two\n- three\n", Ok(())),
            ("# Log\n\n## June\n\n- one\n\n## July\n\n- two\n\n## August\n", Ok(())),
            ("# Log\n\n## June\n\n- one\n- more\n\n## July\n\n- two\n", Ok(())),
            ("# Log\n\n## June\n\n- one\n\ntext\n\n## July\n\n- two\n", Ok(())),
            // A new section before another one ends the one above.
            ("# Log\n\n## June\n\n- one\n\n## New\n\n## July\n\n- two\n", Ok(())),
            ("# Log\n\nintro\n\n## June\n\n- one\n\n## July\n\n- two\n", Ok(())),
            // Two places, a change, a removal, a new first item, text before the first heading.
            ("# Log\n\n## June\n\n- one\n- x\n\n## July\n\n- two\n- y\n", changed(6)),
            ("# Log\n\n## June\n\n- One\n\n## July\n\n- two\n", changed(5)),
            ("# Log\n\n## June\n\n- one\n\n## July\n", changed(8)),
            ("# Log\n\n## June\n\n- zero\n- one\n\n## July\n\n- two\n", changed(5)),
            ("intro\n# Log\n\n## June\n\n- one\n\n## July\n\n- two\n", changed(1)),
            ("# Log\n\n## June\n\n- one\n\ntext## July\n\n- two\n", changed(7)),
            ("# Log\n\n## June\n\n- one, more\n\n## July\n\n- two\n", changed(5)),
            ("", changed(1)),
        ] {
            let (old, new) = (format!("{HEAD}{old}"), format!("{HEAD}{new}"));
            assert_eq!(check_addition(&old, &new), expected, "{new}");
            let (old, new) = (old.replace('\n', "\r\n"), new.replace('\n', "\r\n"));
            assert_eq!(check_addition(&old, &new), expected, "CRLF {new}");
        }
    }

    #[test]
    fn only_the_keys_of_svcfs_change_in_the_frontmatter() {
        let old = format!("{HEAD}text\n");
        for (head, expected) in [
            ("---\ntitle: Log\nappend_only: true\nmodified: 2026-01-01\n---\n", Ok(())),
            ("---\ntitle: Log\nappend_only: true\nderived-from:\n- type: run\n  id: '1'\n---\n", Ok(())),
            ("---\ntitle: Other\nappend_only: true\n---\n", Err(RewriteError::Frontmatter)),
            ("---\ntitle: Log\n---\n", Err(RewriteError::Frontmatter)),
            ("---\ntitle: Log\nappend_only: true\nnew: 1\n---\n", Err(RewriteError::Frontmatter)),
            ("---\ntitle: [\n---\n", Err(RewriteError::Frontmatter)),
            ("", Err(RewriteError::Frontmatter)),
        ] {
            assert_eq!(check_addition(&old, &format!("{head}text\nmore\n")), expected, "{head}");
        }
    }
}
