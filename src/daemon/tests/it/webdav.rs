//! WebDAV, as clients speak it that somebody else wrote: rclone, cadaver and a mount of davfs2; and
//! what is left when the server dies.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

use crate::harness::{Place, Running, eventually, head, request};

/// A root that is served over WebDAV, too.
struct Served {
    place: Place,
    server: Running,
    url: String,
}

impl Served {
    fn new() -> Self {
        Self::of(Place::with_root())
    }

    fn of(place: Place) -> Self {
        Self::on(place, "0")
    }

    /// A root that is open to whoever has this key.
    fn closed(key: &str) -> Self {
        let place = Place::with_root();
        let config = place.read("kb/.svc/config.toml");
        let key = format!("{config}\n[auth]\ntype = \"apikey\"\napi_key = \"{key}\"\n");
        place.write("kb/.svc/config.toml", &key);
        Self::of(place)
    }

    fn on(place: Place, port: &str) -> Self {
        let server = Running::serve(&place.at("kb"), &["--webdav", "--webdav-port", port]);
        let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix("webdav")).unwrap();
        let url = told.trim().to_owned();
        Self { place, server, url }
    }

    /// The same root, after the server was killed.
    fn killed(self) -> Self {
        self.killed_and_back_on("0")
    }

    fn killed_and_back_on(mut self, port: &str) -> Self {
        self.server.signal(Signal::KILL);
        self.server.ended();
        Self::on(self.place, port)
    }

    /// Mounts it with davfs2, whose secrets these are.
    fn davfs(&self, folder: &str, secrets: &str) -> Output {
        self.davfs_after(folder, secrets, 0)
    }

    /// The same, where it uploads a file so many seconds after it was closed.
    fn davfs_after(&self, folder: &str, secrets: &str, delay: u32) -> Output {
        let place = &self.place;
        std::fs::create_dir_all(place.path(folder)).unwrap();
        let (cache, kept) = (place.at("cache"), place.at("secrets"));
        let secrets = if secrets.is_empty() { String::new() } else { format!("{} {secrets}\n", place.at(folder)) };
        let asks = if secrets.is_empty() { "ask_auth 0" } else { "ask_auth 1" };
        place.write("secrets", &secrets);
        std::fs::set_permissions(&kept, Permissions::from_mode(0o600)).unwrap();
        let config = format!("{asks}\nsecrets {kept}\ndelay_upload {delay}\ncache_dir {cache}\nbackup_dir kept\n");
        place.write("davfs.conf", &config);
        std::fs::create_dir_all(&cache).unwrap();
        // It works as a user of its own, who has nothing to do with whoever mounts.
        for (folder, mode) in [(".", 0o755), ("cache", 0o777)] {
            std::fs::set_permissions(place.path(folder), Permissions::from_mode(mode)).unwrap();
        }
        let options = format!("conf={},uid=0,gid=0", place.at("davfs.conf"));
        let mut mount = Command::new("timeout");
        mount.args(["60", "mount", "-t", "davfs", "-o", &options, &self.url]).arg(place.path(folder));
        mount.current_dir(place.at(".")).env("HOME", place.at(".")).stdin(Stdio::null()).output().unwrap()
    }

    fn unmount(&self, folder: &str) {
        let unmounted = Command::new("timeout").args(["60", "umount"]).arg(self.place.path(folder)).output().unwrap();
        assert!(unmounted.status.success(), "{}", String::from_utf8_lossy(&unmounted.stderr));
    }

    /// What a client says, when it succeeds.
    #[track_caller]
    fn says(&self, command: &mut Command) -> String {
        // No client may read or leave anything in the home of who runs the tests.
        let ended = command.current_dir(self.place.at(".")).env("HOME", self.place.at(".")).output().unwrap();
        let told = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert!(ended.status.success(), "{command:?}: {told}\n{}", self.server.errors());
        told
    }

    #[track_caller]
    fn rclone(&self, arguments: &[&str]) -> String {
        let flags = ["--webdav-url", &self.url, "--config", "/dev/null"];
        self.says(Command::new("rclone").args(flags).args(arguments))
    }
}

/// Whether a program is there; says so when it is not.
pub fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap().status.success();
    if !found {
        assert!(std::env::var_os("SVCFS_TOOLS").is_none(), "`{program}` is missing; scripts/test.sh installs it");
        println!("skipped: `{program}` is not installed; scripts/test.sh installs it");
    }
    found
}

