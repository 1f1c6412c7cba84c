#![expect(clippy::disallowed_methods, reason = "packs are looked at and taken away by hand")]

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use svcfs_base::{Actor, CommitId};

use super::super::FileEdit;
use super::super::tests::{Fixture, at, author, fixture, write};
use super::pack_set::MERGE_FACTOR;
use super::*;
use crate::StoreError;

impl Fixture {
    /// What there is once merging is over.
    fn packs(&self) -> Vec<PathBuf> {
        self.history.merger.wait_idle();
        let entries = fs::read_dir(self.directory.path().join(".git/objects/pack")).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn data_files(&self) -> Vec<PathBuf> {
        self.packs().into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "pack")).collect()
    }

    /// Waits for the thread that merges.
    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: {:?}", self.packs());
            std::thread::yield_now();
        }
    }

    /// The next life of the same repository.
    fn again(self) -> Self {
        let Self { directory, history } = self;
        drop(history);
        let (history, _) = super::super::History::open(directory.path(), &[]).unwrap();
        Self { directory, history }
    }

    fn checkpoint(&self) {
        self.history.start_flush();
        self.history.finish_flush();
    }

    fn stage(&self, parent: Option<CommitId>, edits: &[FileEdit<'_>]) -> HistoryResult<CommitId> {
        Ok(self.history.stage(parent, edits, &author(&Actor::new("eve")))?.commit)
    }

    /// Pages `from..upto`, one commit each; what is due to be merged is merged by the writer.
    fn pages(&self, mut head: Option<CommitId>, from: usize, upto: usize) -> Option<CommitId> {
        for n in from..upto {
            head = Some(self.commit(head, &[write(&at(&format!("{n}.md")), &format!("page {n}"))]));
            // The helper that was called now would take what the writer is about to.
            self.history.merger.wait_idle();
        }
        head
    }
}

#[test]
fn packs_repacked_by_external_git_do_not_stop_the_writer() {
    for repack in [&["repack", "-adq"][..], &["gc", "-q", "--prune=now"]] {
        let fixture = fixture();
        let mut head = fixture.pages(None, 0, MERGE_FACTOR - 1);
        fixture.git(repack);
        head = fixture.pages(head, MERGE_FACTOR, MERGE_FACTOR * 3);
        fixture.git(repack);
        fixture.pages(head, MERGE_FACTOR * 3, MERGE_FACTOR * 14);
        fixture.git(&["fsck", "--strict", "--full"]);
        assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]).trim(), (MERGE_FACTOR * 14 - 1).to_string());
    }
}

#[test]
fn what_was_pruned_since_it_was_written_is_written_again() {
    let fixture = fixture();
    let (kept, page) = (at("kept.md"), at("d/page.md"));
    let first = fixture.commit(None, &[write(&kept, "kept")]);
    fixture.commit(Some(first), &[write(&page, "a page")]);
    // Opens the pack, so that libgit2 knows it for as long as it lives.
    assert!(fixture.history.leaf(fixture.history.head().unwrap().unwrap(), &page).unwrap().is_some());
    fixture.git(&["update-ref", "HEAD", &first.to_string()]);
    fixture.git(&["reflog", "expire", "--expire=now", "--all"]);
    fixture.git(&["gc", "-q", "--prune=now"]);
    fixture.commit(Some(first), &[write(&page, "a page"), write(&at("other.md"), "other")]);
    fixture.git(&["fsck", "--strict", "--full"]);
    assert_eq!(fixture.git(&["show", "HEAD:d/page.md"]), "a page");
}

#[test]
fn a_rejected_or_empty_set_leaves_nothing_in_git() {
    let fixture = fixture();
    let (page, other) = (at("page.md"), at("other.md"));
    let first = fixture.commit(None, &[write(&page, "1")]);
    fixture.stage(Some(first), &[write(&other, "refused"), write(&at(".git/x"), "x")]).unwrap_err();
    fixture.stage(Some(first), &[write(&page, "1")]).unwrap();
    let before = fixture.packs();
    fixture.history.publish().unwrap();
    assert_eq!(fixture.packs(), before);
    fixture.commit(Some(first), &[write(&other, "refused")]);
    fixture.git(&["fsck", "--strict", "--full"]);
}

