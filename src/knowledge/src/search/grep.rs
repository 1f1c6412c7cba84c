//! Search without an index: a regular expression held against every page of the tree (`search.engine = "grep"`).
//!
//! One rule: the answer is whole or refused. Every page is read at each question, in time that grows with the tree and never faster
//! than it (the expressions have no back references), and a question that takes too long is refused instead of cut.

use std::ops::Range;
use std::time::{Duration, Instant};

use regex::{Regex, RegexBuilder};
use svcfs_base::{Fault, Kind, Protocol, Timestamp, TreePath};
use svcfs_text::{Page, snippet};
use svcfs_vfs::{EntryKind, Vfs};

use crate::files;

/// Longest pattern, in bytes, as for the index.
const LONGEST: usize = 4096;

/// Most memory of a pattern made ready, in bytes.
const MOST_MEMORY: usize = 1 << 20;

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is looked for, and where.
#[derive(Debug, Default)]
pub struct GrepPattern {
    /// A regular expression, in any case; what is none is sought as it is written.
    pub q: String,
    /// Only pages at or below this place.
    pub below: Option<TreePath>,
    /// Only pages changed after this moment.
    pub modified_after: Option<Timestamp>,
    /// How many of the pages to leave out, and how many to answer with.
    pub shown: Range<usize>,
}

/// A page that has it.
#[derive(Debug, PartialEq)]
pub struct GrepMatch {
    /// Where the page is.
    pub path: TreePath,
    /// Its title.
    pub title: String,
    /// The first line that has it, as HTML, every match in it in `<mark>`.
    pub snippet: String,
    /// How many lines have it.
    pub lines: usize,
}

/// What was found.
#[derive(Debug, Default, PartialEq)]
pub struct GrepResult {
    /// The pages, in path order.
    pub pages: Vec<GrepMatch>,
    /// How the pattern was read, when that is not how it was written.
    pub note: Option<String>,
}

/// Reads the tree.
///
/// # Errors
/// [`Kind::Invalid`] for a pattern that is too long or takes longer than 5 s, and those of the tree.
pub fn search(vfs: &Vfs, pattern: &GrepPattern) -> Result<GrepResult, Fault> {
    search_within(vfs, pattern, PATIENCE)
}

fn search_within(vfs: &Vfs, pattern: &GrepPattern, patience: Duration) -> Result<GrepResult, Fault> {
    let begun = Instant::now();
    if pattern.q.len() > LONGEST {
        let why = format!("is {} bytes long; at most {LONGEST} are searched for", pattern.q.len());
        return Err(Fault::invalid("q", why));
    }
    if pattern.q.trim().is_empty() {
        return Ok(GrepResult::default());
    }
    let (wanted, note) = read(&pattern.q)?;
    let below = pattern.below.clone().unwrap_or_else(TreePath::root);
    let there = match vfs.stat(Protocol::Internal, &below) {
        Err(fault) if fault.kind() == Kind::NotFound => return Ok(GrepResult { pages: Vec::new(), note }),
        there => there?,
    };
    let files = match there.kind {
        EntryKind::Directory => vfs.walk(Protocol::Internal, &below)?,
        EntryKind::File | EntryKind::Symlink | EntryKind::Special(_) => {
            let parent = below.parent().unwrap_or_else(TreePath::root);
            vfs.list(Protocol::Internal, &parent)?.into_iter().filter(|entry| entry.path == below).collect()
        }
    };
    let mut found = GrepResult { pages: Vec::new(), note };
    let mut passed = 0;
    for file in files {
        let path = file.path;
        let is_new = pattern.modified_after.is_none_or(|after| files::to_timestamp(file.attributes.modified) > after);
        if file.attributes.kind != EntryKind::File || !path.is_page() || path.is_hidden() || !is_new {
            continue;
        }
        if begun.elapsed() > patience {
            let why = format!(
                "takes longer than {} s over this tree; look in one folder with `path_prefix`, or set `search.engine` to `sqlite`",
                patience.as_secs()
            );
            return Err(Fault::invalid("q", why));
        }
        let content = match vfs.read(Protocol::Internal, &path) {
            Ok(file) => file.content,
            // Removed while we walked.
            Err(fault) if fault.kind() == Kind::NotFound => continue,
            Err(fault) => return Err(fault),
        };
        let text = String::from_utf8_lossy(&content);
        let mut lines = text.lines().filter(|line| wanted.is_match(line));
        let Some(first) = lines.next() else { continue };
        passed += 1;
        if passed <= pattern.shown.start {
            continue;
        }
        let marks: Vec<Range<usize>> = wanted.find_iter(first).map(|found| found.range()).collect();
        found.pages.push(GrepMatch {
            title: Page::parse(path.as_str(), &text).title,
            snippet: snippet::highlight_line(first, &marks),
            lines: 1 + lines.count(),
            path,
        });
        if found.pages.len() == pattern.shown.len() {
            break;
        }
    }
    Ok(found)
}

