//! Merges of random edits, compared with `git merge-file` and with a merge of the parsed keys.

use std::collections::BTreeMap;
use std::process::Command;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use svcfs_text::frontmatter;
use svcfs_text::merge::{MergedLines, merge_lines};

use super::{merge_page, merge_text};

/// One edit of a list: at this place remove so many items, and insert these.
type Edit<T> = (prop::sample::Index, usize, Vec<T>);

fn edit<T: Clone>(items: &[T], edits: &[Edit<T>]) -> Vec<T> {
    let mut items = items.to_vec();
    for (place, removed, added) in edits {
        let at = place.index(items.len() + 1);
        let end = (at + removed).min(items.len());
        items.splice(at..end, added.iter().cloned());
    }
    items
}

/// Few different lines, so that many are repeated; some texts end without a line end.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![3 => Just("\n".to_owned()), 6 => (0..9_u8).prop_map(|n| format!("line {n}\n")), 1 => "[a-zé*# ]{0,12}\r?\n"]
}

fn body() -> impl Strategy<Value = [String; 3]> {
    let edits = || vec((any::<prop::sample::Index>(), 0..3_usize, vec(line(), 0..3)), 0..5);
    let texts = (vec(line(), 0..40), edits(), edits(), any::<[bool; 3]>());
    texts.prop_map(|(base, ours, theirs, is_cut)| {
        let texts = [base.concat(), edit(&base, &ours).concat(), edit(&base, &theirs).concat()];
        let mut cuts = is_cut.into_iter();
        texts.map(|text| match cuts.next() {
            Some(true) => text.trim_end_matches('\n').to_owned(),
            Some(false) | None => text,
        })
    })
}

/// The output of `git merge-file`.
#[expect(clippy::disallowed_methods, reason = "the files are outside any tree")]
fn merge_file(texts: &[String; 3]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in ["base", "ours", "theirs"].iter().zip(texts) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let labels = ["-L", "ours", "-L", "base", "-L", "theirs"];
    let mut git = Command::new("git");
    git.current_dir(&folder).args(["merge-file", "-p", "--diff3"]).args(labels).args(["ours", "base", "theirs"]);
    String::from_utf8(git.output().unwrap().stdout).unwrap()
}