#[test]
fn the_same_objects_published_twice_stand_in_a_merged_pack_once() {
    let fixture = fixture();
    let page = at("page.md");
    for n in 0..MERGE_FACTOR * 3 {
        fixture.stage(None, &[write(&page, &format!("{}", n % 2)), write(&at("same.md"), "same")]).unwrap();
        fixture.history.publish().unwrap();
    }
    let head = fixture.stage(None, &[write(&page, "0"), write(&at("same.md"), "same")]).unwrap();
    fixture.history.advance(None, head).unwrap();
    fixture.history.unpin_packs();
    let head = fixture.pages(Some(head), 0, MERGE_FACTOR * 2);
    assert_eq!(fixture.history.head().unwrap(), head);
    fixture.git(&["fsck", "--strict", "--full"]);
    for index in fixture.packs().iter().filter(|file| file.extension().is_some_and(|extension| extension == "idx")) {
        let listed = fixture.git(&["verify-pack", "-v", index.to_str().unwrap()]);
        let mut ids: Vec<_> =
            listed.lines().filter_map(|line| line.split(' ').next()).filter(|id| id.len() == 40).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{listed}");
    }
}

#[test]
fn packs_that_were_flushed_are_merged_beside_the_writer_and_go() {
    let fixture = fixture();
    let flushed = fixture.pages(None, 0, MERGE_FACTOR - 1);
    fixture.checkpoint();
    let on_the_disk = fixture.packs();
    fixture.pages(flushed, MERGE_FACTOR - 1, MERGE_FACTOR);
    fixture.until("merged", |_| on_the_disk.iter().all(|file| !file.exists()));
    assert_eq!(fixture.data_files().len(), 1, "{:?}", fixture.packs());
    fixture.git(&["fsck", "--strict", "--full"]);
}

/// Shows: GIT-10
#[test]
fn packs_of_many_short_lives_become_few() {
    let mut fixture = fixture();
    let mut head = None;
    for life in 0..MERGE_FACTOR * 9 {
        let count = life % 3 + 1;
        head = fixture.pages(head, life * 10, life * 10 + count);
        fixture.checkpoint();
        fixture = fixture.again();
        assert!(fixture.data_files().len() < 3 * MERGE_FACTOR, "life {life}: {:?}", fixture.packs());
    }
    fixture.git(&["fsck", "--strict", "--full"]);
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]).trim(), (MERGE_FACTOR * 9 * 2).to_string());
}

/// Clones a repository again and again, and checks what came of it; how often that was something.
fn clones(fixture: &Fixture, is_done: &AtomicBool) -> usize {
    let mut runs = 0;
    while !is_done.load(Ordering::Relaxed) {
        let place = tempfile::tempdir().unwrap();
        let clone = place.path().join("clone");
        let mut command = Command::new("git");
        command.args(["clone", "-q", "--bare", "--no-local"]).arg(fixture.directory.path()).arg(&clone);
        // Before the first commit there is no branch; and a pack may be merged away while it is
        // read.
        if command.output().unwrap().status.success() {
            let fsck = Command::new("git").arg("-C").arg(&clone).args(["fsck", "--strict"]).output().unwrap();
            assert!(fsck.status.success(), "{}", String::from_utf8_lossy(&fsck.stderr));
            runs += 1;
        }
    }
    runs
}

