//! Words that must not occur in the source, and the exceptions.

use crate::finding::Finding;
use crate::sources::SourceFile;

/// A word and advice. Words are split into two halves, so that this file does not match itself.
const REFUSED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "finish it, or omit it and document what is missing"),
    (concat!("unimpl", "emented!("), "finish it, or omit it and document what is missing"),
    (concat!("#[ig", "nore"), "a test that does not run is useless; fix it or delete it"),
    (concat!("sleep(", "Duration"), "wait for a condition, not for a time"),
    (concat!("#[al", "low("), "write `#[expect(…, reason = \"…\")]`, which warns when it is no longer needed"),
    (concat!("#![al", "low("), "write `#![expect(…, reason = \"…\")]`, which warns when it is no longer needed"),
];

/// Exceptions: path, word, reason.
///
/// Invariant: this list may only shrink; an unused line is a finding.
const ALLOWED: &[(&str, &str, &str)] = &[(
    "src/store/src/history/repair.rs",
    concat!("sleep(", "Duration"),
    "polling is the only way to see that another process released a lock file",
)];

/// Refused words outside the list, and unused lines of the list.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    find(files, ALLOWED)
}

fn find(files: &[SourceFile], allowed: &[(&str, &str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = vec![false; allowed.len()];
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            for (word, advice) in REFUSED.iter().filter(|(word, _)| line.contains(word)) {
                match allowed.iter().position(|(path, allowed, _)| *path == file.path && allowed == word) {
                    Some(entry) => used[entry] = true,
                    None => findings.push(Finding::at(&file.path, number + 1, format!("`{word}`: {advice}"))),
                }
            }
        }
    }
    for ((path, word, _), _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        let message = format!("`{word}` no longer occurs; delete its line in `ALLOWED`, scripts/xtask/src/words.rs");
        findings.push(Finding::about(path, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{REFUSED, find};
    use crate::sources::SourceFile;

    fn file(path: &str, text: String) -> SourceFile {
        SourceFile { path: path.to_owned(), text }
    }

    #[test]
    fn every_refused_word_is_found_with_its_line_and_advice() {
        for (word, advice) in REFUSED {
            let findings = find(&[file("a.rs", format!("fn a() {{\n    {word}\n}}\n"))], &[]);
            let messages: Vec<_> = findings.iter().map(ToString::to_string).collect();
            assert_eq!(messages, [format!("a.rs:2: `{word}`: {advice}")]);
        }
    }

    #[test]
    fn an_exception_is_allowed_and_an_unused_one_is_reported() {
        let (word, _) = REFUSED[0];
        let files = [file("a.rs", word.to_owned())];
        assert_eq!(find(&files, &[("a.rs", word, "a reason")]), []);
        let stale = find(&files, &[("a.rs", word, "a reason"), ("b.rs", word, "a reason")]);
        assert_eq!(stale.len(), 1);
        assert_eq!(stale[0].path, "b.rs");
    }
}
