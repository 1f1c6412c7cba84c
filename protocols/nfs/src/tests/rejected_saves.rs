//! Saves that are refused, and clients who go on writing.

use std::time::{Duration, Instant};

use nfs3_types::nfs3::{nfs_fh3, nfsstat3, stable_how};
use svcfs_base::{Caller, Durability, Protocol as Entry};
use svcfs_vfs::{OpenMode, WriteAt};

use super::hostile::Network;
use super::{Served, path};
use crate::rejected::RESUME_TIMEOUT;

/// A page whose fence is not closed yet, and what closes it.
const HALF: &str = "# R\n```\n";
const REST: &str = "Linux\n```\n";
const WHOLE: &str = "# R\n```\nLinux\n```\n";
const LONG: &str = "# The old page\n\nwhich is longer than what comes in its place\n";

impl Served {
    /// So much later, with nobody writing meanwhile.
    fn after(&self, pause: Duration) {
        for export in self.protocol.exports().open {
            export.save_due(Instant::now() + pause);
        }
    }

    /// A text that is refused in a pause of whoever writes it.
    fn refused_in_a_pause(&self, file: &nfs_fh3, text: &str, stable: stable_how) {
        self.resize(file, 0).unwrap();
        self.write(file, 0, text.as_bytes(), stable).unwrap();
        self.after(PAUSE);
    }
}

const PAUSE: Duration = Duration::from_secs(3);
const UNSTABLE: stable_how = stable_how::UNSTABLE;
const STABLE: stable_how = stable_how::FILE_SYNC;

/// Shows: NFS-8
#[test]
fn a_command_pausing_inside_a_code_fence_writes_a_complete_page() {
    for standing in [LONG, "# Old\n", ""] {
        for (offset, rest) in [(HALF.len(), REST), (0, WHOLE)] {
            for stable in [UNSTABLE, STABLE] {
                let served = Served::new();
                served.put("report.md", standing);
                let file = served.lookup(&served.root(), "report.md").unwrap();
                served.refused_in_a_pause(&file, HALF, stable);
                assert_eq!(served.text("report.md").as_deref(), Some(standing));
                assert_eq!(served.text(".svc/rejected/report.md").as_deref(), Some(HALF));
                assert_eq!(served.read(&file, 0, 1000).unwrap().0, standing.as_bytes(), "what stands is what is read");
                served.write(&file, offset as u64, rest.as_bytes(), stable).unwrap();
                assert_eq!(served.read(&file, 0, 1000).unwrap().0, WHOLE.as_bytes());
                served.commit(&file).unwrap();
                assert_eq!(served.text("report.md").as_deref(), Some(WHOLE));
                assert_eq!(served.text(".svc/rejected/report.md"), None);
            }
        }
    }
}

