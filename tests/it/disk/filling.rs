//! A disk that fills up while many write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use svcfs_base::ETag;

use super::{Image, page, put, save, serve, stop_and_audit, trouble, wait_until_ready};
use crate::crash::server::Binary;
use crate::space::client::Client;
use crate::space::{can_mount, git, wait};

/// What is left on the disk when the writers begin.
const SPARE: u64 = 6 << 20;
const WRITERS: usize = 4;

/// What a writer asked for.
#[derive(Debug, Default)]
struct Ledger {
    acknowledged: BTreeMap<String, String>,
    refused: BTreeMap<String, String>,
}

impl Ledger {
    fn note(&mut self, path: String, text: String, is_taken: bool) {
        if is_taken { &mut self.acknowledged } else { &mut self.refused }.insert(path, text);
    }
}

/// A page of some ten kilobytes that no compression makes small.
fn text(path: &str) -> String {
    let lines = (0..250).map(|line| ETag::of(format!("{path} {line}").as_bytes()).to_string());
    format!("# {path}\n\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

/// Shared by everybody at work.
#[derive(Default)]
struct Work {
    is_over: AtomicBool,
    /// Acknowledged in all.
    taken: AtomicUsize,
}

impl Work {
    /// Writes one page after the other until the work is over.
    fn go_on(&self, folder: &str, mut write: impl FnMut(&str, &str) -> bool) -> Ledger {
        let mut ledger = Ledger::default();
        for number in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let path = format!("{folder} {number}.md");
            let text = text(&path);
            let is_taken = write(&path, &text);
            self.taken.fetch_add(usize::from(is_taken), Ordering::SeqCst);
            ledger.note(path, text, is_taken);
        }
        ledger
    }

    fn over_http(&self, client: &Client, folder: &str) -> Ledger {
        self.go_on(folder, |path, text| {
            let reply = put(client, path, text);
            if reply.status != 200 {
                let told = reply.text();
                assert!(told.contains("no space left") || told.contains("will be completed"), "{path}: {told}");
            }
            reply.status == 200
        })
    }

    fn through_the_mount(&self, mountpoint: &Path, folder: &str) -> Ledger {
        self.go_on(folder, |path, text| match save(&mountpoint.join(path), text) {
            Ok(()) => true,
            Err(error) => {
                let errno = error.raw_os_error().unwrap();
                assert!([28, 11].contains(&errno), "{path}: {error}");
                false
            }
        })
    }
}

#[test]
fn a_disk_that_fills_up_under_load_loses_nothing_acknowledged_and_keeps_no_halves() {
    let Some(image) = Image::new() else { return };
    let binary = Binary::build();
    let (server, client) = serve(&binary, &image);
    image.fill_but(SPARE);
    let work = Work::default();
    let address = server.address();
    let mountpoint: Option<PathBuf> = can_mount().then(|| image.mountpoint());
    let ledgers: Vec<Ledger> = std::thread::scope(|scope| {
        let mut writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let work = &work;
                scope.spawn(move || work.over_http(&Client::new(address), &format!("http{number}")))
            })
            .collect();
        if let Some(mountpoint) = &mountpoint {
            let work = &work;
            writers.push(scope.spawn(move || work.through_the_mount(mountpoint, "mount")));
        }
        wait::until("the disk is full", || trouble(&client).is_some());
        image.free();
        wait_until_ready(&client);
        let before = work.taken.load(Ordering::SeqCst);
        wait::until("writes are taken again", || work.taken.load(Ordering::SeqCst) > before + 4 * WRITERS);
        work.is_over.store(true, Ordering::SeqCst);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let wanted = ledgers.iter().flat_map(|ledger| &ledger.acknowledged);
    for (path, text) in wanted.clone() {
        assert_eq!(page(&client, path).as_ref(), Some(text), "{path} was acknowledged");
    }
    stop_and_audit(server, &binary, &image);
    let head = git::head(&image.root());
    for (path, text) in wanted {
        assert_eq!(head.get(path), Some(&ETag::of(text.as_bytes()).to_string()), "{path} was acknowledged");
    }
    for (path, text) in ledgers.iter().flat_map(|ledger| &ledger.refused) {
        let whole = ETag::of(text.as_bytes()).to_string();
        assert!(head.get(path).is_none_or(|found| *found == whole), "{path} was refused and is there by half");
    }
    let count = |of: fn(&Ledger) -> usize| ledgers.iter().map(of).sum::<usize>();
    let (taken, refused) = (count(|ledger| ledger.acknowledged.len()), count(|ledger| ledger.refused.len()));
    println!("{taken} acknowledged, {refused} refused");
}
