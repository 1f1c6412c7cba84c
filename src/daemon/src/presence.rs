//! How other commands find the server of a root: `.svc/state/server.json`.
//!
//! The lock of the root says that somebody has it; this file says how to reach them. It is believed only when it names the
//! process that holds the lock, so one left behind by a killed server does no harm.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use svcfs_base::{Fault, Kind};
use svcfs_store::StatePaths;

use crate::failure::{Exit, Failure};

const FILE: &str = "server.json";

/// Who serves a root, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Process id.
    pub pid: u32,
    /// Address of the HTTP server without a trailing `/`; none when it only mounts or talks to one agent.
    pub url: Option<String>,
    /// Where it is mounted; none when it is not.
    #[serde(default)]
    pub mountpoint: Option<PathBuf>,
}

/// The file, for as long as this process serves.
#[derive(Debug)]
#[must_use = "the announcement ends when this is dropped"]
pub struct Announced(PathBuf);

/// Tells other commands that this process serves `root`, at `url` if over HTTP, and at `mountpoint` if it is mounted.
///
/// # Errors
/// When the state directory cannot be written.
pub fn announce(root: &Path, url: Option<String>, mountpoint: Option<&Path>) -> Result<Announced, Failure> {
    let path = StatePaths::of(root).directory().join(FILE);
    let mountpoint = mountpoint.map(Path::to_owned);
    let served = Served { pid: std::process::id(), url, mountpoint };
    let text = serde_json::to_vec(&served).map_err(anyhow::Error::new)?;
    replace(&path, &text).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(Announced(path))
}

/// Whole or not at all: a reader never sees half of it.
#[expect(clippy::disallowed_methods, reason = "state of this process, no part of the tree")]
fn replace(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let fresh = path.with_extension("json.new");
    File::create(&fresh)?.write_all(text)?;
    fs::rename(fresh, path)
}

impl Drop for Announced {
    #[expect(clippy::disallowed_methods, reason = "state of this process, no part of the tree")]
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, "`{}` could not be removed", self.0.display());
        }
    }
}

/// Who has a root.
#[derive(Debug)]
pub struct Holder {
    /// Process id, as the lock tells it; empty in the moment before it is written.
    pub pid: String,
    /// How to reach it; none for a command that will let go in a moment, or a server that is still starting.
    pub served: Option<Served>,
}

/// Who has a root, when opening it failed because somebody else has; none for every other fault.
pub fn holder(root: &Path, fault: &Fault) -> Option<Holder> {
    if fault.kind() != Kind::Conflict {
        return None;
    }
    let pid = fault.detail().get("pid")?.as_str()?.to_owned();
    Some(Holder { served: announced(root).filter(|served| served.pid.to_string() == pid), pid })
}

/// Who said last that it serves a root; it may be gone.
pub fn announced(root: &Path) -> Option<Served> {
    let text = fs::read(StatePaths::of(root).directory().join(FILE)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Why a command that needs the root for itself cannot have it, and what to do.
pub fn taken(root: &Path, fault: Fault, advice: &str) -> Failure {
    let Some(Holder { pid, served }) = holder(root, &fault) else {
        return fault.into();
    };
    let at = served.and_then(|served| served.url).map(|url| format!(" at {url}")).unwrap_or_default();
    let told = format!("root `{}` is served already by process {pid}{at}; {advice}", root.display());
    Failure::new(Exit::Refused, anyhow::Error::new(fault).context(told))
}
