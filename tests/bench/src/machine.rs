//! What is known of the machine and of processes on it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How a process sees its memory, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// In the machine's memory now.
    pub resident: u64,
    /// The most there ever was.
    pub most: u64,
}

/// The memory of a process.
///
/// # Errors
/// When it is gone.
pub fn memory(process: u32) -> Result<Memory> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kibibytes = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).context("the kernel does not tell memory")?;
        let number = line.split_whitespace().nth(1).context("the kernel does not tell memory")?;
        anyhow::Ok(number.parse::<u64>()? << 10)
    };
    Ok(Memory { resident: kibibytes("VmRSS:")?, most: kibibytes("VmHWM:")? })
}

/// Whether any thread of a process computes, or waits for the disk.
///
/// # Errors
/// When it is gone.
pub fn is_working(process: u32) -> Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end while it is looked at.
        let stat = std::fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
        // The name of the thread comes before the state, in parentheses, and may hold anything.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        if matches!(after_name.split_whitespace().next(), Some("R" | "D")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits until a process was not seen working for a while, at most two minutes.
///
/// # Errors
/// When it is gone, or never rests.
pub fn until_quiet(process: u32, rest: Duration) -> Result<()> {
    let limit = Instant::now() + Duration::from_secs(120);
    let mut since = Instant::now();
    while since.elapsed() < rest {
        ensure!(Instant::now() < limit, "process {process} does not come to rest");
        std::thread::park_timeout(Duration::from_millis(5));
        if is_working(process)? {
            since = Instant::now();
        }
    }
    Ok(())
}

/// Runs a program to its end; what it printed.
///
/// # Errors
/// When it cannot be started or fails, with what it complained of.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, complaint.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Everything below a folder as it takes up room on the disk, in bytes.
///
/// # Errors
/// When it cannot be read.
pub fn size_on_disk(folder: &Path) -> Result<u64> {
    let told = run(Command::new("du").args(["-s", "--block-size=1"]).arg(folder))?;
    told.split_whitespace().next().context("`du` says nothing")?.parse().context("`du` says no number")
}

/// Flushes everything written to the disk of a folder, so that what one kind of work left behind does not burden the next.
///
/// # Errors
/// When the disk refuses.
pub fn flush_disk_of(folder: &Path) -> Result<()> {
    Ok(rustix::fs::syncfs(std::fs::File::open(folder)?)?)
}

/// What a reader must know of the machine to make anything of the figures: one line for each fact.
pub fn facts(folder: &Path) -> Vec<String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let told = |program: &str, arguments: &[&str]| {
        run(Command::new(program).args(arguments)).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let processor = read("/proc/cpuinfo");
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let filesystem = run(Command::new("df").args(["--output=fstype,source"]).arg(folder)).unwrap_or_default();
    let filesystem = filesystem.lines().nth(1).unwrap_or("unknown").split_whitespace().collect::<Vec<_>>().join(" on ");
    let load = read("/proc/loadavg").split_whitespace().take(2).collect::<Vec<_>>().join(", ");
    vec![
        format!("Date: {}", jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC")),
        format!("svcfs: commit {}", told("git", &["describe", "--always", "--dirty"])),
        format!("Processor: {cores} cores, {}", processor.map_or("unknown", |(_, name)| name)),
        format!("Memory: {} GiB", memory >> 20),
        format!("Kernel: {}", told("uname", &["-sr"])),
        format!("Filesystem: {filesystem}"),
        format!("Load before the run (1 and 5 min): {load}"),
        format!("git: {}", told("git", &["--version"]).trim_start_matches("git version ")),
    ]
}
