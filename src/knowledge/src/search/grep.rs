//! Search without an index: a regular expression is matched against every page (`search.engine =
//! "grep"`).
//!
//! Invariant: an answer is complete or refused. Every request reads all pages, in linear time (the
//! expressions have no back references); on timeout it is refused, not cut.

use std::ops::Range;
use std::time::{Duration, Instant};

use regex::{Regex, RegexBuilder};
use svcfs_base::{Fault, Kind, Protocol, Timestamp, TreePath};
use svcfs_text::{Page, snippet};
use svcfs_vfs::{EntryKind, Vfs};

use crate::files;

/// Limit of the pattern in bytes, as for the index.
const MAX_PATTERN_BYTES: usize = 4096;

/// Memory limit of a compiled pattern in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Timeout of a search.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);

/// A pattern and where to search for it.
#[derive(Debug, Default)]
pub struct GrepPattern {
    /// A case-insensitive regular expression; an invalid one is matched literally.
    pub q: String,
    /// Only pages at or below this path.
    pub below: Option<TreePath>,
    /// Only pages changed after this time.
    pub modified_after: Option<Timestamp>,
    /// The range of matching pages to return.
    pub page_range: Range<usize>,
}

/// A matching page.
#[derive(Debug, PartialEq)]
pub struct GrepMatch {
    /// Path of the page.
    pub path: TreePath,
    /// Title of the page.
    pub title: String,
    /// The first matching line as HTML, with matches in `<mark>`.
    pub snippet: String,
    /// Number of matching lines.
    pub lines: usize,
}

/// The result of a search.
#[derive(Debug, Default, PartialEq)]
pub struct GrepResult {
    /// Matching pages in path order.
    pub pages: Vec<GrepMatch>,
    /// Set if the pattern was matched literally.
    pub note: Option<String>,
}

/// Searches the tree.
///
/// # Errors
/// `Invalid` for a pattern that is too long or on timeout (5 s), and those of the tree.
pub fn search(vfs: &Vfs, pattern: &GrepPattern) -> Result<GrepResult, Fault> {
    search_with_timeout(vfs, pattern, SEARCH_TIMEOUT)
}

fn search_with_timeout(vfs: &Vfs, pattern: &GrepPattern, timeout: Duration) -> Result<GrepResult, Fault> {
    let started_at = Instant::now();
    if pattern.q.len() > MAX_PATTERN_BYTES {
        let message = format!("is {} bytes long; the limit is {MAX_PATTERN_BYTES}", pattern.q.len());
        return Err(Fault::invalid("q", message));
    }
    if pattern.q.trim().is_empty() {
        return Ok(GrepResult::default());
    }
    let (regex, note) = compile(&pattern.q)?;
    let below = pattern.below.clone().unwrap_or_else(TreePath::root);
    let attributes = match vfs.stat(Protocol::Internal, &below) {
        Err(fault) if fault.kind() == Kind::NotFound => return Ok(GrepResult { pages: Vec::new(), note }),
        attributes => attributes?,
    };
    let files = match attributes.kind {
        EntryKind::Directory => vfs.walk(Protocol::Internal, &below)?,
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {
            let parent = below.parent().unwrap_or_else(TreePath::root);
            vfs.list(Protocol::Internal, &parent)?.into_iter().filter(|entry| entry.path == below).collect()
        }
    };
    let mut result = GrepResult { pages: Vec::new(), note };
    let mut match_count = 0;
    for file in files {
        let path = file.path;
        let is_new = pattern.modified_after.is_none_or(|after| files::to_timestamp(file.attributes.modified) > after);
        if file.attributes.kind != EntryKind::File || !path.is_page() || !is_new || !vfs.hidden_files().lists(&path) {
            continue;
        }
        if started_at.elapsed() > timeout {
            let message = format!(
                "search took longer than {} s; limit it to a folder with `path_prefix`, or set `search.engine` to `sqlite`",
                timeout.as_secs()
            );
            return Err(Fault::invalid("q", message));
        }
        let content = match vfs.read(Protocol::Internal, &path) {
            Ok(file) => file.content,
            // Removed since the tree was listed.
            Err(fault) if fault.kind() == Kind::NotFound => continue,
            Err(fault) => return Err(fault),
        };
        let text = String::from_utf8_lossy(&content);
        let mut lines = text.lines().filter(|line| regex.is_match(line));
        let Some(first) = lines.next() else { continue };
        match_count += 1;
        if match_count <= pattern.page_range.start {
            continue;
        }
        let marks: Vec<Range<usize>> = regex.find_iter(first).map(|result| result.range()).collect();
        result.pages.push(GrepMatch {
            title: Page::parse(path.as_str(), &text).title,
            snippet: snippet::highlight_line(first, &marks),
            lines: 1 + lines.count(),
            path,
        });
        if result.pages.len() == pattern.page_range.len() {
            break;
        }
    }
    Ok(result)
}

