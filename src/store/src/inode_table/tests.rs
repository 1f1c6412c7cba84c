use super::*;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn place() -> (tempfile::TempDir, InodeTable) {
    let folder = tempfile::tempdir().unwrap();
    let numbers = InodeTable::open(&folder.path().join("nfs.db")).unwrap();
    (folder, numbers)
}

#[test]
fn a_number_is_the_same_after_a_restart() {
    let (folder, numbers) = place();
    let (space, page) = (numbers.space_id(), numbers.inode(&path("a/b.md")).unwrap());
    drop(numbers);
    let again = InodeTable::open(&folder.path().join("nfs.db")).unwrap();
    assert_eq!((again.space_id(), again.inode(&path("a/b.md")).unwrap()), (space, page));
    assert_eq!(again.path(page).unwrap(), Some(path("a/b.md")));
    assert_eq!(again.path(InodeTable::ROOT).unwrap(), Some(TreePath::root()));
    assert_eq!(again.path(17).unwrap(), None);
}

#[test]
fn what_lies_below_a_renamed_directory_keeps_its_number() {
    let (_folder, numbers) = place();
    let page = numbers.inode(&path("old/deep/a.md")).unwrap();
    let replaced = numbers.inode(&path("new")).unwrap();
    numbers.rename(&path("old"), &path("new")).unwrap();
    assert_eq!(numbers.path(page).unwrap(), Some(path("new/deep/a.md")));
    assert_eq!(numbers.path(replaced).unwrap(), None);
    assert_eq!((numbers.try_path(page), numbers.try_path(replaced)), (Some(path("new/deep/a.md")), None));
    assert_ne!(numbers.inode(&path("old/deep/a.md")).unwrap(), page);
}

#[test]
fn the_inode_number_of_a_removed_name_is_invalid_and_not_reused() {
    let (_folder, numbers) = place();
    let page = numbers.inode(&path("a.md")).unwrap();
    assert_eq!(numbers.try_inode(InodeTable::ROOT, "a.md"), Some(page));
    numbers.remove(&path("a.md")).unwrap();
    assert_eq!(numbers.path(page).unwrap(), None);
    assert_eq!((numbers.try_path(page), numbers.try_inode(InodeTable::ROOT, "a.md")), (None, None));
    assert_ne!(numbers.inode(&path("a.md")).unwrap(), page);
}

#[test]
fn stable_writes_survive_a_restart_in_order_until_saved() {
    let (folder, numbers) = place();
    let page = numbers.inodes(InodeTable::ROOT, &["a.md", "b.md"]).unwrap()[0];
    let base = Some(ETag::from_content(b"old"));
    let acts = [
        StableOperation::Resize(0),
        StableOperation::Write(5, b"there".to_vec()),
        StableOperation::Write(0, b"hello".to_vec()),
    ];
    let disk = DiskAttributes { mode: Some(0o600), owner: Some((1000, 100)), ..DiskAttributes::default() };
    let promises = acts.map(|act| StableWrite {
        inode: page,
        base_etag: base,
        operation: act,
        author: Some(Actor::new("ann")),
        attributes: disk,
    });
    let made = promises.iter().zip([false, true, true]);
    let made: Vec<i64> = made.map(|(promise, is_flushed)| numbers.record_write(promise, is_flushed).unwrap()).collect();
    let (second, last) = (made[1], made[2]);
    drop(numbers);
    let again = InodeTable::open(&folder.path().join("nfs.db")).unwrap();
    assert_eq!(again.pending_inodes().unwrap(), [page]);
    assert_eq!(again.pending_writes(page).unwrap(), promises);
    again.discard_writes(&[(page, second..=second)], true).unwrap();
    let left = [promises[0].clone(), promises[2].clone()];
    assert_eq!(again.pending_writes(page).unwrap(), left, "those before and after are not kept yet");
    again.discard_writes(&[(page, second..=last)], true).unwrap();
    assert_eq!(again.pending_writes(page).unwrap(), promises[..1]);
    again.discard_writes(&[(page, InodeTable::ALL_POSITIONS)], false).unwrap();
    assert!(again.pending_inodes().unwrap().is_empty());
}

#[test]
fn stable_writes_of_an_older_program_are_preserved_without_name() {
    let (folder, numbers) = place();
    let page = numbers.inode(&path("a.md")).unwrap();
    drop(numbers);
    let file = folder.path().join("nfs.db");
    let connection = Connection::open(&file).unwrap();
    let before = "ALTER TABLE promises DROP COLUMN author; ALTER TABLE promises DROP COLUMN mode;
                  ALTER TABLE promises DROP COLUMN uid; ALTER TABLE promises DROP COLUMN gid; PRAGMA user_version = 1";
    connection.execute_batch(before).unwrap();
    let owed = "INSERT INTO promises (number, place, data) VALUES (?1, 0, x'41')";
    connection.execute(owed, [page.cast_signed()]).unwrap();
    drop(connection);
    let again = InodeTable::open(&file).unwrap();
    let promise = StableWrite {
        inode: page,
        base_etag: None,
        operation: StableOperation::Write(0, b"A".to_vec()),
        author: None,
        attributes: DiskAttributes::default(),
    };
    assert_eq!(again.pending_writes(page).unwrap(), [promise]);
}