/// Our merge in the form of git's output.
fn with_markers([base, ours, theirs]: &[String; 3]) -> String {
    let mut text = String::new();
    for part in merge_lines((base, ours, theirs), svcfs_store::changed_lines) {
        match part {
            MergedLines::Resolved(lines) | MergedLines::Agreed(lines) => text.push_str(lines),
            MergedLines::Conflict { base, ours, theirs, .. } => {
                for (marker, lines) in
                    [("<<<<<<< ours", ours), ("||||||| base", base), ("=======", theirs), (">>>>>>> theirs", "")]
                {
                    if !text.is_empty() && !text.ends_with('\n') {
                        text.push('\n');
                    }
                    text.extend([marker, "\n", lines]);
                }
            }
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn bodies_equal_git_merge_file(texts in body()) {
        let normalize = |text: String| text.replace("\r\n", "\n");
        prop_assert_eq!(normalize(with_markers(&texts)), normalize(merge_file(&texts)));
        let [base, ours, theirs] = &texts;
        let has_block = texts.iter().any(|text| text.starts_with("---"));
        prop_assume!(!has_block);
        let [page, text] = [merge_page, merge_text].map(|merge| merge(base, ours, theirs));
        prop_assert_eq!(&page, &text);
        if !page.conflicts.is_empty() {
            for conflict in &page.conflicts {
                let lines: String = ours.split_inclusive('\n').skip(conflict.start - 1).take(conflict.end + 1 - conflict.start).collect();
                prop_assert_eq!(lines.replace("\r\n", "\n"), conflict.ours.replace("\r\n", "\n"));
            }
        }
    }
}

/// A key with its text: a comment line above some, and values written in several ways.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    key: String,
    text: String,
}

fn entry() -> impl Strategy<Value = Entry> {
    let value = prop_oneof![
        Just(" 1".to_owned()),
        Just(" \"1\"".to_owned()),
        Just(" 'it''s'  # why".to_owned()),
        Just(" [a, b]".to_owned()),
        Just("\n  - a\n  - b # second".to_owned()),
        Just(" |\n  # text\n  more".to_owned()),
        Just(" >-\n  folded\n\n  text\n".to_owned()),
        Just("\n  x: 1\n  y: {z: [2]}".to_owned()),
        Just(" 2024-01-01".to_owned()),
        Just("".to_owned()),
    ];
    (0..8_u8, value, any::<bool>()).prop_map(|(key, value, has_comment)| {
        let key = format!("k{key}");
        let comment = if has_comment { format!("# about {key}\n") } else { String::new() };
        Entry { text: format!("{comment}{key}:{value}\n"), key }
    })
}

/// The first entry of each key.
fn without_duplicates(entries: Vec<Entry>) -> Vec<Entry> {
    let mut unique: Vec<Entry> = Vec::new();
    for entry in entries {
        if unique.iter().all(|other| other.key != entry.key) {
            unique.push(entry);
        }
    }
    unique
}

fn blocks() -> impl Strategy<Value = [Vec<Entry>; 3]> {
    let edits = || vec((any::<prop::sample::Index>(), 0..2_usize, vec(entry(), 0..2)), 0..4);
    (vec(entry(), 0..7), edits(), edits()).prop_map(|(base, ours, theirs)| {
        let base = without_duplicates(base);
        let [ours, theirs] = [ours, theirs].map(|edits| without_duplicates(edit(&base, &edits)));
        [base, ours, theirs]
    })
}

fn page(entries: &[Entry], body: &str) -> String {
    let block: String = entries.iter().map(|entry| entry.text.as_str()).collect();
    format!("---\n{block}---\n{body}")
}

type Values = BTreeMap<String, Value>;

fn values(text: &str) -> Values {
    let parsed = frontmatter::parse(text);
    assert_eq!(parsed.error, None, "{text}");
    parsed.map.into_iter().collect()
}

/// The merged values, and the keys in conflict.
fn merge_values([base, ours, theirs]: &[Values; 3]) -> (Values, Vec<String>) {
    let (mut merged, mut conflicts) = (Values::new(), Vec::new());
    let keys: std::collections::BTreeSet<&String> = base.keys().chain(ours.keys()).chain(theirs.keys()).collect();
    for key in keys {
        let (base, ours, theirs) = (base.get(key), ours.get(key), theirs.get(key));
        let value = match (ours == base, theirs == base) {
            (true, _) => theirs,
            (false, true) => ours,
            (false, false) => {
                if ours != theirs {
                    conflicts.push(key.clone());
                }
                ours
            }
        };
        value.iter().for_each(|value| drop(merged.insert(key.clone(), (*value).clone())));
    }
    (merged, conflicts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn frontmatter_equals_a_merge_of_the_parsed_keys(blocks in blocks(), bodies in body()) {
        let texts: Vec<String> = blocks.iter().zip(&bodies).map(|(entries, body)| page(entries, body)).collect();
        let [base, ours, theirs] = [&texts[0], &texts[1], &texts[2]];
        let merged = merge_page(base, ours, theirs);
        let (expected, keys) = merge_values(&[values(base), values(ours), values(theirs)]);
        prop_assert_eq!(values(&merged.text), expected, "{}", merged.text);
        let mut found: Vec<String> = merged.conflicts.iter().filter_map(|conflict| conflict.key.clone()).collect();
        found.sort_unstable();
        prop_assert_eq!(found, keys);
        let is_plain = |body: &String| !body.contains('\r');
        if bodies.iter().all(is_plain) {
            let split = frontmatter::split(&merged.text);
            prop_assert_eq!(split.body, merge_text(&bodies[0], &bodies[1], &bodies[2]).text);
            // what no side touched is there as written, in the order of the base
            let untouched = |entry: &&Entry| blocks[1].contains(*entry) && blocks[2].contains(*entry);
            let content = split.content().unwrap_or_default();
            let mut last = None;
            for entry in blocks[0].iter().filter(untouched) {
                let at = content.find(&entry.text);
                prop_assert!(at.is_some(), "{} is missing in\n{}", entry.text, content);
                let is_ordered = [1, 2].iter().all(|side| in_order(&blocks[0], &blocks[*side]));
                prop_assert!(!is_ordered || at > last, "{} has moved in\n{}", entry.text, content);
                last = at;
            }
        }
    }
}

/// Whether the common keys have the same order.
fn in_order(base: &[Entry], side: &[Entry]) -> bool {
    let common = |entries: &[Entry], others: &[Entry]| -> Vec<String> {
        let is_common = |entry: &&Entry| others.iter().any(|other| other.key == entry.key);
        entries.iter().filter(is_common).map(|entry| entry.key.clone()).collect()
    };
    common(base, side) == common(side, base)
}
