//! Words that must not be in the source, and the few places where they may.

use crate::finding::Finding;
use crate::sources::SourceFile;

/// A word, and why it is refused. Written in two halves so that this file does not find itself.
const REFUSED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "finish it, or leave it out and say what is missing"),
    (concat!("unimpl", "emented!("), "finish it, or leave it out and say what is missing"),
    (concat!("#[ig", "nore"), "a test that is not run says nothing; mend it or delete it"),
    (concat!("sleep(", "Duration"), "wait for a condition, never for a time"),
    (concat!("#[al", "low("), "write `#[expect(…, reason = \"…\")]`, which complains when it is no longer needed"),
    (concat!("#![al", "low("), "write `#![expect(…, reason = \"…\")]`, which complains when it is no longer needed"),
];

/// A place where a refused word may stand, and why: path, the word, the reason.
///
/// This list may only shrink; a line that is no longer needed is a finding.
const ALLOWED: &[(&str, &str, &str)] = &[(
    "src/store/src/history/repair.rs",
    concat!("sleep(", "Duration"),
    "whether another process let go of a lock file can only be looked at again",
)];

/// Refused words outside the list, and lines of the list that nothing needs.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    find(files, ALLOWED)
}

fn find(files: &[SourceFile], allowed: &[(&str, &str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; allowed.len()];
    for file in files {
        for (number, line) in file.text.lines().enumerate() {
            for (word, advice) in REFUSED.iter().filter(|(word, _)| line.contains(word)) {
                match allowed.iter().position(|(path, allowed, _)| *path == file.path && allowed == word) {
                    Some(entry) => needed[entry] = true,
                    None => findings.push(Finding::at(&file.path, number + 1, format!("`{word}`: {advice}"))),
                }
            }
        }
    }
    for ((path, word, _), _) in allowed.iter().zip(needed).filter(|(_, needed)| !needed) {
        let message = format!("`{word}` is no longer there; delete its line in `ALLOWED`, scripts/xtask/src/words.rs");
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
            let found = find(&[file("a.rs", format!("fn a() {{\n    {word}\n}}\n"))], &[]);
            let messages: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(messages, [format!("a.rs:2: `{word}`: {advice}")]);
        }
    }

    #[test]
    fn an_allowed_place_is_fine_and_a_stale_permission_is_not() {
        let (word, _) = REFUSED[0];
        let files = [file("a.rs", word.to_owned())];
        assert_eq!(find(&files, &[("a.rs", word, "a reason")]), []);
        let stale = find(&files, &[("a.rs", word, "a reason"), ("b.rs", word, "a reason")]);
        assert_eq!(stale.len(), 1);
        assert_eq!(stale[0].path, "b.rs");
    }
}
