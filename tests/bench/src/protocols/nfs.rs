//! A client of NFS that keeps as much on its way as a kernel does, and writes as one: unstable, and
//! a commit when the file is closed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail, ensure};
use nfs3_types::mount::{self, dirpath, mountres3};
use nfs3_types::nfs3::{
    self, COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, LOOKUP3args, LOOKUP3res, Nfs3Option, Nfs3Result, READ3args,
    READ3res, WRITE3args, WRITE3res, createhow3, diropargs3, filename3, nfs_fh3, sattr3, stable_how,
};
use nfs3_types::rpc::{auth_unix, call_body, fragment_header, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};

/// Bytes of one question.
const PIECE: usize = 1 << 20;
/// Questions that are on their way at once.
const AHEAD: usize = 8;

/// Where a server is mounted from.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) nfs: SocketAddr,
    pub(super) mount: SocketAddr,
    pub(super) path: String,
}

/// A connection to a share, and the folder that it works in.
pub(super) struct Nfs {
    stream: TcpStream,
    calls: u32,
    folder: nfs_fh3,
}

impl Nfs {
    /// Mounts a share, and goes into a folder of it.
    ///
    /// # Errors
    /// When anything of that is refused.
    pub(super) fn mount(share: &Share, folder: &str) -> Result<Self> {
        let mut mounting = Self { stream: connect(share.mount)?, calls: 1, folder: nfs_fh3::default() };
        mounting.ask((mount::PROGRAM, 1), &dirpath(Opaque::borrowed(share.path.as_bytes())))?;
        let mountres3::Ok(mounted) = mounting.answer()? else { bail!("`{}` cannot be mounted", share.path) };
        let mut client = Self { stream: connect(share.nfs)?, calls: 1, folder: nfs_fh3 { data: mounted.fhandle.0 } };
        if !folder.is_empty() {
            client.folder = client.lookup(folder)?;
        }
        Ok(client)
    }

    fn ask(&mut self, (prog, proc): (u32, u32), arguments: &impl Pack) -> Result<()> {
        let cred = opaque_auth::auth_unix(&auth_unix::default());
        let call = call_body { rpcvers: 2, prog, vers: 3, proc, cred, verf: opaque_auth::default() };
        self.calls += 1;
        let mut message = vec![0; 4];
        rpc_msg { xid: self.calls, body: msg_body::CALL(call) }.pack(&mut message)?;
        arguments.pack(&mut message)?;
        let head = fragment_header::new(u32::try_from(message.len() - 4)?, true).into_xdr_buf();
        message[..4].copy_from_slice(&head);
        Ok(self.stream.write_all(&message)?)
    }

    /// The next answer, whichever question it is to.
    fn answer<R: Unpack>(&mut self) -> Result<R> {
        let mut answer = Vec::new();
        loop {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head)?;
            let head = fragment_header::from(head);
            let begin = answer.len();
            answer.resize(begin + head.fragment_length() as usize, 0);
            self.stream.read_exact(&mut answer[begin..])?;
            if head.eof() {
                break;
            }
        }
        let mut answer = &answer[..];
        rpc_msg::unpack(&mut answer)?;
        Ok(R::unpack(&mut answer)?.0)
    }

    fn lookup(&mut self, name: &str) -> Result<nfs_fh3> {
        let what = self.entry(name);
        self.ask((nfs3::PROGRAM, 3), &LOOKUP3args { what })?;
        Ok(outcome::<_, _>(self.answer::<LOOKUP3res>()?)?.object)
    }

    fn entry<'a>(&self, name: &'a str) -> diropargs3<'a> {
        diropargs3 { dir: self.folder.clone(), name: filename3::from(name.as_bytes()) }
    }

    /// Writes a new file.
    ///
    /// # Errors
    /// When anything of that is refused.
    pub(super) fn put(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let how = createhow3::UNCHECKED(sattr3 { size: Nfs3Option::Some(0), ..sattr3::default() });
        let where_ = self.entry(name);
        self.ask((nfs3::PROGRAM, 8), &CREATE3args { where_, how })?;
        let Nfs3Option::Some(file) = outcome(self.answer::<CREATE3res>()?)?.obj else {
            bail!("a file without a handle")
        };
        let mut waiting = 0;
        for (at, piece) in content.chunks(PIECE).enumerate() {
            if waiting == AHEAD {
                outcome(self.answer::<WRITE3res>()?)?;
                waiting -= 1;
            }
            let (offset, count) = ((at * PIECE) as u64, u32::try_from(piece.len())?);
            let (file, data) = (file.clone(), Opaque::borrowed(piece));
            self.ask((nfs3::PROGRAM, 7), &WRITE3args { file, offset, count, stable: stable_how::UNSTABLE, data })?;
            waiting += 1;
        }
        for _ in 0..waiting {
            outcome(self.answer::<WRITE3res>()?)?;
        }
        self.ask((nfs3::PROGRAM, 21), &COMMIT3args { file, offset: 0, count: 0 })?;
        outcome(self.answer::<COMMIT3res>()?).map(drop)
    }

    /// Reads a file of this length.
    ///
    /// # Errors
    /// When anything of that is refused, or less comes.
    pub(super) fn get(&mut self, name: &str, length: usize) -> Result<()> {
        let file = self.lookup(name)?;
        let (mut asked, mut came, mut waiting) = (0, 0, 0);
        while came < length {
            while asked < length && waiting < AHEAD {
                let count = u32::try_from(PIECE.min(length - asked))?;
                self.ask((nfs3::PROGRAM, 6), &READ3args { file: file.clone(), offset: asked as u64, count })?;
                (asked, waiting) = (asked + count as usize, waiting + 1);
            }
            ensure!(waiting > 0, "{came} bytes came back, of {length}");
            came += outcome(self.answer::<READ3res<'static>>()?)?.data.len();
            waiting -= 1;
        }
        Ok(())
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn outcome<T, E>(answer: Nfs3Result<T, E>) -> Result<T> {
    match answer {
        Nfs3Result::Ok(done) => Ok(done),
        Nfs3Result::Err((status, _)) => bail!("NFS says {status}"),
    }
}
