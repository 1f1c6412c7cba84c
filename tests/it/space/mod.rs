//! One space for one test: opened, served over HTTP, mounted where a test asks for it, and audited
//! when it is taken down.

pub mod client;
pub mod git;
pub mod leftovers;
pub mod story;
pub mod tree;
pub mod wait;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svcfs_base::{Protocol, SystemClock, TreePath};
use svcfs_config::{CliOverrides, Config, NfsFlags, Settings, VersioningStrategy};
use svcfs_knowledge::access::AccessControl;
use svcfs_knowledge::kernel::{ServerState, Space};
use svcfs_knowledge::spaces::{self, SpaceCollection, SpaceOptions};
use svcfs_mount::LocalMount;
use svcfs_work::Supervisor;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use client::Client;
use wait::LIMIT;

/// What may remember versions: `versioning.strategy`.
pub const STRATEGIES: [VersioningStrategy; 3] =
    [VersioningStrategy::Git, VersioningStrategy::Cow, VersioningStrategy::None];

/// The settings of a strategy.
const fn setting(strategy: VersioningStrategy) -> &'static str {
    match strategy {
        VersioningStrategy::Git => "",
        VersioningStrategy::Cow => "versioning.strategy = \"cow\"",
        VersioningStrategy::None => "versioning.strategy = \"none\"",
    }
}

