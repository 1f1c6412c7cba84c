//! The guarantees of `docs/semantics`: each has an ID and names a test; tests cite IDs that exist.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use anyhow::Context;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::finding::Finding;
use crate::sources::{SourceFile, function_name};

const FOLDER: &str = "docs/semantics";
/// A name of so many words is a sentence, and sentences are tests.
const MIN_SENTENCE_WORDS: usize = 4;
/// Folders of tests that a guarantee may name instead of one test.
const TEST_FOLDER: &str = "tests/";
/// How the documentation of a test begins its citation: `/// Shows: DUR-1, DUR-2`.
const CITATION: &str = "/// Shows: ";

/// Guarantees without ID or test, names of tests that do not exist, and citations of unknown IDs.
///
/// # Errors
/// When a page cannot be read.
pub fn check(root: &Path, files: &[SourceFile]) -> anyhow::Result<Vec<Finding>> {
    let mut pages = BTreeMap::new();
    for entry in root.join(FOLDER).read_dir().with_context(|| format!("reading `{FOLDER}`"))? {
        let entry = entry?;
        let path = format!("{FOLDER}/{}", entry.file_name().to_string_lossy());
        pages.insert(path.clone(), std::fs::read_to_string(entry.path()).with_context(|| format!("reading `{path}`"))?);
    }
    Ok(find(&pages, files))
}

/// A list item that is being read.
struct Guarantee {
    line: usize,
    id: Option<String>,
    has_test: bool,
}

fn find(pages: &BTreeMap<String, String>, files: &[SourceFile]) -> Vec<Finding> {
    let tests: HashSet<&str> = files.iter().flat_map(|file| file.text.lines().filter_map(function_name)).collect();
    let is_folder = |name: &str| files.iter().any(|file| file.path.starts_with(name));
    let mut findings = Vec::new();
    let mut ids = HashSet::new();
    for (page, text) in pages {
        let mut item: Option<Guarantee> = None;
        let mut in_strong = false;
        for (event, range) in Parser::new(text).into_offset_iter() {
            let line = text[..range.start].matches('\n').count() + 1;
            match event {
                Event::Start(Tag::Item) => item = Some(Guarantee { line, id: None, has_test: false }),
                Event::Start(Tag::Strong) => in_strong = true,
                Event::End(TagEnd::Strong) => in_strong = false,
                Event::Text(word) if in_strong && is_id(&word) => {
                    if let Some(item) = item.as_mut() {
                        item.id.get_or_insert_with(|| word.to_string());
                    }
                }
                Event::End(TagEnd::Item) => {
                    if let Some(item) = item.take() {
                        findings.extend(check_item(page, &item, &mut ids));
                    }
                }
                Event::Code(code) if is_sentence(&code) || code.starts_with(TEST_FOLDER) => {
                    if tests.contains(&*code) || is_folder(&code) {
                        item = item.map(|item| Guarantee { has_test: true, ..item });
                    } else {
                        let advice = "is not a test; name the test that shows the guarantee";
                        findings.push(Finding::at(page, line, format!("`{code}` {advice}")));
                    }
                }
                _ => {}
            }
        }
    }
    findings.extend(unknown_citations(files, &ids));
    findings
}

fn check_item(page: &str, item: &Guarantee, ids: &mut HashSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &item.id {
        None => findings.push(Finding::at(page, item.line, "has no ID; start the item with one, such as **DUR-1**")),
        Some(id) if !ids.insert(id.clone()) => {
            findings.push(Finding::at(page, item.line, format!("{id} is used twice; give this guarantee a new ID")));
        }
        Some(_) => {}
    }
    if !item.has_test {
        findings.push(Finding::at(page, item.line, "names no test that shows it; write one, or delete the guarantee"));
    }
    findings
}

/// Citations of guarantees that do not exist.
fn unknown_citations(files: &[SourceFile], ids: &HashSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            let cited = line.trim_start().strip_prefix(CITATION).unwrap_or_default();
            for id in cited.split(", ").filter(|id| !id.is_empty() && !ids.contains(*id)) {
                let message = format!("cites {id}, which is not in {FOLDER}; correct the ID or remove it");
                findings.push(Finding::at(&file.path, number + 1, message));
            }
        }
    }
    findings
}

fn is_sentence(code: &str) -> bool {
    let is_name = code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_name && code.split('_').count() >= MIN_SENTENCE_WORDS
}

/// Whether a word has the form of an ID, such as `DUR-1`.
fn is_id(word: &str) -> bool {
    let is_area =
        |area: &str| !area.is_empty() && area.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    word.rsplit_once('-').is_some_and(|(area, number)| is_area(area) && is_number(number))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::find;
    use crate::sources::SourceFile;

    fn findings(page: &str, citation: &str) -> Vec<String> {
        let text = format!(
            "#[test]\nfn a_write_is_kept() {{}}\n    /// Shows: {citation}\n    #[test]\n    async fn nothing_is_done_twice() {{}}\n"
        );
        let files = [SourceFile { path: "tests/it/disk/mod.rs".to_owned(), text }];
        let pages = BTreeMap::from([("docs/semantics/a.md".to_owned(), page.to_owned())]);
        find(&pages, &files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn guarantees_with_ids_and_tests_are_accepted() {
        let page = "# What\n\n- **A-1** One, `close`.\n  (`a_write_is_kept`,\n  `nothing_is_done_twice`)\n\
                    - **A-2** Two. (`tests/it/disk`)\n";
        assert_eq!(findings(page, "A-1, A-2"), [""; 0]);
    }

    #[test]
    fn a_guarantee_without_test_or_id_is_found() {
        assert_eq!(
            findings("- **A-1** One. (`a_write_is_kept`)\n- **A-1** Two, by `PUT`.\n- Three (`tests/it`).\n", "A-1"),
            [
                "docs/semantics/a.md:2: A-1 is used twice; give this guarantee a new ID",
                "docs/semantics/a.md:2: names no test that shows it; write one, or delete the guarantee",
                "docs/semantics/a.md:3: has no ID; start the item with one, such as **DUR-1**",
            ]
        );
    }

    #[test]
    fn unknown_tests_and_unknown_ids_are_found() {
        assert_eq!(
            findings("- **A-1** One. (`a_read_is_kept_too`)\n", "A-1, B-2"),
            [
                "docs/semantics/a.md:1: `a_read_is_kept_too` is not a test; name the test that shows the guarantee",
                "docs/semantics/a.md:1: names no test that shows it; write one, or delete the guarantee",
                "tests/it/disk/mod.rs:3: cites B-2, which is not in docs/semantics; correct the ID or remove it",
            ]
        );
    }
}