/// Shows: NFS-8
#[test]
fn content_that_lost_a_conflict_stays_rejected_but_is_set_aside() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one\n");
    served.write(&file, 4, b"from nfs\n", UNSTABLE).unwrap();
    served.put("a.md", "from http\n");
    assert_eq!(served.commit(&file).unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    served.write(&file, 13, b"more\n", UNSTABLE).unwrap();
    served.after(PAUSE);
    served.write(&file, 18, b"and more\n", UNSTABLE).unwrap();
    assert_eq!(served.commit(&file).unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(served.text("a.md").as_deref(), Some("from http\n"));
    assert_eq!(served.text(".svc/rejected/a.md").as_deref(), Some("one\nfrom nfs\nmore\nand more\n"));
}

/// Shows: NFS-8
#[test]
fn truncating_a_file_clears_the_earlier_rejection() {
    for stable in [UNSTABLE, STABLE] {
        let served = Served::new();
        let file = served.save(&served.root(), "a.md", "# Fine\n");
        served.refused_in_a_pause(&file, HALF, stable);
        served.resize(&file, 0).unwrap();
        served.write(&file, 0, b"# Better\n", stable).unwrap();
        served.after(PAUSE);
        assert_eq!(served.text("a.md").as_deref(), Some("# Better\n"));
        served.commit(&file).unwrap();
        assert_eq!(served.text(".svc/rejected/a.md"), None);
    }
}

/// Shows: NFS-8
#[test]
fn a_never_saved_page_is_visible_to_its_client_while_rejected() {
    for stable in [UNSTABLE, STABLE] {
        let served = Served::new();
        let root = served.root();
        let file = served.create(&root, "new.md");
        served.write(&file, 0, HALF.as_bytes(), stable).unwrap();
        served.after(PAUSE);
        assert_eq!(served.text("new.md"), None);
        assert_eq!(served.text(".svc/rejected/new.md").as_deref(), Some(HALF));
        assert_eq!(served.getattr(&file).unwrap().size, HALF.len() as u64);
        assert_eq!(served.commits().len(), 0, "nor is it tried again by whoever asks about history");
        served.write(&file, HALF.len() as u64, REST.as_bytes(), stable).unwrap();
        served.commit(&file).unwrap();
        assert_eq!(served.text("new.md").as_deref(), Some(WHOLE));
    }
}

/// Shows: NFS-9
#[test]
fn a_never_saved_rejected_page_cannot_be_renamed_and_expires() {
    let served = Served::new();
    let root = served.root();
    served.save(&root, "good.md", "# Good\n");
    let file = served.create(&root, "new.md");
    served.write(&file, 0, HALF.as_bytes(), UNSTABLE).unwrap();
    for _ in 0..2 {
        assert_eq!(served.rename((&root, "new.md"), (&root, "good.md")).unwrap_err(), nfsstat3::NFS3ERR_INVAL);
    }
    assert_eq!(served.text("good.md").as_deref(), Some("# Good\n"));
    assert_eq!(served.lookup(&root, "new.md").unwrap(), file);
    served.after(RESUME_TIMEOUT);
    assert_eq!(served.getattr(&file).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    assert_eq!(served.text(".svc/rejected/new.md").as_deref(), Some(HALF));
}

/// Shows: NFS-8
#[test]
fn continuing_the_stored_page_does_not_mix_in_rejected_content() {
    let served = Served::new();
    let root = served.root();
    let file = served.save(&root, "a.md", "# Fine\n");
    served.refused_in_a_pause(&file, "# R\nlonger than the page\n```\n", UNSTABLE);
    served.write(&file, 7, b"More\n", UNSTABLE).unwrap();
    // What nobody heard of is told yet.
    assert_eq!(served.commit(&file).unwrap_err(), nfsstat3::NFS3ERR_INVAL);
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("# Fine\nMore\n"));
}

/// Shows: NFS-8
#[test]
fn concurrent_writes_of_others_do_not_mix_with_rejected_content() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "# Fine\n");
    served.refused_in_a_pause(&file, HALF, UNSTABLE);
    let (vfs, caller) = (&served.server.primary().vfs, Caller::new(Entry::Fuse));
    let (node, _) = vfs.lookup_path(&caller, &path("a.md")).unwrap();
    let handle = vfs.open_node(&caller, node, OpenMode { write: true, truncate: false }).unwrap();
    vfs.write_node(&caller, handle, WriteAt::End, b"Theirs\n").unwrap();
    let went_on = served.write(&file, HALF.len() as u64, REST.as_bytes(), UNSTABLE);
    assert_eq!(went_on.unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    vfs.publish(&caller, node, Durability::Soon).unwrap();
    vfs.release(&caller, handle).unwrap();
    vfs.forget(node, 1);
    assert_eq!(served.text("a.md").as_deref(), Some("# Fine\nTheirs\n"));
    // The same again, as clients do.
    served.write(&file, HALF.len() as u64, REST.as_bytes(), UNSTABLE).unwrap();
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some(WHOLE), "it was emptied first: the last one wins");
}

/// Shows: NFS-8
#[test]
fn content_rejected_by_a_lock_is_saved_completely_after_unlock() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "# Fine\n");
    served.write(&file, 7, b"One\n", UNSTABLE).unwrap();
    served.lock("a.md");
    served.after(PAUSE);
    assert_eq!(served.write(&file, 11, b"Two\n", UNSTABLE).unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    assert_eq!(served.text(".svc/rejected/a.md").as_deref(), Some("# Fine\nOne\n"));
    assert!(served.server.primary().vfs.end_lease(&path("a.md"), "a.md").unwrap());
    served.write(&file, 11, b"Two\n", UNSTABLE).unwrap();
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("# Fine\nOne\nTwo\n"));
}

/// Shows: NFS-8
#[test]
fn a_stable_write_of_continued_rejected_content_is_complete() {
    for standing in ["# Fine\n", LONG] {
        let served = Served::new();
        let file = served.save(&served.root(), "a.md", standing);
        // Refused, and no more promised than what is not stable.
        served.refused_in_a_pause(&file, HALF, UNSTABLE);
        served.write(&file, HALF.len() as u64, b"Linux\n", STABLE).unwrap();
        let died = served.died();
        died.assert_kept("a.md", "# R\n```\nLinux\n", "");
        assert_eq!(died.text("a.md").as_deref(), Some(standing));
        served.write(&file, 14, b"```\n", STABLE).unwrap();
        let died = served.died();
        assert_eq!(died.read(&file, 0, 1000).unwrap().0, WHOLE.as_bytes());
        died.assert_nothing_kept("a.md");
    }
}

