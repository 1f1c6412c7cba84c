//! Large files that the kernel reads from the disk by itself.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use svcfs_base::{Caller, Change, Protocol, TreePath};

use crate::mounted::{Mounted, has, wait_for};

const MIB: usize = 1 << 20;

/// A film; of another kind of bytes for each `kind`.
fn film(kind: u8) -> Vec<u8> {
    (0..3 * MIB).map(|at| (at % 251) as u8 ^ kind).collect()
}

fn put(space: &Mounted, path: &str, content: Vec<u8>) {
    let change = Change::put(TreePath::parse(path).unwrap(), content);
    space.vfs.apply(&Caller::new(Protocol::Http), change).unwrap();
}

fn all(file: &mut File) -> Vec<u8> {
    let mut content = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut content).unwrap();
    content
}

/// Whether this kernel reads by itself, and lets this user ask for it.
fn is_offered() -> bool {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_offered = symbols.contains("fuse_passthrough_read_iter") && rustix::process::geteuid().is_root();
    if !is_offered {
        println!("skipped in part: this kernel, or this user, passes nothing on");
    }
    is_offered
}

/// Shows: MNT-27
#[test]
fn an_open_film_stays_unchanged_and_a_new_open_sees_acked_bytes() {
    let Some(space) = Mounted::new() else { return };
    put(&space, "film.mp4", film(1));
    let mut first = File::open(space.at("film.mp4")).unwrap();
    assert_eq!(all(&mut first), film(1));
    for kind in 2..10 {
        put(&space, "film.mp4", film(kind));
        let mut again = File::open(space.at("film.mp4")).unwrap();
        assert_eq!(all(&mut again), film(kind), "{kind}");
    }
    if is_offered() {
        assert_eq!(all(&mut first), film(1), "read from the disk");
    }
    drop(first);
    assert_eq!(fs::read(space.at("film.mp4")).unwrap(), film(9));
}

/// Shows: MNT-27
#[test]
fn a_film_can_be_written_while_read_and_saves_normally() {
    let Some(space) = Mounted::new() else { return };
    put(&space, "film.mp4", film(1));
    let mut reader = File::open(space.at("film.mp4")).unwrap();
    assert_eq!(all(&mut reader), film(1));
    let mut writer = OpenOptions::new().read(true).write(true).open(space.at("film.mp4")).unwrap();
    writer.write_all_at(b"other", MIB as u64).unwrap();
    let mut expected = film(1);
    expected[MIB..MIB + 5].copy_from_slice(b"other");
    assert_eq!(all(&mut writer), expected, "what is written is read, saved or not");
    assert_eq!(all(&mut File::open(space.at("film.mp4")).unwrap()), expected, "also by whoever opens it now");
    writer.sync_all().unwrap();
    writer.write_all_at(b"more", 0).unwrap();
    drop(writer);
    expected[..4].copy_from_slice(b"more");
    assert_eq!(space.authors("film.mp4", 3).len(), 3, "one for each save");
    assert_eq!(fs::read(space.folder().join("root/film.mp4")).unwrap(), expected);
    assert_eq!(fs::read(space.at("film.mp4")).unwrap(), expected);
    if is_offered() {
        assert_eq!(all(&mut reader), film(1), "read from the disk");
    }
    drop(reader);
    fs::write(space.at("film.mp4"), film(2)).unwrap();
    assert_eq!(fs::read(space.at("film.mp4")).unwrap(), film(2));
}

/// Shows: MNT-27
#[test]
fn what_is_written_in_place_is_read_by_those_who_had_it_open() {
    let Some(space) = Mounted::new() else { return };
    for name in ["data.db", "server.log", "small.mp4"] {
        let content = if name == "small.mp4" { vec![b'a'; 1000] } else { film(1) };
        put(&space, name, content.clone());
        let mut reader = File::open(space.at(name)).unwrap();
        assert_eq!(all(&mut reader), content);
        let mut writer = OpenOptions::new().append(true).open(space.at(name)).unwrap();
        writer.write_all(b"appended").unwrap();
        assert!(all(&mut reader).ends_with(b"appended"), "{name}");
    }
}