/// Shows: GIT-10
#[test]
fn thousands_of_batches_leave_few_packs_that_stock_git_reads() {
    let mut fixture = fixture();
    let (mut head, mut number) = (None, 0);
    for life in 0..4 {
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let git = scope.spawn(|| clones(&fixture, &is_done));
            let done = Done(&is_done);
            for _ in 0..700 {
                let path = at(&format!("{}/{}.md", number % 7, number % 61));
                head = Some(fixture.commit(head, &[write(&path, &format!("version {number}"))]));
                number += 1;
                if number % 200 == 0 {
                    fixture.checkpoint();
                }
            }
            drop(done);
            assert!(git.join().unwrap() > 0, "life {life}: nothing was cloned");
        });
        fixture.checkpoint();
        fixture = fixture.again();
        assert!(fixture.data_files().len() <= 50, "life {life}: {:?}", fixture.packs());
    }
    fixture.git(&["fsck", "--strict", "--full"]);
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]).trim(), number.to_string());
    fixture.git(&["gc", "-q"]);
    fixture.git(&["fsck", "--strict", "--full"]);
}

/// Shows: GIT-10
#[test]
fn tightly_packed_and_keep_marked_packs_are_not_merged() {
    let fixture = fixture();
    let mut text = "a line\n".repeat(2_000);
    let page = at("page.md");
    let mut head = None;
    for n in 0..3 {
        text.push_str(&format!("line {n}\n"));
        head = Some(fixture.commit(head, &[write(&page, &text)]));
    }
    fixture.git(&["repack", "-adfq", "--depth=5"]);
    let theirs = fixture.data_files();
    let fixture = fixture.again();
    let head = fixture.pages(head, 0, 2);
    let kept = fixture.data_files().into_iter().find(|file| !theirs.contains(file)).unwrap();
    fs::write(kept.with_extension("keep"), "mine").unwrap();
    fixture.checkpoint();
    fixture.pages(head, 2, 3 * MERGE_FACTOR);
    fixture.checkpoint();
    let fixture = fixture.again();
    assert!(theirs.iter().chain([&kept]).all(|file| file.exists()), "{:?}", fixture.packs());
    assert!(fixture.data_files().len() <= 2 + MERGE_FACTOR, "{:?}", fixture.packs());
    fixture.git(&["fsck", "--strict", "--full"]);
}

#[test]
fn a_damaged_pack_is_not_merged_and_harms_nothing_else() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, MERGE_FACTOR - 1);
    let damaged = fixture.data_files().remove(0);
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::remove_file(&damaged).unwrap();
    fs::write(&damaged, &bytes).unwrap();
    let before = fixture.packs();
    let head = fixture.pages(head, MERGE_FACTOR - 1, MERGE_FACTOR);
    assert!(before.iter().all(|file| file.exists()), "{:?}", fixture.packs());
    assert_eq!(fs::read(&damaged).unwrap(), bytes);
    // The others are merged with what comes next.
    fixture.pages(head, MERGE_FACTOR, MERGE_FACTOR + 1);
    assert_eq!(fixture.data_files().len(), 2, "{:?}", fixture.packs());
    assert!(damaged.exists());
}

#[test]
fn an_index_that_disagrees_with_its_pack_is_not_trusted() {
    let fixture = fixture();
    fixture.pages(None, 0, 2);
    let packs = fixture.data_files();
    let index = packs[0].with_extension("idx");
    let whole = fs::read(&index).unwrap();
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::remove_file(&index).unwrap();
        fs::write(&index, &bytes[..]).unwrap();
        let parts: Vec<_> = packs
            .iter()
            .map(|path| pack_set::StoredPack {
                path: path.clone(),
                bytes: fs::metadata(path).unwrap().len(),
                is_flushed: true,
            })
            .collect();
        let target = tempfile::tempdir().unwrap();
        let fail = crate::FailPoints::new(target.path());
        let join = merge::PackMerge {
            fail: &fail,
            directory: target.path(),
            temporary: target.path().join("new"),
            is_flushed: false,
            reuse: None,
        };
        match join.run(&parts, &mut || Ok(())) {
            Err(merge::MergeFailure::Unfit(path, _)) => assert_eq!(path, packs[0], "byte {at}"),
            other => panic!("byte {at}: {other:?}"),
        }
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0, "byte {at}: something is left over");
    }
}

