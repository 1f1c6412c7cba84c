//! Random days of work, after which the index has what the disk has: neither a page too many nor a
//! word of an older version, whatever was renamed, edited behind the server, not read before the
//! end, or lost of the index itself in between.
#![expect(clippy::disallowed_methods, reason = "a person edits behind the server, and an index is lost")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::strategy::Strategy;
use serde_json::json;
use svcfs_base::{Caller, Change, ChangeSet, Kind, Protocol};

use super::{check_index, paths};
use crate::spaces::test_space::{TestSpace, path};

const PATHS: [&str; 8] = ["a.md", "b.md", "d/a.md", "d/b.md", "d/x/c.md", "e/a.md", "e", "notes.txt"];
const DIRECTORIES: [&str; 4] = ["d", "d/x", "e", "f"];
const WORDS: [&str; 5] = ["apples", "pears", "plums", "quinces", "medlars"];

/// One thing that happens; numbers pick a path, and the words of a text.
#[derive(Debug, Clone)]
enum Step {
    Write {
        path: usize,
        words: usize,
        is_soon: bool,
    },
    Remove {
        path: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    RenameDirectory {
        from: usize,
        to: usize,
    },
    Many {
        writes: Vec<(usize, usize)>,
        removed: usize,
    },
    EditBehind {
        path: usize,
        words: usize,
    },
    RemoveBehind {
        path: usize,
    },
    /// What comes now is not read before the space is opened again.
    FallBehind,
    /// The space is opened again, with an index that has lost its last days, or all of them.
    Reopen {
        index: Lost,
    },
}

/// What an index lost while its space was closed.
#[derive(Debug, Clone, Copy)]
enum Lost {
    Nothing,
    LastDays,
    All,
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    let directory = 0..DIRECTORIES.len();
    let words = 0..1_usize << WORDS.len();
    let index = prop_oneof![2 => Just(Lost::Nothing), 2 => Just(Lost::LastDays), 1 => Just(Lost::All)];
    prop_oneof![
        8 => (path.clone(), words.clone(), any::<bool>()).prop_map(|(path, words, is_soon)| Step::Write { path, words, is_soon }),
        3 => path.clone().prop_map(|path| Step::Remove { path }),
        3 => (path.clone(), path.clone()).prop_map(|(from, to)| Step::Rename { from, to }),
        3 => (directory.clone(), directory).prop_map(|(from, to)| Step::RenameDirectory { from, to }),
        2 => (prop::collection::vec((path.clone(), words.clone()), 1..4), path.clone())
            .prop_map(|(writes, removed)| Step::Many { writes, removed }),
        2 => (path.clone(), words).prop_map(|(path, words)| Step::EditBehind { path, words }),
        1 => path.prop_map(|path| Step::RemoveBehind { path }),
        1 => Just(Step::FallBehind),
        2 => index.prop_map(|index| Step::Reopen { index }),
    ]
}

/// Some of the words, and links to the pages of the same numbers.
fn text(words: usize) -> String {
    let mut text = format!("---\nnumber: {words}\n---\n\n# Fruit {words}\n\n");
    for (number, word) in WORDS.iter().enumerate().filter(|(number, _)| words >> number & 1 == 1) {
        text.push_str(&format!("{word} [[{}]]\n", PATHS[number]));
    }
    text
}

/// A space, and what its index was when it was closed last.
struct World {
    space: TestSpace,
    older: Option<Vec<u8>>,
}

impl World {
    fn take(self, step: &Step) -> Self {
        match step {
            Step::Write { path: number, words, is_soon } => {
                let set = ChangeSet::from(Change::put(path(PATHS[*number]), text(*words)));
                self.apply(if *is_soon { set.soon() } else { set });
            }
            Step::Remove { path: number } => self.apply(Change::remove(path(PATHS[*number])).into()),
            Step::Rename { from, to } => self.apply(Change::rename(path(PATHS[*from]), path(PATHS[*to])).into()),
            Step::RenameDirectory { from, to } => {
                self.apply(Change::rename(path(DIRECTORIES[*from]), path(DIRECTORIES[*to])).into());
            }
            Step::Many { writes, removed } => {
                let removed = Change::remove(path(PATHS[*removed]));
                let writes = writes.iter().map(|(number, words)| Change::put(path(PATHS[*number]), text(*words)));
                self.apply(ChangeSet::new(writes.chain([removed]).collect()));
            }
            Step::EditBehind { path, words } => self.behind(|root| {
                let file = root.join(PATHS[*path]);
                _ = fs::create_dir_all(file.parent().unwrap()).and_then(|()| fs::write(file, text(*words)));
            }),
            Step::RemoveBehind { path } => self.behind(|root| _ = fs::remove_file(root.join(PATHS[*path]))),
            Step::FallBehind => self.space.stop_indexing(),
            Step::Reopen { index } => return self.reopened(*index),
        }
        self
    }

