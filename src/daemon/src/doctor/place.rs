//! Where the root is: its server, its directory, its disk, what lies about in it, where it is mounted.

use std::path::Path;

use svcfs_store::preflight;

use super::{CheckFinding, RootExamination, counted};
use crate::client;
use crate::presence::{self, RootHolder};

/// Less than this is soon used up; less than the other is too little to write a page.
const LITTLE_ROOM: u64 = 256 << 20;
const NO_ROOM: u64 = 1 << 20;

pub(super) fn server(holder: Option<&RootHolder>) -> CheckFinding {
    let Some(RootHolder { pid, served }) = holder else {
        return CheckFinding::ok("server", "nobody serves this root at the moment");
    };
    let Some(url) = served.as_ref().and_then(|served| served.url.as_ref()) else {
        return CheckFinding::ok("server", format!("process {pid} has this root, and does not answer over HTTP"));
    };
    match client::trouble(url) {
        Ok(None) => CheckFinding::ok("server", format!("process {pid} serves this root at {url} and takes writes")),
        Ok(Some(why)) => CheckFinding::problem("server", format!("process {pid} at {url} takes no writes: {why}")),
        Err(failure) => CheckFinding::problem("server", format!("process {pid} at {url}: {}", failure.told(false))),
    }
}

pub(super) fn root(root: &Path) -> Vec<CheckFinding> {
    let mut found = Vec::new();
    if let Err(error) = std::fs::read_dir(root) {
        found.push(CheckFinding::problem("root", format!("`{}` cannot be read: {error}", root.display())));
        return found;
    }
    let unwritable = preflight::unwritable_paths(root);
    found.push(match unwritable.first() {
        None => CheckFinding::ok("root", format!("`{}` can be read and written", root.display())),
        Some((_, error)) => {
            let told = format!("cannot be written by this user ({error}); the server must be allowed to");
            CheckFinding::problem("root", told).at(unwritable.iter().map(|(path, _)| path.display()))
        }
    });
    let misowned = preflight::misowned_files(root);
    found.push(if misowned.is_empty() {
        CheckFinding::ok("owner", "nothing below `.git` and `.svc/state` belongs to the superuser alone")
    } else {
        let told = format!(
            "{} below `.git` or `.svc/state` belong to the superuser, and the root does not: its server cannot change them",
            counted(misowned.len(), "file")
        );
        CheckFinding::warning("owner", told)
            .at(misowned.iter().map(|path| path.display()))
            .mended_by("gives them to the owner of the root; only the superuser may")
    });
    found
}

pub(super) fn disk(root: &Path) -> CheckFinding {
    let disk = match preflight::disk_usage(root) {
        Ok(disk) => disk,
        Err(error) => return CheckFinding::problem("disk", format!("its free space cannot be asked for: {error}")),
    };
    let room = disk.available.saturating_mul(disk.block_size);
    let told = format!("{} MiB are free", room >> 20);
    // Some filesystems make inodes as they need them, and say that they have none.
    if room < NO_ROOM || disk.files > 0 && disk.files_free == 0 {
        CheckFinding::problem("disk", format!("{told}, {} files can be made: make room", disk.files_free))
    } else if room < LITTLE_ROOM || disk.files > 0 && disk.files_free < 1000 {
        CheckFinding::warning("disk", format!("{told}, {} files can be made: make room soon", disk.files_free))
    } else {
        CheckFinding::ok("disk", told)
    }
}

pub(super) fn leftovers(found: &RootExamination) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let mut files = Vec::new();
    if found.holder.is_none() {
        files.extend(preflight::leftover_temp_files(&found.root));
        files.extend(found.log.iter().flat_map(|log| log.leftover_spool.iter().cloned()));
        if let Ok(Some(repository)) = found.repository() {
            files.extend(repository.partial_files());
        }
    }
    findings.push(if files.is_empty() {
        CheckFinding::ok("leftovers", "no unfinished files")
    } else {
        CheckFinding::warning(
            "leftovers",
            format!("{} that a killed process never finished", counted(files.len(), "file")),
        )
        .at(files.iter().map(|path| path.display()))
        .mended_by("removes them; what matters of them is in the log")
    });
    let rejected = preflight::rejected_saves(&found.root);
    if !rejected.is_empty() {
        let told = format!(
            "{} of refused saves are kept in `.svc/rejected`; they are their writers', remove them when nobody needs them",
            counted(rejected.len(), "text")
        );
        findings.push(CheckFinding::ok("rejected", told).at(rejected.iter().map(|path| path.display())));
    }
    findings
}

pub(super) fn mounts(found: &RootExamination) -> Vec<CheckFinding> {
    let mounts = presence::announced(&found.root).map(|served| served.mounts).unwrap_or_default();
    let findings = mounts.iter().filter_map(|mount| {
        let at = mount.mountpoint.display();
        if svcfs_mount::is_dead_mount(&mount.mountpoint) {
            let told = format!("the mount at `{at}` is dead: its server was killed");
            Some(CheckFinding::warning("mount", told).at([at]).mended_by("takes it away, as `svcfs unmount` does"))
        } else {
            found.holder.is_some().then(|| CheckFinding::ok("mount", format!("it is mounted at `{at}`")))
        }
    });
    let findings: Vec<_> = findings.collect();
    if findings.is_empty() { vec![CheckFinding::ok("mount", "it is not mounted")] } else { findings }
}
