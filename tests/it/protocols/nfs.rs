//! NFS, as its clients speak it: many writes, then a commit when a program closes its file.

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::net::TcpStream;

use nfs3_types::mount::{self, dirpath, mountres3};
use nfs3_types::nfs3::{
    self, COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res,
    MKDIR3args, MKDIR3res, Nfs3Option, Nfs3Result, READ3args, READ3res, READDIR3args, READDIR3res, REMOVE3args,
    REMOVE3res, RENAME3args, RENAME3res, WRITE3args, WRITE3res, cookieverf3, createhow3, diropargs3, filename3,
    nfs_fh3, nfsstat3, sattr3, stable_how,
};
use nfs3_types::rpc::{auth_unix, call_body, fragment_header, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use nix::unistd::{User, geteuid};

use super::{Answer, Door, GUEST};
use crate::space::TestSpace;

/// Bytes of a write: more than one for a longer page.
const PART: usize = 1000;

pub struct Nfs {
    stream: RefCell<TcpStream>,
    calls: Cell<u32>,
    root: nfs_fh3,
}

impl Nfs {
    pub fn new(space: &TestSpace) -> Self {
        let stream = RefCell::new(TcpStream::connect(space.nfs()).unwrap());
        let mut client = Self { stream, calls: Cell::new(1), root: nfs_fh3::default() };
        let asked = dirpath(Opaque::borrowed(b"/"));
        let mounted = client.call(me(), (mount::PROGRAM, 1), &asked);
        let mountres3::Ok(mounted) = mounted else { panic!("{mounted:?}") };
        client.root = nfs_fh3 { data: mounted.fhandle.0 };
        client
    }

    fn call<R: Unpack>(&self, uid: u32, (prog, proc): (u32, u32), arguments: &impl Pack) -> R {
        let cred = opaque_auth::auth_unix(&auth_unix { uid, gid: uid, ..auth_unix::default() });
        let call = call_body { rpcvers: 2, prog, vers: 3, proc, cred, verf: opaque_auth::default() };
        let xid = self.calls.replace(self.calls.get() + 1);
        let mut message = Vec::new();
        rpc_msg { xid, body: msg_body::CALL(call) }.pack(&mut message).unwrap();
        arguments.pack(&mut message).unwrap();
        let mut stream = self.stream.borrow_mut();
        let head = fragment_header::new(u32::try_from(message.len()).unwrap(), true);
        stream.write_all(&[&head.into_xdr_buf()[..], &message].concat()).unwrap();
        let mut head = [0; 4];
        stream.read_exact(&mut head).unwrap();
        let mut answer = vec![0; fragment_header::from(head).fragment_length() as usize];
        stream.read_exact(&mut answer).unwrap();
        let mut answer = &answer[..];
        let (head, _) = rpc_msg::unpack(&mut answer).unwrap();
        assert_eq!(head.xid, xid);
        R::unpack(&mut answer).unwrap().0
    }

    fn lookup(&self, directory: &nfs_fh3, name: &str) -> Result<nfs_fh3, nfsstat3> {
        let what = entry(directory, name);
        let found = self.call::<LOOKUP3res>(me(), (nfs3::PROGRAM, 3), &LOOKUP3args { what });
        outcome(found).map(|found| found.object)
    }

    fn find(&self, path: &str) -> Result<nfs_fh3, nfsstat3> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(self.root.clone(), |directory, part| self.lookup(&directory, part))
    }

    /// The directory of a path, made with all above it, and the name in it.
    fn way<'a>(&self, path: &'a str) -> Result<(nfs_fh3, &'a str), nfsstat3> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parts = above.split('/').filter(|part| !part.is_empty());
        let directory = parts.into_iter().try_fold(self.root.clone(), |directory, part| {
            self.lookup(&directory, part).or_else(|_| self.mkdir(&directory, part))
        })?;
        Ok((directory, name))
    }

    fn mkdir(&self, directory: &nfs_fh3, name: &str) -> Result<nfs_fh3, nfsstat3> {
        let asked = MKDIR3args { where_: entry(directory, name), attributes: sattr3::default() };
        let made = outcome(self.call::<MKDIR3res>(me(), (nfs3::PROGRAM, 9), &asked))?;
        Ok(made.obj.unwrap())
    }

    fn put(&self, uid: u32, file: &nfs_fh3, offset: u64, content: &[u8]) -> Result<(), nfsstat3> {
        let mut at = offset;
        for part in content.chunks(PART) {
            let (file, data, count) = (file.clone(), Opaque::borrowed(part), u32::try_from(part.len()).unwrap());
            let asked = WRITE3args { file, offset: at, count, stable: stable_how::UNSTABLE, data };
            outcome(self.call::<WRITE3res>(uid, (nfs3::PROGRAM, 7), &asked))?;
            at += u64::from(count);
        }
        let asked = COMMIT3args { file: file.clone(), offset: 0, count: 0 };
        outcome(self.call::<COMMIT3res>(uid, (nfs3::PROGRAM, 21), &asked)).map(drop)
    }

    fn save(&self, uid: u32, path: &str, content: &[u8]) -> Answer<()> {
        let saved = || {
            let (directory, name) = self.way(path)?;
            let emptied = sattr3 { size: Nfs3Option::Some(0), ..sattr3::default() };
            let asked = CREATE3args { where_: entry(&directory, name), how: createhow3::UNCHECKED(emptied) };
            let made = outcome(self.call::<CREATE3res>(uid, (nfs3::PROGRAM, 8), &asked))?;
            self.put(uid, &made.obj.unwrap(), 0, content)
        };
        saved().map_err(told)
    }
}

