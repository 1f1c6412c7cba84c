//! What is answered from memory, and that it is what everybody else is told.

use nfs3_types::nfs3::{ACCESS3args, GETATTR3args, LOOKUP3args, READ3args, nfs_fh3, stable_how};
use nfs3_types::xdr_codec::Pack;

use super::{Served, entry, whole};
use crate::clients::NfsClient;

impl Served {
    /// The answers to a question: at once, and to whoever may wait.
    fn both(&self, procedure: u32, arguments: &impl Pack) -> (Option<Vec<u8>>, Vec<u8>) {
        let message = self.message((nfs3_types::nfs3::PROGRAM, procedure), arguments);
        let client = NfsClient { address: self.address, user: None };
        let at_once = self.protocol.try_answer_cached(client, &message);
        (at_once.map(whole), whole(self.protocol.dispatch(client, &message).unwrap()))
    }

    /// The same to what clients ask of a file and its folder all the time.
    fn asked(&self, (folder, name): (&nfs_fh3, &str), file: &nfs_fh3) -> [(Option<Vec<u8>>, Vec<u8>); 6] {
        let read = |offset, count| self.both(6, &READ3args { file: file.clone(), offset, count });
        [
            self.both(3, &LOOKUP3args { what: entry(folder, name.as_bytes()) }),
            self.both(1, &GETATTR3args { object: file.clone() }),
            self.both(4, &ACCESS3args { object: file.clone(), access: 63 }),
            self.both(4, &ACCESS3args { object: folder.clone(), access: 63 }),
            read(3, 1 << 20),
            read(1 << 40, 1),
        ]
    }
}

#[test]
fn hot_requests_are_answered_from_memory_with_identical_replies() {
    let served = Served::new();
    let root = served.root();
    served.put("a/page.md", &"text\n".repeat(100_000));
    served.server.primary().vfs.wait_applied().unwrap();
    let folder = served.lookup(&root, "a").unwrap();
    let file = served.lookup(&folder, "page.md").unwrap();
    // The first who reads a file changes when it was read last.
    served.read(&file, 0, 1).unwrap();
    if served.both(1, &GETATTR3args { object: file.clone() }).0.is_none() {
        eprintln!("this disk does not tell what is in memory: nothing is answered at once");
        return;
    }
    for (number, (at_once, answer)) in served.asked((&folder, "page.md"), &file).into_iter().enumerate() {
        assert!(at_once.is_some_and(|at_once| at_once == answer), "{number}");
    }
    // A file that was saved here: its times are those that were told before the disk knew.
    let saved = served.save(&folder, "saved.md", "text\n");
    served.protocol.exports().open.iter().for_each(|export| export.save_all());
    served.server.primary().vfs.wait_applied().unwrap();
    served.read(&saved, 0, 1).unwrap();
    for (number, (at_once, answer)) in served.asked((&folder, "saved.md"), &saved).into_iter().enumerate() {
        assert!(at_once.is_none_or(|at_once| at_once == answer), "{number}");
    }
}

#[test]
fn blocking_requests_are_not_answered_inline() {
    let served = Served::new();
    let root = served.root();
    served.put("page.md", "text\n");
    served.put("other.md", "text\n");
    served.server.primary().vfs.wait_applied().unwrap();
    let (file, other) = (served.lookup(&root, "page.md").unwrap(), served.lookup(&root, "other.md").unwrap());
    let is_at_once = |file: &nfs_fh3| served.both(1, &GETATTR3args { object: file.clone() }).0.is_some();
    // Somebody writes it.
    served.write(&file, 0, b"more", stable_how::UNSTABLE).unwrap();
    assert!(!is_at_once(&file));
    assert_eq!(served.read(&file, 0, 9).unwrap().0, b"more\n");
    // Its name is gone.
    served.remove(&root, "other.md").unwrap();
    assert!(!is_at_once(&other) && served.getattr(&other).is_err());
    // Names change.
    served.put("third.md", "text\n");
    served.server.primary().vfs.wait_applied().unwrap();
    let third = served.lookup(&root, "third.md").unwrap();
    let exports = served.protocol.exports();
    let names = exports.open[0].names_lock.write();
    let client = NfsClient { address: served.address, user: None };
    let message = served.message((nfs3_types::nfs3::PROGRAM, 1), &GETATTR3args { object: third.clone() });
    assert!(served.protocol.try_answer_cached(client, &message).is_none());
    drop(names);
    assert!(served.getattr(&third).is_ok());
    // Nobody was asked yet who that is.
    let stranger = Served { user: 12_345, ..served };
    assert!(stranger.both(1, &GETATTR3args { object: third }).0.is_none());
}
