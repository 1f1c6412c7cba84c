//! What is told of files, of the disk and of the server itself.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use nfs3_types::mount::{self, dirpath, exports, mountlist};
use nfs3_types::nfs3::{
    ACCESS3_DELETE, ACCESS3_EXECUTE, ACCESS3_EXTEND, ACCESS3_LOOKUP, ACCESS3_MODIFY, ACCESS3_READ, ACCESS3args,
    ACCESS3res, CREATE3args, CREATE3res, FSSTAT3args, FSSTAT3res, MKNOD3args, MKNOD3res, Nfs3Option, READDIRPLUS3args,
    READDIRPLUS3res, cookieverf3, createhow3, createverf3, devicedata3, fattr3, ftype3, mknoddata3, nfs_fh3, nfsstat3,
    sattr3, sattrguard3, specdata3, stable_how,
};
use nfs3_types::portmap::{self, IPPROTO_TCP, IPPROTO_UDP, mapping, pmaplist};
use nfs3_types::xdr_codec::{Opaque, Pack, Void};

use super::{Served, entry, outcome};

impl Served {
    fn mknod(&self, directory: &nfs_fh3, name: &str, what: mknoddata3) -> Result<nfs_fh3, nfsstat3> {
        let asked = MKNOD3args { where_: entry(directory, name.as_bytes()), what };
        outcome(self.ask::<MKNOD3res>(11, &asked)).map(|made| made.obj.unwrap())
    }

    fn access(&self, object: &nfs_fh3, access: u32) -> u32 {
        let asked = ACCESS3args { object: object.clone(), access };
        outcome(self.ask::<ACCESS3res>(4, &asked)).unwrap().access
    }
}

fn with_mode(mode: u32) -> sattr3 {
    sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() }
}

#[test]
fn pipes_and_sockets_are_made_and_no_devices() {
    let served = Served::new();
    let root = served.root();
    let pipe = served.mknod(&root, "pipe", mknoddata3::NF3FIFO(with_mode(0o600))).unwrap();
    let socket = served.mknod(&root, "socket", mknoddata3::NF3SOCK(sattr3::default())).unwrap();
    let told = [&pipe, &socket].map(|made| served.getattr(made).unwrap());
    assert_eq!((told[0].type_, told[0].mode, told[0].size), (ftype3::NF3FIFO, 0o600, 0));
    assert_eq!((told[1].type_, told[1].mode, told[1].size), (ftype3::NF3SOCK, 0o644, 0));
    assert_eq!(served.lookup(&root, "pipe").unwrap(), pipe);
    assert_eq!(served.read(&pipe, 0, 1).unwrap_err(), nfsstat3::NFS3ERR_INVAL, "its programs are elsewhere");
    let taken = served.mknod(&root, "pipe", mknoddata3::NF3SOCK(sattr3::default()));
    assert_eq!(taken.unwrap_err(), nfsstat3::NFS3ERR_EXIST);
    let device = || devicedata3 { dev_attributes: sattr3::default(), spec: specdata3 { specdata1: 1, specdata2: 3 } };
    for what in [mknoddata3::NF3CHR(device()), mknoddata3::NF3BLK(device())] {
        assert_eq!(served.mknod(&root, "null", what).unwrap_err(), nfsstat3::NFS3ERR_NOTSUPP);
    }
    // A kind that is made by another procedure.
    let mut asked = Vec::new();
    entry(&root, b"file").pack(&mut asked).unwrap();
    ftype3::NF3REG.pack(&mut asked).unwrap();
    let made = outcome(served.ask::<MKNOD3res>(11, &Packed(&asked))).map(drop);
    assert_eq!(made.unwrap_err(), nfsstat3::NFS3ERR_BADTYPE);
    assert_eq!(served.lookup(&root, "null").unwrap_err(), nfsstat3::NFS3ERR_NOENT);
    served.remove(&root, "pipe").unwrap();
    assert_eq!(served.getattr(&pipe).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    assert!(served.commits().is_empty(), "they are on the disk alone");
}

/// What was packed already.
struct Packed<'a>(&'a [u8]);

impl Pack for Packed<'_> {
    fn packed_size(&self) -> usize {
        self.0.len()
    }

    fn pack(&self, out: &mut impl std::io::Write) -> nfs3_types::xdr_codec::Result<usize> {
        out.write_all(self.0)?;
        Ok(self.0.len())
    }
}

