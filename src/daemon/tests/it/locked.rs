//! What somebody locked over WebDAV, as every other door of one server leaves it alone; each says
//! so in its own words.

use std::process::Command;

use crate::harness::{Place, Running, can_mount, exchange, request};
use crate::webdav::has;

const LOCK: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
const PAGE: &str = "/page.md";

/// A root that is served by every door, and mounted.
struct Served {
    place: Place,
    server: Running,
}

impl Served {
    fn new() -> Self {
        let place = Place::with_root();
        std::fs::create_dir(place.path("mnt")).unwrap();
        let protocols = ["--webdav", "--webdav-port", "0", "--s3", "--s3-port", "0", "--nfs", "--nfs-port", "0"];
        let server = Running::serve(&place.at("kb"), &[&protocols[..], &["--mount", &place.at("mnt")]].concat());
        Self { place, server }
    }

    /// Where a door is.
    fn at(&self, protocol: &str) -> String {
        let told = self.server.greeting.lines().find_map(|line| line.trim().strip_prefix(protocol));
        told.unwrap_or_else(|| panic!("{}", self.server.greeting)).trim().to_owned()
    }

    /// Makes the page over NFS of another file; what is said of it if that fails.
    fn copy_over_nfs(&self, from: &str) -> Result<(), String> {
        let port = self.at("nfs ").rsplit(':').next().unwrap().to_owned();
        let there = format!("nfs://127.0.0.1/default{PAGE}?nfsport={port}&mountport={port}");
        let ended = Command::new("nfs-cp").args([&self.place.at(from), &there]).output().unwrap();
        let told = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        if ended.status.success() { Ok(()) } else { Err(told) }
    }

    /// Locks the page; the token, between angle brackets.
    fn locks(&self) -> String {
        let (status, head, text) = exchange(&self.at("webdav"), "LOCK", PAGE, ("", LOCK));
        assert_eq!(status, 200, "{text}");
        head.lines().find_map(|line| line.strip_prefix("lock-token: ")).unwrap().to_owned()
    }
}

/// Shows: LOCK-2
#[test]
fn a_webdav_lock_blocks_every_protocol_with_its_own_error() {
    if !can_mount() || !has("nfs-cp") {
        return;
    }
    let served = Served::new();
    let (http, webdav, s3) = (served.server.url().to_owned(), served.at("webdav"), served.at("s3"));
    let mounted = served.place.path("mnt/page.md");
    served.place.write("other.md", "# Other\n");
    assert_eq!(request(&webdav, "PUT", PAGE, "# Page\n").0, 201);
    let token = served.locks();

    let (status, told) = request(&http, "PUT", "/api/svc/file?path=page.md", "# Other\n");
    assert!(status == 423 && told.contains("`page.md` is locked by"), "{status} {told}");
    for method in ["PUT", "DELETE"] {
        let (status, told) = request(&s3, method, "/default/page.md", "# Other\n");
        let is_told = told.contains("<Code>OperationAborted</Code>") && told.contains("is locked by");
        assert!(status == 409 && is_told, "{method}: {status} {told}");
    }
    let told = served.copy_over_nfs("other.md").unwrap_err();
    assert!(told.contains("NFS3ERR_ACCES"), "{told}");
    let busy = Some(rustix::io::Errno::BUSY.raw_os_error());
    for refused in [std::fs::write(&mounted, "# Other\n"), std::fs::remove_file(&mounted)] {
        assert_eq!(refused.unwrap_err().raw_os_error(), busy);
    }
    let to = "Destination: /moved.md\r\n";
    for (method, headers, body) in [("PUT", "", "# Other\n"), ("DELETE", "", ""), ("MOVE", to, "")] {
        let (status, _, told) = exchange(&webdav, method, PAGE, (headers, body));
        assert!(status == 423 && told.contains("lock-token-submitted"), "{method}: {status} {told}");
    }
    assert_eq!(served.place.read("kb/page.md"), "# Page\n");

    let unlock = format!("Lock-Token: {token}\r\n");
    assert_eq!(exchange(&webdav, "UNLOCK", PAGE, (&unlock, "")).0, 204);
    let is_now = |text: &str| assert_eq!(request(&webdav, "GET", PAGE, "").1, text);
    assert_eq!(request(&http, "PUT", "/api/svc/file?path=page.md", "# HTTP\n").0, 200);
    is_now("# HTTP\n");
    assert_eq!(request(&s3, "PUT", "/default/page.md", "# S3\n").0, 200);
    is_now("# S3\n");
    assert_eq!(request(&s3, "DELETE", "/default/page.md", "").0, 204);
    served.copy_over_nfs("other.md").unwrap();
    is_now("# Other\n");
    std::fs::write(&mounted, "# Mount\n").unwrap();
    is_now("# Mount\n");
    std::fs::remove_file(&mounted).unwrap();
    assert_eq!(request(&webdav, "GET", PAGE, "").0, 404);
    served.server.stop();
}