/// A space, alive.
pub struct TestSpace {
    server: Arc<ServerState>,
    supervisor: Supervisor,
    /// Answers HTTP; gone once the space is taken down.
    runtime: Option<Runtime>,
    stop: CancellationToken,
    serving: Vec<tokio::task::JoinHandle<()>>,
    address: SocketAddr,
    webdav: SocketAddr,
    nfs: SocketAddr,
    s3: SocketAddr,
    mount: Option<LocalMount>,
    folder: TempDir,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// Settings under which a commit waits until somebody asks for it.
const GATHERING: &str = "versioning = { async_commit = true, batch_window_ms = 60_000 }";

/// Mounting tests run one at a time: a machine under test has two processors, and a mount wants
/// both.
static ONE_MOUNT_AT_A_TIME: Mutex<()> = Mutex::new(());

/// False, with the reason printed, where nothing can be mounted.
pub fn can_mount() -> bool {
    let device = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse");
    if let Err(error) = &device {
        println!("skipped: /dev/fuse cannot be opened: {error}");
    }
    device.is_ok()
}

/// Waits for the turn of a test that mounts by itself; none, with the reason printed, where nothing
/// can be mounted.
pub fn mount_turn() -> Option<MutexGuard<'static, ()>> {
    can_mount().then(|| ONE_MOUNT_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The name of the user who runs the tests: what the mount writes into history.
pub fn me() -> String {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap();
    user.map_or_else(|| format!("uid-{}", nix::unistd::geteuid()), |user| user.name)
}

/// What lint refuses is refused alike through every protocol, and agents write as much as others.
const REJECTING_EVERYWHERE: &str = "lint.reject_protocols = [\"http\", \"mcp\", \"fuse\", \"nfs\", \"s3\", \"webdav\"]\n\
    agents.limits = { deletes_per_minute = 0, rewritten_percent_per_hour = 0 }\n";

/// Settings that change nothing.
const AS_SHIPPED: &str = "# as shipped\n";

impl TestSpace {
    /// An empty space, served over HTTP.
    pub fn new() -> Self {
        Self::keeping(VersioningStrategy::Git)
    }

    /// The same, with another strategy of versioning.
    pub fn keeping(strategy: VersioningStrategy) -> Self {
        Self::on(folder(), false, false, setting(strategy))
    }

    /// An empty space whose commits are made later than its writers are answered, served over HTTP
    /// and mounted when asked for.
    pub fn gathering(is_mounted: bool) -> Self {
        Self::with(GATHERING, is_mounted)
    }

    /// An empty space with these settings, served over HTTP and mounted when asked for.
    pub fn with(config: &str, is_mounted: bool) -> Self {
        Self::on(folder(), is_mounted, false, config)
    }

    /// An empty space, served and mounted; none, with the reason printed, where nothing can be
    /// mounted.
    pub fn mounted() -> Option<Self> {
        Self::mounted_keeping(VersioningStrategy::Git)
    }

    /// The same, with another strategy of versioning.
    pub fn mounted_keeping(strategy: VersioningStrategy) -> Option<Self> {
        can_mount().then(|| Self::on(folder(), true, false, setting(strategy)))
    }

    /// An empty, mounted space that refuses what svcfs refuses without settings; none, with the
    /// reason printed, where nothing can be mounted.
    pub fn as_shipped() -> Option<Self> {
        can_mount().then(|| Self::on(folder(), true, false, AS_SHIPPED))
    }

    /// A space over what lies in `root` inside a folder, mounted, and watched for edits made behind
    /// it.
    pub fn watched(folder: TempDir) -> Self {
        Self::on(folder, can_mount(), true, "")
    }

    /// A space over the files in `root` inside a folder, served over HTTP.
    pub fn served(folder: TempDir) -> Self {
        Self::on(folder, false, false, "")
    }

    fn on(folder: TempDir, is_mounted: bool, watch: bool, config: &str) -> Self {
        let turn = is_mounted.then(|| ONE_MOUNT_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
        let rejecting = if config == AS_SHIPPED { "" } else { REJECTING_EVERYWHERE };
        let config = [rejecting, config].concat();
        let settings = Settings::resolve(Config::parse(&config, &|_| None), CliOverrides::default()).unwrap();
        let clock = Arc::new(SystemClock);
        let root = folder.path().join("root");
        let opening = SpaceOptions {
            name: "default".to_owned(),
            root,
            clock: clock.clone(),
            is_watched: watch,
            on_progress: None,
        };
        let space = spaces::open(opening, &settings).unwrap();
        let supervisor = Supervisor::new();
        spaces::start_indexer(&space, &supervisor).unwrap();
        let mount = is_mounted.then(|| {
            let options = svcfs_mount::MountOptions::new(clock.clone(), 8);
            LocalMount::start(Arc::clone(&space.vfs), &folder.path().join("mnt"), &options).unwrap()
        });
        let server = Arc::new(ServerState::new(
            SpaceCollection::single(space),
            clock,
            AccessControl::new(settings.auth.clone(), None),
        ));
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let stop = CancellationToken::new();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let webdav_listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let webdav = webdav_listener.local_addr().unwrap();
        let webdav_served = svcfs_webdav::serve(webdav_listener, Arc::clone(&server), stop.clone());
        let s3_listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let s3 = s3_listener.local_addr().unwrap();
        let s3_served = svcfs_s3::serve(s3_listener, Arc::clone(&server), stop.clone());
        let nfs_listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let nfs = nfs_listener.local_addr().unwrap();
        let flags = NfsFlags { enabled: true, ..NfsFlags::default() };
        let overrides = CliOverrides { nfs: flags, ..CliOverrides::default() };
        let nfs_settings = Settings::resolve(Config::default(), overrides).unwrap().nfs.unwrap();
        let nfs_served = svcfs_nfs::serve(nfs_listener, Arc::clone(&server), nfs_settings, stop.clone());
        let served = svcfs_http::serve(listener, Arc::clone(&server), stop.clone());
        let serving = vec![
            runtime.spawn(async { served.await.unwrap() }),
            runtime.spawn(webdav_served),
            runtime.spawn(nfs_served),
            runtime.spawn(s3_served),
        ];
        Self {
            server,
            supervisor,
            runtime: Some(runtime),
            stop,
            serving,
            address,
            webdav,
            nfs,
            s3,
            mount,
            folder,
            _turn: turn,
        }
    }

    /// The space itself.
    pub fn space(&self) -> &Arc<Space> {
        self.server.primary()
    }

    /// The server of it.
    pub fn server(&self) -> &Arc<ServerState> {
        &self.server
    }

    /// Where HTTP is served.
    pub fn http(&self) -> SocketAddr {
        self.address
    }

    /// Where WebDAV is served.
    pub fn webdav(&self) -> SocketAddr {
        self.webdav
    }

    /// One who asks over HTTP.
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Where NFS is served.
    pub fn nfs(&self) -> SocketAddr {
        self.nfs
    }

    /// One who asks over WebDAV.
    pub fn webdav_client(&self) -> Client {
        Client::new(self.webdav)
    }

    /// One who asks over S3, and the name of the host that is signed.
    pub fn s3_client(&self) -> (Client, String) {
        (Client::new(self.s3), self.s3.to_string())
    }

    /// The knowledge root on the disk.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    /// Where the space is mounted.
    pub fn mountpoint(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// A folder beside root and mountpoint for what a test needs.
    pub fn aside(&self) -> &Path {
        self.folder.path()
    }

    /// Waits until everything accepted is committed, announced and indexed.
    pub fn settle(&self) {
        let settled = self.space().vfs.wait_committed().unwrap();
        assert!(self.space().wait_for_index(settled, LIMIT), "the indexer does not follow");
    }

    /// The content of a file, as those see it who look at the tree from inside.
    pub fn text(&self, path: &str) -> String {
        let file = self.space().vfs.read(Protocol::Internal, &TreePath::parse(path).unwrap()).unwrap();
        String::from_utf8(file.content.to_vec()).unwrap()
    }

    /// What remembers versions here.
    pub fn strategy(&self) -> VersioningStrategy {
        self.server.settings().versioning.strategy
    }

    /// Runs a shell command in the mount; what it printed. It must succeed.
    #[track_caller]
    pub fn shell(&self, command: &str) -> String {
        let output = Command::new("timeout")
            .args(["--kill-after=5", "60", "sh", "-ec", command])
            // Programs must not read or leave anything in the home of who runs the tests.
            .env("HOME", self.aside())
            .env("LC_ALL", "C.UTF-8")
            .current_dir(self.mountpoint())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{command}`: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Stops everything, in the order of the daemon: nothing accepted is lost.
    fn take_down(&mut self) -> Result<(), String> {
        let Some(runtime) = self.runtime.take() else { return Ok(()) };
        self.stop.cancel();
        for serving in self.serving.drain(..) {
            runtime.block_on(serving).map_err(|error| format!("serving ended badly: {error}"))?;
        }
        if let Some(mount) = self.mount.take() {
            mount.stop(LIMIT).map_err(|error| error.to_string())?;
        }
        let lingering = self.supervisor.stop(LIMIT);
        if !lingering.is_empty() {
            return Err(format!("still running: {lingering:?}"));
        }
        self.space().vfs.close().map_err(|fault| format!("{fault:?}"))
    }
}

impl Drop for TestSpace {
    fn drop(&mut self) {
        let is_failing = std::thread::panicking();
        if !is_failing {
            self.settle();
            leftovers::check_index(self.space());
        }
        let outcome = self.take_down();
        if !is_failing {
            assert_eq!(outcome, Ok(()));
            match self.strategy() {
                VersioningStrategy::Git => leftovers::check_root(&self.root(), &self.folder.path().join("clone")),
                VersioningStrategy::Cow | VersioningStrategy::None => leftovers::check_root_without_git(&self.root()),
            }
        }
    }
}

/// A folder for one space: `root` and `mnt` in it, reachable by other users of the machine.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("root")).unwrap();
    fs::create_dir(folder.path().join("mnt")).unwrap();
    Command::new("chmod").args(["-R", "a+rwX"]).arg(folder.path()).status().unwrap();
    folder
}