#[test]
fn authorised_callers_get_read_write_and_execute_only_by_mode() {
    const WRITE: u32 = ACCESS3_MODIFY | ACCESS3_EXTEND;
    const ALL: u32 = ACCESS3_READ | ACCESS3_LOOKUP | WRITE | ACCESS3_DELETE | ACCESS3_EXECUTE;
    let mut served = Served::new();
    let root = served.root();
    let folder = served.mkdir(&root, "folder").unwrap();
    let file = served.save(&root, "a.md", "# A\n");
    let owner = served.getattr(&file).unwrap().uid;
    // The owner, one who is in no group of the file, and the root of another machine.
    for (address, user) in [("127.0.0.1", owner), ("10.0.0.5", owner + 4711), ("10.0.0.5", 0)] {
        (served.address, served.user) = (address.parse().unwrap(), user);
        for (mode, run) in [(0o644, 0), (0o600, 0), (0o000, 0), (0o755, ACCESS3_EXECUTE), (0o001, ACCESS3_EXECUTE)] {
            served.set(&file, with_mode(mode), sattrguard3::None).unwrap();
            assert_eq!(served.access(&file, ALL), ACCESS3_READ | WRITE | run, "{user}: {mode:o}");
        }
        for mode in [0o755, 0o700, 0o500] {
            served.set(&folder, with_mode(mode), sattrguard3::None).unwrap();
            assert_eq!(served.access(&folder, ALL), ACCESS3_READ | ACCESS3_LOOKUP | WRITE | ACCESS3_DELETE, "{mode:o}");
        }
        assert_eq!(served.access(&file, ACCESS3_READ), ACCESS3_READ, "no more than was asked for");
        assert_eq!(served.access(&file, 0), 0);
        // And it is so.
        served.set(&file, with_mode(0o400), sattrguard3::None).unwrap();
        served.write(&file, 0, b"# B", nfs3_types::nfs3::stable_how::UNSTABLE).unwrap();
        assert_eq!(served.read(&file, 0, 10).unwrap().0, b"# B\n");
        served.commit(&file).unwrap();
    }
}

/// Bytes in all, free and free for users; inodes in all and free.
type Disk = [u64; 5];

/// What the system says of the disk of a folder.
fn disk(folder: &std::path::Path) -> Disk {
    let told = Command::new("stat").args(["-f", "-c", "%S %b %f %a %c %d"]).arg(folder).output().unwrap().stdout;
    let told = String::from_utf8(told).unwrap();
    let told: Vec<u64> = told.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [block, blocks, free, available, files, files_free] = told[..] else { panic!("{told:?}") };
    [block * blocks, block * free, block * available, files, files_free]
}

#[test]
fn nfs_reports_disk_space_as_the_system_does() {
    let served = Served::new();
    let root = served.root();
    let folder = served.folder.path();
    // Others use the disk, too: what is told lies between what was before and what is after, one
    // day.
    for _ in 0..1000 {
        let before = disk(folder);
        let told = outcome(served.ask::<FSSTAT3res>(18, &FSSTAT3args { fsroot: root.clone() })).unwrap();
        let after = disk(folder);
        assert_eq!((told.tbytes, told.tfiles, told.invarsec), (before[0], before[3], 0));
        assert_eq!(told.afiles, told.ffiles);
        let of_told: Disk = [told.tbytes, told.fbytes, told.abytes, told.tfiles, told.ffiles];
        let is_between = |at: usize| (before[at].min(after[at])..=before[at].max(after[at])).contains(&of_told[at]);
        if (0..5).all(is_between) {
            return;
        }
    }
    panic!("the disk has another room than is told");
}

#[test]
fn exports_are_listed_and_mounting_clients_are_not() {
    let served = Served::new();
    let ask = |procedure| (mount::PROGRAM, procedure);
    served.root();
    let listed: exports<'static, 'static> = served.ask_of(ask(5), &Void);
    let listed: Vec<_> = listed.0.iter().map(|node| (node.ex_dir.0.to_vec(), node.ex_groups.0.len())).collect();
    assert_eq!(listed, [(b"/".to_vec(), 0), (b"/default".to_vec(), 0)]);
    let mounted: mountlist<'static, 'static> = served.ask_of(ask(2), &Void);
    assert!(mounted.0.is_empty(), "{mounted:?}");
    let _null: Void = served.ask_of(ask(0), &Void);
    let _gone: Void = served.ask_of(ask(3), &dirpath(Opaque::borrowed(b"/default")));
    let _all_gone: Void = served.ask_of(ask(4), &Void);
    served.root();
}