fn me() -> u32 {
    geteuid().as_raw()
}

fn entry<'a>(directory: &nfs_fh3, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: filename3::from(name.as_bytes()) }
}

fn outcome<T, E>(answer: Nfs3Result<T, E>) -> Result<T, nfsstat3> {
    match answer {
        Nfs3Result::Ok(done) => Ok(done),
        Nfs3Result::Err((status, _)) => Err(status),
    }
}

fn told(status: nfsstat3) -> String {
    status.to_string()
}

impl Door for Nfs {
    fn write(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.save(me(), path, content)
    }
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.save(User::from_name(GUEST).unwrap().unwrap().uid.as_raw(), path, content)
    }
    fn append(&self, path: &str, content: &[u8]) -> Answer<()> {
        let object = self.find(path).map_err(told)?;
        let asked = GETATTR3args { object: object.clone() };
        let found = outcome(self.call::<GETATTR3res>(me(), (nfs3::PROGRAM, 1), &asked)).map_err(told)?;
        self.put(me(), &object, found.obj_attributes.size, content).map_err(told)
    }
    fn read(&self, path: &str) -> Answer<Vec<u8>> {
        let file = self.find(path).map_err(told)?;
        let mut content = Vec::new();
        loop {
            let asked = READ3args { file: file.clone(), offset: content.len() as u64, count: 1 << 20 };
            let read = outcome(self.call::<READ3res<'static>>(me(), (nfs3::PROGRAM, 6), &asked));
            let read = read.map_err(told)?;
            content.extend_from_slice(&read.data);
            if read.eof {
                return Ok(content);
            }
        }
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        let renamed = || {
            let (from, to) = (self.way(from)?, self.way(to)?);
            let asked = RENAME3args { from: entry(&from.0, from.1), to: entry(&to.0, to.1) };
            outcome(self.call::<RENAME3res>(me(), (nfs3::PROGRAM, 14), &asked)).map(drop)
        };
        renamed().map_err(told)
    }
    fn remove(&self, path: &str) -> Answer<()> {
        let removed = || {
            let (directory, name) = self.way(path)?;
            let asked = REMOVE3args { object: entry(&directory, name) };
            outcome(self.call::<REMOVE3res>(me(), (nfs3::PROGRAM, 12), &asked)).map(drop)
        };
        removed().map_err(told)
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        let dir = self.find(directory).map_err(told)?;
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let asked = READDIR3args { dir: dir.clone(), cookie, cookieverf: cookieverf3::default(), count: 4096 };
            let read = outcome(self.call::<READDIR3res<'static>>(me(), (nfs3::PROGRAM, 16), &asked));
            let read = read.map_err(told)?;
            for entry in read.reply.entries.0 {
                names.push(String::from_utf8(entry.name.as_ref().to_vec()).unwrap());
                cookie = entry.cookie;
            }
            if read.reply.eof {
                break;
            }
        }
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        Ok(names)
    }
    fn make_directory(&self, path: &str) -> Answer<()> {
        let made = || {
            let (directory, name) = self.way(path)?;
            self.mkdir(&directory, name).map(drop)
        };
        made().map_err(told)
    }
}