/// Shows: NFS-8
#[test]
fn a_conflicting_stable_write_is_not_replayed_over_the_winner() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "one\n");
    served.write(&file, 4, b"from nfs\n", STABLE).unwrap();
    served.put("a.md", "from http\n");
    served.after(PAUSE);
    served.write(&file, 13, b"more\n", STABLE).unwrap();
    let died = served.died();
    died.assert_kept("a.md", "one\nfrom nfs\nmore\n", "the file was changed since");
    assert_eq!(died.text("a.md").as_deref(), Some("from http\n"));
}

/// Shows: NFS-9
#[test]
fn abandoned_rejected_content_does_not_enter_the_stored_page() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", LONG);
    served.refused_in_a_pause(&file, HALF, UNSTABLE);
    served.after(RESUME_TIMEOUT);
    for _ in 0..2 {
        let went_on = served.write(&file, HALF.len() as u64, REST.as_bytes(), UNSTABLE);
        assert_eq!(went_on.unwrap_err(), nfsstat3::NFS3ERR_INVAL);
        served.after(PAUSE);
        assert_eq!(served.text("a.md").as_deref(), Some(LONG));
        assert_eq!(served.text(".svc/rejected/a.md").as_deref(), Some(HALF));
    }
    // With what stands, and anew.
    served.write(&file, LONG.len() as u64, b"More\n", UNSTABLE).unwrap();
    assert_eq!(served.commit(&file).unwrap_err(), nfsstat3::NFS3ERR_INVAL, "told once");
    assert_eq!(served.text("a.md"), Some(format!("{LONG}More\n")));
    served.refused_in_a_pause(&file, HALF, UNSTABLE);
    served.after(RESUME_TIMEOUT);
    served.resize(&file, 0).unwrap();
    served.write(&file, 0, WHOLE.as_bytes(), UNSTABLE).unwrap();
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some(WHOLE));
}

/// Shows: NFS-9
#[test]
fn the_oldest_rejected_contents_are_dropped_above_the_limit() {
    let served = Served::new();
    let root = served.root();
    let files: Vec<_> = (0..140).map(|number| served.save(&root, &format!("{number}.md"), LONG)).collect();
    files.iter().for_each(|file| served.refused_in_a_pause(file, HALF, UNSTABLE));
    let went_on = |file: &nfs_fh3| served.write(file, HALF.len() as u64, REST.as_bytes(), UNSTABLE).map(drop);
    assert_eq!(went_on(&files[0]), Err(nfsstat3::NFS3ERR_INVAL));
    assert_eq!(went_on(&files[139]), Ok(()));
    served.commit(&files[139]).unwrap();
    assert_eq!(served.text("139.md").as_deref(), Some(WHOLE));
    assert_eq!(served.text("0.md").as_deref(), Some(LONG));
}

#[test]
fn truncate_after_rejection_applies_to_the_rejected_content() {
    let served = Served::new();
    let file = served.save(&served.root(), "a.md", "# Fine\n");
    served.refused_in_a_pause(&file, "# R\nlonger than the page\n```\n", UNSTABLE);
    served.resize(&file, 25).unwrap();
    served.commit(&file).unwrap();
    assert_eq!(served.text("a.md").as_deref(), Some("# R\nlonger than the page\n"));
}

/// Waits for a file that the tasks of a server save.
fn eventually(served: &Served, place: &str) -> String {
    let begun = Instant::now();
    loop {
        if let Some(text) = served.text(place) {
            return text;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "in vain: `{place}`");
        // Between two looks; nobody unparks this thread.
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn a_file_is_saved_in_time_though_a_refused_one_waits_for_long() {
    let served = Served::new();
    let root = served.root();
    let file = served.save(&root, "a.md", "# Fine\n");
    let _serving = Network::of(&served);
    served.resize(&file, 0).unwrap();
    served.write(&file, 0, HALF.as_bytes(), UNSTABLE).unwrap();
    assert_eq!(eventually(&served, ".svc/rejected/a.md"), HALF);
    let other = served.create(&root, "b.md");
    served.write(&other, 0, b"# B\n", UNSTABLE).unwrap();
    assert_eq!(eventually(&served, "b.md"), "# B\n");
}