#[test]
fn a_multi_pack_index_naming_a_missing_pack_is_removed() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, MERGE_FACTOR - 1);
    fixture.git(&["multi-pack-index", "write"]);
    let listing = fixture.directory.path().join(".git/objects/pack/multi-pack-index");
    let listed = fs::read(&listing).unwrap();
    fs::remove_file(&listing).unwrap();
    let head = fixture.pages(head, MERGE_FACTOR - 1, MERGE_FACTOR);
    // Put in place by a git that looked before the packs became one.
    fs::write(&listing, listed).unwrap();
    fixture.pages(head, MERGE_FACTOR, 2 * MERGE_FACTOR + 2);
    assert!(!listing.exists());
    fixture.git(&["fsck", "--strict", "--full"]);
}

#[test]
fn a_pack_waiting_for_its_branch_is_protected_from_repacking() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, 3);
    let next = fixture.stage(head, &[write(&at("next.md"), "next")]).unwrap();
    fixture.history.publish().unwrap();
    fixture.git(&["repack", "-adq"]);
    fixture.git(&["gc", "-q", "--prune=now"]);
    fixture.history.advance(head, next).unwrap();
    fixture.history.unpin_packs();
    fixture.git(&["fsck", "--strict", "--full"]);
    assert!(fixture.packs().iter().all(|file| file.extension().is_none_or(|extension| extension != "keep")));
}

/// Shows: GIT-10
#[test]
fn a_pack_others_list_in_a_common_index_stays() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, MERGE_FACTOR - 2);
    fixture.git(&["multi-pack-index", "write"]);
    fixture.pages(head, MERGE_FACTOR, MERGE_FACTOR * 4);
    fixture.git(&["multi-pack-index", "verify"]);
    fixture.git(&["fsck", "--strict", "--full"]);
}

/// Tells the other threads that this one is done, also when it failed.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn every_commit_survives_housekeeping_beside_the_writer() {
    let fixture = fixture();
    let is_done = AtomicBool::new(false);
    let mut commits = vec![fixture.commit(None, &[write(&at("first.md"), "first")])];
    std::thread::scope(|scope| {
        let _done = Done(&is_done);
        scope.spawn(|| {
            for arguments in [&["gc", "-q", "--prune=now"][..], &["repack", "-adq"]].into_iter().cycle() {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                // A pack may be merged away while it is read: then this run fails, and nothing is
                // lost.
                Command::new("git").arg("-C").arg(fixture.directory.path()).args(arguments).output().unwrap();
            }
        });
        for page in ["first"; 3] {
            let (fixture, is_done, first) = (&fixture, &is_done, commits[0]);
            scope.spawn(move || {
                let path = at("first.md");
                while !is_done.load(Ordering::Relaxed) {
                    let head = fixture.history.head().unwrap().unwrap();
                    for commit in [first, head] {
                        let (etag, _) = fixture.history.leaf(commit, &path).unwrap().unwrap();
                        assert_eq!(fixture.history.read_blob(etag).unwrap().unwrap(), page.as_bytes());
                    }
                }
            });
        }
        for n in 0..300 {
            let parent = *commits.last().unwrap();
            // Small sets of content that comes and goes.
            let path = at(&format!("d{}/{}.md", n % 5, n % 11));
            let next = fixture.stage(Some(parent), &[write(&path, &format!("{}", n % 7 + n / 40))]).unwrap();
            while let Err(error) = fixture.history.advance(Some(parent), next) {
                // `git gc` holds the references for a moment.
                assert!(matches!(&error, StoreError::Git(error) if error.code() == git2::ErrorCode::Locked), "{error}");
                std::thread::yield_now();
            }
            fixture.history.unpin_packs();
            assert!(fixture.history.leaf(next, &path).unwrap().is_some());
            commits.push(next);
        }
    });
    fixture.git(&["fsck", "--strict", "--full"]);
    commits.dedup();
    assert_eq!(fixture.git(&["rev-list", "--count", "HEAD"]).trim(), commits.len().to_string());
    fixture.git(&["repack", "-adq"]);
    fixture.git(&["fsck", "--strict", "--full"]);
}

