//! A disk that fills up while many write.

use super::writers::{Refusals, WRITERS, Work, check_history};
use super::{Image, must_put, save, serve, stop_and_audit, trouble, wait_until_ready};
use crate::crash::server::Binary;
use crate::space::{can_mount, git, tree, wait};

/// What is left on the disk when the writers begin.
const SPARE: u64 = 6 << 20;
const REFUSALS: Refusals = Refusals { words: &["no space left", "will be completed"], errnos: &[28, 11] };

#[test]
fn a_disk_filling_under_load_loses_no_acked_write() {
    let Some(image) = Image::new() else { return };
    let binary = Binary::build();
    let (server, client) = serve(&binary, &image);
    image.fill_but(SPARE);
    let work = Work::new(usize::MAX, REFUSALS, &|| 0);
    let saved = |path: &str, text: &str| save(&image.mountpoint().join(path), text);
    let ledgers = work.during(server.address(), can_mount().then_some(&saved), || {
        wait::until("the disk is full", || trouble(&client).is_some());
        image.free();
        wait_until_ready(&client);
        let (before, _) = work.so_far();
        wait::until("writes are taken again", || work.so_far().0 > before + 4 * WRITERS);
    });
    let check = |what| ledgers.iter().for_each(|ledger| ledger.check(what, 0, &tree::files(&image.root())));
    // What was closed and not flushed is accepted, and before what comes after it is acknowledged,
    // in place.
    must_put(&client, "last.md", "# Last\n");
    check("on the disk");
    stop_and_audit(server, &binary, &image);
    for ledger in &ledgers {
        ledger.check("in the newest commit", 0, &git::head(&image.root()));
    }
    check_history("at the end", &image.root(), 0, &ledgers);
    let (taken, refused) = work.so_far();
    println!("{taken} acknowledged, {refused} refused");
}
