//! What writers want to say of their next save, where the save itself cannot carry it: a program that saves a file knows no commits.

use std::collections::HashMap;

use parking_lot::Mutex;
use svcfs_base::{Actor, Caller, Change, Fault, Kind, TreePath};

use crate::Vfs;

/// Longest message, in bytes.
const MAX_BYTES: usize = 4096;
/// How many may wait for their save.
const MAX_WAITING: usize = 1000;

/// Messages that wait for a save, by path and by who will save it.
#[derive(Default)]
pub(crate) struct SaveMessages(Mutex<HashMap<(TreePath, Actor), String>>);

impl SaveMessages {
    /// The message for a set, if it is a save that one waits for; and under what it waits.
    pub(crate) fn of(&self, caller: &Caller, changes: &[Change]) -> Option<((TreePath, Actor), String)> {
        let path = match changes {
            [Change::Put { path, .. }] => path,
            // An editor's new file takes the place of the page; links may follow one that has another name.
            [Change::Move { to, .. }, rest @ ..] if rest.iter().all(is_put) => to,
            _ => return None,
        };
        let waiting = self.0.lock();
        if waiting.is_empty() {
            return None;
        }
        let key = (path.clone(), caller.actor());
        let message = waiting.get(&key)?.clone();
        Some((key, message))
    }

    /// The save was accepted.
    pub(crate) fn spent(&self, key: &(TreePath, Actor)) {
        self.0.lock().remove(key);
    }
}

fn is_put(change: &Change) -> bool {
    matches!(change, Change::Put { .. })
}

impl Vfs {
    /// Says what the commit of this caller's next save of a path is for; in the place of what was said before. Nothing takes it back.
    /// It waits until the save, or until this server ends.
    ///
    /// # Errors
    /// `Invalid` for a message without words, with control characters but tabs and ends of lines, or for a path that is not
    /// versioned; `TooLarge` over 4,096 bytes; `NoSpace` when a thousand wait already.
    pub fn set_save_message(&self, caller: &Caller, path: &TreePath, message: Option<&str>) -> Result<(), Fault> {
        let key = (path.clone(), caller.actor());
        let Some(message) = message else {
            self.core.messages.spent(&key);
            return Ok(());
        };
        if message.len() > MAX_BYTES {
            return Err(Fault::too_large("message", MAX_BYTES));
        }
        if message.trim().is_empty() {
            return Err(Fault::invalid("message", "has no words"));
        }
        if message.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            return Err(Fault::invalid("message", "has control characters"));
        }
        if !self.core.places.of(path).is_versioned() {
            return Err(Fault::invalid("path", format_args!("`{path}` is not versioned, its saves are no commits")));
        }
        let mut waiting = self.core.messages.0.lock();
        if waiting.len() >= MAX_WAITING && !waiting.contains_key(&key) {
            let text = format!("{MAX_WAITING} messages wait for their save; save, or take one back");
            return Err(Fault::new(Kind::NoSpace, text));
        }
        waiting.insert(key, message.trim().to_owned());
        Ok(())
    }

    /// What this caller said of the next save of a path.
    pub fn save_message(&self, caller: &Caller, path: &TreePath) -> Option<String> {
        self.core.messages.0.lock().get(&(path.clone(), caller.actor())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use svcfs_base::{Actor, Change, ChangeSet, Kind};

    use crate::tests::{TestSpace, at, eve};

    #[test]
    fn a_message_is_for_the_next_accepted_save_of_its_path_by_its_caller() {
        let space = TestSpace::new();
        let (ann, bob) = (eve().with_actor(Actor::new("ann")), eve().with_actor(Actor::new("bob")));
        space.vfs.set_save_message(&ann, &at("a.md"), Some("because\n\nof the tide\n")).unwrap();
        assert_eq!(space.vfs.save_message(&ann, &at("a.md")).as_deref(), Some("because\n\nof the tide"));
        assert_eq!(space.vfs.save_message(&bob, &at("a.md")), None);
        let save = |caller, path: &str, text: &str| space.vfs.apply(caller, Change::put(at(path), text.to_owned()));
        save(&bob, "a.md", "1").unwrap();
        save(&ann, "b.md", "2").unwrap();
        assert_eq!(save(&ann, "a.md", "refuse").unwrap_err().kind(), Kind::Rejected);
        save(&ann, "a.md", "1").unwrap();
        save(&ann, "a.md", "3").unwrap();
        save(&ann, "a.md", "4").unwrap();
        let said: Vec<_> =
            space.vfs.versions(&at("a.md")).unwrap().into_iter().map(|version| version.message).collect();
        assert_eq!(said, ["ann: a.md", "because\n\nof the tide", "bob: a.md"]);
        // A new file that takes the place of the page.
        space.vfs.set_save_message(&ann, &at("a.md"), Some("renamed over")).unwrap();
        save(&ann, "a.md~", "5").unwrap();
        space.vfs.apply(&ann, ChangeSet::from(Change::rename(at("a.md~"), at("a.md")))).unwrap();
        assert_eq!(space.vfs.versions(&at("a.md")).unwrap()[0].message, "renamed over");
        space.vfs.set_save_message(&ann, &at("a.md"), Some("taken back")).unwrap();
        space.vfs.set_save_message(&ann, &at("a.md"), None).unwrap();
        assert_eq!(space.vfs.save_message(&ann, &at("a.md")), None);
    }

    #[test]
    fn a_message_that_no_commit_can_have_is_refused() {
        let space = TestSpace::new();
        let say = |path: &str, text: &str| {
            space.vfs.set_save_message(&eve(), &at(path), Some(text)).map_err(|fault| fault.kind())
        };
        for (path, text, kind) in [
            ("a.md", "", Kind::Invalid),
            ("a.md", " \n", Kind::Invalid),
            ("a.md", "a\0b", Kind::Invalid),
            ("a.md", "\u{1b}[31m", Kind::Invalid),
            ("a.md~", "text", Kind::Invalid),
            (".git/x", "text", Kind::Invalid),
            ("a.md", &"é".repeat(2049), Kind::TooLarge),
        ] {
            assert_eq!(say(path, text), Err(kind), "{text:?}");
        }
        for number in 0..1000 {
            say(&format!("{number}.md"), "text").unwrap();
        }
        assert_eq!(say("a.md", "text"), Err(Kind::NoSpace));
        say("1.md", "other text").unwrap();
    }
}
