//! What is looked at, and what is not to be seen.

use std::collections::BTreeSet;
use std::time::Duration;

use nfs3_types::nfs3::{
    FSINFO3args, FSINFO3res, LINK3args, LINK3res, LOOKUP3args, LOOKUP3res, Nfs3Option, PATHCONF3args, PATHCONF3res,
    READDIR3args, READDIR3res, READDIRPLUS3args, READDIRPLUS3res, READLINK3args, READLINK3res, SYMLINK3args,
    SYMLINK3res, cookieverf3, ftype3, nfs_fh3, nfspath3, nfsstat3, sattr3, stable_how, symlinkdata3,
};
use nfs3_types::xdr_codec::Opaque;

use super::{Served, entry, outcome};

/// Names and places in an answer, and whether it was the last.
type Part = (Vec<(String, u64)>, bool);

impl Served {
    fn readdir(&self, dir: &nfs_fh3, cookie: u64, count: u32) -> Result<Part, nfsstat3> {
        let asked = READDIR3args { dir: dir.clone(), cookie, cookieverf: cookieverf3::default(), count };
        let read = outcome(self.ask::<READDIR3res<'static>>(16, &asked))?;
        let names = read.reply.entries.0.into_iter().map(|entry| (text(entry.name.as_ref()), entry.cookie));
        Ok((names.collect(), read.reply.eof))
    }

    fn readdirplus(&self, dir: &nfs_fh3, cookie: u64, maxcount: u32) -> Result<Part, nfsstat3> {
        let (dir, cookieverf) = (dir.clone(), cookieverf3::default());
        let asked = READDIRPLUS3args { dir, cookie, cookieverf, dircount: maxcount, maxcount };
        let read = outcome(self.ask::<READDIRPLUS3res<'static>>(17, &asked))?;
        let names = read.reply.entries.0.into_iter().map(|entry| {
            let Nfs3Option::Some(attributes) = entry.name_attributes else { panic!("no attributes") };
            assert_eq!(attributes.fileid, entry.fileid);
            assert_eq!(self.getattr(&entry.name_handle.unwrap()).unwrap().fileid, entry.fileid);
            (text(entry.name.as_ref()), entry.cookie)
        });
        Ok((names.collect(), read.reply.eof))
    }

    fn names(&self, directory: &nfs_fh3) -> BTreeSet<String> {
        let (names, is_last) = self.readdir(directory, 0, 64 << 10).unwrap();
        assert!(is_last);
        names.into_iter().map(|(name, _)| name).filter(|name| !name.starts_with('.')).collect()
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8(name.to_vec()).unwrap()
}

/// Shows: NFS-12
#[test]
fn a_listing_resumes_at_its_cookie_despite_concurrent_changes() {
    let served = Served::new();
    let root = served.root();
    let steady: BTreeSet<String> = (0..50).map(|number| format!("steady-{number}.md")).collect();
    steady.iter().for_each(|name| served.put(name, "x\n"));
    (0..20).for_each(|number| served.put(&format!("leaving-{number}.md"), "x\n"));
    for is_plus in [false, true] {
        let (mut found, mut cookie, mut round) = (Vec::new(), 0, 0);
        loop {
            let (part, is_last) = if is_plus {
                served.readdirplus(&root, cookie, 2000).unwrap()
            } else {
                served.readdir(&root, cookie, 512).unwrap()
            };
            found.extend(part.iter().map(|(name, _)| name.clone()));
            cookie = part.last().map_or(cookie, |(_, cookie)| *cookie);
            if is_last {
                break;
            }
            served.put(&format!("coming-{is_plus}-{round}.md"), "x\n");
            // Gone already when it was not to be listed any more.
            let _gone = served.remove(&root, &format!("leaving-{round}.md"));
            round += 1;
        }
        assert!(round > 3, "{round}");
        let once: BTreeSet<String> = found.iter().cloned().collect();
        assert_eq!(once.len(), found.len(), "nothing is listed twice");
        assert!(steady.is_subset(&once) && once.contains(".") && once.contains(".."), "{once:?}");
    }
    assert_eq!(served.readdir(&root, 0, 130).unwrap_err(), nfsstat3::NFS3ERR_TOOSMALL);
    let file = served.lookup(&root, "steady-1.md").unwrap();
    assert_eq!(served.readdir(&file, 0, 1000).unwrap_err(), nfsstat3::NFS3ERR_NOTDIR);
}

#[test]
fn a_file_that_is_not_saved_yet_is_listed_and_found() {
    let served = Served::new();
    let root = served.root();
    let file = served.create(&root, "new.md");
    assert_eq!(served.names(&root), BTreeSet::from(["new.md".to_owned()]));
    assert_eq!(served.lookup(&root, "new.md").unwrap(), file);
    assert_eq!(served.lookup(&root, ".").unwrap(), root);
    assert_eq!(served.lookup(&root, "..").unwrap(), root);
}

#[test]
fn what_belongs_to_the_server_is_not_there_and_cannot_be_made() {
    let served = Served::new();
    let root = served.root();
    served.put("a.md", "x\n");
    assert_eq!(served.lookup(&root, ".git").unwrap_err(), nfsstat3::NFS3ERR_NOENT);
    assert_eq!(served.mkdir(&root, ".git").unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    let svc = served.lookup(&root, ".svc").or_else(|_| served.mkdir(&root, ".svc")).unwrap();
    for hidden in ["state", "config.toml"] {
        assert_eq!(served.lookup(&svc, hidden).unwrap_err(), nfsstat3::NFS3ERR_NOENT, "{hidden}");
        let made = served.mkdir(&svc, hidden).unwrap_err();
        assert_eq!(made, nfsstat3::NFS3ERR_ACCES, "{hidden}");
    }
    assert_eq!(served.rename((&root, "a.md"), (&svc, "config.toml")).unwrap_err(), nfsstat3::NFS3ERR_ACCES);
    assert!(!served.readdir(&root, 0, 4096).unwrap().0.iter().any(|(name, _)| name == ".git"));
}

#[test]
fn invalid_names_and_handles_get_the_protocol_error() {
    let served = Served::new();
    let root = served.root();
    let look = |name: &[u8]| {
        let found = served.ask::<LOOKUP3res>(3, &LOOKUP3args { what: entry(&root, name) });
        outcome(found).map(drop).unwrap_err()
    };
    assert_eq!(look(b"a/../../etc/passwd"), nfsstat3::NFS3ERR_INVAL);
    assert_eq!(look(b"caf\xe9.md"), nfsstat3::NFS3ERR_INVAL);
    assert_eq!(look(b"a\nb"), nfsstat3::NFS3ERR_INVAL);
    assert_eq!(look(b""), nfsstat3::NFS3ERR_INVAL);
    assert_eq!(look(&[b'x'; 256]), nfsstat3::NFS3ERR_NAMETOOLONG);
    for name in [".", "..", "%2e%2e"] {
        assert_eq!(served.mkdir(&root, name).unwrap_err(), nfsstat3::NFS3ERR_INVAL, "{name}");
    }
    let handle = |bytes: &[u8]| nfs_fh3 { data: Opaque::owned(bytes.to_vec()) };
    for bad in [&b""[..], b"\x01", &[9; 17], &[1; 18], &[1; 16]] {
        assert_eq!(served.getattr(&handle(bad)).unwrap_err(), nfsstat3::NFS3ERR_BADHANDLE, "{bad:?}");
    }
    let mut other = root.data.to_vec();
    other[16] ^= 4;
    assert_eq!(served.getattr(&handle(&other)).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    other[5] ^= 4;
    assert_eq!(served.getattr(&handle(&other)).unwrap_err(), nfsstat3::NFS3ERR_STALE);
    assert!(served.send(b"nonsense").is_none());
    let cut = served.message((nfs3_types::nfs3::PROGRAM, 1), &root);
    let answer = served.send(&cut[..cut.len() - 8]).unwrap();
    assert_eq!(answer[answer.len() - 4..], [0, 0, 0, 4], "GARBAGE_ARGS");
}

#[test]
fn folders_are_mounted_by_name() {
    let served = Served::new();
    served.put("a/b/c.md", "x\n");
    let root = served.root();
    assert_eq!(served.mount("/default").unwrap(), root);
    assert_eq!(served.mount("").unwrap(), root);
    let folder = served.lookup(&served.lookup(&root, "a").unwrap(), "b").unwrap();
    assert_eq!(served.mount("/a/b/").unwrap(), folder);
    assert_eq!(served.mount("/default/a/b").unwrap(), folder);
    assert_eq!(served.mount("/nowhere").unwrap_err(), "MNT3ERR_NOENT");
    assert_eq!(served.mount("/a/b/c.md").unwrap_err(), "MNT3ERR_NOTDIR");
    assert_eq!(served.mount("/../etc").unwrap_err(), "MNT3ERR_INVAL");
    assert_eq!(served.mount("/.git").unwrap_err(), "MNT3ERR_NOENT");
}

#[test]
fn links_lead_where_they_say_and_a_file_has_one_name() {
    let served = Served::new();
    let root = served.root();
    let symlink =
        symlinkdata3 { symlink_attributes: sattr3::default(), symlink_data: nfspath3::from(&b"somewhere/else.md"[..]) };
    let made = served.ask::<SYMLINK3res>(10, &SYMLINK3args { where_: entry(&root, b"link.md"), symlink });
    let link = outcome(made).unwrap().obj.unwrap();
    assert_eq!(served.getattr(&link).unwrap().type_, ftype3::NF3LNK);
    let read = outcome(served.ask::<READLINK3res<'static>>(5, &READLINK3args { symlink: link.clone() })).unwrap();
    assert_eq!(read.data.as_ref(), b"somewhere/else.md");
    assert_eq!(served.read(&link, 0, 1).unwrap_err(), nfsstat3::NFS3ERR_INVAL);
    let linked = served.ask::<LINK3res>(15, &LINK3args { file: link, link: entry(&root, b"other.md") });
    assert_eq!(outcome(linked).map(drop).unwrap_err(), nfsstat3::NFS3ERR_NOTSUPP);
}

#[test]
fn nfs_limits_are_reported_and_enforced() {
    let served = Served::new();
    let root = served.root();
    let limits = outcome(served.ask::<FSINFO3res>(19, &FSINFO3args { fsroot: root.clone() })).unwrap();
    assert_eq!((limits.rtmax, limits.wtmax), (1 << 20, 1 << 20));
    let names = outcome(served.ask::<PATHCONF3res>(20, &PATHCONF3args { object: root.clone() })).unwrap();
    assert_eq!((names.name_max, names.no_trunc, names.case_preserving), (255, true, true));
    let file = served.save(&root, "a.bin", &"x".repeat(1 << 20));
    served.write(&file, 2 << 20, b"end", stable_how::UNSTABLE).unwrap();
    assert_eq!(served.write(&file, 0, &vec![0; (1 << 20) + 1], stable_how::UNSTABLE), Err(nfsstat3::NFS3ERR_INVAL));
    let (part, is_last) = served.read(&file, 1 << 20, u32::MAX).unwrap();
    assert_eq!((part.len(), is_last), (1 << 20, false));
    assert_eq!(served.read(&file, 5 << 20, 10).unwrap(), (Vec::new(), true));
    assert_eq!(served.read(&root, 0, 10).unwrap_err(), nfsstat3::NFS3ERR_ISDIR);
}

#[test]
fn offsets_beyond_any_file_read_as_eof_and_fail_to_write() {
    let served = Served::new();
    let root = served.root();
    let files = [served.save(&root, "saved.md", "# Saved\n"), served.create(&root, "written.md")];
    served.write(&files[1], 0, b"x", stable_how::UNSTABLE).unwrap();
    for file in &files {
        for offset in [100, 1 << 62, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX - 1, u64::MAX] {
            assert_eq!(served.read(file, offset, 10), Ok((Vec::new(), true)), "{offset}");
        }
        for offset in [1 << 62, i64::MAX as u64, u64::MAX] {
            for stable in [stable_how::UNSTABLE, stable_how::FILE_SYNC] {
                assert_eq!(served.write(file, offset, b"x", stable).unwrap_err(), nfsstat3::NFS3ERR_FBIG, "{offset}");
            }
            assert_eq!(served.resize(file, offset).unwrap_err(), nfsstat3::NFS3ERR_FBIG, "{offset}");
        }
        served.commit(file).unwrap();
    }
    assert_eq!(served.text("saved.md").as_deref(), Some("# Saved\n"));
    assert_eq!(served.text("written.md").as_deref(), Some("x"));
}

/// How long this thread has had a processor, whoever else uses the machine (`proc(5)`,
/// `schedstat`).
fn worked() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

impl Served {
    /// How many names a listing of a folder has, and how long a processor was busy with it.
    fn listed(&self, folder: &nfs_fh3) -> (usize, Duration) {
        let begun = worked();
        let (mut names, mut cookie) = (BTreeSet::new(), 0);
        loop {
            let (dir, cookieverf) = (folder.clone(), cookieverf3::default());
            let asked = READDIRPLUS3args { dir, cookie, cookieverf, dircount: 4096, maxcount: 32 << 10 };
            let read = outcome(self.ask::<READDIRPLUS3res<'static>>(17, &asked)).unwrap();
            for entry in read.reply.entries.0 {
                cookie = entry.cookie;
                names.insert(text(entry.name.as_ref()));
            }
            if read.reply.eof {
                return (names.len(), worked() - begun);
            }
        }
    }
}

#[test]
fn listing_ten_thousand_names_takes_linear_time() {
    let served = Served::new();
    let best = |count: usize| {
        let name = format!("of-{count}");
        let folder = served.folder.path().join("root").join(&name);
        std::fs::create_dir(&folder).unwrap();
        (0..count).for_each(|number| drop(std::fs::File::create(folder.join(format!("page-{number}.md"))).unwrap()));
        let folder = served.lookup(&served.root(), &name).unwrap();
        // The best of some: the first draws the numbers.
        let times = [(); 4].map(|()| served.listed(&folder));
        assert!(times.iter().all(|(names, _)| *names == count + 2), "{times:?}");
        times.iter().map(|(_, took)| *took).min().unwrap()
    };
    let (few, many) = (best(1000), best(10_000));
    // Were every part of a listing made of all names, it would be a hundred times.
    assert!(many < 30 * few, "{many:?} and {few:?}");
    assert!(many < Duration::from_secs(2), "{many:?}");
}

/// Shows: NFS-12
#[test]
fn a_name_that_was_reused_is_listed_without_the_old_file() {
    let served = Served::new();
    let root = served.root();
    let names: Vec<String> = (0..40).map(|number| format!("page-{number}.md")).collect();
    names.iter().for_each(|name| served.put(name, "x\n"));
    let (first, is_last) = served.readdirplus(&root, 0, 1500).unwrap();
    assert!(!is_last);
    let mut to_come = names.iter().filter(|name| !first.iter().any(|(listed, _)| listed == *name));
    let (renamed, replaced) = (to_come.next().unwrap(), to_come.next().unwrap());
    served.rename((&root, renamed), (&root, "other.md")).unwrap();
    served.rename((&root, replaced), (&root, "third.md")).unwrap();
    served.put(replaced, "new\n");
    let (dir, cookieverf, most) = (root, cookieverf3::default(), 64 << 10);
    let asked = READDIRPLUS3args { dir, cookie: first[first.len() - 1].1, cookieverf, dircount: most, maxcount: most };
    let rest = outcome(served.ask::<READDIRPLUS3res<'static>>(17, &asked)).unwrap().reply.entries.0;
    let all: Vec<String> = rest.iter().map(|entry| text(entry.name.as_ref())).collect();
    assert!(all.contains(renamed) && all.contains(replaced) && !all.contains(&"other.md".to_owned()), "{all:?}");
    for entry in rest {
        let name = text(entry.name.as_ref());
        let is_there = name != *renamed && name != *replaced;
        assert_eq!(matches!(entry.name_attributes, Nfs3Option::Some(_)), is_there, "{name}");
        assert_eq!(matches!(entry.name_handle, Nfs3Option::Some(_)), is_there, "{name}");
    }
}
