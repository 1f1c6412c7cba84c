//! The kernel mount, as programs use it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Answer, Door, GUEST};
use crate::space::TestSpace;

pub struct Kernel(PathBuf);

impl Kernel {
    pub fn new(space: &TestSpace) -> Self {
        Self(space.mountpoint())
    }

    /// Makes room for a file as the other doors do by themselves.
    fn room_for(&self, path: &str) -> Answer<PathBuf> {
        let at = self.0.join(path);
        at.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(told))?;
        Ok(at)
    }
}

fn told(error: io::Error) -> String {
    error.to_string()
}

/// Writes and closes, and hears what the close has to say: that is where a save is refused.
pub fn save(mut file: File, content: &[u8]) -> Answer<()> {
    file.write_all(content).map_err(told)?;
    if content.is_empty() {
        // A file that was only emptied is a version once its last handle is closed, and the kernel
        // tells of that later.
        file.sync_all().map_err(told)?;
    }
    nix::unistd::close(file).map_err(|errno| errno.to_string())
}

/// The same as another user. Only root can become one.
fn save_as_guest(at: &Path, content: &[u8]) -> Answer<()> {
    let guest = nix::unistd::User::from_name(GUEST).unwrap().unwrap();
    let mut writer = Command::new("dd")
        .args(["status=none", "bs=1M"])
        .arg(format!("of={}", at.display()))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .uid(guest.uid.as_raw())
        .gid(guest.gid.as_raw())
        .spawn()
        .map_err(told)?;
    writer.stdin.take().unwrap().write_all(content).map_err(told)?;
    let output = writer.wait_with_output().map_err(told)?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

impl Door for Kernel {
    fn write(&self, path: &str, content: &[u8]) -> Answer<()> {
        save(File::create(self.room_for(path)?).map_err(told)?, content)
    }
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()> {
        let at = self.room_for(path)?;
        // The page of somebody else is writable for a guest only when its permissions say so.
        if at.exists() {
            fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(0o666)).map_err(told)?;
        }
        save_as_guest(&at, content)
    }
    fn append(&self, path: &str, content: &[u8]) -> Answer<()> {
        save(OpenOptions::new().append(true).create(true).open(self.room_for(path)?).map_err(told)?, content)
    }
    fn read(&self, path: &str) -> Answer<Vec<u8>> {
        fs::read(self.0.join(path)).map_err(told)
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        fs::rename(self.0.join(from), self.room_for(to)?).map_err(told)
    }
    fn remove(&self, path: &str) -> Answer<()> {
        fs::remove_file(self.0.join(path)).map_err(told)
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.0.join(directory)).map_err(told)? {
            names.push(entry.map_err(told)?.file_name().into_string().unwrap());
        }
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        Ok(names)
    }
    fn make_directory(&self, path: &str) -> Answer<()> {
        fs::create_dir_all(self.0.join(path)).map_err(told)
    }
}
