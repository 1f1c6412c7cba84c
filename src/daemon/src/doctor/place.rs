//! The environment of the root: its server, directory, disk, temporary files and mounts.

use std::path::Path;

use svcfs_store::preflight;

use super::{CheckFinding, RootExamination, counted};
use crate::client;
use crate::presence::{self, RootHolder};

/// Free space in bytes below which there is a warning, and below which a page cannot be written.
const LOW_SPACE_BYTES: u64 = 256 << 20;
const NO_SPACE_BYTES: u64 = 1 << 20;

pub(super) fn server(holder: Option<&RootHolder>) -> CheckFinding {
    let Some(RootHolder { pid, served }) = holder else {
        return CheckFinding::ok("server", "no server uses this root");
    };
    let Some(url) = served.as_ref().and_then(|served| served.url.as_ref()) else {
        return CheckFinding::ok("server", format!("process {pid} uses this root and does not answer over HTTP"));
    };
    match client::readiness_problem(url) {
        Ok(None) => CheckFinding::ok("server", format!("process {pid} serves this root at {url} and accepts writes")),
        Ok(Some(reason)) => {
            CheckFinding::problem("server", format!("process {pid} at {url} accepts no writes: {reason}"))
        }
        Err(failure) => CheckFinding::problem("server", format!("process {pid} at {url}: {}", failure.message(false))),
    }
}

pub(super) fn root(root: &Path) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    if let Err(error) = std::fs::read_dir(root) {
        findings.push(CheckFinding::problem("root", format!("`{}` cannot be read: {error}", root.display())));
        return findings;
    }
    let unwritable = preflight::unwritable_paths(root);
    findings.push(match unwritable.first() {
        None => CheckFinding::ok("root", format!("`{}` can be read and written", root.display())),
        Some((_, error)) => {
            let message =
                format!("this user cannot write these paths ({error}); give the user of the server write access");
            CheckFinding::problem("root", message).at(unwritable.iter().map(|(path, _)| path.display()))
        }
    });
    let misowned = preflight::misowned_files(root);
    findings.push(if misowned.is_empty() {
        CheckFinding::ok("owner", "no root-owned files")
    } else {
        let message = format!(
            "{} below `.git` or `.svc/state` belong to root, but the directory does not: its server cannot change them",
            counted(misowned.len(), "file")
        );
        CheckFinding::warning("owner", message)
            .at(misowned.iter().map(|path| path.display()))
            .repaired_by("changes their owner to the owner of the directory; needs root")
    });
    findings
}

pub(super) fn disk(root: &Path) -> CheckFinding {
    let disk = match preflight::disk_usage(root) {
        Ok(disk) => disk,
        Err(error) => return CheckFinding::problem("disk", format!("its free space cannot be read: {error}")),
    };
    let available = disk.available.saturating_mul(disk.block_size);
    let space = format!("{} MiB free", available >> 20);
    // Some filesystems create inodes on demand and report none.
    if available < NO_SPACE_BYTES || disk.files > 0 && disk.files_free == 0 {
        CheckFinding::problem("disk", format!("{space}, {} free inodes: free disk space", disk.files_free))
    } else if available < LOW_SPACE_BYTES || disk.files > 0 && disk.files_free < 1000 {
        CheckFinding::warning("disk", format!("{space}, {} free inodes: free disk space soon", disk.files_free))
    } else {
        CheckFinding::ok("disk", space)
    }
}

pub(super) fn leftovers(examination: &RootExamination) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let mut files = Vec::new();
    if examination.holder.is_none() {
        files.extend(preflight::leftover_temp_files(&examination.root));
        files.extend(examination.log.iter().flat_map(|log| log.leftover_spool.iter().cloned()));
        if let Ok(Some(repository)) = examination.repository() {
            files.extend(repository.partial_files());
        }
    }
    findings.push(if files.is_empty() {
        CheckFinding::ok("leftovers", "no unfinished files")
    } else {
        CheckFinding::warning(
            "leftovers",
            format!("{} left by killed processes", counted(files.len(), "unfinished file")),
        )
        .at(files.iter().map(|path| path.display()))
        .repaired_by("removes them; the log has all accepted content")
    });
    let rejected = preflight::rejected_saves(&examination.root);
    if !rejected.is_empty() {
        let message = format!(
            "{} in `.svc/rejected`; remove them when their writers do not need them",
            counted(rejected.len(), "rejected save")
        );
        findings.push(CheckFinding::ok("rejected", message).at(rejected.iter().map(|path| path.display())));
    }
    findings
}

pub(super) fn mounts(examination: &RootExamination) -> Vec<CheckFinding> {
    let mounts = presence::announced(&examination.root).map(|served| served.mounts).unwrap_or_default();
    let findings = mounts.iter().filter_map(|mount| {
        let at = mount.mountpoint.display();
        if svcfs_mount::is_dead_mount(&mount.mountpoint) {
            let message = format!("the mount at `{at}` is stale: its server was killed");
            Some(CheckFinding::warning("mount", message).at([at]).repaired_by("unmounts it, as `svcfs unmount` does"))
        } else {
            examination.holder.is_some().then(|| CheckFinding::ok("mount", format!("mounted at `{at}`")))
        }
    });
    let findings: Vec<_> = findings.collect();
    if findings.is_empty() { vec![CheckFinding::ok("mount", "not mounted")] } else { findings }
}