    /// What cannot be done is refused, and nothing is then to be indexed.
    fn apply(&self, set: ChangeSet) {
        if let Err(fault) = self.space.space().vfs.apply(&Caller::new(Protocol::Fuse), set) {
            let is_refused =
                !matches!(fault.kind(), Kind::Internal | Kind::Unavailable | Kind::NoSpace | Kind::ReadOnly);
            assert!(is_refused, "{fault:?}");
        }
    }

    fn behind(&self, deed: impl FnOnce(&Path)) {
        self.space.space().vfs.wait_committed().unwrap();
        deed(self.space.root());
        self.space.space().vfs.rescan().unwrap();
    }

    fn reopened(self, lost: Lost) -> Self {
        let mut closed = None;
        let space = self.space.again_after(|root| {
            let index = root.join(".svc/state/index.db");
            closed = fs::read(&index).ok();
            match (lost, &self.older) {
                (Lost::LastDays, Some(older)) => fs::write(index, older).unwrap(),
                (Lost::All, _) => _ = fs::remove_file(index),
                (Lost::Nothing | Lost::LastDays, _) => {}
            }
        });
        Self { space, older: closed }
    }
}

/// The texts of the pages that stand on the disk.
fn pages(root: &Path) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap() {
            let (entry, name) =
                entry.map(|entry| (entry.file_type().unwrap(), folder.join(entry.file_name()))).unwrap();
            let name = name.to_str().unwrap().to_owned();
            if entry.is_dir() && !name.starts_with('.') {
                folders.push(name.into());
            } else if name.ends_with(".md") {
                pages.insert(name.clone(), fs::read_to_string(root.join(name)).unwrap());
            }
        }
    }
    pages
}

/// The index, held against the disk and against one that is made anew.
fn agrees(space: &TestSpace) {
    space.settle();
    let pages = pages(space.root());
    for (number, word) in WORDS.iter().enumerate() {
        let found = space.get("search", json!({ "q": word, "limit": 100 }));
        let mut found = paths(&found);
        found.sort_unstable();
        let has = |text: &str| text.contains(word);
        let expected: Vec<_> = pages.iter().filter(|(_, text)| has(text)).map(|(page, _)| page.as_str()).collect();
        assert_eq!(found, expected, "`{word}`, which links to {}", PATHS[number]);
    }
    let report = check_index(space.space(), tempfile::tempdir().unwrap().path(), |_, _| ()).unwrap();
    assert_eq!((report.differences.as_slice(), report.pages), ([].as_slice(), pages.len()));
    assert!(report.before.is_equivalent_to(&report.after));
}

fn cases() -> u32 {
    // Fewer than of the model of what lies below: each opens whole spaces, with their tasks.
    std::env::var("SVCFS_MODEL_CASES").ok().and_then(|text| text.parse::<u32>().ok()).map_or(24, |cases| cases / 4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_the_index_has_what_the_disk_has(steps in prop::collection::vec(step(), 1..30)) {
        let mut world = World { space: TestSpace::new(), older: None };
        for step in &steps {
            world = world.take(step);
        }
        // A space that fell behind reads on where it is opened.
        agrees(&world.reopened(Lost::Nothing).space);
    }
}
