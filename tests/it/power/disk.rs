//! A disk that keeps a record of everything it is told, knows what it may hold when its power goes,
//! and fails, or stands still, when it shall.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use crate::crash::random::Random;
use crate::disk::image::run;
use crate::space::{folder, wait};

/// Room for git, SQLite and what a minute of work makes.
const SIZE: u64 = 160 << 20;
/// What a disk writes entirely or not at all.
const SECTOR: usize = 4096;
const NAME: &str = "disk.img";
/// Nothing about the file ever changes behind the kernel.
const TTL: Duration = Duration::from_secs(3600);

/// What a disk does, told that it lost its power, with what it had in its cache: taken and not yet
/// asked to flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// It was all written.
    Written,
    /// It is all gone.
    Lost,
    /// Some sectors were written, in any order.
    Torn,
}

enum Event {
    Write(usize, Box<[u8]>),
    Flush,
}

/// What a disk held, and what it was told since.
#[derive(Default)]
pub struct Record {
    before: Vec<u8>,
    events: Vec<Event>,
}

impl Record {
    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// What is on the disk when the power goes after so many events.
    pub fn left(&self, cut: usize, cache: Cache, random: &mut Random) -> Vec<u8> {
        let events = &self.events[..cut];
        let flushed = events.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
        let mut left = self.before.clone();
        for (at, event) in events.iter().enumerate() {
            let Event::Write(start, bytes) = event else { continue };
            for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                let is_written = match cache {
                    Cache::Written => true,
                    Cache::Lost => false,
                    Cache::Torn => random.below(2) == 0,
                };
                if at < flushed || is_written {
                    overwrite(&mut left, start + number * SECTOR, sector);
                }
            }
        }
        left
    }
}

fn overwrite(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// What a disk is asked to do.
#[derive(Clone, Copy)]
pub enum Order<'a> {
    Read,
    Write(&'a [u8]),
    Flush,
}

impl Order<'_> {
    /// Whether it writes a block that begins with these bytes.
    pub fn has_block(&self, beginning: &[u8]) -> bool {
        matches!(self, Order::Write(bytes) if bytes.chunks(SECTOR).any(|sector| sector.starts_with(beginning)))
    }

    /// Whether it writes these bytes, wherever they stand in a block.
    pub fn has(&self, wanted: &[u8]) -> bool {
        matches!(self, Order::Write(bytes) if bytes.windows(wanted.len()).any(|found| found == wanted))
    }
}

/// Says what a disk that is broken fails at.
type Failing = Box<dyn FnMut(Order<'_>) -> bool + Send>;

/// What the disk holds now, and its record where one is kept.
#[derive(Default)]
struct State {
    now: Vec<u8>,
    record: Option<Record>,
    failing: Option<Failing>,
    /// Orders it failed at.
    failures: usize,
}

impl State {
    /// Fails at an order when it shall; nothing of it happens then.
    fn obey(&mut self, order: Order<'_>) -> Result<(), Errno> {
        if self.failing.as_mut().is_some_and(|fails| fails(order)) {
            self.failures += 1;
            return Err(Errno::EIO);
        }
        Ok(())
    }

    fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(record) = &mut self.record {
            record.events.push(event());
        }
    }
}

/// Where everything that the disk is asked for waits while it stands still.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap_or_else(PoisonError::into_inner) = is_shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_shut = self.is_shut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap_or_else(PoisonError::into_inner));
    }
}

/// A disk that does nothing of what it is asked for, and does not say so; it goes on when this is
/// dropped.
#[must_use = "the disk goes on when this is dropped"]
pub struct Standstill(Arc<Gate>);

impl Drop for Standstill {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The one file of a filesystem: what a loop device or a guest takes for its disk.
#[derive(Clone, Default)]
struct Recorder {
    state: Arc<Mutex<State>>,
    gate: Arc<Gate>,
}

impl Recorder {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for whoever asks the disk for something.
    fn asked(&self) -> MutexGuard<'_, State> {
        self.gate.pass();
        self.state()
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_root = inode == INodeNo::ROOT;
        let (kind, perm) = if is_root { (FileType::Directory, 0o755) } else { (FileType::RegularFile, 0o600) };
        let size = self.state().now.len() as u64;
        let time = SystemTime::UNIX_EPOCH;
        let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        FileAttr {
            ino: inode,
            size: if is_root { 0 } else { size },
            blocks: size / 512,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Recorder {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name == NAME {
            true => reply.entry(&TTL, &self.attributes(INodeNo(2)), Generation(0)),
            false => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _file: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(inode));
    }

    /// Past the page cache: every request of whoever uses the disk arrives here, in its order.
    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.asked();
        if let Err(error) = state.obey(Order::Read) {
            return reply.error(error);
        }
        let start = usize::try_from(offset).unwrap().min(state.now.len());
        let end = (start + size as usize).min(state.now.len());
        reply.data(&state.now[start..end]);
    }

