//! Information about the machine and its processes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMemory {
    /// Resident memory.
    pub resident: u64,
    /// The part of it that is not page cache.
    pub anonymous: u64,
    /// Peak resident memory.
    pub peak: u64,
}

/// The memory of a process.
pub fn memory(process: u32) -> Result<ProcessMemory> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kibibytes = |name: &str| {
        let line =
            status.lines().find(|line| line.starts_with(name)).context("the kernel does not report the memory")?;
        let number = line.split_whitespace().nth(1).context("the kernel does not report the memory")?;
        anyhow::Ok(number.parse::<u64>()? << 10)
    };
    Ok(ProcessMemory { resident: kibibytes("VmRSS:")?, anonymous: kibibytes("RssAnon:")?, peak: kibibytes("VmHWM:")? })
}

/// Whether any thread of a process is running or waits for the disk.
pub fn is_busy(process: u32) -> Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end during the scan.
        let stat = std::fs::read_to_string(thread?.path().join("stat")).unwrap_or_default();
        // The thread name before the state is in parentheses and may contain anything.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        if matches!(after_name.split_whitespace().next(), Some("R" | "D")) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The processor time of a process.
pub fn processor_time(process: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    // utime and stime: fields 14 and 15; the state is field 3.
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Whether a program is in the search path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Free bytes on the disk of a folder, for unprivileged users.
///
/// # Errors
/// When the disk cannot be queried.
pub fn free_space(folder: &Path) -> Result<u64> {
    let disk =
        rustix::fs::statvfs(folder).with_context(|| format!("cannot query the disk of `{}`", folder.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Runs a program; returns its output.
///
/// # Errors
/// When it cannot be started or fails, with its standard error.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, stderr.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Disk usage of a folder, in bytes.
///
/// # Errors
/// When it cannot be read.
pub fn size_on_disk(folder: &Path) -> Result<u64> {
    let output = run(Command::new("du").args(["-s", "--block-size=1"]).arg(folder))?;
    output.split_whitespace().next().context("`du` printed nothing")?.parse().context("`du` printed no number")
}

/// Machine and program, as needed to interpret the figures: names and values.
pub fn describe_machine(folder: &Path, version: &str) -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let output = |program: &str, arguments: &[&str]| {
        run(Command::new(program).args(arguments)).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
    };
    let processor = read("/proc/cpuinfo");
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let filesystem = run(Command::new("df").args(["--output=fstype,source"]).arg(folder)).unwrap_or_default();
    let filesystem = filesystem.lines().nth(1).unwrap_or("unknown").split_whitespace().collect::<Vec<_>>().join(" on ");
    let load = read("/proc/loadavg").split_whitespace().take(2).collect::<Vec<_>>().join(" and ");
    vec![
        ("Date", jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()),
        ("svcfs", version.to_owned()),
        ("Processor", format!("{cores} cores, {}", processor.map_or("unknown", |(_, name)| name))),
        ("Memory", format!("{} GiB", memory >> 20)),
        ("Kernel", output("uname", &["-sr"])),
        ("Filesystem", filesystem),
        ("Load before the run", format!("{load} over 1 and 5 minutes")),
        ("git", output("git", &["--version"]).trim_start_matches("git version ").to_owned()),
    ]
}
