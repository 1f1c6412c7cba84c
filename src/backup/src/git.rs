//! The installed `git` program.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::BackupError;
use crate::target::{GitCredentials, password_of};

/// Timeout of a command that only asks or changes little.
const SHORT_TIMEOUT: Duration = Duration::from_secs(60);
/// Timeout of a command that moves the whole history.
const LONG_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// How often a running command is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum length of an error text of git.
const MAX_ERROR_CHARS: usize = 600;

/// Variables that would make git use another repository than the one it is run in.
const REPOSITORY_VARIABLES: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
];

/// Whether this process was asked to end.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends the runs of this process, with the git commands that they wait for: these have their own
/// process group, so that Ctrl-C does not reach them.
pub fn interrupt() {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether [`interrupt`] was called.
#[must_use]
pub fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// How a run is stopped and followed.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// Whether the run is to stop; checked all the time.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// When the run is to stop at the latest.
    pub deadline: Option<Instant>,
    /// Called with what is being done.
    pub on_phase: &'a dyn Fn(&str),
}

impl RunContext<'_> {
    fn has_ended(&self) -> bool {
        is_interrupted() || (self.is_stopped)() || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Fails if the run is to stop.
    pub(crate) fn check(&self) -> Result<(), BackupError> {
        if self.has_ended() { Err(BackupError::failed("the backup was interrupted")) } else { Ok(()) }
    }

    pub(crate) fn enter(&self, phase: &str) {
        (self.on_phase)(phase);
    }
}

/// git in one repository.
#[derive(Clone, Copy)]
pub(crate) struct Git<'a> {
    directory: &'a Path,
    context: RunContext<'a>,
}

impl<'a> Git<'a> {
    pub const fn new(directory: &'a Path, context: RunContext<'a>) -> Self {
        Self { directory, context }
    }

    pub const fn directory(&self) -> &'a Path {
        self.directory
    }

    pub const fn context(&self) -> RunContext<'a> {
        self.context
    }

    /// A command with these arguments.
    pub fn command<I: AsRef<std::ffi::OsStr>>(self, arguments: impl IntoIterator<Item = I>) -> GitCommand<'a> {
        let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect();
        let (variables, input) = Default::default();
        GitCommand { git: self, arguments, variables, input, credentials: None, timeout: SHORT_TIMEOUT }
    }

    /// The output of a short command that must succeed, without the final newline.
    pub fn read(self, arguments: &[&str]) -> Result<String, BackupError> {
        self.command(arguments).read()
    }

    /// Whether a commit is here and is an ancestor of another, or the same.
    pub fn is_ancestor(self, ancestor: &str, of: &str) -> Result<bool, BackupError> {
        // It fails as well for a commit that is not here.
        Ok(self.command(["merge-base", "--is-ancestor", ancestor, of]).run()?.is_success())
    }

    pub fn has_commit(self, id: &str) -> Result<bool, BackupError> {
        Ok(self.command(["cat-file", "-e", &format!("{id}^{{commit}}")]).run()?.is_success())
    }
}

/// One command, and how it is run.
pub(crate) struct GitCommand<'a> {
    git: Git<'a>,
    arguments: Vec<std::ffi::OsString>,
    variables: Vec<(&'static str, PathBuf)>,
    input: Vec<u8>,
    credentials: Option<&'a GitCredentials>,
    timeout: Duration,
}

/// What a command that ended printed.
pub(crate) struct GitOutput {
    pub stdout: Vec<u8>,
    /// Without passwords, and shortened.
    pub error: String,
    status: ExitStatus,
}

impl GitOutput {
    pub fn is_success(&self) -> bool {
        self.status.success()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end_matches('\n').to_owned()
    }
}