#[test]
fn concurrent_opens_of_a_replaced_film_never_fail() {
    let Some(space) = Mounted::new() else { return };
    put(&space, "film.mp4", film(0));
    let at = space.at("film.mp4");
    std::thread::scope(|scope| {
        let read = || (0..40).for_each(|_| assert_eq!(fs::read(&at).unwrap().len(), 3 * MIB));
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        for kind in 1..20 {
            if kind % 2 == 0 {
                put(&space, "film.mp4", film(kind));
            } else {
                fs::write(space.at("new.tmp"), film(kind)).unwrap();
                fs::rename(space.at("new.tmp"), space.at("film.mp4")).unwrap();
            }
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    wait_for(|| fs::read(space.at("film.mp4")).unwrap() == film(19));
}

/// Maps a file as a program does, shared and from its beginning, and runs a statement with the map
/// `m`.
fn mapped(path: &std::path::Path, mode: &str, access: &str, statement: &str) -> String {
    let program = format!(
        "import mmap,sys\nf = open(sys.argv[1], '{mode}')\nm = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, {access})\n{statement}"
    );
    let output = std::process::Command::new("python3").arg("-c").arg(program).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Shows: MNT-27
#[test]
fn mmap_writes_beside_a_read_film_bypass_no_gate() {
    let Some(space) = Mounted::new() else { return };
    if !has("python3") {
        return;
    }
    put(&space, "film.mp4", film(1));
    let mut reader = File::open(space.at("film.mp4")).unwrap();
    assert_eq!(all(&mut reader), film(1));
    let both = "mmap.PROT_READ | mmap.PROT_WRITE";
    mapped(&space.at("film.mp4"), "r+b", both, "m[0:5] = b'other'; m.flush(); f.close(); m.close()");
    let mut expected = film(1);
    expected[..5].copy_from_slice(b"other");
    assert_eq!(space.authors("film.mp4", 2).len(), 2, "it is a version");
    wait_for(|| fs::read(space.at("film.mp4")).unwrap() == expected);
    mapped(&space.at("film.mp4"), "r+b", both, "m[0:9] = b'FORBIDDEN'");
    assert_eq!(&fs::read(space.folder().join("root/film.mp4")).unwrap()[..5], b"other", "it is refused");
    if is_offered() {
        assert_eq!(all(&mut reader), film(1), "read from the disk");
    }
}

/// Shows: MNT-27
#[test]
fn mapping_a_replaced_film_reads_the_new_content() {
    let Some(space) = Mounted::new() else { return };
    if !has("python3") {
        return;
    }
    put(&space, "film.mp4", film(1));
    let mut first = File::open(space.at("film.mp4")).unwrap();
    assert_eq!(all(&mut first), film(1));
    for kind in 2..6 {
        put(&space, "film.mp4", film(kind));
        let told = mapped(&space.at("film.mp4"), "rb", "mmap.PROT_READ", "print(list(m[0:3]))");
        assert_eq!(told.trim(), format!("{:?}", &film(kind)[..3]), "{kind}");
    }
    assert!(fs::metadata(space.at("film.mp4")).unwrap().len() == 3 * MIB as u64);
}

#[test]
fn direct_io_writes_to_a_film_reach_open_and_mapped_readers() {
    let Some(space) = Mounted::new() else { return };
    let (mut content, mut reader) = (film(1), None);
    let mut writer = File::create(space.at("film.mp4")).unwrap();
    // In pieces that begin and end anywhere.
    for part in content.chunks(300_007) {
        writer.write_all(part).unwrap();
        let reader = reader.get_or_insert_with(|| File::open(space.at("film.mp4")).unwrap());
        assert!(all(reader).ends_with(part), "saved or not");
    }
    writer.write_all_at(b"head", 0).unwrap();
    content[..4].copy_from_slice(b"head");
    assert_eq!(all(reader.as_mut().unwrap()), content);
    writer.sync_all().unwrap();
    drop((writer, reader));
    assert_eq!(fs::read(space.folder().join("root/film.mp4")).unwrap(), content);
    if has("python3") {
        fs::write(space.at("small.mp4"), "old text").unwrap();
        let statement =
            "m[0]; import os; os.pwrite(os.open(sys.argv[1], os.O_WRONLY), b'new', 0); print(m[:].decode())";
        let told = mapped(&space.at("small.mp4"), "rb", "mmap.PROT_READ", statement);
        assert_eq!(told.trim(), "new text");
    }
}
