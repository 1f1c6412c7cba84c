//! Commit messages set in advance for the next save, for programs that only save files.

use std::collections::HashMap;

use parking_lot::Mutex;
use svcfs_base::{Actor, Caller, Change, Fault, Kind, TreePath};

use crate::Vfs;

const MAX_BYTES: usize = 4096;
const MAX_WAITING: usize = 1000;

/// Pending messages by path and actor.
#[derive(Default)]
pub(crate) struct SaveMessages(Mutex<HashMap<(TreePath, Actor), String>>);

impl SaveMessages {
    /// The pending message for a set, and its key.
    pub(crate) fn find(&self, caller: &Caller, changes: &[Change]) -> Option<((TreePath, Actor), String)> {
        let path = match changes {
            [Change::Put { path, .. }] => path,
            // An editor renames its new file over the page; relinked pages may follow.
            [Change::Move { to, .. }, rest @ ..] if rest.iter().all(is_put) => to,
            _ => return None,
        };
        let pending = self.0.lock();
        if pending.is_empty() {
            return None;
        }
        let key = (path.clone(), caller.actor());
        let message = pending.get(&key)?.clone();
        Some((key, message))
    }

    pub(crate) fn remove(&self, key: &(TreePath, Actor)) {
        self.0.lock().remove(key);
    }
}

fn is_put(change: &Change) -> bool {
    matches!(change, Change::Put { .. })
}

impl Vfs {
    /// Sets the commit message of this caller's next save of a path, replacing a former one; none
    /// removes it. It waits for the save, or until this server stops.
    ///
    /// # Errors
    /// `Invalid` for a message without text, with control characters other than tab and line feed,
    /// or for an unversioned path; `TooLarge` over 4,096 bytes; `NoSpace` when 1,000 messages wait.
    pub fn set_save_message(&self, caller: &Caller, path: &TreePath, message: Option<&str>) -> Result<(), Fault> {
        let key = (path.clone(), caller.actor());
        let Some(message) = message else {
            self.core.messages.remove(&key);
            return Ok(());
        };
        if message.len() > MAX_BYTES {
            return Err(Fault::too_large("message", MAX_BYTES));
        }
        if message.trim().is_empty() {
            return Err(Fault::invalid("message", "is empty"));
        }
        if message.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            return Err(Fault::invalid("message", "has control characters"));
        }
        if !self.core.is_versioned(path) {
            return Err(Fault::invalid("path", format_args!("`{path}` is not versioned; its saves make no commits")));
        }
        let mut pending = self.core.messages.0.lock();
        if pending.len() >= MAX_WAITING && !pending.contains_key(&key) {
            let text = format!("{MAX_WAITING} messages wait for a save; save a page or remove a message first");
            return Err(Fault::new(Kind::NoSpace, text));
        }
        pending.insert(key, message.trim().to_owned());
        Ok(())
    }

    /// This caller's message for the next save of a path.
    pub fn save_message(&self, caller: &Caller, path: &TreePath) -> Option<String> {
        self.core.messages.0.lock().get(&(path.clone(), caller.actor())).cloned()
    }
}

#[cfg(test)]
mod tests {
    use svcfs_base::{Actor, Change, ChangeSet, Kind};

    use crate::tests::{TestSpace, at, eve};

    /// Shows: XATTR-4
    #[test]
    fn a_message_is_for_the_next_accepted_save_by_its_caller() {
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

    /// Shows: XATTR-4
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