/// Compiles the pattern; with a note if it is no valid expression.
fn compile(q: &str) -> Result<(Regex, Option<String>), Fault> {
    let build = |pattern: &str| {
        RegexBuilder::new(pattern)
            .case_insensitive(true)
            .size_limit(MAX_REGEX_BYTES)
            .dfa_size_limit(MAX_REGEX_BYTES)
            .build()
    };
    match build(q) {
        Ok(regex) => Ok((regex, None)),
        Err(error) => {
            let error = error.to_string();
            let message = error.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let literal = build(&regex::escape(q)).map_err(|error| Fault::invalid("q", error))?;
            Ok((literal, Some(format!("invalid regular expression, matched literally:  {message}"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::test_space::{TestSpace, path};

    fn ask(space: &TestSpace, q: &str) -> GrepResult {
        search(&space.space().vfs, &GrepPattern { q: q.to_owned(), page_range: 0..50, ..GrepPattern::default() })
            .unwrap()
    }

    fn paths(result: &GrepResult) -> Vec<&str> {
        result.pages.iter().map(|line| line.path.as_str()).collect()
    }

    #[test]
    fn an_expression_is_held_against_every_line_in_any_case() {
        let space = TestSpace::new();
        space.put("a.md", "# Alpha\n\nThe quick <fox>, the FOX.\nfoxes\n");
        space.put("d/b.md", "no such animal\n");
        let result = ask(&space, "fox");
        assert_eq!((paths(&result), result.pages[0].lines, &*result.pages[0].title), (vec!["a.md"], 2, "Alpha"));
        assert_eq!(result.pages[0].snippet, "The quick &lt;<mark>fox</mark>&gt;, the <mark>FOX</mark>.");
        assert_eq!(paths(&ask(&space, "^(foxes|no such)")), ["a.md", "d/b.md"]);
        let below = GrepPattern { q: "o".into(), below: Some(path("d")), page_range: 0..50, ..GrepPattern::default() };
        assert_eq!(paths(&search(&space.space().vfs, &below).unwrap()), ["d/b.md"]);
        let second = GrepPattern { q: "o".into(), page_range: 1..2, ..GrepPattern::default() };
        assert_eq!(paths(&search(&space.space().vfs, &second).unwrap()), ["d/b.md"]);
        assert_eq!(ask(&space, " "), GrepResult::default());
    }

    #[test]
    fn what_is_no_expression_is_sought_as_it_is_written_and_says_so() {
        let space = TestSpace::new();
        space.put("a.md", "call foo(bar\n");
        let result = ask(&space, "foo(");
        assert_eq!(paths(&result), ["a.md"]);
        assert!(result.note.unwrap().starts_with("invalid regular expression, matched literally:  unclosed group"));
    }

    #[test]
    fn no_expression_takes_the_server_with_it() {
        let space = TestSpace::new();
        space.put("a.md", &"a".repeat(20_000));
        for q in ["(a*)*b", "(a|a)*c", "a{1000}{1000}", "(x+x+)+y", "\\p{L}{500}"] {
            let started_at = Instant::now();
            ask(&space, q);
            assert!(started_at.elapsed() < Duration::from_secs(5), "{q}");
        }
        let long = GrepPattern { q: "x".repeat(5_000), page_range: 0..50, ..GrepPattern::default() };
        assert_eq!(search(&space.space().vfs, &long).unwrap_err().kind(), Kind::Invalid);
        let fault = search_with_timeout(
            &space.space().vfs,
            &GrepPattern { q: "a".into(), ..GrepPattern::default() },
            Duration::ZERO,
        );
        assert!(fault.unwrap_err().message().starts_with("`q`: search took longer than 0 s"));
    }
}
