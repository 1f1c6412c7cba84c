//! Plain language: identifiers of the old private vocabulary, wide comments, long test names, and
//! five figures.
//!
//! Identifiers come from `proc_macro2`, so that strings and comments do not count. `cargo run -p
//! xtask -- figures` prints the figures with their limits.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::finding::Finding;
use crate::sources::{SourceFile, function_name};

mod terms;

use terms::{IDIOMS, MERGE_SIDES, PARTICIPLES, TERMS};

/// Columns that a comment may have.
const MAX_COMMENT_COLUMNS: usize = 100;
/// Characters that the name of a test may have.
const MAX_TEST_NAME: usize = 70;

/// A figure of the language of the code outside tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    name: &'static str,
    value: f64,
    limit: f64,
}

impl std::fmt::Display for Figure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {:.1} (limit {})", self.name, self.value, self.limit)
    }
}

/// Old identifiers, wide comments, long test names, and figures over their limits.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().flat_map(check_file).collect();
    let over = figures(files).into_iter().filter(|figure| figure.value > figure.limit);
    findings.extend(over.map(|figure| Finding::about("the workspace", format!("{figure}; use standard terms"))));
    findings
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_after_test = false;
    for (number, line) in file.text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        let trimmed = line.trim_start();
        let columns = line.chars().count();
        if trimmed.starts_with("//") && columns > MAX_COMMENT_COLUMNS {
            let message = format!("comment has {columns} columns; {MAX_COMMENT_COLUMNS} is the limit");
            findings.push(Finding::at(&file.path, number, message));
        }
        is_after_test |= trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test");
        if let Some(name) = function_name(trimmed) {
            if is_after_test && name.len() > MAX_TEST_NAME {
                let message = format!("test name has {} characters; {MAX_TEST_NAME} is the limit", name.len());
                findings.push(Finding::at(&file.path, number, message));
            }
            is_after_test = false;
        }
    }
    if !file.is_test() {
        findings.extend(old_terms(file));
    }
    findings
}

/// Identifiers of [`TERMS`] outside test modules.
fn old_terms(file: &SourceFile) -> Vec<Finding> {
    let names: HashSet<String> = identifiers(without_tests(&file.text)).into_iter().collect();
    let is_merge = file.path.contains("/merge");
    let is_old = |term: &str| names.contains(term) && !(is_merge && MERGE_SIDES.contains(&term));
    let old = TERMS.iter().filter(|(term, _)| is_old(term));
    old.map(|(term, advice)| Finding::about(&file.path, format!("`{term}` is not a term of the field; {advice}")))
        .collect()
}

/// Non-test lines of Rust: lines of files that are not tests, up to an in-file test module.
pub fn code_lines(files: &[SourceFile]) -> usize {
    files.iter().filter(|file| !file.is_test()).map(|file| without_tests(&file.text).lines().count()).sum()
}

/// Type definitions below `folder`, outside tests.
pub fn count_types(files: &[SourceFile], folder: &str) -> usize {
    let below = files.iter().filter(|file| file.path.starts_with(folder) && !file.is_test());
    below.map(|file| type_names(&identifiers(without_tests(&file.text))).count()).sum()
}

/// The five figures; the limits may only shrink.
pub fn figures(files: &[SourceFile]) -> [Figure; 5] {
    let (mut lower_case, mut participles, mut comments, mut wide, mut words, mut idioms) = (0, 0, 0, 0, 0, 0);
    let mut types: HashMap<String, usize> = HashMap::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let text = without_tests(&file.text);
        let names = identifiers(text);
        lower_case += names.iter().filter(|name| name.starts_with(|letter: char| letter.is_ascii_lowercase())).count();
        participles += names.iter().filter(|name| PARTICIPLES.contains(&name.as_str())).count();
        for name in type_names(&names) {
            *types.entry(name.to_owned()).or_default() += 1;
        }
        let mut prose = String::new();
        for line in text.lines().filter(|line| line.trim_start().starts_with("//")) {
            comments += 1;
            wide += usize::from(line.chars().count() > MAX_COMMENT_COLUMNS);
            prose.push(' ');
            prose.push_str(&line.trim_start().trim_start_matches(['/', '!']).to_lowercase());
        }
        let prose: Vec<&str> = prose.split_whitespace().collect();
        words += prose.len();
        let letters = |word: &&str| word.trim_matches(|letter: char| !letter.is_alphanumeric()).to_owned();
        let spoken = format!(" {} ", prose.iter().map(letters).collect::<Vec<_>>().join(" "));
        idioms += IDIOMS.iter().map(|idiom| spoken.matches(&format!(" {idiom} ")).count()).sum::<usize>();
    }
    let defined: usize = types.values().sum();
    let one_word: usize = types.iter().filter(|(name, _)| is_one_word(name)).map(|(_, count)| count).sum();
    let shared: usize = types.values().filter(|count| **count > 1).sum();
    [
        Figure { name: "participles per 10,000 identifiers", value: share(participles, lower_case, 1e4), limit: 25.0 },
        Figure { name: "type names of one word in percent", value: share(one_word, defined, 100.0), limit: 45.0 },
        Figure { name: "types that share their name in percent", value: share(shared, defined, 100.0), limit: 22.0 },
        Figure { name: "idioms per 10,000 words of comments", value: share(idioms, words, 1e4), limit: 15.0 },
        Figure { name: "comments over 100 columns in percent", value: share(wide, comments, 100.0), limit: 0.5 },
    ]
}