/// How many small files go up and down.
pub fn many() -> usize {
    std::env::var("SVCFS_DOOR_FILES").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

#[test]
fn rclone_brings_back_the_many_files_that_it_took() {
    if !has("rclone") {
        return;
    }
    let served = Served::new();
    for number in 0..many() {
        served.place.write(&format!("up/{}/odd name {number} é.md", number % 50), &format!("# {number}\n"));
    }
    std::fs::write(served.place.path("up/large.bin"), vec![b'x'; 18 << 20]).unwrap();
    served.rclone(&["sync", "up", ":webdav:copied", "--transfers", "8"]);
    served.rclone(&["check", "--download", "up", ":webdav:copied"]);
    served.rclone(&["copy", ":webdav:copied", "down"]);
    served.says(Command::new("diff").args(["-r", "up", "down"]));
    served.rclone(&["moveto", ":webdav:copied", ":webdav:moved"]);
    assert!(!served.place.has("kb/copied") && served.place.has("kb/moved/large.bin"));
    served.rclone(&["purge", ":webdav:moved"]);
    assert!(!served.place.has("kb/moved"));
    let place = &served.place;
    served.server.stop();
    let pages = place.git("kb", &["log", "--diff-filter=A", "--format=", "--name-only", "--", "copied"]);
    assert_eq!(pages.lines().count(), many() + 1, "each file is in history once");
}

#[test]
fn cadaver_does_what_a_person_types() {
    if !has("cadaver") {
        return;
    }
    let served = Served::new();
    served.place.write("note.md", "# Note\n");
    let typed = "mkcol folder\nput note.md folder/note.md\nlock folder/note.md\ncopy folder/note.md folder/other.md\n\
                 unlock folder/note.md\nmove folder/other.md moved.md\npropset moved.md mood calm\npropget moved.md mood\n\
                 get moved.md back.md\ndelete folder/note.md\nls\nquit\n";
    let mut cadaver = Command::new("cadaver");
    cadaver.arg(format!("{}/", served.url)).current_dir(served.place.at(".")).env("HOME", served.place.at("."));
    let mut running = cadaver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    running.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(!told.contains("failed") && told.contains("Value of mood is: calm"), "{told}\n{}", served.server.errors());
    assert_eq!(served.place.read("back.md"), "# Note\n");
    assert!(!served.place.has("kb/folder/note.md") && served.place.has("kb/moved.md"));
}

/// Whether davfs can be mounted here.
fn mounts_davfs() -> bool {
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        println!("skipped: only root mounts davfs, where /dev/fuse is");
        return false;
    }
    has("mount.davfs")
}

#[test]
fn programs_work_in_a_mount_of_davfs() {
    if !mounts_davfs() {
        return;
    }
    let served = Served::new();
    let mounted = served.davfs("mnt", "");
    assert!(mounted.status.success(), "{mounted:?}\n{}", served.server.errors());
    let work = "cd mnt && mkdir -p d && echo '# One' > d/a.md && cp d/a.md d/b.md && echo more >> d/b.md && mv d/b.md c.md \
                && rm d/a.md && cat c.md";
    let worked = Command::new("timeout").args(["60", "sh", "-ec", work]).current_dir(served.place.at(".")).output();
    served.unmount("mnt");
    let worked = worked.unwrap();
    assert!(worked.status.success(), "{}\n{}", String::from_utf8_lossy(&worked.stderr), served.server.errors());
    assert_eq!(String::from_utf8_lossy(&worked.stdout), "# One\nmore\n");
    assert_eq!(served.place.read("kb/c.md"), "# One\nmore\n");
    assert!(!served.place.has("kb/d/a.md"));
}