#[test]
fn the_port_is_reported_by_the_port_mapper() {
    let served = Served::new();
    served.protocol.port.set(20_049).unwrap();
    let port = |prog: u32, vers: u32, prot: u32| -> u32 {
        served.ask_of((portmap::PROGRAM, 3), &mapping { prog, vers, prot, port: 0 })
    };
    assert_eq!(port(nfs3_types::nfs3::PROGRAM, 3, IPPROTO_TCP), 20_049);
    assert_eq!(port(mount::PROGRAM, 3, IPPROTO_TCP), 20_049);
    assert_eq!(port(mount::PROGRAM, 1, IPPROTO_TCP), 20_049, "where it is told which versions there are");
    assert_eq!(port(mount::PROGRAM, 3, IPPROTO_UDP), 0);
    assert_eq!(port(100_021, 4, IPPROTO_TCP), 0, "the lock manager");
    let all: pmaplist = served.ask_of((portmap::PROGRAM, 4), &Void);
    let all: BTreeSet<_> = all.0.iter().map(|there| (there.prog, there.vers, there.prot, there.port)).collect();
    assert_eq!(all, BTreeSet::from([(100_003, 3, IPPROTO_TCP, 20_049), (100_005, 3, IPPROTO_TCP, 20_049)]));
    let _null: Void = served.ask_of((portmap::PROGRAM, 0), &Void);
}

/// What a client shows of a file: as it was made, by its handle, and in a listing.
fn shown(served: &Served, directory: &nfs_fh3, name: &str) -> Vec<(u32, u32, u32)> {
    let of = |told: &fattr3| (told.mode, told.uid, told.gid);
    let file = served.lookup(directory, name).unwrap();
    let asked = READDIRPLUS3args {
        dir: directory.clone(),
        cookie: 0,
        cookieverf: cookieverf3::default(),
        dircount: 4096,
        maxcount: 8192,
    };
    let listed = outcome(served.ask::<READDIRPLUS3res<'static>>(17, &asked)).unwrap();
    let listed = listed.reply.entries.0.into_iter().find(|entry| *entry.name.as_ref() == *name.as_bytes()).unwrap();
    vec![of(&served.getattr(&file).unwrap()), of(&listed.name_attributes.unwrap())]
}

#[test]
fn a_file_created_with_a_mode_has_mode_and_owner_immediately() {
    let mut served = Served::new();
    let root = served.root();
    std::os::unix::fs::chown(served.folder.path().join("root"), Some(1234), Some(1234)).unwrap_or_default();
    let directory = std::fs::metadata(served.folder.path().join("root")).unwrap();
    let owner = (directory.uid(), directory.gid());
    let ways = [
        ("unchecked.md", createhow3::UNCHECKED(with_mode(0o640))),
        ("guarded.md", createhow3::GUARDED(with_mode(0o640))),
        ("exclusive.md", createhow3::EXCLUSIVE(createverf3([7; 8]))),
    ];
    served.user = 1234;
    for (name, how) in ways {
        let asked = CREATE3args { where_: entry(&root, name.as_bytes()), how };
        let made = outcome(served.ask::<CREATE3res>(8, &asked)).unwrap();
        let (file, told) = (made.obj.unwrap(), made.obj_attributes.unwrap());
        if name == "exclusive.md" {
            // Clients set what such a request cannot say: Linux the mode and times, others the
            // owner, too.
            let own = sattr3 { uid: Nfs3Option::Some(1234), gid: Nfs3Option::Some(1234), ..with_mode(0o640) };
            served.set(&file, own, sattrguard3::None).unwrap();
        } else {
            assert_eq!((told.mode, told.uid, told.gid), (0o640, owner.0, owner.1), "{name}");
        }
        let is_shown = |when: &str| {
            for shown in shown(&served, &root, name) {
                assert_eq!(shown, (0o640, owner.0, owner.1), "{name} {when}");
            }
        };
        is_shown("made");
        served.write(&file, 0, b"text\n", stable_how::UNSTABLE).unwrap();
        is_shown("written");
        served.commit(&file).unwrap();
        is_shown("saved");
        served.write(&file, 0, b"more\n", stable_how::UNSTABLE).unwrap();
        served.resize(&file, 0).unwrap();
        is_shown("emptied");
        served.write(&file, 0, b"again\n", stable_how::UNSTABLE).unwrap();
        served.commit(&file).unwrap();
        is_shown("saved again");
        served.rename((&root, name), (&root, "other.md")).unwrap();
        served.rename((&root, "other.md"), (&root, name)).unwrap();
        is_shown("renamed");
        served.server.primary().vfs.wait_applied().unwrap();
        is_shown("at rest");
    }
}
