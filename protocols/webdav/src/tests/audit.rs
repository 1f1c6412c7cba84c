//! What is kept of who asked, and how often they may.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use svcfs_store::{FailPoint, FailPoints};

use super::*;

const KEYS: &str = "[audit]\nenabled = true\n[server.rate_limit]\nrequests_per_minute = 1\nburst_size = 3\n\
    [auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"k\"\nactor = \"ann\"\n";
/// Any user, and the key as password.
const ANN: (&str, &str) = ("authorization", "Basic eDpr");

/// What the audit log of the first space has.
fn kept(served: &Served) -> Vec<Value> {
    served.server.primary().audit.as_ref().unwrap().flush().unwrap();
    let folder = served.folder.path().join("default/.svc/audit");
    let Ok(mut days) = std::fs::read_dir(folder) else { return Vec::new() };
    let day = days.next().unwrap().unwrap().path();
    let lines = std::fs::read_to_string(day).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn requests_are_audited_and_counted_like_other_protocols() {
    let served = Served::with(KEYS);
    assert_eq!(served.send("PUT", "/docs.md", &[ANN], "# A\n").status, 201);
    assert_eq!(served.send("GET", "/none.md?x=1", &[ANN], "").status, 404);
    assert_eq!(served.send("PROPFIND", "/", &[ANN, ("depth", "0")], "").status, 207);
    let refused = served.send("GET", "/docs.md", &[ANN], "");
    assert_eq!((refused.status, refused.header("retry-after")), (429, "60"), "{}", refused.text());
    // A wrong key is counted with everybody else of the address.
    let wrong = |key| served.send("GET", "/docs.md", &[("authorization", key)], "").status;
    assert_eq!([wrong("Bearer a"), wrong("Bearer b"), wrong("Bearer c"), wrong("Bearer d")], [401, 401, 401, 429]);

    let kept = kept(&served);
    let told = |entry: &Value| {
        json!([entry["protocol"], entry["method"], entry["path"], entry["file"], entry["status"], entry["actor"]])
    };
    assert_eq!(told(&kept[0]), json!(["webdav", "PUT", "/docs.md", "docs.md", 201, "ann"]));
    assert_eq!(told(&kept[1]), json!(["webdav", "GET", "/none.md", "none.md", 404, "ann"]));
    assert_eq!(told(&kept[3]), json!(["webdav", "GET", "/docs.md", null, 429, "ann"]));
    assert_eq!(told(&kept[4]), json!(["webdav", "GET", "/docs.md", null, 401, "anonymous"]));
    assert_eq!(
        (&kept[1]["query"], &kept[1]["space"], &kept[1]["ip"]),
        (&json!("x=1"), &json!("default"), &json!("127.0.0.1"))
    );
    assert_eq!(kept[4]["token_hash"].as_str().map(str::len), Some(8), "who tries keys is seen to");
    assert_eq!(kept.len(), 8);
}

/// How much is done at once (`Lanes`).
const AT_ONCE: usize = 64;

/// Shows: AUTH-8
#[test]
fn requests_of_disconnected_clients_are_audited_too() {
    let served = Served::with("[audit]\nenabled = true\n");
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(served.address).unwrap();
        let head = "Host: localhost\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
        write!(stream, "PUT {path} HTTP/1.1\r\n{head}").unwrap();
        // It is being answered: somebody reads what comes.
        stream.read_exact(&mut [0; 25]).unwrap();
        stream
    };
    // So many that the next one waits for its turn.
    let points = FailPoints::new(served.server.primary().vfs.root());
    let (came, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (here, until) = (Arc::clone(&came), Arc::clone(&is_over));
    points.set_callback(FailPoint::AcceptLocked, move || {
        here.fetch_add(1, Ordering::Relaxed);
        in_time(|| until.load(Ordering::Relaxed).then_some(()));
    });
    let mut last = ask("/last.md");
    let mut held: Vec<_> = (0..AT_ONCE).map(|number| ask(&format!("/held-{number}.md"))).collect();
    held.iter_mut().for_each(|stream| stream.write_all(b"# A\n").unwrap());
    let are_there = in_time(|| (came.load(Ordering::Relaxed) >= AT_ONCE).then_some(()));
    last.write_all(b"# A\n").unwrap();
    drop(last);
    let gone = in_time(|| kept(&served).into_iter().find(|entry| entry["path"] == "/last.md"));
    is_over.store(true, Ordering::Relaxed);
    points.clear(FailPoint::AcceptLocked);
    drop(held);
    are_there.unwrap();
    let gone = gone.expect("who went away is not kept");
    assert_eq!((&gone["method"], &gone["file"], &gone["status"]), (&json!("PUT"), &json!("last.md"), &json!(499)));
}

/// Waits for something; none where it does not come.
fn in_time<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = look();
        if found.is_some() || begun.elapsed() > Duration::from_secs(20) {
            return found;
        }
        // Between two looks; nobody unparks this thread.
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
