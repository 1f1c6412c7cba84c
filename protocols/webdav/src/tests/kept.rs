//! What is kept of who asked, and how often they may.

use serde_json::{Value, json};

use super::Served;

const KEYS: &str = "[audit]\nenabled = true\n[server.rate_limit]\nrequests_per_minute = 1\nburst_size = 3\n\
    [auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"k\"\nactor = \"ann\"\n";
/// Any user, and the key as password.
const ANN: (&str, &str) = ("authorization", "Basic eDpr");

/// What the audit log of the first space has.
fn kept(served: &Served) -> Vec<Value> {
    served.server.primary().audit.as_ref().unwrap().write().unwrap();
    let folder = served.folder.path().join("default/.svc/audit");
    let day = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let lines = std::fs::read_to_string(day).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn requests_are_kept_and_counted_as_those_of_every_door() {
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
        json!([entry["door"], entry["method"], entry["path"], entry["file"], entry["status"], entry["actor"]])
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
