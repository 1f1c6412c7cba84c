//! A small disk of its own: a filesystem in a file, filled up, emptied and broken at will.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use tempfile::TempDir;

use crate::space::{folder, git, wait};

/// Room for git, SQLite and a few hundred pages, twice: the index is made anew when a test ends.
const SIZE: u64 = 128 << 20;

/// A knowledge root that is a disk of its own, in a folder beside a mountpoint. Unmounted when
/// dropped.
pub struct Image {
    folder: TempDir,
}

impl Image {
    /// A new, empty disk; none, with the reason printed, where images cannot be mounted.
    pub fn new() -> Option<Self> {
        let image = Self { folder: folder() };
        File::create(image.file()).unwrap().set_len(SIZE).unwrap();
        // Nothing is set aside for the superuser: full is full for everybody.
        image.run("mkfs.ext4", &["-q", "-F", "-m", "0"]).and_then(|()| image.mount("rw")).map_or_else(
            |reason| {
                println!("skipped: no image can be mounted here: {reason}");
                None
            },
            |()| {
                fs::remove_dir(image.root().join("lost+found")).unwrap();
                // Not empty: nobody plants a template here.
                fs::write(image.root().join("seed.md"), "# Seed\n").unwrap();
                Some(image)
            },
        )
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("disk.img")
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), String> {
        run(Command::new(program).args(arguments).arg(self.file()))
    }

    /// The disk, as a knowledge root.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Where the server mounts.
    pub fn mountpoint(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// A folder on another disk.
    pub fn aside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Mounts the disk; when it finds damage it turns itself read-only.
    pub fn mount(&self, how: &str) -> Result<(), String> {
        run(Command::new("mount").arg(format!("-oloop,errors=remount-ro,{how}")).arg(self.file()).arg(self.root()))
    }

    /// Takes the disk away. Nobody may use it any more.
    pub fn unmount(&self) {
        run(Command::new("umount").arg(self.root())).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.root().join(".svc/state/filler")
    }

    /// Fills the disk up to so many bytes.
    pub fn fill_but(&self, spare: u64) {
        let at = self.filler();
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let filler = File::options().create(true).append(true).open(&at).unwrap();
        for size in [1 << 20, 1 << 12] {
            while self.room() >= spare + size {
                let end = filler.metadata().unwrap().len();
                match rustix::fs::fallocate(&filler, FallocateFlags::empty(), end, size) {
                    Ok(()) => {}
                    Err(Errno::NOSPC) => break,
                    Err(error) => panic!("{}: {error}", at.display()),
                }
            }
        }
        filler.sync_all().unwrap();
    }

    /// Fills the disk to its last block.
    pub fn fill(&self) {
        self.fill_but(0);
    }

    /// Makes room again.
    pub fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
        rustix::fs::syncfs(File::open(self.root()).unwrap()).unwrap();
    }

    fn room(&self) -> u64 {
        let disk = rustix::fs::statvfs(self.root()).unwrap();
        disk.f_bavail * disk.f_frsize
    }

    /// Makes the filesystem believe that it is damaged: it turns read-only under everybody's feet.
    /// False, with the reason printed, where the kernel offers no way to say so.
    pub fn break_down(&self) -> bool {
        let device = Command::new("findmnt").args(["-no", "SOURCE"]).arg(self.root()).output().unwrap();
        let device = String::from_utf8(device.stdout).unwrap();
        let name = Path::new(device.trim()).file_name().unwrap().to_owned();
        let trigger = Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
        let outcome = fs::write(&trigger, "1");
        if let Err(error) = &outcome {
            println!("skipped: {}: {error}", trigger.display());
        }
        outcome.is_ok()
    }

    /// Waits until the server has put everything where it belongs: nothing moves on the disk by
    /// itself from then on.
    pub fn wait_for_checkpoint(&self) {
        wait::until("git's index is up to date", || git::git(&self.root(), &["status", "--porcelain"]).is_empty());
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Whoever still uses it loses it: a failing test must not leave mounts behind.
        let outcome = run(Command::new("umount").arg("--lazy").arg(self.root()));
        if std::thread::panicking() {
            println!("unmounting the image: {outcome:?}");
        }
    }
}

/// Runs a program; what it complained about, when it failed.
pub fn run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
