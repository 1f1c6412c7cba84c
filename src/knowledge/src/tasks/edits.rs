//! Edits of single parts of a stored page.

use svcfs_base::{ApplyResult, Caller, Change, ChangeSet, ETag, Fault, Kind, Precondition, Protocol, TreePath};
use svcfs_text::headings::{Heading, headings};
use svcfs_text::sections::{SectionSelector, section};

use crate::kernel::Space;

/// Attempts of an edit that loses against concurrent writers.
const ATTEMPTS: usize = 256;
/// Level of the sections that are added to.
const SECTION_LEVEL: u8 = 2;
const MAX_LEVEL: u8 = 6;

/// Edits a page as it is stored now; repeated when another writer was first. The edit returns none
/// when there is nothing to change.
pub(super) fn edit_page(
    space: &Space,
    caller: &Caller,
    path: &TreePath,
    message: &str,
    edit: impl Fn(&str) -> Result<Option<String>, Fault>,
) -> Result<Option<(ETag, ApplyResult)>, Fault> {
    let mut attempt = 1;
    loop {
        let file = space.vfs.read(Protocol::Internal, path)?;
        let text = std::str::from_utf8(&file.content);
        let text = text.map_err(|_| Fault::new(Kind::Invalid, format!("`{path}` is not UTF-8 text")))?;
        let Some(edited) = edit(text)? else { return Ok(None) };
        let change = Change::put(path.clone(), edited).with_precondition(Precondition::OneOf(vec![file.etag]));
        let fault = match space.vfs.apply(caller, ChangeSet::from(change).with_message(message)) {
            Ok(applied) => {
                let etag = applied.files.first().and_then(|file| file.etag).unwrap_or(file.etag);
                return Ok(Some((etag, applied)));
            }
            Err(fault) => fault,
        };
        let is_race = fault.kind() == Kind::Conflict
            && space.vfs.read(Protocol::Internal, path).is_ok_and(|now| now.etag != file.etag);
        if !is_race || attempt == ATTEMPTS {
            return Err(fault);
        }
        attempt += 1;
    }
}

/// Adds text at the end of a section, which is created at the end of the page if absent.
pub(super) fn add_to_section(text: &str, heading: &str, addition: &str) -> String {
    let addition = addition.trim();
    let is_wanted =
        |found: &Heading| found.level == SECTION_LEVEL && !found.is_nested && found.text.eq_ignore_ascii_case(heading);
    let index = headings(text).iter().position(is_wanted);
    let Some(found) = index.and_then(|index| section(text, SectionSelector::Index(index))) else {
        return format!("{}\n\n## {heading}\n\n{addition}\n", text.trim_end());
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (before, after) = lines.split_at(found.line_end.min(lines.len()));
    let (before, after) = (before.concat(), after.concat());
    let rest = if after.is_empty() { String::new() } else { format!("\n{after}") };
    format!("{}\n\n{addition}\n{rest}", before.trim_end())
}

/// Lowers the headings of a note below its first line, a heading: a higher one would end the
/// section, and the next note would be added before it.
pub(super) fn lower_headings(note: &str) -> String {
    let all = headings(note);
    let own_level = all.first().map_or(SECTION_LEVEL + 1, |own| own.level);
    let inner: Vec<&Heading> = all.iter().skip(1).filter(|heading| !heading.is_nested).collect();
    let highest = inner.iter().map(|heading| heading.level).min().unwrap_or(MAX_LEVEL);
    let shift = (own_level + 1).saturating_sub(highest);
    let mut lowered = note.to_owned();
    if shift == 0 {
        return lowered;
    }
    for heading in inner.iter().rev() {
        let marks = "#".repeat(usize::from((heading.level + shift).min(MAX_LEVEL)));
        let written = &note[heading.range.clone()];
        let replaced = match written.trim_start().strip_prefix(&*"#".repeat(usize::from(heading.level))) {
            Some(rest) => format!("{marks}{rest}"),
            // A Setext heading: its last line is the underline.
            None => {
                let lines: Vec<&str> = written.trim_end().lines().map(str::trim).collect();
                let title = lines.split_last().map_or(String::new(), |(_, title)| title.join(" "));
                let end = if written.ends_with('\n') { "\n" } else { "" };
                format!("{marks} {title}{end}")
            }
        };
        lowered.replace_range(heading.range.clone(), &replaced);
    }
    lowered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_a_note_do_not_end_its_section() {
        for (text, expected) in [
            ("no heading", "no heading"),
            ("#### Low\n", "#### Low\n"),
            ("## High\n\ntext\n\n### Next\n", "#### High\n\ntext\n\n##### Next\n"),
            ("# One\n\n###### Six", "#### One\n\n###### Six"),
            ("Title\n=====\n\ntext", "#### Title\n\ntext"),
            ("```\n# code\n```\n\n> # quoted\n", "```\n# code\n```\n\n> # quoted\n"),
        ] {
            assert_eq!(lower_headings(&format!("### Note\n\n{text}")), format!("### Note\n\n{expected}"), "{text:?}");
        }
    }

    #[test]
    fn text_is_added_at_the_end_of_its_section() {
        for (text, expected) in [
            ("# A\n", "# A\n\n## Progress\n\nnew\n"),
            ("", "\n\n## Progress\n\nnew\n"),
            ("# A\n\n## Progress\n\nold\n", "# A\n\n## Progress\n\nold\n\nnew\n"),
            ("## Progress", "## Progress\n\nnew\n"),
            ("## progress\n\n### one\n\n## Next\n\ntext\n", "## progress\n\n### one\n\nnew\n\n## Next\n\ntext\n"),
            ("## My Progress\n", "## My Progress\n\n## Progress\n\nnew\n"),
            ("# Progress\n\n## Progress\n\nold\n", "# Progress\n\n## Progress\n\nold\n\nnew\n"),
        ] {
            assert_eq!(add_to_section(text, "Progress", " new\n"), expected, "{text:?}");
        }
    }
}