#[test]
fn an_exclusive_creation_is_known_again() {
    let (_folder, numbers) = place();
    let page = numbers.inode(&path("a.md")).unwrap();
    assert!(!numbers.has_verifier(page, *b"12345678").unwrap());
    numbers.set_verifier(page, *b"12345678").unwrap();
    assert!(numbers.has_verifier(page, *b"12345678").unwrap());
    assert!(!numbers.has_verifier(page, *b"87654321").unwrap());
}

#[test]
fn numbers_of_removed_names_are_released_and_the_file_shrinks() {
    let (folder, numbers) = place();
    let names: Vec<String> = (0..40_000).map(|number| format!("a page with a name {number}.md")).collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let given = numbers.inodes(InodeTable::ROOT, &texts).unwrap();
    let (stays, owed) = (given[7], given[8]);
    numbers
        .record_write(
            &StableWrite {
                inode: owed,
                base_etag: None,
                operation: StableOperation::Resize(1),
                author: None,
                attributes: DiskAttributes::default(),
            },
            false,
        )
        .unwrap();
    let mut seen = 0;
    let mut after = 0;
    loop {
        let some = numbers.list_inodes(after, 1000).unwrap();
        let Some(last) = some.last() else { break };
        after = *last;
        seen += numbers.remove_inodes(&some, |path| path.name() != names[7]).unwrap();
    }
    assert_eq!(seen, names.len() - 2);
    assert_eq!(
        (numbers.path(stays).unwrap(), numbers.path(owed).unwrap()),
        (Some(path(&names[7])), Some(path(&names[8])))
    );
    assert_eq!(numbers.path(given[9]).unwrap(), None);
    assert_ne!(numbers.inode(&path(&names[9])).unwrap(), given[9]);
    drop(numbers);
    let file = folder.path().join("nfs.db");
    let before = std::fs::metadata(&file).unwrap().len();
    drop(InodeTable::open(&file).unwrap());
    let after = std::fs::metadata(&file).unwrap().len();
    assert!(after < before / 8, "{before} {after}");
}

#[test]
fn a_temporarily_unopenable_table_preserves_its_stable_writes() {
    let (folder, numbers) = place();
    let page = numbers.inode(&path("a.md")).unwrap();
    numbers
        .record_write(
            &StableWrite {
                inode: page,
                base_etag: None,
                operation: StableOperation::Resize(1),
                author: None,
                attributes: DiskAttributes::default(),
            },
            true,
        )
        .unwrap();
    drop(numbers);
    let (file, in_the_way) = (folder.path().join("nfs.db"), folder.path().join("nfs.db-wal"));
    std::fs::create_dir(&in_the_way).unwrap();
    assert!(InodeTable::open(&file).is_err());
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(InodeTable::open(&file).unwrap().pending_inodes().unwrap(), [page]);
}

#[test]
fn a_damaged_inode_table_is_set_aside_and_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nfs.db");
    std::fs::write(&file, "no database ".repeat(1000)).unwrap();
    let numbers = InodeTable::open(&file).unwrap();
    assert!(numbers.pending_inodes().unwrap().is_empty());
    let aside = std::fs::read_to_string(folder.path().join("nfs.db.damaged-1")).unwrap();
    assert_eq!(aside, "no database ".repeat(1000));
}

#[test]
fn a_new_inode_table_never_reads_the_log_of_a_damaged_one() {
    for renames in 0_u8..3 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("nfs.db");
        let parts = ["nfs.db", "nfs.db-wal", "nfs.db-shm"].map(|name| folder.path().join(name));
        parts.iter().for_each(|part| std::fs::write(part, "damaged").unwrap());
        let left = std::cell::Cell::new(renames);
        let killed = |from: &Path, to: &Path| {
            left.set(left.get().checked_sub(1).ok_or(io::ErrorKind::Interrupted)?);
            std::fs::rename(from, to)
        };
        set_aside(&file, killed).unwrap_err();
        assert!(file.exists(), "a new one would meet its log");
        let aside = set_aside(&file, |from, to| std::fs::rename(from, to)).unwrap();
        assert_eq!(aside, folder.path().join("nfs.db.damaged-1"));
        assert!(!parts.iter().any(|part| part.exists()));
        assert!(folder.path().join("nfs.db.damaged-1-wal").exists());
    }
}