/// Shows: LOCK-6
#[test]
fn davfs_loses_no_save_by_rename_onto_a_locked_file() {
    if !mounts_davfs() {
        return;
    }
    let served = Served::new();
    // Nothing is uploaded before the mount ends: both files are locked when one replaces the other.
    let mounted = served.davfs_after("mnt", "", 60);
    assert!(mounted.status.success(), "{mounted:?}\n{}", served.server.errors());
    let work = "cd mnt && echo '# One' > a.md && echo '# Two' > new && mv new a.md && \
                echo '# Three' > b.md && sed -i s/Three/Four/ b.md && \
                echo '# Five' > c.md && cp c.md c.md~ && echo '# Six' > c.tmp && mv c.tmp c.md && rm c.md~";
    let worked = Command::new("timeout").args(["60", "sh", "-ec", work]).current_dir(served.place.at(".")).output();
    served.unmount("mnt");
    let worked = worked.unwrap();
    assert!(worked.status.success(), "{}\n{}", String::from_utf8_lossy(&worked.stderr), served.server.errors());
    let saved = ["kb/a.md", "kb/b.md", "kb/c.md"].map(|page| served.place.read(page));
    assert_eq!(saved, ["# Two\n", "# Four\n", "# Six\n"]);
    let lock = served
        .says(Command::new("curl").args(["-sX", "PROPFIND", "-H", "Depth: 0"]).arg(format!("{}/a.md", served.url)));
    assert!(!lock.contains("opaquelocktoken") && !lock.contains("activelock"), "it unlocked what it locked: {lock}");
}

/// nginx in front of a server, which takes a prefix off the paths; ended when it is dropped.
struct Proxy(std::process::Child);

impl Proxy {
    /// The program, where it is installed.
    fn program() -> Option<PathBuf> {
        let tools = std::env::var_os("SVCFS_TOOLS").map(PathBuf::from).unwrap_or_default();
        let places = [PathBuf::from("/usr/sbin/nginx"), tools.join("nginx/usr/sbin/nginx")];
        let found = places.into_iter().find(|place| place.is_file());
        if found.is_none() {
            assert!(std::env::var_os("SVCFS_TOOLS").is_none(), "`nginx` is missing; scripts/test.sh installs it");
            println!("skipped: `nginx` is not installed; scripts/test.sh installs it");
        }
        found
    }

