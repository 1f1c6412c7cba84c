//! What is refused before anything is written, and what is said of each of many.

use super::*;

#[test]
fn what_would_protect_an_object_is_refused_and_never_ignored() {
    let served = Served::new();
    served.put("from.md", "# From\n");
    let refused = [
        ("x-amz-object-lock-mode", "COMPLIANCE"),
        ("x-amz-object-lock-retain-until-date", "2099-01-01T00:00:00Z"),
        ("x-amz-object-lock-legal-hold", "ON"),
        ("x-amz-server-side-encryption", "AES256"),
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-aws-kms-key-id", "key"),
        ("x-amz-server-side-encryption-bucket-key-enabled", "true"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-amz-grant-read", "id=\"1\""),
        ("x-amz-acl", "public-read"),
        ("x-amz-storage-class", "GLACIER"),
    ];
    for (name, value) in refused {
        served.send("PUT", "/default/a.md", &[(name, value)], "# A\n").is(501, "NotImplemented");
        served.send("POST", "/default/a.md?uploads", &[(name, value)], "").is(501, "NotImplemented");
        let copy = [("x-amz-copy-source", "/default/from.md"), (name, value)];
        served.send("PUT", "/default/a.md", &copy, "").is(501, "NotImplemented");
    }
    // As those who sign URLs send what they say.
    served.send("PUT", "/default/a.md?x-amz-acl=public-read", &[], "# A\n").is(501, "NotImplemented");
    assert_eq!(served.text("a.md"), None);
    let harmless = [
        ("x-amz-acl", "private"),
        ("x-amz-acl", "bucket-owner-full-control"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-object-lock-legal-hold", "OFF"),
        ("x-amz-server-side-encryption-bucket-key-enabled", "false"),
    ];
    for header in harmless {
        assert_eq!(served.send("PUT", "/default/a.md", &[header], "# A\n").status, 200, "{header:?}");
    }
}
