//! What must be true after a crash where git does not remember.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use svcfs_base::ETag;

use super::ledger::{Deed, Ledger};
use crate::space::client::{Client, endpoint};
use crate::space::{leftovers, tree};

/// What happened to each path, in order: by whom, and whether that removed it.
#[derive(Default, Clone)]
pub struct Told {
    since: String,
    changes: BTreeMap<String, Vec<(String, bool)>>,
}

impl Told {
    /// Reads on in the change feed; the first time, what was there before anybody worked is passed
    /// over.
    pub fn read_on(&mut self, address: SocketAddr) {
        let client = Client::new(address);
        if self.since.is_empty() {
            let page = client.get(&endpoint("/changes", &[("limit", "1")])).success().unwrap().json();
            return page["last_seq"].as_str().unwrap().clone_into(&mut self.since);
        }
        loop {
            let query = [("since", self.since.as_str()), ("limit", "500")];
            let page = client.get(&endpoint("/changes", &query)).success().unwrap().json();
            for change in page["changes"].as_array().unwrap() {
                let text = |key: &str| change[key].as_str().unwrap().to_owned();
                self.changes.entry(text("path")).or_default().push((text("actor"), text("action") == "delete"));
            }
            if page["changes"].as_array().is_none_or(Vec::is_empty) {
                return;
            }
            page["last_seq"].as_str().unwrap().clone_into(&mut self.since);
        }
    }

    /// Every deed was told once, in its order, and nothing else was.
    pub fn check(&self, what: &str, ledgers: &[&Ledger]) {
        let done = by_path(ledgers, |deed, content| (deed.author.clone(), content.is_none()));
        for (path, done) in &done {
            assert_eq!(self.changes.get(path), Some(done), "{what}: changes of {path} as told, and as they were");
        }
        let unasked: Vec<_> = self.changes.keys().filter(|path| !done.contains_key(*path)).collect();
        assert!(unasked.is_empty(), "{what}: nobody did anything to {unasked:?}");
    }
}

/// Something of each deed for each path it touched, in order.
fn by_path<T>(ledgers: &[&Ledger], of: impl Fn(&Deed, Option<&String>) -> T) -> BTreeMap<String, Vec<T>> {
    let mut all: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for deed in ledgers.iter().flat_map(|ledger| &ledger.deeds) {
        for (path, content) in &deed.effects {
            all.entry(path.clone()).or_default().push(of(deed, content.as_ref()));
        }
    }
    all
}

/// Every content that was recorded has one snapshot, in its order.
pub fn snapshots(what: &str, root: &Path, ledgers: &[&Ledger]) {
    for (path, contents) in by_path(ledgers, |_, content| content.cloned()) {
        let contents: Vec<String> = contents.into_iter().flatten().collect();
        let directory = root.join(".versions").join(&path);
        let mut names: Vec<_> =
            fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        let kept: Vec<String> = names.into_iter().map(|name| fs::read_to_string(name).unwrap()).collect();
        let begins =
            |texts: &[String]| texts.iter().map(|text| text.lines().next().map(str::to_owned)).collect::<Vec<_>>();
        assert!(
            kept == contents,
            "{what}: snapshots of {path}: {:?}, asked for {:?}",
            begins(&kept),
            begins(&contents)
        );
    }
}

/// The tree is what the deeds made of it, and no more; nothing is half done.
pub fn whole(what: &str, root: &Path, ledgers: &[&Ledger]) {
    leftovers::check_root_without_git(root);
    let pages = ledgers.iter().flat_map(|ledger| ledger.pages());
    let expected: BTreeMap<_, _> =
        pages.map(|(path, text)| (path, ETag::from_content(text.as_bytes()).to_string())).collect();
    let mut found = tree::files(root);
    found.retain(|path, _| path != "seed.md" && !path.starts_with(".svc/"));
    assert_eq!(found, expected, "{what}: the tree");
}
