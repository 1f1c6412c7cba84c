//! A mixed day of work on a vault: editors, programs, HTTP, agents and edits behind the server, and
//! the sums afterwards.

mod corpus;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::protocols::{Door, Kind as DoorKind};
use crate::space::client::{Client, endpoint};
use crate::space::{TestSpace, can_mount, folder, git, me, wait};

/// How many edits the day has ('It is done when' 2).
const EDITS: usize = 200;
/// After its acknowledgement an edit is found within this time …
const FOUND_WITHIN: Duration = Duration::from_millis(200);
/// … and an edit made behind the server, which nobody acknowledges, within this one.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// The ways to edit a page, taking turns.
#[derive(Debug, Clone, Copy)]
enum Way {
    Vim,
    Sed,
    Copy,
    Http,
    Mcp,
    Behind,
}

const WAYS: [Way; 6] = [Way::Vim, Way::Sed, Way::Copy, Way::Http, Way::Mcp, Way::Behind];

impl Way {
    fn author(self) -> String {
        match self {
            Self::Vim | Self::Sed | Self::Copy => me(),
            Self::Http => "person:http".to_owned(),
            Self::Mcp => "agent:mcp".to_owned(),
            Self::Behind => "fswatch".to_owned(),
        }
    }

    /// Makes `text`, which differs from what is there in its last line, the content of a page.
    fn edit(self, space: &TestSpace, client: &Client, page: &str, (text, word): (&str, &str)) {
        let quoted = format!("'{}'", page.replace('\'', r"'\''"));
        match self {
            // Both replace the last line.
            Self::Vim => {
                let settings = "set noswapfile backup writebackup backupskip= backupdir=.";
                let command =
                    format!("vim -u NONE -i NONE -N -es -c '{settings}' -c '$s/.*/{word}/' -c 'wq' -- {quoted}");
                drop(space.shell(&command));
            }
            Self::Sed => drop(space.shell(&format!("sed -i '$s/.*/{word}/' -- {quoted}"))),
            Self::Copy => {
                fs::write(space.aside().join("draft.md"), text).unwrap();
                drop(space.shell(&format!("cp ../draft.md -- {quoted}")));
            }
            Self::Http => {
                let target = endpoint("/file", &[("path", page)]);
                client.send("PUT", &target, &[("X-Actor", &self.author())], text.to_owned()).success().unwrap();
            }
            Self::Mcp => {
                let arguments = json!({ "path": page, "content": text, "actor": self.author() });
                client.tool("svc_write", arguments).unwrap();
            }
            Self::Behind => fs::write(space.root().join(page), text).unwrap(),
        }
    }

    const fn limit(self) -> Duration {
        match self {
            Self::Behind => NOTICED_WITHIN,
            Self::Vim | Self::Sed | Self::Copy | Self::Http | Self::Mcp => FOUND_WITHIN,
        }
    }
}

/// Pages a save of which is not refused for what its author wrote long ago.
fn editable(client: &Client, pages: Vec<String>) -> Vec<String> {
    let is_clean = |page: &String| {
        let reply = client.send("POST", "/api/svc/lint", &[], json!({ "path": page }).to_string());
        let issues = reply.json()["issues"].as_array().unwrap().clone();
        issues.iter().all(|issue| issue["severity"] != "error")
    };
    pages.into_iter().filter(is_clean).collect()
}

/// What `grep -r` says of a folder, in a fixed order.
fn grep(space: &TestSpace, folder: &str, pattern: &str) -> String {
    space.shell(&format!(
        "cd {folder} && grep -r --exclude-dir=.git --exclude-dir=state --exclude=VIEWS.txt -e '{pattern}' . | sort"
    ))
}

#[test]
fn two_hundred_mixed_edits_are_two_hundred_versions() {
    if !can_mount() {
        return;
    }
    let folder = folder();
    corpus::copy(&folder.path().join("root"));
    let space = TestSpace::watched(folder);
    let client = space.client();
    space.settle();
    assert_eq!(grep(&space, "../mnt", "the"), grep(&space, "../root", "the"));
    let pages = space.space().index.paths(&svcfs_base::TreePath::root()).unwrap();
    let mut pages = editable(&client, pages.iter().map(ToString::to_string).step_by(2).take(60).collect());
    assert!(pages.len() >= 40, "only {} pages can be edited", pages.len());
    pages.retain(|page| !corpus::SPECIAL.contains(&page.as_str()));
    pages.splice(..0, corpus::SPECIAL.map(str::to_owned));
    let before = git::log(&space.root());
    let reader: Box<dyn Door> = DoorKind::Http.of(&space);
    let mut last_words: BTreeMap<&str, String> = BTreeMap::new();
    let mut expected = Vec::new();
    for number in 0..EDITS {
        // Every page meets every way: pages and ways turn at different speeds.
        let (way, page) = (WAYS[number % WAYS.len()], pages[(number / 5) % pages.len()].as_str());
        let word = format!("zq{number}edit");
        let text = String::from_utf8(reader.read(page).unwrap()).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        let last = last_words.get(page).map_or(corpus::START, String::as_str);
        assert_eq!(lines.pop(), Some(last), "edit {number}: {page} is not as it was left");
        lines.push(&word);
        way.edit(&space, &client, page, (&format!("{}\n", lines.join("\n")), &word));
        let found = || client.found(&word) == [page];
        wait::within(way.limit(), &format!("edit {number}, by {way:?} of {page}, is found"), found);
        if let Some(last) = last_words.insert(page, word) {
            assert!(client.found(&last).is_empty(), "edit {number}, by {way:?}: the word it removed is still found");
        }
        expected.push((way.author(), page.to_owned()));
    }
    space.settle();
    let new = git::log(&space.root()).split_off(before.len());
    let made: Vec<(String, String)> = new
        .into_iter()
        .map(|commit| {
            assert_eq!(commit.files.len(), 1, "{commit:?}");
            (commit.author, commit.files[0].1.clone())
        })
        .collect();
    assert_eq!(made, expected, "one version for each edit, in order, by whoever made it");
    assert_eq!(grep(&space, "../mnt", "zq[0-9]*edit"), grep(&space, "../root", "zq[0-9]*edit"));
    wait::until("git status is clean when the server is idle", || {
        git::git(&space.root(), &["status", "--porcelain"]).is_empty()
    });
}
