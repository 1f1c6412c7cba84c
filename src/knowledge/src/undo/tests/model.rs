//! Undo of an actor equals the tree without that actor's changes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use svcfs_base::{Change, Protocol, TreePath};

use super::{apply_as, undo};
use crate::spaces::test_space::{TestSpace, path};

const LINES: usize = 6;
const PAGES: usize = 4;

#[derive(Debug, Clone, Copy)]
enum Edit {
    Line(usize),
    Rename,
    Remove,
    Create,
}

/// Who does what with which page.
type Step = (bool, usize, Edit);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let edit = prop_oneof![
        10 => (0..LINES).prop_map(Edit::Line),
        2 => Just(Edit::Rename),
        1 => Just(Edit::Remove),
        1 => Just(Edit::Create),
    ];
    vec((any::<bool>(), 0..2 * PAGES, edit), 1..30)
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    name: String,
    lines: Vec<String>,
}

impl Page {
    fn new(number: usize, name: String) -> Self {
        Self { name, lines: (0..LINES).map(|line| format!("page {number} line {line}")).collect() }
    }
    fn text(&self) -> String {
        format!("---\nstatus: draft\n---\n\n{}\n", self.lines.join("\n\nbetween\n\n"))
    }
}

/// Pages by number.
type Pages = BTreeMap<usize, Page>;

/// Makes a step in a model; returns the change.
fn step(pages: &mut Pages, (at, page, edit): (usize, usize, Edit)) -> Option<Change> {
    if let Edit::Create = edit {
        let number = 2 * PAGES + at;
        let created = Page::new(number, format!("new/{at}.md"));
        let change = Change::put(path(&created.name), created.text());
        pages.insert(number, created);
        return Some(change);
    }
    let former = pages.get(&page)?.clone();
    match edit {
        Edit::Line(line) => {
            let page = pages.get_mut(&page)?;
            page.lines[line] = format!("step {at}");
            Some(Change::put(path(&page.name), page.text()))
        }
        Edit::Rename => {
            let page = pages.get_mut(&page)?;
            page.name = format!("renamed/{at}.md");
            Some(Change::rename(path(&former.name), path(&page.name)))
        }
        Edit::Remove => {
            pages.remove(&page);
            Some(Change::remove(path(&former.name)))
        }
        Edit::Create => None,
    }
}

fn contents<'p>(pages: impl Iterator<Item = &'p Page>) -> BTreeMap<String, String> {
    pages.map(|page| (page.name.clone(), page.text())).collect()
}

fn tree(space: &TestSpace) -> BTreeMap<String, String> {
    let vfs = &space.space().vfs;
    let files = vfs.walk(Protocol::Http, &TreePath::root()).unwrap();
    let content =
        |file: &TreePath| String::from_utf8(vfs.read(Protocol::Http, file).unwrap().content.to_vec()).unwrap();
    files.iter().map(|file| (file.path.to_string(), content(&file.path))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn undo_of_an_actor_equals_the_tree_without_its_changes(steps in steps()) {
        let space = TestSpace::new();
        let mut actual: Pages = (0..PAGES).map(|number| (number, Page::new(number, format!("p{number}.md")))).collect();
        let mut without = actual.clone();
        apply_as(&space, "base", actual.values().map(|page| Change::put(path(&page.name), page.text())).collect());
        // Pages that bot created and zoe changed, with the names that they have without what bot
        // did after zoe's first change.
        let (mut created_by_bot, mut shared) = (BTreeSet::new(), BTreeMap::new());
        for (at, (is_bot, page, edit)) in steps.into_iter().enumerate() {
            // Pages that were created during the test are addressed after the first ones.
            let page = actual.keys().nth(page).copied().unwrap_or(page);
            let former = actual.get(&page).map(|page| page.name.clone()).unwrap_or_default();
            let Some(change) = step(&mut actual, (at, page, edit)) else { continue };
            apply_as(&space, if is_bot { "bot" } else { "zoe" }, vec![change]);
            match (is_bot, edit) {
                (true, Edit::Create) => drop(created_by_bot.insert(2 * PAGES + at)),
                (true, _) => {}
                (false, _) => {
                    match edit {
                        Edit::Create => {}
                        _ if !created_by_bot.contains(&page) => {}
                        Edit::Line(_) => drop(shared.entry(page).or_insert(former)),
                        Edit::Rename => drop(shared.insert(page, format!("renamed/{at}.md"))),
                        Edit::Remove => drop(shared.remove(&page)),
                    }
                    step(&mut without, (at, page, edit));
                }
            }
        }
        prop_assert_eq!(tree(&space), contents(actual.values()), "the model is right");
        let answer = undo(&space, json!({ "actor": "bot" }));
        let mut undone = tree(&space);
        // Pages that bot created and zoe changed stay, and are listed; bot's renames and removals
        // are undone.
        for name in shared.values() {
            prop_assert!(undone.remove(name).is_some(), "`{}` is missing", name);
            prop_assert!(answer["conflicts"].to_string().contains("created by this change"), "{}", answer);
        }
        prop_assert_eq!(undone, contents(without.values()), "{}", answer);
    }
}