impl<'a> GitCommand<'a> {
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    pub fn variable(mut self, name: &'static str, value: impl Into<PathBuf>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// User name and password for the remote; the command line does not contain them.
    pub const fn credentials(mut self, credentials: Option<&'a GitCredentials>) -> Self {
        self.credentials = credentials;
        self
    }

    pub const fn long(mut self) -> Self {
        self.timeout = LONG_TIMEOUT;
        self
    }

    /// The standard output of a command that must succeed, without the final newline.
    pub fn read(self) -> Result<String, BackupError> {
        let name = self.arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let output = self.run()?;
        if output.is_success() { Ok(output.text()) } else { Err(failure(&name, &output.error)) }
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    /// When git cannot be started, takes too long, or the run is to stop.
    pub fn run(self) -> Result<GitOutput, BackupError> {
        self.git.context.check()?;
        let mut child = self.start()?;
        let (input, mut stdin) = (self.input.clone(), child.stdin.take());
        // git may end before it has read its input.
        let writer = in_thread("git-input", move || stdin.as_mut().map(|stdin| stdin.write_all(&input)));
        let stdout = child.stdout.take().map(read_in_thread);
        let stderr = child.stderr.take().map(read_in_thread);
        let status = match (&writer, &stdout, &stderr) {
            (Ok(_), Some(Ok(_)), Some(Ok(_))) => self.wait(&mut child),
            _ => {
                end_group(&mut child);
                // Waited for, so that it does not stay as a zombie.
                let _status = child.wait();
                Err(BackupError::failed("cannot start a thread for git; the system has too many"))
            }
        };
        let collect = |reader: Option<io::Result<thread::JoinHandle<Vec<u8>>>>| {
            reader.and_then(|reader| reader.ok()?.join().ok()).unwrap_or_default()
        };
        let _is_written = writer.map(thread::JoinHandle::join);
        let (stdout, stderr) = (collect(stdout), collect(stderr));
        let error = String::from_utf8_lossy(&stderr);
        let error = self.credentials.map_or_else(|| error.to_string(), |credentials| credentials.redact(&error));
        let passwords = self.arguments.iter().filter_map(|argument| password_of(argument.to_str()?));
        let error = passwords.fold(error, |error, password| error.replace(password, "***"));
        Ok(GitOutput { stdout, error: shortened(&error), status: status? })
    }

    fn start(&self) -> Result<Child, BackupError> {
        let mut command = Command::new("git");
        command.current_dir(self.git.directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        REPOSITORY_VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.envs([("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("GIT_LFS_SKIP_SMUDGE", "1")]);
        command.env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh").env("GCM_INTERACTIVE", "never");
        // Without a terminal, ssh must not wait for an answer.
        if std::env::var_os("GIT_SSH_COMMAND").is_none() && std::env::var_os("GIT_SSH").is_none() {
            command.env("SSH_ASKPASS_REQUIRE", "force").env("SSH_ASKPASS", "/bin/false");
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Hooks and housekeeping are for people, not for a copy.
        for setting in [
            "core.hooksPath=/dev/null",
            "gc.auto=0",
            "maintenance.auto=false",
            "core.fsmonitor=false",
            "commit.gpgSign=false",
            "push.followTags=false",
            "push.recurseSubmodules=no",
            "fetch.recurseSubmodules=no",
        ] {
            command.args(["-c", setting]);
        }
        if let Some(credentials) = self.credentials {
            credentials.pass_to(&mut command);
        }
        // Its own group: an ssh or http helper ends with it.
        command.args(&self.arguments).process_group(0);
        command.spawn().map_err(|error| {
            let directory = self.git.directory.display();
            BackupError::refused(format!(
                "cannot run `git` in `{directory}`: {error}; install git (apt-get install git)"
            ))
        })
    }

    fn wait(&self, child: &mut Child) -> Result<ExitStatus, BackupError> {
        let started = Instant::now();
        let failed = |error: std::io::Error| BackupError::failed(format!("cannot wait for git: {error}"));
        loop {
            if let Some(status) = child.try_wait().map_err(failed)? {
                return Ok(status);
            }
            let is_late = started.elapsed() >= self.timeout;
            if is_late || self.git.context.has_ended() {
                end_group(child);
                child.wait().map_err(failed)?;
                let name = self.arguments.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                let reason = if is_late { "took too long" } else { "was interrupted" };
                return Err(BackupError::failed(format!("`git {name}` {reason}")));
            }
            thread::park_timeout(POLL_INTERVAL);
        }
    }
}

fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ignored = kill_process_group(group, Signal::KILL);
    }
}

fn in_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn read_in_thread(mut from: impl Read + Send + 'static) -> io::Result<thread::JoinHandle<Vec<u8>>> {
    in_thread("git-output", move || {
        let mut bytes = Vec::new();
        // A broken pipe ends the output.
        let _end = from.read_to_end(&mut bytes);
        bytes
    })
}

/// The failure of a command, with what to do about the usual causes.
pub(crate) fn failure(command: &str, error: &str) -> BackupError {
    let advice = [
        ("dubious ownership", "; run svcfs as the owner of the repository"),
        (
            "could not read Username",
            "; put a token into the URL (`https://user:${TOKEN}@...`), or configure a credential helper",
        ),
        ("Authentication failed", "; check the token in the URL or the credential helper of git"),
        ("Permission denied (publickey", "; give the user of the server an ssh key that the remote knows"),
        ("Host key verification failed", "; add the host to ~/.ssh/known_hosts of the user of the server"),
        ("No space left on device", "; free disk space"),
    ];
    let advice = advice.iter().find(|(text, _)| error.contains(text)).map_or("", |(_, advice)| advice);
    let error = if error.is_empty() { "it gave no reason" } else { error };
    BackupError::failed(format!("`git {command}` failed: {error}{advice}"))
}

/// The lines of an error without progress and hints, in one line.
fn shortened(error: &str) -> String {
    let lines = error.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("hint:"));
    let lines: Vec<&str> = lines.map(|line| line.rsplit('\r').next().unwrap_or(line)).collect();
    let text = lines.join("; ");
    match text.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
