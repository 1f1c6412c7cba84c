//! `fio` writes and verifies, `stress-ng` does to a filesystem what programs rarely do.

use std::path::Path;

use super::{Grounds, run_well};
use crate::editors::Desk;

/// Seconds for each, unless `SVCFS_STRESS_SECONDS` says how many.
fn seconds(short: u64) -> u64 {
    crate::crash::setting("SVCFS_STRESS_SECONDS").unwrap_or(short)
}

/// Jobs of fio: how blocks are written. Each verifies all that it wrote.
const JOBS: [&str; 4] = [
    "--rw=randwrite --bs=4k --ioengine=psync",
    "--rw=write --bs=64k --ioengine=psync --fallocate=posix",
    "--rw=randrw --bs=4k --ioengine=mmap",
    "--rw=randwrite --bsrange=512-16k --bs_unaligned=1 --ioengine=sync --fsync=64",
];

/// Shows: MNT-9
#[test]
fn what_fio_writes_it_reads_back() {
    if Desk::is_missing("fio") {
        return;
    }
    let Some(grounds) = Grounds::new() else { return };
    let size = format!("--size={}m", seconds(1));
    for (number, job) in JOBS.iter().enumerate() {
        let name = format!("--name=job{number}");
        let common = [&*name, "--numjobs=2", &*size, "--verify=crc32c", "--verify_fatal=1", "--do_verify=1"];
        let arguments: Vec<&str> = common.into_iter().chain(job.split(' ')).collect();
        run_well(Path::new("fio"), &arguments, &grounds.mount());
    }
    // At night they are too large to be recorded, and would be found missing in history.
    std::fs::remove_dir_all(grounds.mount()).unwrap();
}

/// Stressors of the class `filesystem` that pass on the disk as root in a directory, and need
/// nothing but it. `io` is not among them: it syncs every mounted filesystem of the machine, so it
/// waits for mounts of other tests.
const STRESSORS: &[&str] = &[
    "access",
    "chdir",
    "chmod",
    "chown",
    "copy-file",
    "dentry",
    "dir",
    "dirdeep",
    "dirmany",
    "fallocate",
    "fcntl",
    "file-ioctl",
    "filename",
    "flock",
    "fpunch",
    "fsize",
    "fstat",
    "getdent",
    "iomix",
    "lease",
    "lockf",
    "open",
    "rename",
    "symlink",
    "utime",
];

/// Stressors that run at the same time, each in one process. Starting `stress-ng` takes longer than
/// a stressor runs.
const CONCURRENT_STRESSORS: usize = 5;

/// Shows: MNT-9
#[test]
fn the_stressors_of_filesystems_find_nothing() {
    if Desk::is_missing("stress-ng") {
        return;
    }
    let Some(grounds) = Grounds::new() else { return };
    let groups = STRESSORS.chunks(CONCURRENT_STRESSORS);
    let each = format!("{}s", seconds(5).div_ceil(groups.len() as u64));
    let directory = grounds.mount();
    for group in groups {
        let options: Vec<String> = group.iter().map(|stressor| format!("--{stressor}=1")).collect();
        let place = directory.to_str().unwrap();
        let mut arguments = vec!["--timeout", &each, "--temp-path", place, "--verify", "--oomable"];
        arguments.extend(options.iter().map(String::as_str));
        run_well(Path::new("stress-ng"), &arguments, &directory);
    }
}
