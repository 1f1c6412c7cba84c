//! What a crash leaves of packs.

use super::*;

#[test]
fn torn_own_packs_are_swept_after_a_crash_and_foreign_ones_stay() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, 2);
    fixture.git(&["repack", "-adq"]);
    let theirs = fixture.packs();
    fixture.stage(head, &[write(&at("next.md"), "next")]).unwrap();
    fixture.history.publish().unwrap();
    let ours: Vec<_> = fixture.packs().into_iter().filter(|file| !theirs.contains(file)).collect();
    // The crash came before the index; another pack of the person's is damaged, and older than the
    // log's end.
    let index = ours.iter().find(|file| file.extension().unwrap() == "idx").unwrap();
    fs::remove_file(index).unwrap();
    let damaged = theirs.iter().find(|file| file.extension().unwrap() == "pack").unwrap();
    let mut bytes = fs::read(damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::remove_file(damaged).unwrap();
    fs::write(damaged, bytes).unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(9 * 86_400);
    fs::File::open(damaged).unwrap().set_modified(old).unwrap();
    fs::File::open(damaged.with_extension("idx")).unwrap().set_modified(old).unwrap();
    let since = svcfs_base::Timestamp::now();
    assert_eq!(fixture.history.remove_torn_packs(Some(since)).unwrap(), 1);
    assert_eq!(fixture.packs(), theirs);
}

#[test]
fn an_unreferenced_pack_is_verified_after_a_crash() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, 2);
    let settled = fixture.packs();
    let objects = |n: &str| {
        fixture.stage(head, &[write(&at("next.md"), n)]).unwrap();
        fixture.history.publish().unwrap();
    };
    objects("whole");
    let whole = fixture.packs();
    objects("torn");
    let torn = fixture.packs().into_iter().find(|file| !whole.contains(file)).unwrap().with_extension("pack");
    fs::remove_file(&torn).unwrap();
    fs::write(&torn, "PACK").unwrap();
    assert_eq!(fixture.history.remove_torn_packs(None).unwrap(), 1);
    assert_eq!(
        fixture.packs(),
        whole.into_iter().filter(|file| file.extension().unwrap() != "keep").collect::<Vec<_>>()
    );
    assert!(settled.iter().all(|file| file.exists()));
    fixture.git(&["fsck", "--strict", "--full"]);
}

/// The `.keep` file of the only pack that waits for its branch.
fn mark(fixture: &Fixture) -> PathBuf {
    let marks = fixture.packs().into_iter().filter(|file| file.extension().is_some_and(|own| own == "keep"));
    let [mark] = &marks.collect::<Vec<_>>()[..] else { panic!("{:?}", fixture.packs()) };
    mark.clone()
}

/// Writes over a file that nobody may write.
fn overwritten(file: &Path, text: &str) {
    let mut free = fs::metadata(file).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut free, 0o644);
    fs::set_permissions(file, free).unwrap();
    fs::write(file, text).unwrap();
}

#[test]
fn a_torn_pack_is_recognised_although_its_mark_is_empty() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, 2);
    let settled = fixture.packs();
    fixture.stage(head, &[write(&at("next.md"), "next")]).unwrap();
    fixture.history.publish().unwrap();
    let mark = mark(&fixture);
    overwritten(&mark, "");
    overwritten(&mark.with_extension("pack"), "PACK");
    let fixture = fixture.again();
    assert_eq!(fixture.history.remove_torn_packs(None).unwrap(), 1);
    assert_eq!(fixture.packs(), settled);
    // The mark is what it is from here on.
    fixture.stage(head, &[write(&at("other.md"), "other")]).unwrap();
    fixture.history.publish().unwrap();
    overwritten(&super::torn::mark(&fixture).with_extension("pack"), "PACK");
    assert_eq!(fixture.history.remove_torn_packs(None).unwrap(), 1);
}

#[test]
fn foreign_keep_marks_stay_and_own_marks_are_removed() {
    let fixture = fixture();
    let head = fixture.pages(None, 0, 2);
    let theirs = fixture.data_files().remove(0).with_extension("keep");
    fs::write(&theirs, "").unwrap();
    fixture.stage(head, &[write(&at("next.md"), "next")]).unwrap();
    fixture.history.publish().unwrap();
    let ours = fixture.packs().into_iter().find(|file| *file != theirs && file.extension().unwrap() == "keep").unwrap();
    // As it was made where the disk knows no further names.
    fs::remove_file(&ours).unwrap();
    fs::write(&ours, KEEP_TEXT).unwrap();
    assert_eq!(fixture.history.remove_torn_packs(None).unwrap(), 0);
    assert!(theirs.exists() && !ours.exists());
}