#[expect(clippy::cast_precision_loss, reason = "counts of lines and words are far below 2^52")]
fn share(part: usize, whole: usize, scale: f64) -> f64 {
    scale * part as f64 / whole.max(1) as f64
}

fn is_one_word(name: &str) -> bool {
    name.bytes().filter(u8::is_ascii_uppercase).count() < 2
}

/// The text up to an in-file test module.
fn without_tests(text: &str) -> &str {
    text.match_indices("#[cfg(test)]\n")
        .find(|(at, mark)| {
            let line = text[at + mark.len()..].lines().next().unwrap_or_default();
            line.starts_with("mod ") && line.ends_with('{')
        })
        .map_or(text, |(at, _)| &text[..at])
}

/// Names of structs, enums, traits and unions among the identifiers of a text.
fn type_names(names: &[String]) -> impl Iterator<Item = &str> {
    let is_keyword = |name: &str| matches!(name, "struct" | "enum" | "trait" | "union");
    let is_type = |name: &str| name.starts_with(|letter: char| letter.is_ascii_uppercase());
    names.windows(2).filter(move |pair| is_keyword(&pair[0]) && is_type(&pair[1])).map(|pair| pair[1].as_str())
}

/// Identifiers and keywords of a text in order. A text that is not Rust has none; the compiler
/// reports it.
fn identifiers(text: &str) -> Vec<String> {
    fn walk(stream: TokenStream, names: &mut Vec<String>) {
        for tree in stream {
            match tree {
                // Doc comments are attributes here, named `doc`, with the text as a literal.
                TokenTree::Ident(name) if name == "doc" => {}
                TokenTree::Ident(name) => names.push(name.to_string()),
                TokenTree::Group(group) => walk(group.stream(), names),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    let mut names = Vec::new();
    if let Ok(stream) = TokenStream::from_str(text) {
        walk(stream, &mut names);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{check_file, code_lines, count_types, figures};
    use crate::sources::SourceFile;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn old_terms_are_found_in_code_and_not_in_strings_comments_or_tests() {
        let found =
            check_file(&file("src/a.rs", "fn a(told: u8) {}\n#[cfg(test)]\nmod tests {\n    fn told() {}\n}\n"));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("src/a.rs: `told` is not a term of the field; "), "{}", found[0]);
        let silent = [file("src/a.rs", "// told\nconst A: &str = \"told\";\n"), file("src/tests.rs", "fn told() {}\n")];
        assert_eq!(silent.iter().flat_map(check_file).count(), 0);
        // git's terms for the sides of a merge
        let merge = |path: &str| check_file(&file(path, "fn a(ours: u8, theirs: u8) {}\n")).len();
        assert_eq!([merge("src/a.rs"), merge("src/merge/a.rs"), merge("src/merged_a.rs")], [2, 0, 0]);
    }

    #[test]
    fn wide_comments_and_long_test_names_are_found_by_line() {
        let text =
            format!("// {}\n#[test]\nfn {}() {{}}\nfn {}() {{}}\n", "x".repeat(98), "a".repeat(71), "b".repeat(80));
        let found: Vec<_> = check_file(&file("src/tests.rs", &text)).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "src/tests.rs:1: comment has 101 columns; 100 is the limit",
                "src/tests.rs:3: test name has 71 characters; 70 is the limit",
            ]
        );
    }

    #[test]
    fn figures_count_what_is_outside_tests() {
        let text = "/// Told at once.\nstruct One;\nstruct TwoWords { told: u8 }\n#[cfg(test)]\nmod tests {\n    struct Three;\n}\n";
        let files =
            [file("src/a.rs", text), file("src/b.rs", "enum TwoWords {}\n"), file("tests/c.rs", "struct Four;\n")];
        let values = figures(&files).map(|figure| format!("{:.1}", figure.value));
        assert_eq!(values, ["2000.0", "33.3", "66.7", "6666.7", "0.0"]);
        assert_eq!(code_lines(&files), 4);
        assert_eq!(count_types(&files, "src/a"), 2);
    }
}