    /// Leads `/dav/` on this port to the root of `url`, with these lines beside its defaults.
    fn start(program: &Path, place: &Place, (port, url): (u16, &str), lines: &str) -> Self {
        let folder = place.at("nginx");
        std::fs::create_dir_all(&folder).unwrap();
        let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {folder}/{name};\n"))
            .concat();
        place.write(
            "nginx/nginx.conf",
            &format!(
                "daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\nhttp {{ access_log off; {paths}\
                 server {{ listen 127.0.0.1:{port}; location /dav/ {{ proxy_pass {url}/; {lines} }} }} }}\n"
            ),
        );
        let mut nginx = Command::new(program);
        nginx.args(["-p", &folder, "-c"]).arg(place.at("nginx/nginx.conf"));
        let proxy = Self(nginx.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        eventually("nginx listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let master = rustix::process::Pid::from_child(&self.0);
        let _ended = rustix::process::kill_process(master, Signal::TERM);
        let _status = self.0.wait();
    }
}

/// Shows: DAV-9
#[test]
fn clients_work_behind_nginx_that_strips_a_prefix() {
    let Some(nginx) = Proxy::program() else { return };
    if !has("rclone") || !has("cadaver") {
        return;
    }
    // As the settings say, and as the proxy says.
    for is_configured in [true, false] {
        let place = Place::with_root();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let url = format!("http://localhost:{port}/dav");
        if is_configured {
            let config = place.read("kb/.svc/config.toml");
            place.write("kb/.svc/config.toml", &format!("{config}\n[webdav]\npublic_url = \"{url}\"\n"));
        }
        let mut served = Served::of(place);
        let forwarded = "proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Prefix /dav;";
        let lines = if is_configured { "" } else { forwarded };
        let _proxy = Proxy::start(&nginx, &served.place, (port, &served.url), lines);
        served.url = url;
        served.place.write("up/note é.md", "# Note\n");
        served.rclone(&["copy", "up", ":webdav:sub dir"]);
        served.rclone(&["moveto", ":webdav:sub dir/note é.md", ":webdav:moved.md"]);
        served.rclone(&["copy", ":webdav:", "down", "--include", "moved.md"]);
        assert_eq!(served.place.read("down/moved.md"), "# Note\n");
        served.place.write(
            "typed",
            "mkcol f\nput down/moved.md f/a.md\nlock f/a.md\ncopy f/a.md f/b.md\n\
             move f/b.md f/a.md\nput down/moved.md f/a.md\nunlock f/a.md\nmove f/a.md c.md\nls f\nquit\n",
        );
        let told = served.says(Command::new("sh").args(["-c", &format!("cadaver {}/ < typed", served.url)]));
        assert!(!told.contains("failed") && !told.contains("error"), "{told}\n{}", served.server.errors());
        assert!(served.place.has("kb/c.md") && !served.place.has("kb/f/a.md"));
        if mounts_davfs() {
            let mounted = served.davfs_after("mnt", "", 60);
            assert!(mounted.status.success(), "{mounted:?}\n{}", served.server.errors());
            let work = "cd mnt && mkdir d && echo 1 > d/a && echo 2 > d/b && mv d/b d/a && sed -i s/2/3/ d/a && mv d e";
            let worked =
                Command::new("timeout").args(["60", "sh", "-ec", work]).current_dir(served.place.at(".")).output();
            served.unmount("mnt");
            let worked = worked.unwrap();
            assert!(worked.status.success(), "{}\n{}", String::from_utf8_lossy(&worked.stderr), served.server.errors());
            assert_eq!(served.place.read("kb/e/a"), "3\n");
        }
    }
}

#[test]
fn a_time_that_rclone_gives_a_file_is_the_files() {
    if !has("rclone") {
        return;
    }
    let served = Served::new();
    served.place.write("up/old.txt", "old\n");
    let file = std::fs::File::options().write(true).open(served.place.path("up/old.txt")).unwrap();
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777);
    file.set_modified(then).unwrap();
    served.rclone(&["copy", "up", ":webdav:up", "--webdav-vendor", "owncloud"]);
    assert_eq!(std::fs::metadata(served.place.path("kb/up/old.txt")).unwrap().modified().unwrap(), then);
}

#[test]
fn davfs_connects_only_with_the_key_in_its_secrets() {
    if !mounts_davfs() {
        return;
    }
    let served = Served::closed("right-key");
    // It mounts all the same where it is refused, and has nothing to show.
    let refused = served.davfs("wrong", "ann wrong-key");
    let shown = Command::new("timeout").args(["60", "ls", "wrong/index.md"]).current_dir(served.place.at(".")).output();
    if refused.status.success() {
        served.unmount("wrong");
    }
    assert!(!shown.unwrap().status.success(), "{refused:?}");
    let mounted = served.davfs("mnt", "ann right-key");
    assert!(mounted.status.success(), "{mounted:?}\n{}", served.server.errors());
    let work = "echo '# One' > mnt/a.md && cp mnt/a.md mnt/b.md && cat mnt/index.md";
    let worked = Command::new("timeout").args(["60", "sh", "-ec", work]).current_dir(served.place.at(".")).output();
    served.unmount("mnt");
    let worked = worked.unwrap();
    assert!(worked.status.success(), "{}\n{}", String::from_utf8_lossy(&worked.stderr), served.server.errors());
    assert_eq!(String::from_utf8_lossy(&worked.stdout), served.place.read("kb/index.md"));
    assert_eq!(served.place.read("kb/b.md"), "# One\n");
}

#[test]
fn rclone_and_cadaver_connect_only_with_the_right_key() {
    if !has("rclone") || !has("cadaver") {
        return;
    }
    let served = Served::closed("right-key");
    let place = &served.place;
    place.write("up/note.md", "# Note\n");
    let rclone = |key: &str| {
        let obscured = served.says(Command::new("rclone").args(["obscure", key]));
        let flags =
            ["--webdav-url", &served.url, "--config", "/dev/null", "--retries", "1", "--low-level-retries", "1"];
        let mut rclone = Command::new("rclone");
        rclone.args(flags).args(["--webdav-user", "ann", "--webdav-pass", obscured.trim(), "copy", "up", ":webdav:up"]);
        rclone.current_dir(place.at(".")).env("HOME", place.at(".")).output().unwrap()
    };
    let told = rclone("wrong-key");
    assert!(!told.status.success() && String::from_utf8_lossy(&told.stderr).contains("401"), "{told:?}");
    assert!(!place.has("kb/up"));
    let told = rclone("right-key");
    assert!(told.status.success(), "{told:?}\n{}", served.server.errors());
    assert_eq!(place.read("kb/up/note.md"), "# Note\n");
    let cadaver = |key: &str| {
        place.write(".netrc", &format!("machine 127.0.0.1 login ann password {key}\n"));
        std::fs::set_permissions(place.path(".netrc"), Permissions::from_mode(0o600)).unwrap();
        let mut cadaver = Command::new("timeout");
        cadaver
            .args(["30", "cadaver", &format!("{}/", served.url)])
            .current_dir(place.at("."))
            .env("HOME", place.at("."));
        let mut running = cadaver.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Where it is refused it may have gone by then.
        let _gone = running.stdin.take().unwrap().write_all(format!("put up/note.md {key}.md\nquit\n").as_bytes());
        running.wait_with_output().unwrap()
    };
    let told = cadaver("wrong-key");
    assert!(!place.has("kb/wrong-key.md"), "{told:?}");
    let told = cadaver("right-key");
    assert!(place.has("kb/right-key.md"), "{told:?}\n{}", served.server.errors());
}

#[test]
fn rclone_uploads_are_complete_despite_a_server_crash() {
    if !has("rclone") {
        return;
    }
    let served = Served::new();
    std::fs::create_dir(served.place.path("up")).unwrap();
    let content: Vec<u8> = (0..24_u32 << 20).flat_map(u32::to_le_bytes).collect();
    std::fs::write(served.place.path("up/large.bin"), &content).unwrap();
    // Slow enough to be met in the middle, and patient enough to come back.
    let flags = ["--webdav-url", &served.url, "--config", "/dev/null", "--bwlimit", "16M", "--retries", "20"];
    let mut rclone = Command::new("rclone");
    rclone.args(flags).args(["--retries-sleep", "500ms", "copy", "up", ":webdav:"]);
    let running = rclone.current_dir(served.place.at(".")).env("HOME", served.place.at(".")).stderr(Stdio::piped());
    let running = running.spawn().unwrap();
    // Long bodies go to a temporary file of the server from their first bytes on.
    let is_coming = || {
        let is_long = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.and_then(|entry| entry.metadata()).is_ok_and(|found| found.is_file() && found.len() > 1 << 20)
        };
        std::fs::read_dir(served.place.path("kb/.svc/state/tmp")).unwrap().any(is_long)
    };
    eventually("it is on its way", is_coming);
    let port = served.url.rsplit(':').next().unwrap().to_owned();
    let served = served.killed_and_back_on(&port);
    let told = running.wait_with_output().unwrap();
    assert!(told.status.success(), "{told:?}\n{}", served.server.errors());
    assert!(std::fs::read(served.place.path("kb/large.bin")).unwrap() == content, "it is another");
}