#[test]
fn packs_belong_to_the_repository_owner_and_are_read_only() {
    let fixture = fixture();
    let directory = fixture.directory.path().join(".git/objects/pack");
    let owner = if rustix::process::geteuid().is_root() { 12345 } else { rustix::process::geteuid().as_raw() };
    std::os::unix::fs::chown(&directory, Some(owner), None).unwrap();
    fixture.pages(None, 0, 2);
    for file in fixture.packs() {
        let stat = fs::metadata(&file).unwrap();
        assert_eq!((stat.uid(), stat.mode() & 0o222), (owner, 0), "{}", file.display());
    }
}

#[test]
fn a_person_works_in_a_repository_the_root_user_made_for_them() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(directory.path(), Some(12345), Some(12345)).unwrap();
    let (history, _) = super::super::History::open(directory.path(), &[]).unwrap();
    let fixture = Fixture { directory, history };
    fixture.pages(None, 0, 3);
    fixture.history.refresh_index([at("0.md")].iter(), |_, _| Ok(true)).unwrap();
    let strange = Command::new("find").arg(fixture.directory.path()).args(["!", "-uid", "12345"]).output().unwrap();
    assert_eq!(String::from_utf8(strange.stdout).unwrap(), "");
}

#[test]
fn a_tree_of_a_batch_is_found_after_leaving_the_memory_cache() {
    let fixture = fixture();
    let side = at("side/page.md");
    let mut tip = fixture.stage(None, &[write(&side, "side")]).unwrap();
    // Each commit makes a directory anew whose tree takes half a megabyte.
    let name = "n".repeat(200);
    let names: Vec<_> = (0..2200).map(|n| at(&format!("wide/{name}{n}"))).collect();
    let edits: Vec<_> = names.iter().map(|path| write(path, "x")).collect();
    tip = fixture.stage(Some(tip), &edits).unwrap();
    for (n, name) in names.iter().take(40).enumerate() {
        tip = fixture.stage(Some(tip), &[write(name, &format!("{n}"))]).unwrap();
    }
    tip = fixture.stage(Some(tip), &[write(&at("side/other.md"), "other")]).unwrap();
    fixture.history.advance(None, tip).unwrap();
    fixture.history.unpin_packs();
    fixture.git(&["fsck", "--strict", "--full"]);
    assert_eq!(fixture.git(&["show", "HEAD:side/page.md"]), "side");
}

#[test]
fn a_repository_with_other_hashes_is_refused_and_untouched() {
    let directory = tempfile::tempdir().unwrap();
    let made = Command::new("git").arg("init").args(["-q", "--object-format=sha256"]).arg(directory.path()).status();
    assert!(made.unwrap().success());
    let error = super::super::History::open(directory.path(), &[]).err().unwrap();
    assert!(matches!(&error, StoreError::Git(_)) && error.to_string().contains("object format 'sha256'"), "{error}");
}

#[test]
fn a_large_blob_is_read_by_git_as_it_was_written() {
    let fixture = fixture();
    let mut state = 1_u32;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(9 << 20)
    .collect();
    let path = at("large.bin");
    let edit = FileEdit::Write { path: &path, kind: svcfs_base::FileKind::Regular, content: &content };
    let mut head = Some(fixture.commit(None, &[edit]));
    head = fixture.pages(head, 0, MERGE_FACTOR * 3);
    let blob = fixture.history.leaf(head.unwrap(), &path).unwrap().unwrap().0;
    assert!(fixture.history.read_blob(blob).unwrap().unwrap() == content);
    fixture.git(&["fsck", "--strict", "--full"]);
}

mod renewal;
mod reused;
mod torn;
