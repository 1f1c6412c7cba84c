//! WebDAV, as clients speak it that somebody else wrote: rclone, cadaver and a mount of davfs2; and what is left when the server dies.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

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
        let server = Running::serve(&place.at("kb"), &["--webdav", "--webdav-port", "0"]);
        let told = server.greeting.lines().find_map(|line| line.trim().strip_prefix("webdav")).unwrap();
        let url = told.trim().to_owned();
        Self { place, server, url }
    }

    /// The same root, after the server was killed.
    fn killed(mut self) -> Self {
        self.server.signal(Signal::KILL);
        self.server.ended();
        Self::of(self.place)
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

#[test]
fn programs_work_in_a_mount_of_davfs() {
    if !rustix::process::geteuid().is_root() || !std::path::Path::new("/dev/fuse").exists() {
        println!("skipped: only root mounts davfs, where /dev/fuse is");
        return;
    }
    if !has("mount.davfs") {
        return;
    }
    let served = Served::new();
    std::fs::create_dir(served.place.path("mnt")).unwrap();
    let cache = served.place.at("cache");
    served.place.write("davfs.conf", &format!("ask_auth 0\ndelay_upload 0\ncache_dir {cache}\nbackup_dir kept\n"));
    std::fs::create_dir_all(&cache).unwrap();
    // It works as a user of its own, who has nothing to do with whoever mounts.
    for (folder, mode) in [(".", 0o755), ("cache", 0o777)] {
        std::fs::set_permissions(served.place.path(folder), Permissions::from_mode(mode)).unwrap();
    }
    let options = format!("conf={},uid=0,gid=0", served.place.at("davfs.conf"));
    served.says(Command::new("mount").args(["-t", "davfs", "-o", &options, &served.url]).arg(served.place.path("mnt")));
    let work = "cd mnt && mkdir -p d && echo '# One' > d/a.md && cp d/a.md d/b.md && echo more >> d/b.md && mv d/b.md c.md \
                && rm d/a.md && cat c.md";
    let worked = Command::new("timeout").args(["60", "sh", "-ec", work]).current_dir(served.place.at(".")).output();
    let unmounted = Command::new("timeout").args(["60", "umount"]).arg(served.place.path("mnt")).output().unwrap();
    let worked = worked.unwrap();
    assert!(worked.status.success(), "{}\n{}", String::from_utf8_lossy(&worked.stderr), served.server.errors());
    assert!(unmounted.status.success(), "{}", String::from_utf8_lossy(&unmounted.stderr));
    assert_eq!(String::from_utf8_lossy(&worked.stdout), "# One\nmore\n");
    assert_eq!(served.place.read("kb/c.md"), "# One\nmore\n");
    assert!(!served.place.has("kb/d/a.md"));
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_an_upload_leaves_nothing_half_and_keeps_its_locks() {
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
