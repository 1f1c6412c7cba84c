//! The promises of SEMANTICS.md: each names the test that shows it, and the test is there.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Context;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::finding::Finding;
use crate::sources::SourceFile;

const PAGE: &str = "SEMANTICS.md";
/// A name of so many words is a sentence, and sentences are tests.
const WORDS_OF_A_SENTENCE: usize = 4;
/// Where tests stand that a promise may name as a whole.
const TEST_FOLDER: &str = "tests/";

/// Promises that nothing shows, and names of tests that are nowhere.
///
/// # Errors
/// When the page cannot be read.
pub fn check(root: &Path, files: &[SourceFile]) -> anyhow::Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("reading `{PAGE}`"))?;
    Ok(find(&text, files))
}

fn find(text: &str, files: &[SourceFile]) -> Vec<Finding> {
    let tests: HashSet<&str> = files.iter().flat_map(|file| functions(&file.text)).collect();
    let is_folder = |name: &str| files.iter().any(|file| file.path.starts_with(name));
    let mut findings = Vec::new();
    // The line of the promise, and whether a test of it was named.
    let mut promise: Option<(usize, bool)> = None;
    for (event, range) in Parser::new(text).into_offset_iter() {
        let line = text[..range.start].matches('\n').count() + 1;
        match event {
            Event::Start(Tag::Item) => promise = Some((line, false)),
            Event::End(TagEnd::Item) => {
                if let Some((line, false)) = promise.take() {
                    let advice = "names no test that shows it; write one, or take the promise back";
                    findings.push(Finding::at(PAGE, line, advice));
                }
            }
            Event::Code(code) if is_sentence(&code) || code.starts_with(TEST_FOLDER) => {
                if tests.contains(&*code) || is_folder(&code) {
                    promise = promise.map(|(line, _)| (line, true));
                } else {
                    let advice = "is no test; name the one that shows the promise, as it is called now";
                    findings.push(Finding::at(PAGE, line, format!("`{code}` {advice}")));
                }
            }
            _ => {}
        }
    }
    findings
}

/// Names of the functions that a file defines.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    let definitions = text.lines().map(|line| line.trim_start().trim_start_matches("async "));
    definitions.filter_map(|line| line.strip_prefix("fn ")?.split_once('(')).map(|(name, _)| name)
}

fn is_sentence(code: &str) -> bool {
    let is_name = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_name && code.split('_').count() >= WORDS_OF_A_SENTENCE
}

#[cfg(test)]
mod tests {
    use super::find;
    use crate::sources::SourceFile;

    fn found(page: &str) -> Vec<String> {
        let text =
            "#[test]\nfn a_write_is_kept() {}\n    #[test]\n    async fn nothing_is_done_twice() {}\n".to_owned();
        let files = [SourceFile { path: "tests/it/disk/mod.rs".to_owned(), text }];
        find(page, &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn promises_with_their_tests_are_fine() {
        let page =
            "# What\n\n- One, `close`.\n  (`a_write_is_kept`,\n  `nothing_is_done_twice`)\n- Two. (`tests/it/disk`)\n";
        assert_eq!(found(page), [""; 0]);
    }

    #[test]
    fn a_promise_without_a_test_is_found_by_its_line() {
        assert_eq!(
            found("# What\n\n- One. (`a_write_is_kept`)\n- Two, by `PUT`.\n"),
            ["SEMANTICS.md:4: names no test that shows it; write one, or take the promise back"]
        );
    }

    #[test]
    fn a_test_that_is_nowhere_is_found_and_shows_nothing() {
        assert_eq!(
            found("- One. (`a_read_is_kept_too`)\n"),
            [
                "SEMANTICS.md:1: `a_read_is_kept_too` is no test; name the one that shows the promise, as it is called now",
                "SEMANTICS.md:1: names no test that shows it; write one, or take the promise back",
            ]
        );
    }
}