/// The pattern, and what to say when it is no expression.
fn read(q: &str) -> Result<(Regex, Option<String>), Fault> {
    let build = |pattern: &str| {
        RegexBuilder::new(pattern).case_insensitive(true).size_limit(MOST_MEMORY).dfa_size_limit(MOST_MEMORY).build()
    };
    match build(q) {
        Ok(wanted) => Ok((wanted, None)),
        Err(mistake) => {
            let mistake = mistake.to_string();
            let why = mistake.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let literal = build(&regex::escape(q)).map_err(|error| Fault::invalid("q", error))?;
            Ok((literal, Some(format!("the pattern was sought as it is written: {why}"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spaces::test_space::{TestSpace, path};

    fn ask(space: &TestSpace, q: &str) -> GrepResult {
        search(&space.space().vfs, &GrepPattern { q: q.to_owned(), shown: 0..50, ..GrepPattern::default() }).unwrap()
    }

    fn paths(found: &GrepResult) -> Vec<&str> {
        found.pages.iter().map(|line| line.path.as_str()).collect()
    }

    #[test]
    fn an_expression_is_held_against_every_line_in_any_case() {
        let space = TestSpace::new();
        space.put("a.md", "# Alpha\n\nThe quick <fox>, the FOX.\nfoxes\n");
        space.put("d/b.md", "no such animal\n");
        let found = ask(&space, "fox");
        assert_eq!((paths(&found), found.pages[0].lines, &*found.pages[0].title), (vec!["a.md"], 2, "Alpha"));
        assert_eq!(found.pages[0].snippet, "The quick &lt;<mark>fox</mark>&gt;, the <mark>FOX</mark>.");
        assert_eq!(paths(&ask(&space, "^(foxes|no such)")), ["a.md", "d/b.md"]);
        let below = GrepPattern { q: "o".into(), below: Some(path("d")), shown: 0..50, ..GrepPattern::default() };
        assert_eq!(paths(&search(&space.space().vfs, &below).unwrap()), ["d/b.md"]);
        let second = GrepPattern { q: "o".into(), shown: 1..2, ..GrepPattern::default() };
        assert_eq!(paths(&search(&space.space().vfs, &second).unwrap()), ["d/b.md"]);
        assert_eq!(ask(&space, " "), GrepResult::default());
    }

    #[test]
    fn what_is_no_expression_is_sought_as_it_is_written_and_says_so() {
        let space = TestSpace::new();
        space.put("a.md", "call foo(bar\n");
        let found = ask(&space, "foo(");
        assert_eq!(paths(&found), ["a.md"]);
        assert!(found.note.unwrap().starts_with("the pattern was sought as it is written: unclosed group"));
    }

    #[test]
    fn no_expression_takes_the_server_with_it() {
        let space = TestSpace::new();
        space.put("a.md", &"a".repeat(20_000));
        for q in ["(a*)*b", "(a|a)*c", "a{1000}{1000}", "(x+x+)+y", "\\p{L}{500}"] {
            let begun = Instant::now();
            ask(&space, q);
            assert!(begun.elapsed() < Duration::from_secs(5), "{q}");
        }
        let long = GrepPattern { q: "x".repeat(5_000), shown: 0..50, ..GrepPattern::default() };
        assert_eq!(search(&space.space().vfs, &long).unwrap_err().kind(), Kind::Invalid);
        let fault =
            search_within(&space.space().vfs, &GrepPattern { q: "a".into(), ..GrepPattern::default() }, Duration::ZERO);
        assert!(fault.unwrap_err().message().starts_with("`q`: takes longer than 0 s"));
    }
}
