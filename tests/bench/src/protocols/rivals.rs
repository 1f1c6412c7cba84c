//! The servers that svcfs is measured beside.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use svcfs_measure::machine;
use svcfs_measure::run::BenchRun;

use super::nfs::{Nfs, Share};

/// How long one may take to answer.
const STARTING: Duration = Duration::from_secs(20);

/// A server that somebody else wrote; ends with this.
pub(super) struct Rival {
    pub(super) name: &'static str,
    pub(super) key: &'static str,
    pub(super) address: SocketAddr,
    /// What its paths begin with.
    pub(super) prefix: &'static str,
    /// Where it keeps its files.
    pub(super) folder: PathBuf,
    pub(super) can_write: bool,
    /// Whether nothing but writing is measured.
    pub(super) only_writes: bool,
    /// Where it is mounted from, if it speaks NFS.
    pub(super) share: Option<Share>,
    child: Child,
}

/// Where it is served, and where it is mounted if it speaks NFS.
type Ports = (u16, u16);

/// How one is started.
struct Recipe {
    name: &'static str,
    key: &'static str,
    prefix: &'static str,
    can_write: bool,
    /// Whether nothing but writing is measured: another row has the same program.
    only_writes: bool,
    /// Whether it speaks NFS, and HTTP otherwise.
    is_nfs: bool,
    /// The command that serves this folder at this port, and mounts at the other if it speaks NFS;
    /// why there is none.
    command: fn(&BenchRun, &Path, Ports) -> Result<Command, String>,
}

const RECIPES: [Recipe; 6] = [
    Recipe {
        name: "rclone, WebDAV",
        key: "rclone_webdav",
        prefix: "/",
        can_write: true,
        only_writes: false,
        is_nfs: false,
        command: |_, folder, (port, _)| rclone("webdav", folder, port),
    },
    Recipe {
        name: "rclone, S3",
        key: "rclone_s3",
        // A bucket is a folder.
        prefix: "/default/",
        can_write: true,
        only_writes: false,
        is_nfs: false,
        command: |_, folder, (port, _)| {
            let above = folder.parent().unwrap_or(folder);
            rclone("s3", above, port)
        },
    },
    Recipe {
        name: "WsgiDAV",
        key: "wsgidav",
        prefix: "/",
        can_write: true,
        only_writes: false,
        is_nfs: false,
        command: |_, folder, (port, _)| wsgidav(folder, port, &["-m", "wsgidav.server.server_cli"]),
    },
    // As it would be if what it answered were on the disk.
    Recipe {
        name: "WsgiDAV, flushed",
        key: "wsgidav_flushed",
        prefix: "/",
        can_write: true,
        only_writes: true,
        is_nfs: false,
        command: |_, folder, (port, _)| wsgidav(folder, port, &["-c", FLUSHED]),
    },
    Recipe {
        name: "nginx",
        key: "nginx",
        prefix: "/",
        can_write: false,
        only_writes: false,
        is_nfs: false,
        command: nginx,
    },
    // Of the servers in user space that Debian has: unfs3 is in no release that is still served.
    Recipe {
        name: "NFS-Ganesha",
        key: "ganesha",
        prefix: "/",
        can_write: true,
        only_writes: false,
        is_nfs: true,
        command: ganesha,
    },
];

/// A port that is free now.
///
/// # Errors
/// When the system has none.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn rclone(protocol: &str, folder: &Path, port: u16) -> Result<Command, String> {
    if !machine::is_installed("rclone") {
        return Err("`rclone` is not installed".to_owned());
    }
    let served = machine::run(Command::new("rclone").args(["serve", "--help"])).unwrap_or_default();
    if !served.lines().any(|line| line.trim_start().starts_with(&format!("{protocol} "))) {
        return Err(format!("this version of `rclone` does not serve {protocol}"));
    }
    let mut command = Command::new("rclone");
    command.env("RCLONE_CONFIG", "/dev/null").args(["serve", protocol, "--addr", &format!("127.0.0.1:{port}")]);
    command.arg(folder);
    Ok(command)
}

/// Where scripts/bench.sh installs what no package has.
fn tools() -> PathBuf {
    std::env::var_os("SVCFS_TOOLS").map(PathBuf::from).unwrap_or_default()
}

/// WsgiDAV that brings a file and its name to the disk before it answers.
const FLUSHED: &str = "
import os
from wsgidav.fs_dav_provider import FileResource
from wsgidav.server.server_cli import run

def flush(path):
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.close(file)

def end_write(self, *, with_errors):
    flush(self._file_path)
    flush(os.path.dirname(self._file_path))

FileResource.end_write = end_write
run()
";

fn wsgidav(folder: &Path, port: u16, how: &[&str]) -> Result<Command, String> {
    if !tools().join("python/bin/wsgidav").is_file() {
        return Err("WsgiDAV is not installed; scripts/bench.sh installs it".to_owned());
    }
    let mut command = Command::new(tools().join("python/bin/python"));
    command.args(how).args([
        "--host",
        "127.0.0.1",
        "--auth",
        "anonymous",
        "--server",
        "cheroot",
        "-q",
        "--port",
        &port.to_string(),
    ]);
    command.arg("--root").arg(folder);
    Ok(command)
}

