//! Through the procedures, with the bytes that clients send; without a network where that tells
//! nothing more.

mod changes;
mod clients;
mod fidelity;
mod hostile;
mod nonblocking;
mod races;
mod rejected_saves;
mod reported_attributes;
mod restarts;
mod stable_writes;
mod visibility;
mod webdav_locks;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nfs3_types::mount::{dirpath, mountres3};
use nfs3_types::nfs3::{
    COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, GETATTR3args, GETATTR3res, LOOKUP3args, LOOKUP3res, MKDIR3args,
    MKDIR3res, Nfs3Option, Nfs3Result, READ3args, READ3res, REMOVE3args, REMOVE3res, RENAME3args, RENAME3res,
    SETATTR3args, SETATTR3res, WRITE3args, WRITE3res, createhow3, diropargs3, fattr3, filename3, nfs_fh3, nfsstat3,
    sattr3, sattrguard3, stable_how, writeverf3,
};
use nfs3_types::rpc::{auth_unix, call_body, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use svcfs_base::{Caller, Change, Protocol as Entry, SystemClock, TreePath};
use svcfs_config::{CliOverrides, Config, NfsFlags, Settings};
use svcfs_knowledge::access::AccessControl;
use svcfs_knowledge::kernel::{ServerState, Space};
use svcfs_knowledge::spaces::{self, SpaceCollection, SpaceOptions};
use tempfile::TempDir;

use crate::NfsServer;
use crate::clients::NfsClient;
use crate::rpc::RpcReply;

/// A door to one space, with nobody's background tasks: what is not asked for is not saved.
struct Served {
    protocol: Arc<NfsServer>,
    server: Arc<ServerState>,
    folder: TempDir,
    calls: AtomicU32,
    /// Where questions come from, and from which user.
    address: IpAddr,
    user: u32,
}

fn open(root: &Path) -> Arc<Space> {
    let settings =
        Settings::resolve(Config::parse("lint.reject_protocols = [\"nfs\"]", &|_| None), CliOverrides::default())
            .unwrap();
    let (name, root) = ("default".to_owned(), root.to_owned());
    spaces::open(
        SpaceOptions { name, root, clock: Arc::new(SystemClock), is_watched: false, on_progress: None },
        &settings,
    )
    .unwrap()
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

impl Served {
    fn new() -> Self {
        Self::over(tempfile::tempdir().unwrap())
    }

    fn over(folder: TempDir) -> Self {
        Self::configured(folder, "")
    }

    /// With settings, as the file has them.
    fn configured(folder: TempDir, settings: &str) -> Self {
        let spaces = SpaceCollection::single(open(&folder.path().join("root")));
        let access = AccessControl::new(spaces.first().settings.auth.clone(), None);
        let server = Arc::new(ServerState::new(spaces, Arc::new(SystemClock), access));
        let nfs = NfsFlags { enabled: true, ..NfsFlags::default() };
        let overrides = CliOverrides { nfs, ..CliOverrides::default() };
        let settings = Settings::resolve(Config::parse(settings, &|_| None), overrides).unwrap();
        let protocol = NfsServer::new(Arc::clone(&server), settings.nfs.unwrap());
        let (calls, address, user) = (AtomicU32::new(1), IpAddr::V4(Ipv4Addr::LOCALHOST), 4711);
        Self { protocol, server, folder, calls, address, user }
    }

    /// The same root, opened by another life of the server.
    fn again(self) -> Self {
        let Self { protocol, server, folder, .. } = self;
        protocol.exports().open.iter().for_each(|export| export.close_all());
        drop(protocol);
        server.primary().vfs.close().unwrap();
        drop(server);
        Self::over(folder)
    }

    /// What a new server finds when this one died in this moment. A copy that a file went from
    /// meanwhile shows no moment, and is made again.
    fn died(&self) -> Self {
        for _ in 0..100 {
            let folder = tempfile::tempdir().unwrap();
            let (from, to) = (self.folder.path().join("root"), folder.path().join("root"));
            let copied = Command::new("cp").env("LC_ALL", "C").arg("-a").args([from, to]).output().unwrap();
            if copied.status.success() {
                return Self::over(folder);
            }
            let told = String::from_utf8_lossy(&copied.stderr);
            assert!(told.lines().all(|line| line.ends_with("No such file or directory")), "{told}");
        }
        panic!("the root does not come to rest")
    }

    fn message(&self, (program, proc): (u32, u32), arguments: &impl Pack) -> Vec<u8> {
        let user = auth_unix { uid: self.user, ..auth_unix::default() };
        let call = call_body {
            rpcvers: 2,
            prog: program,
            vers: if program == nfs3_types::portmap::PROGRAM { 2 } else { 3 },
            proc,
            cred: opaque_auth::auth_unix(&user),
            verf: opaque_auth::default(),
        };
        let xid = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut message = Vec::new();
        rpc_msg { xid, body: msg_body::CALL(call) }.pack(&mut message).unwrap();
        arguments.pack(&mut message).unwrap();
        message
    }

    fn send(&self, message: &[u8]) -> Option<Vec<u8>> {
        let client = NfsClient { address: self.address, user: None };
        // As a connection does.
        let answer =
            self.protocol.try_answer_cached(client, message).or_else(|| self.protocol.dispatch(client, message));
        answer.map(whole)
    }

    fn ask<R: Unpack>(&self, procedure: u32, arguments: &impl Pack) -> R {
        self.ask_of((nfs3_types::nfs3::PROGRAM, procedure), arguments)
    }

    fn ask_of<R: Unpack>(&self, procedure: (u32, u32), arguments: &impl Pack) -> R {
        let answer = self.send(&self.message(procedure, arguments)).unwrap();
        let mut answer = &answer[..];
        let (head, _) = rpc_msg::unpack(&mut answer).unwrap();
        assert!(format!("{head:?}").contains("SUCCESS"), "{head:?}");
        R::unpack(&mut answer).unwrap().0
    }

    fn mount(&self, name: &str) -> Result<nfs_fh3, String> {
        let asked = dirpath(Opaque::owned(name.as_bytes().to_vec()));
        match self.ask_of((nfs3_types::mount::PROGRAM, 1), &asked) {
            mountres3::Ok(mounted) => Ok(nfs_fh3 { data: mounted.fhandle.0 }),
            mountres3::Err(status) => Err(status.to_string()),
        }
    }

    fn root(&self) -> nfs_fh3 {
        self.mount("/").unwrap()
    }

    fn getattr(&self, object: &nfs_fh3) -> Result<fattr3, nfsstat3> {
        let found: GETATTR3res = self.ask(1, &GETATTR3args { object: object.clone() });
        outcome(found).map(|found| found.obj_attributes)
    }

    fn lookup(&self, directory: &nfs_fh3, name: &str) -> Result<nfs_fh3, nfsstat3> {
        let found: LOOKUP3res = self.ask(3, &LOOKUP3args { what: entry(directory, name.as_bytes()) });
        outcome(found).map(|found| found.object)
    }

    fn create_as(&self, directory: &nfs_fh3, name: &str, how: createhow3) -> Result<nfs_fh3, nfsstat3> {
        let made: CREATE3res = self.ask(8, &CREATE3args { where_: entry(directory, name.as_bytes()), how });
        outcome(made).map(|made| made.obj.unwrap())
    }

    fn create(&self, directory: &nfs_fh3, name: &str) -> nfs_fh3 {
        self.create_as(directory, name, createhow3::UNCHECKED(sattr3::default())).unwrap()
    }

    fn mkdir(&self, directory: &nfs_fh3, name: &str) -> Result<nfs_fh3, nfsstat3> {
        let asked = MKDIR3args { where_: entry(directory, name.as_bytes()), attributes: sattr3::default() };
        outcome(self.ask::<MKDIR3res>(9, &asked)).map(|made| made.obj.unwrap())
    }

    fn write(
        &self,
        file: &nfs_fh3,
        offset: u64,
        data: &[u8],
        stable: stable_how,
    ) -> Result<(stable_how, writeverf3), nfsstat3> {
        let data = Opaque::borrowed(data);
        let count = u32::try_from(data.len()).unwrap();
        let asked = WRITE3args { file: file.clone(), offset, count, stable, data };
        outcome(self.ask::<WRITE3res>(7, &asked)).map(|done| (done.committed, done.verf))
    }

    fn commit(&self, file: &nfs_fh3) -> Result<writeverf3, nfsstat3> {
        let asked = COMMIT3args { file: file.clone(), offset: 0, count: 0 };
        outcome(self.ask::<COMMIT3res>(21, &asked)).map(|done| done.verf)
    }

    fn read(&self, file: &nfs_fh3, offset: u64, count: u32) -> Result<(Vec<u8>, bool), nfsstat3> {
        let asked = READ3args { file: file.clone(), offset, count };
        outcome(self.ask::<READ3res<'static>>(6, &asked)).map(|read| (read.data.to_vec(), read.eof))
    }

    fn set(&self, object: &nfs_fh3, new_attributes: sattr3, guard: sattrguard3) -> Result<(), nfsstat3> {
        let asked = SETATTR3args { object: object.clone(), new_attributes, guard };
        outcome(self.ask::<SETATTR3res>(2, &asked)).map(drop)
    }

    fn resize(&self, object: &nfs_fh3, size: u64) -> Result<(), nfsstat3> {
        self.set(object, sattr3 { size: Nfs3Option::Some(size), ..sattr3::default() }, sattrguard3::None)
    }

    fn remove(&self, directory: &nfs_fh3, name: &str) -> Result<(), nfsstat3> {
        outcome(self.ask::<REMOVE3res>(12, &REMOVE3args { object: entry(directory, name.as_bytes()) })).map(drop)
    }

    fn rmdir(&self, directory: &nfs_fh3, name: &str) -> Result<(), nfsstat3> {
        outcome(self.ask::<REMOVE3res>(13, &REMOVE3args { object: entry(directory, name.as_bytes()) })).map(drop)
    }

    fn rename(&self, from: (&nfs_fh3, &str), to: (&nfs_fh3, &str)) -> Result<(), nfsstat3> {
        let asked = RENAME3args { from: entry(from.0, from.1.as_bytes()), to: entry(to.0, to.1.as_bytes()) };
        outcome(self.ask::<RENAME3res>(14, &asked)).map(drop)
    }

    /// A page, as a client saves it.
    fn save(&self, directory: &nfs_fh3, name: &str, content: &str) -> nfs_fh3 {
        let file = self.create(directory, name);
        self.resize(&file, 0).unwrap();
        self.write(&file, 0, content.as_bytes(), stable_how::UNSTABLE).unwrap();
        self.commit(&file).unwrap();
        file
    }

    fn put(&self, place: &str, content: &str) {
        let change = Change::put(path(place), content.as_bytes().to_vec());
        self.server.primary().vfs.apply(&Caller::new(Entry::Http), change).unwrap();
    }

    /// A file as other doors see it.
    fn text(&self, place: &str) -> Option<String> {
        let file = self.server.primary().vfs.read(Entry::Internal, &path(place)).ok()?;
        Some(String::from_utf8_lossy(&file.content).into_owned())
    }

    /// Author and subject of every commit, oldest first, as somebody hears who asks about history.
    fn commits(&self) -> Vec<String> {
        self.server.primary().vfs.wait_committed().unwrap();
        let mut git = Command::new("git");
        git.arg("-C").arg(self.folder.path().join("root")).args(["log", "--reverse", "--format=%an: %s"]);
        let log = String::from_utf8(git.output().unwrap().stdout).unwrap();
        log.lines().map(str::to_owned).collect()
    }
}

/// An answer, as it is sent.
fn whole(answer: RpcReply) -> Vec<u8> {
    let RpcReply { head, data } = &answer;
    [&head[..], data, answer.padding()].concat()
}

fn entry<'a>(directory: &nfs_fh3, name: &'a [u8]) -> diropargs3<'a> {
    diropargs3 { dir: directory.clone(), name: filename3::from(name) }
}

fn outcome<T, E>(answer: Nfs3Result<T, E>) -> Result<T, nfsstat3> {
    match answer {
        Nfs3Result::Ok(done) => Ok(done),
        Nfs3Result::Err((status, _)) => Err(status),
    }
}