/// Shows: DAV-5
#[test]
fn an_upload_cut_by_a_crash_leaves_no_partial_file_or_lost_lock() {
    let served = Served::new();
    assert_eq!(request(&served.url, "PUT", "/a.md", "# One\n").0, 201);
    assert_eq!(request(&served.url, "PUT", "/free.md", "# Free\n").0, 201);
    let lock = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    assert_eq!(request(&served.url, "LOCK", "/a.md", lock).0, 200);
    // One that is a page, and one that is too large to be one and lies beside its place meanwhile.
    let lengths = [("/free.md", 1 << 20), ("/large.bin", 100 << 20)];
    let halves = lengths.map(|(target, length)| {
        let mut stream = crate::harness::connect(&served.url);
        write!(stream, "{}", head(&served.url, "PUT", target, length)).unwrap();
        stream.write_all(&vec![b'x'; length * 4 / 5]).unwrap();
        stream
    });
    let is_part = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.unwrap().file_name();
        name.to_string_lossy().starts_with(".svc-upload-")
    };
    let served = served.killed();
    drop(halves);
    assert_eq!(served.place.read("kb/free.md"), "# Free\n");
    assert!(!served.place.has("kb/large.bin"));
    eventually("what was half there is gone", || !std::fs::read_dir(served.place.path("kb")).unwrap().any(is_part));
    let (status, told) = request(served.server.url(), "PUT", "/api/svc/file?path=a.md", "# Two\n");
    assert!(status == 423 && told.contains("locked by"), "{status} {told}");
    assert_eq!(request(served.server.url(), "PUT", "/api/svc/file?path=free.md", "# Two\n").0, 200);
    served.server.stop();
}