fn nginx(run: &BenchRun, folder: &Path, (port, _): Ports) -> Result<Command, String> {
    // Debian keeps it where only root looks; scripts/bench.sh, beside what is installed.
    let places = [PathBuf::from("/usr/sbin/nginx"), tools().join("nginx/usr/sbin/nginx")];
    let program = places.into_iter().find(|place| place.is_file());
    let program = program.ok_or("nginx is not installed; scripts/bench.sh downloads it")?;
    let at = run.path("nginx-itself");
    let told = |error: std::io::Error| format!("nginx cannot be set up: {error}");
    fs::create_dir(&at).map_err(told)?;
    let paths: String =
        ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(|name| format!("{name}_temp_path {name};\n")).concat();
    // As root, or its workers are somebody who may not look below `/root`; for other users the line
    // says nothing.
    let config = format!(
        "daemon off;\nuser root;\npid pid;\nerror_log log;\nworker_processes auto;\nevents {{ worker_connections 256; }}\n\
         http {{\naccess_log off;\nsendfile on;\nkeepalive_requests 1000000;\n{paths}\
         server {{ listen 127.0.0.1:{port}; root {}; }}\n}}\n",
        folder.display()
    );
    fs::write(at.join("conf"), config).map_err(told)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&at).args(["-c", "conf", "-e", "log"]);
    Ok(command)
}

/// With the register of ports that it does not start without, for as long as it runs.
fn ganesha(run: &BenchRun, folder: &Path, (port, mount): Ports) -> Result<Command, String> {
    let there = |program: &str| Path::new(program).is_file();
    if !there("/usr/bin/ganesha.nfsd") || !there("/sbin/rpcbind") {
        return Err("NFS-Ganesha is not installed (`apt-get install nfs-ganesha-vfs rpcbind`)".to_owned());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("NFS-Ganesha runs as root only".to_owned());
    }
    let at = run.path("ganesha-itself");
    let told = |error: std::io::Error| format!("NFS-Ganesha cannot be set up: {error}");
    fs::create_dir(&at).map_err(told)?;
    let config = format!(
        "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {port}; MNT_Port = {mount}; Bind_addr = 127.0.0.1; Enable_NLM = false; \
         Enable_RQUOTA = false; }}\nNFSv4 {{ Graceless = true; RecoveryRoot = {at}; }}\n\
         EXPORT {{ Export_Id = 1; Path = {folder}; Pseudo = /; Protocols = 3; Access_Type = RW; Squash = None; SecType = sys; \
         Transports = TCP; FSAL {{ Name = VFS; }} }}\nLOG {{ Default_Log_Level = EVENT; }}\n",
        at = at.display(),
        folder = folder.display()
    );
    fs::write(at.join("conf"), config).map_err(told)?;
    let mut command = Command::new("sh");
    // One that runs already keeps its port, and this one ends.
    let script = "mkdir -p /run/rpcbind; /sbin/rpcbind -f -w & until rpcinfo -p 127.0.0.1 >/dev/null 2>&1; do sleep 0.1; done; \
                  exec /usr/bin/ganesha.nfsd -F -f conf -L log -p pid";
    command.args(["-c", script]).current_dir(&at);
    Ok(command)
}

impl Rival {
    /// Starts all that are installed; why the others are not there.
    ///
    /// # Errors
    /// When one does not answer in time, or when the run is to end.
    pub(super) fn start_all(run: &BenchRun) -> Result<(Vec<Self>, Vec<String>)> {
        let (mut rivals, mut missing) = (Vec::new(), Vec::new());
        for recipe in &RECIPES {
            let (folder, ports) = (run.path(recipe.key).join("default"), (free_port()?, free_port()?));
            fs::create_dir_all(&folder)?;
            match (recipe.command)(run, &folder, ports) {
                Ok(command) => rivals.push(Self::start(run, recipe, command, (folder, ports))?),
                Err(reason) => missing.push(reason),
            }
        }
        Ok((rivals, missing))
    }

    /// Starts nginx alone, with these files; `None`, with the reason reported, if it is not
    /// installed.
    ///
    /// # Errors
    /// As [`Rival::start_all`].
    pub(super) fn nginx_with(run: &BenchRun, files: &[(&str, &[u8])]) -> Result<Option<Self>> {
        let (folder, ports) = (run.path("nginx").join("default"), (free_port()?, free_port()?));
        fs::create_dir_all(&folder)?;
        for (name, content) in files {
            fs::write(folder.join(name), content)?;
        }
        let Some(recipe) = RECIPES.iter().find(|recipe| recipe.key == "nginx") else { return Ok(None) };
        match (recipe.command)(run, &folder, ports) {
            Ok(command) => Self::start(run, recipe, command, (folder, ports)).map(Some),
            Err(reason) => {
                run.report(&reason);
                Ok(None)
            }
        }
    }

    fn start(run: &BenchRun, recipe: &Recipe, mut command: Command, (folder, ports): (PathBuf, Ports)) -> Result<Self> {
        let Recipe { name, key, prefix, can_write, only_writes, is_nfs, .. } = *recipe;
        let log = File::create(run.path(&format!("{key}.log")))?;
        command.process_group(0).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let address = at(ports.0);
        let share =
            is_nfs.then(|| Share { nfs: address, mount: at(ports.1), path: folder.to_string_lossy().into_owned() });
        // From here on a failure ends it, too.
        let mut rival = Self { name, key, address, prefix, folder, can_write, only_writes, share, child };
        run.wait_until(&format!("{name} answers"), STARTING, || {
            let ended = rival.child.try_wait()?;
            anyhow::ensure!(ended.is_none(), "{name} ended at once; its log is `{key}.log`");
            Ok(TcpStream::connect(address).is_ok()
                && rival.share.as_ref().is_none_or(|share| Nfs::mount(share, "").is_ok()))
        })?;
        Ok(rival)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // Its workers, where it has some, end with it when it is asked to.
        let asked = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let asked = asked
            .is_some_and(|process| rustix::process::kill_process_group(process, rustix::process::Signal::TERM).is_ok());
        if !asked {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
