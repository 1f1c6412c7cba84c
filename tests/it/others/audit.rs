//! What must be true after a person was at work.

use std::collections::{BTreeMap, BTreeSet};

use svcfs_base::{ETag, Seq};

use super::person::NAME;
use super::writers::Written;
use crate::space::git::{self, git};
use crate::space::{TestSpace, tree, wait};

/// Nothing acknowledged is lost, nothing of the person's is, and everything agrees with everything.
pub fn nothing_is_lost(space: &TestSpace, written: &[Written], by_hand: &[String]) {
    space.settle();
    let root = space.root();
    let mut differing = Vec::new();
    wait::until("tree = HEAD = index when nobody writes", || {
        let (head, files) = (git::head(&root), tree::files(&root));
        differing =
            head.iter().filter(|(path, hash)| files.get(*path) != Some(*hash)).map(|(path, _)| path).cloned().collect();
        differing.is_empty() && git(&root, &["status", "--porcelain"]).is_empty()
    });
    let kept = versions(space);
    let lost: Vec<_> = written
        .iter()
        .filter(|Written { author, path, content }| {
            let hash = ETag::from_content(content.as_bytes()).to_string();
            // A person's `git commit --all` may take a page along that stands in the tree and is
            // about to be committed.
            ![author.as_str(), NAME].iter().any(|by| kept.contains(&((*by).to_owned(), path.clone(), hash.clone())))
        })
        .collect();
    assert!(lost.is_empty(), "{} of {} acknowledged writes are not in history: {lost:#?}", lost.len(), written.len());
    let reachable = git(&root, &["rev-list", "--all"]);
    for commit in by_hand {
        assert!(reachable.contains(commit), "the person's commit {commit} is lost");
    }
    // A pack that git has listed may be merged into another before it is read; once merging is over
    // git finds every one.
    wait::until("git finds no fault", || {
        git::asked(&root, &["fsck", "--strict", "--no-dangling"]).is_ok_and(|told| told.is_empty())
    });
    println!("{} acknowledged writes and {} commits by hand, all there", written.len(), by_hand.len());
}

/// Who ever put what where, on any branch.
fn versions(space: &TestSpace) -> BTreeSet<(String, String, String)> {
    let format = "--format=%x01%an%x02";
    let log = git(&space.root(), &["log", "--all", "--raw", "--no-abbrev", "--no-renames", "-z", format]);
    let mut versions = BTreeSet::new();
    for commit in log.split('\u{1}').skip(1) {
        let (author, changes) = commit.split_once('\u{2}').unwrap();
        let words: Vec<&str> = changes.split('\0').map(str::trim_start).filter(|word| !word.is_empty()).collect();
        // Each is `:<old mode> <new mode> <old hash> <new hash> <what>`, then the path.
        for pair in words.chunks(2) {
            let hash = pair[0].split(' ').nth(3).unwrap();
            versions.insert((author.to_owned(), pair[1].to_owned(), hash.to_owned()));
        }
    }
    versions
}

/// Followers of the feed heard of each of these commits.
pub fn followers_heard(space: &TestSpace, by_hand: &[String]) {
    let events = space.space().vfs.feed().events_after(Seq(0), usize::MAX / 2).unwrap();
    let heard: BTreeSet<_> = events.iter().filter_map(|event| event.commit).map(|commit| commit.to_string()).collect();
    for commit in by_hand {
        assert!(heard.contains(commit), "the person's commit {commit} is in no feed");
    }
}

/// Every page stands as its writer left it: nothing the person did was about it. Search has the
/// newest text.
pub fn pages_stand_as_written(space: &TestSpace, written: &[Written]) {
    let newest: BTreeMap<&str, &str> =
        written.iter().map(|Written { path, content, .. }| (path.as_str(), content.as_str())).collect();
    for (path, content) in &newest {
        assert_eq!(space.text(path), **content, "{path}");
    }
    search_is_right(space);
}

/// Search finds every page of the writers by the word in it.
pub fn search_is_right(space: &TestSpace) {
    let client = space.client();
    for path in git::head(&space.root()).into_keys().filter(|path| path.contains("/page ")) {
        let text = space.text(&path);
        if let Some(word) = text.lines().nth(2) {
            // What a git command put there is recorded when it is seen, maybe after everything else
            // was waited for.
            wait::until(&format!("search finds `{word}` in `{path}`"), || client.found(word) == [path.as_str()]);
        }
    }
}
