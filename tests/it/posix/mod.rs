//! Public test suites of filesystems, on the mount and on the bare disk in the same run: what
//! passes there passes here.
//!
//! One rule: what fails on the mount and passes on the disk is a failure, unless `exclusions.toml`
//! says why it is right; and what is excluded there and passes is a failure, too. `scripts/test.sh`
//! installs the suites.

mod exerciser;
mod pjdfstest;
mod stress;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::space::TestSpace;

/// Where `scripts/prerequisites.sh` installs suites that no Debian package has; set, one that is
/// missing is a failure.
const TOOLS: &str = "SVCFS_TOOLS";

/// A suite that was installed with cargo; none, with the reason printed, where it is missing.
fn tool(name: &str) -> Option<PathBuf> {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/svcfs/tools");
    let told = std::env::var_os(TOOLS);
    let program = told.clone().map_or_else(home, PathBuf::from).join("bin").join(name);
    if program.exists() {
        return Some(program);
    }
    assert!(told.is_none(), "`{}` is missing; scripts/test.sh installs it", program.display());
    println!("skipped: `{}` is not installed; scripts/test.sh installs it", program.display());
    None
}

/// Two directories that everybody may write, one on the mount and one on the disk that the mounted
/// root is on.
struct Grounds {
    space: TestSpace,
}

impl Grounds {
    /// None, with the reason printed, where nothing can be mounted.
    fn new() -> Option<Self> {
        let space = TestSpace::mounted()?;
        let grounds = Self { space };
        for place in [grounds.mount(), grounds.disk()] {
            fs::create_dir(&place).unwrap();
            fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
        }
        Some(grounds)
    }

    fn mount(&self) -> PathBuf {
        self.space.mountpoint().join("suite")
    }

    fn disk(&self) -> PathBuf {
        self.space.aside().join("disk")
    }

    /// A file beside both.
    fn aside(&self, name: &str, content: &str) -> PathBuf {
        let path = self.space.aside().join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

/// Runs a program that has minutes, in a directory.
#[track_caller]
fn run(program: &Path, arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "3600"]).arg(program).args(arguments).current_dir(directory);
    command.env("LC_ALL", "C").env("HOME", directory).output().unwrap()
}

/// Runs a program that must succeed.
#[track_caller]
fn run_well(program: &Path, arguments: &[&str], directory: &Path) {
    let output = run(program, arguments, directory);
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (told, complained) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{} {arguments:?} in {directory:?}:\n{told}\n{complained}", program.display());
}