    fn write(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _file: FileHandle,
        offset: u64,
        bytes: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let at = usize::try_from(offset).unwrap();
        let mut state = self.asked();
        if at + bytes.len() > state.now.len() {
            return reply.error(Errno::ENOSPC);
        }
        if let Err(error) = state.obey(Order::Write(bytes)) {
            return reply.error(error);
        }
        overwrite(&mut state.now, at, bytes);
        state.note(|| Event::Write(at, bytes.into()));
        drop(state);
        reply.written(u32::try_from(bytes.len()).unwrap());
    }

    fn fsync(&self, _request: &Request, _inode: INodeNo, _file: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let mut state = self.asked();
        if let Err(error) = state.obey(Order::Flush) {
            return reply.error(error);
        }
        state.note(|| Event::Flush);
        drop(state);
        reply.ok();
    }
}

/// A disk, and a folder with `root`, where its filesystem can be mounted, and `mnt` beside it.
pub struct Disk {
    recorder: Recorder,
    session: Option<BackgroundSession>,
    folder: TempDir,
}

impl Disk {
    /// A disk whose filesystem is a knowledge root with some settings; none, with the reason
    /// printed, where disks cannot be mounted.
    pub fn formatted(config: &str) -> Option<Self> {
        Self::of_size(SIZE, config)
    }

    /// The same of so many bytes, all of which are in memory.
    pub fn of_size(size: u64, config: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(NAME);
        fs::File::create(&file).unwrap().set_len(size).unwrap();
        // Nothing is left to be done by the kernel later.
        let options = ["-q", "-F", "-m", "0", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        let made = run(Command::new("mkfs.ext4").args(options).arg(&file));
        let outcome = made.map(|()| Self::holding(fs::read(&file).unwrap())).and_then(|disk| {
            disk.mount("")?;
            fs::remove_dir(disk.root().join("lost+found")).unwrap();
            fs::write(disk.root().join("seed.md"), "# Seed\n").unwrap();
            fs::create_dir(disk.root().join(".svc")).unwrap();
            fs::write(disk.root().join(".svc/config.toml"), config).unwrap();
            disk.unmount();
            Ok(disk)
        });
        outcome.map_err(|reason| println!("skipped: no disk can be mounted here: {reason}")).ok()
    }

    /// A disk that holds these bytes.
    pub fn holding(bytes: Vec<u8>) -> Self {
        let folder = folder();
        let recorder = Recorder::default();
        recorder.state().now = bytes;
        fs::create_dir(folder.path().join("disk")).unwrap();
        let session =
            fuser::spawn_mount(recorder.clone(), folder.path().join("disk"), &fuser::Config::default()).unwrap();
        Self { recorder, session: Some(session), folder }
    }

    /// The disk as a file.
    pub fn file(&self) -> PathBuf {
        self.aside("disk").join(NAME)
    }

    /// A place beside it on another disk.
    pub fn aside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where its filesystem is mounted.
    pub fn root(&self) -> PathBuf {
        self.aside("root")
    }

    /// Mounts its filesystem, as after a power cut when it was not unmounted.
    pub fn mount(&self, options: &str) -> Result<(), String> {
        let options = format!("-oloop,errors=remount-ro,{options}");
        run(Command::new("mount").arg(options.trim_end_matches(',')).arg(self.file()).arg(self.root()))
    }

    /// Unmounts its filesystem, in order. Another program of the machine may be looking at it in
    /// this moment.
    pub fn unmount(&self) {
        let mut refused = String::new();
        wait::until("nobody uses the disk", || {
            let outcome = run(Command::new("umount").arg(self.root()));
            refused = outcome.err().unwrap_or_default();
            refused.is_empty() || !refused.contains("busy")
        });
        assert_eq!(refused, "");
    }

    /// Starts a new record.
    pub fn record(&self) {
        let mut state = self.recorder.state();
        state.record = Some(Record { before: state.now.clone(), events: Vec::new() });
    }

    /// How many events the record has by now.
    pub fn position(&self) -> usize {
        self.recorder.state().record.as_ref().map_or(0, Record::len)
    }

    /// Breaks the disk: what `fails` says is answered with an input/output error from now on.
    pub fn break_down(&self, fails: impl FnMut(Order<'_>) -> bool + Send + 'static) {
        self.recorder.state().failing = Some(Box::new(fails));
    }

    /// Lets the disk do nothing more, and answer nobody, until what this returns is dropped.
    pub fn stand_still(&self) -> Standstill {
        self.recorder.gate.set(true);
        Standstill(Arc::clone(&self.recorder.gate))
    }

    /// Makes the disk work again; how often it failed since it broke down.
    pub fn repair(&self) -> usize {
        let mut state = self.recorder.state();
        state.failing = None;
        std::mem::take(&mut state.failures)
    }

    /// Ends the record and hands it out.
    pub fn recorded(&self) -> Record {
        self.recorder.state().record.take().unwrap_or_default()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A failing test must not leave mounts behind.
        let _ = unmount(self.root(), UnmountFlags::DETACH);
        let _ = unmount(self.aside("disk"), UnmountFlags::DETACH);
        drop(self.session.take());
    }
}
