//! What is kept of who asked, and how often they may.

use serde_json::{Value, json};

use super::Served;

const EDGES: &str = "[audit]\nenabled = true\n[server.rate_limit]\nrequests_per_minute = 1\nburst_size = 3\n";

/// What the audit log of the first space has.
fn kept(served: &Served) -> Vec<Value> {
    served.server.primary().audit.as_ref().unwrap().flush().unwrap();
    let folder = served.folder.path().join("default/.svc/audit");
    let day = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let lines = std::fs::read_to_string(day).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn told(entry: &Value) -> Value {
    json!([entry["protocol"], entry["method"], entry["operation"], entry["file"], entry["space"], entry["status"]])
}

#[test]
fn requests_are_audited_and_counted_like_other_protocols() {
    let served = Served::with(EDGES);
    served.put("docs/a.md", "# A\n");
    served.get("/default/none.md").is(404, "NoSuchKey");
    served.get("/nowhere?list-type=2").is(404, "NoSuchBucket");
    let refused = served.get("/default/docs/a.md");
    refused.is(503, "SlowDown");
    assert_eq!(refused.header("retry-after"), "60");

    let kept = kept(&served);
    let kept: Vec<Value> = kept.iter().map(told).collect();
    assert_eq!(
        kept,
        [
            json!(["s3", "PUT", "PutObject", "docs/a.md", "default", 200]),
            json!(["s3", "GET", "GetObject", "none.md", "default", 404]),
            json!(["s3", "GET", "ListObjectsV2", null, null, 404]),
            json!(["s3", "GET", "GetObject", "docs/a.md", "default", 503]),
        ]
    );
}

#[test]
fn invalid_signatures_are_counted_and_never_recorded() {
    let served = Served::with(&format!("{EDGES}[auth]\ntype = \"apikey\"\napi_key = \"right\"\n"));
    let target = &format!(
        "/default/a.md?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=ffffffffffff%2F20261123%2Fus-east-1%2Fs3%2Faws4_request\
        &X-Amz-Date=20261123T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature={}",
        "00ff".repeat(16)
    );
    // Old as it is, it is refused before anybody looks whose it would be.
    (0..3).for_each(|_| served.get(target).is(403, "AccessDenied"));
    served.get(target).is(503, "SlowDown");
    let kept = kept(&served);
    assert_eq!(kept.len(), 4);
    for entry in kept {
        assert!(
            !entry.to_string().contains("00ff") && entry["query"].as_str().unwrap().contains("X-Amz-Expires=60"),
            "{entry}"
        );
    }
}
