//! The story of a space: everything a person could find out about what happened to it.

use std::collections::BTreeMap;
use std::fmt::Write;

use svcfs_base::{Seq, TreePath};
use svcfs_config::VersioningStrategy;

use svcfs_vfs::{EventChange, FeedEvent};

use super::git::{self, Commit};
use super::{TestSpace, me, tree};
use crate::protocols::GUEST;

/// What the message of a commit says that gives a file another name.
const RENAMED: &str = ": rename ";

/// What the tree holds, how it came about, and what search knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Story {
    /// Every file on the disk with its hash; of empty directories nobody tells.
    pub tree: BTreeMap<String, String>,
    /// Everything that happened, oldest first: every commit, where there are commits.
    pub log: Vec<Commit>,
    /// Every indexed page with the hash of all its rows.
    pub index: BTreeMap<String, String>,
    /// What a person would like to read of those rows.
    pages: BTreeMap<String, (String, usize)>,
}

impl TestSpace {
    /// The story so far.
    pub fn story(&self) -> Story {
        self.settle();
        let index = &self.space().index;
        let fingerprint = index.fingerprint().unwrap();
        assert_eq!(fingerprint.damage, None);
        let row = |path: &TreePath| {
            let page = index.page(path).unwrap().unwrap();
            (path.to_string(), (page.title, page.word_count))
        };
        Story {
            tree: kept(tree::files(&self.root())),
            log: self.log(),
            pages: fingerprint.page_digests.keys().map(row).collect(),
            index: fingerprint.page_digests.iter().map(|(path, hash)| (path.to_string(), hash.to_string())).collect(),
        }
    }
}

impl TestSpace {
    /// Everything that happened, oldest first, as git tells it; as the feed does where there is no
    /// git.
    pub fn log(&self) -> Vec<Commit> {
        match self.strategy() {
            VersioningStrategy::Git if git::has_commits(&self.root()) => git::log(&self.root()),
            VersioningStrategy::Git => Vec::new(),
            VersioningStrategy::Cow | VersioningStrategy::None => {
                let events = self.space().vfs.feed().events_after(Seq(0), usize::MAX).unwrap();
                events.iter().map(|event| told(event)).collect()
            }
        }
    }
}

/// An event as git would tell its commit.
fn told(event: &FeedEvent) -> Commit {
    let file = |change: &EventChange| {
        let what = match (change.old, change.new) {
            (None, _) => "A",
            (Some(_), Some(_)) => "M",
            (Some(_), None) => "D",
        };
        (what.to_owned(), change.path.to_string())
    };
    let mut files: Vec<_> = event.changes.iter().map(file).collect();
    files.sort_by(|(_, one), (_, other)| one.cmp(other));
    let subject = event.message.lines().next().unwrap_or_default().to_owned();
    Commit { author: event.actor.to_string(), subject, files }
}

/// Without what a filesystem door keeps for a writer it refused (gaps.md D6); doors that answer
/// with the reason keep nothing.
fn kept(mut tree: BTreeMap<String, String>) -> BTreeMap<String, String> {
    tree.retain(|path, _| !path.starts_with(".svc/rejected/"));
    tree
}

impl Story {
    /// Whether a file got another name in it.
    pub fn has_renames(&self) -> bool {
        self.log.iter().any(|commit| commit.subject.contains(RENAMED))
    }

    /// What it is where a file is copied and removed to give it another name.
    pub fn with_renames_in_two(&self) -> Self {
        let mut told = self.clone();
        told.log = Vec::new();
        for commit in &self.log {
            let renamed =
                commit.subject.split_once(RENAMED).and_then(|(who, names)| Some((who, names.split_once(" → ")?)));
            let Some((who, (from, to))) = renamed else {
                told.log.push(commit.clone());
                continue;
            };
            let of = |what: &str| commit.files.iter().filter(|file| file.0 == what).cloned().collect();
            told.log.push(Commit { subject: format!("{who}: {to}"), files: of("A"), ..commit.clone() });
            // A message ends with no space.
            let removal = format!("delete: {from}").trim_end().to_owned();
            told.log.push(Commit { subject: removal, files: of("D"), ..commit.clone() });
        }
        told
    }

    /// The story as a snapshot keeps it: without hashes and dates, and the same whoever runs the
    /// tests.
    pub fn told(&self) -> String {
        let Self { tree, log, index: _, pages } = self;
        let me = me();
        let neutral = |text: &str| match text.strip_prefix(&format!("{me}: ")) {
            Some(rest) => format!("<me>: {rest}"),
            None => text.replacen(&format!("{GUEST}: "), "<guest>: ", 1),
        };
        let author = |name: &str| match name {
            name if name == me => "<me>".to_owned(),
            GUEST => "<guest>".to_owned(),
            name => name.to_owned(),
        };
        let mut told = "tree\n".to_owned();
        for path in tree.keys() {
            writeln!(told, "  {path}").unwrap();
        }
        told.push_str("log\n");
        for Commit { author: name, subject, files } in log {
            writeln!(told, "  {} | {}", author(name), neutral(subject)).unwrap();
            for (what, path) in files {
                writeln!(told, "    {what} {path}").unwrap();
            }
        }
        told.push_str("index\n");
        for (path, (title, words)) in pages {
            writeln!(told, "  {path} | {title} | {words} words").unwrap();
        }
        told
    }
}
