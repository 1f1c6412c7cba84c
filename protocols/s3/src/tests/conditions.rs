//! Conditions of writes.

use svcfs_base::MAX_FILE_BYTES;

use super::*;

/// More than any version holds.
fn large(filled_with: u8) -> Bytes {
    vec![filled_with; MAX_FILE_BYTES + 1].into()
}

#[test]
fn one_of_several_conditional_writes_to_a_large_object_wins() {
    let served = Served::new();
    let put = |headers: &[(&str, &str)], body: Bytes| served.send("PUT", "/default/a.bin", headers, body);
    let first = put(&[], large(0));
    let etag = first.header("etag").to_owned();
    let statuses = std::thread::scope(|scope| {
        let put = &put;
        let etag = etag.as_str();
        let writers = [1, 2, 3, 4].map(|number| scope.spawn(move || put(&[("if-match", etag)], large(number)).status));
        let mut statuses = writers.map(|writer| writer.join().unwrap());
        statuses.sort_unstable();
        statuses
    });
    assert_eq!(statuses, [200, 412, 412, 412]);
    let now = served.send("HEAD", "/default/a.bin", &[], "").header("etag").to_owned();
    assert_ne!(now, etag);
    put(&[("if-match", &etag)], "small".into()).is(412, "PreconditionFailed");
    put(&[("if-none-match", "*")], large(5)).is(412, "PreconditionFailed");
    served.send("DELETE", "/default/a.bin", &[("if-match", &etag)], "").is(412, "PreconditionFailed");
    assert_eq!(served.send("HEAD", "/default/a.bin", &[], "").header("etag"), now);
    let small = put(&[("if-match", &now)], "small".into());
    assert_eq!((small.status, served.text("a.bin").as_deref()), (200, Some("small")), "{}", small.text());
    put(&[("if-match", &now)], large(6)).is(412, "PreconditionFailed");
    assert_eq!(put(&[("if-match", small.header("etag"))], large(7)).status, 200);
}

#[test]
fn one_of_several_conditional_uploads_to_a_large_object_wins() {
    let served = Served::new();
    let etag = served.send("PUT", "/default/a.bin", &[], large(0)).header("etag").to_owned();
    let upload = |served: &Served| {
        let id = served.send("POST", "/default/a.bin?uploads", &[], "").all("UploadId").concat();
        let part = format!("/default/a.bin?partNumber=1&uploadId={id}");
        assert_eq!(served.send("PUT", &part, &[], large(1)).status, 200);
        format!("/default/a.bin?uploadId={id}")
    };
    let (one, two) = (upload(&served), upload(&served));
    let parts = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>";
    let complete = |target: &str| served.send("POST", target, &[("if-match", &etag)], parts).status;
    let statuses = std::thread::scope(|scope| {
        let other = scope.spawn(|| complete(&one));
        let mut statuses = [complete(&two), other.join().unwrap()];
        statuses.sort_unstable();
        statuses
    });
    assert_eq!(statuses, [200, 412]);
}

#[test]
fn a_copy_honours_conditions_on_its_destination() {
    let served = Served::new();
    served.put("from.md", "# From\n");
    served.put("to.md", "# To\n");
    let copy = |name: &str, value: &str| {
        served.send("PUT", "/default/to.md", &[("x-amz-copy-source", "/default/from.md"), (name, value)], "")
    };
    copy("if-none-match", "*").is(412, "PreconditionFailed");
    copy("if-match", "\"x\"").is(412, "PreconditionFailed");
    copy("if-match", "none of these").is(412, "PreconditionFailed");
    copy("if-none-match", &format!("\"{}\"", etag_of(b"# To\n"))).is(412, "PreconditionFailed");
    assert_eq!(served.text("to.md").as_deref(), Some("# To\n"));
    assert_eq!(copy("if-match", &format!("\"{}\"", etag_of(b"# To\n"))).status, 200);
    assert_eq!(served.text("to.md").as_deref(), Some("# From\n"));
    let fresh = [("x-amz-copy-source", "/default/from.md"), ("if-none-match", "*")];
    assert_eq!(served.send("PUT", "/default/fresh.md", &fresh, "").status, 200);
    served.send("PUT", "/default/missing.md", &[fresh[0], ("if-match", "*")], "").is(404, "NoSuchKey");
}

#[test]
fn a_value_that_is_no_tag_matches_nothing() {
    let served = Served::new();
    for invented in ["JoplinIgnore-7141", "", "W/", "\"", "not a tag", "\"abc\"", "1700000000000"] {
        served.put("a.md", "# A\n");
        let (holds, never) = (("if-none-match", invented), ("if-match", invented));
        for method in ["GET", "HEAD"] {
            assert_eq!(served.send(method, "/default/a.md", &[holds], "").status, 200, "{method} {invented}");
            assert_eq!(served.send(method, "/default/a.md", &[never], "").status, 412, "{method} {invented}");
        }
        for method in ["PUT", "DELETE"] {
            served.send(method, "/default/a.md", &[never], "# B\n").is(412, "PreconditionFailed");
            assert_eq!(served.text("a.md").as_deref(), Some("# A\n"), "{method} {invented}");
        }
        assert_eq!(served.send("PUT", "/default/a.md", &[holds], "# B\n").status, 200, "{invented}");
        assert_eq!(served.send("DELETE", "/default/a.md", &[holds], "").status, 204, "{invented}");
    }
    served.put("a.md", "# A\n");
    served.send("PUT", "/default/a.md", &[("if-none-match", "*, nope")], "# B\n").is(412, "PreconditionFailed");
}

#[test]
fn not_modified_answers_carry_etag_and_time() {
    let served = Served::new();
    let sent = [("cache-control", "max-age=60"), ("expires", "Fri, 27 Nov 2026 00:00:00 GMT")];
    assert_eq!(served.send("PUT", "/default/a.md", &sent, "# A\n").status, 200);
    let whole = served.get("/default/a.md");
    for method in ["GET", "HEAD"] {
        for condition in [("if-none-match", whole.header("etag")), ("if-modified-since", whole.header("last-modified"))]
        {
            let told = served.send(method, "/default/a.md", &[condition], "");
            assert_eq!((told.status, told.body.len()), (304, 0), "{method} {condition:?}");
            for name in ["etag", "last-modified", "cache-control", "expires"] {
                assert_eq!(told.header(name), whole.header(name), "{method} {condition:?} {name}");
            }
            assert_eq!((told.header("content-type"), told.header("x-amz-request-id").len()), ("", 32));
        }
    }
}
