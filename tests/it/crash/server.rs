//! The real program in a process of its own.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::space::wait;

/// The `svcfs` program.
pub struct Binary {
    program: PathBuf,
    /// Whether it runs as on a machine that was started a moment ago.
    is_rebooted: bool,
}

impl Binary {
    /// Builds the program as it is now; it lies beside the tests.
    pub fn build() -> Self {
        let tests = std::env::current_exe().unwrap();
        let profile = tests.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "svcfs"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        // What cargo tells this test of its own package makes build scripts (ring's) run again. The
        // libraries that they are for would be built anew, and the `cargo test` that runs this
        // would not find those that it built its documentation tests for.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO_PKG_") || name.to_string_lossy().starts_with("CARGO_MANIFEST_")
            {
                build.env_remove(name);
            }
        }
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "`{build:?}` failed");
        let binary = profile.join("svcfs");
        assert!(binary.is_file(), "{} is not there after `{build:?}`", binary.display());
        Self::at(binary)
    }

    /// A program that was built elsewhere.
    pub fn at(program: PathBuf) -> Self {
        Self { program, is_rebooted: false }
    }

    /// The program as it would run after the machine lost its power, and was started again a moment
    /// ago. Needs root.
    pub fn rebooted(&self) -> Self {
        Self { program: self.program.clone(), is_rebooted: true }
    }

    fn command(&self) -> Command {
        if !self.is_rebooted {
            return Command::new(&self.program);
        }
        let up = fs::read_to_string("/proc/uptime").unwrap();
        let up = up.split('.').next().unwrap();
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", &format!("-{up}")]).arg(&self.program);
        command
    }

    /// The program itself, to be started in other ways.
    pub fn path(&self) -> &Path {
        &self.program
    }

    fn spawn(&self, root: &Path, mountpoint: Option<&Path>) -> Server {
        let log = root.with_file_name("server.log");
        let said = || -> Stdio { File::options().create(true).append(true).open(&log).unwrap().into() };
        let mut command = self.command();
        command.args(["serve", "--port", "0", "--root"]).arg(root).stdout(said()).stderr(said()).stdin(Stdio::null());
        if let Some(mountpoint) = mountpoint {
            command.arg("--mount").arg(mountpoint);
        }
        let child = command.spawn().unwrap();
        Server {
            child: Some(child),
            root: root.to_owned(),
            mountpoint: mountpoint.map(Path::to_owned),
            log,
            address: None,
        }
    }

    /// Starts a server and waits until it answers.
    pub fn serve(&self, root: &Path, mountpoint: Option<&Path>) -> Server {
        let mut server = self.spawn(root, mountpoint);
        wait::until("the server announces itself", || {
            server.must_be_alive();
            server.address = server.announced();
            server.address.is_some()
        });
        server
    }

    /// Starts a server and kills it once it has the root: most likely in the middle of replaying
    /// what the last one left.
    pub fn kill_while_it_recovers(&self, root: &Path, mountpoint: Option<&Path>) {
        let mut server = self.spawn(root, mountpoint);
        let pid = server.pid().to_string();
        wait::until("the server takes the root", || {
            server.must_be_alive();
            fs::read_to_string(root.join(".svc/state/server.lock")).is_ok_and(|text| text.trim() == pid)
        });
        server.kill();
    }

    /// Makes the index anew, and checks that the old one was right.
    pub fn check_index(&self, root: &Path) {
        let output = self.command().args(["reindex", "--json", "--root"]).arg(root).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["equal"], true, "{said}");
    }
}

/// A running server; killed and unmounted when dropped.
pub struct Server {
    child: Option<Child>,
    root: PathBuf,
    mountpoint: Option<PathBuf>,
    log: PathBuf,
    address: Option<SocketAddr>,
}

impl Server {
    /// Where it answers HTTP.
    pub fn address(&self) -> SocketAddr {
        self.address.unwrap()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// What it says of itself where other commands look for it.
    fn announced(&self) -> Option<SocketAddr> {
        let text = fs::read_to_string(self.root.join(".svc/state/server.json")).ok()?;
        let served: Value = serde_json::from_str(&text).ok()?;
        let is_ours = served["pid"] == self.pid();
        served["url"].as_str().filter(|_| is_ours)?.strip_prefix("http://")?.parse().ok()
    }

    fn must_be_alive(&mut self) {
        let ended = self.child.as_mut().unwrap().try_wait().unwrap();
        assert!(ended.is_none(), "the server ended: {ended:?}; its log:\n{}", self.said());
    }

    /// What it wrote into its log.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGKILL: no chance to finish anything.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        child.kill().unwrap();
        let patience = Instant::now() + Duration::from_secs(2);
        wait::until("the killed server ends", || {
            if let Some(mountpoint) = self.mountpoint.as_ref().filter(|_| Instant::now() > patience) {
                // The rare case of `hanging.rs`: what uses the mount hangs, too, until somebody
                // cuts it off.
                println!("a killed server hung in its mount: {:?}", svcfs_mount::abort(mountpoint));
            }
            child.try_wait().unwrap().is_some()
        });
    }

    /// SIGTERM, and the clean end that must follow.
    pub fn stop(mut self) {
        let ended = self.end();
        assert!(ended.success(), "{ended:?}; its log:\n{}", self.said());
    }

    /// SIGTERM, and the end that must follow, however it is.
    pub fn end(&mut self) -> ExitStatus {
        kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGTERM).unwrap();
        let mut child = self.child.take().unwrap();
        let mut ended = None;
        wait::until("the server ends", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("the server's log:\n{}", self.said());
            if let Some(mountpoint) = &self.mountpoint {
                // It may be unmounted already, and a failing test has something else to say.
                svcfs_mount::unmount(mountpoint).unwrap_or_else(|error| println!("{error}"));
            }
        }
    }
}
