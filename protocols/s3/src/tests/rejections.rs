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

#[test]
fn oversized_object_metadata_is_refused_before_any_write() {
    let served = Served::new();
    let metadata = "m".repeat(2000);
    let tags = |length: usize| {
        let tags: Vec<_> = (0..10).map(|number| format!("tag{number}={}", "t".repeat(length))).collect();
        tags.join("&")
    };
    let put = |more: &[(&str, &str)]| {
        let headers: Vec<_> =
            [("x-amz-meta-much", metadata.as_str())].into_iter().chain(more.iter().copied()).collect();
        served.send("PUT", "/default/a.md", &headers, "# A\n")
    };
    put(&[("x-amz-tagging", &tags(250))]).is(400, "InvalidTag");
    put(&[("content-disposition", &"d".repeat(2000))]).is(400, "MetadataTooLarge");
    let upload = [("x-amz-meta-much", metadata.as_str()), ("x-amz-tagging", &tags(250))];
    served.send("POST", "/default/a.md?uploads", &upload, "").is(400, "InvalidTag");
    assert_eq!(served.text("a.md"), None);
    // All that fits, with every checksum that may be asked for.
    let all = put(&[
        ("x-amz-tagging", &tags(100)),
        ("x-amz-checksum-sha256", "qhI3t3PDjb3e9YPEhoqup6RMUjfqeSOuzKVRN2S0LYA="),
    ]);
    assert_eq!(all.status, 200, "{}", all.text());
    let tagging = |length: usize| {
        let tags: String = (0..10)
            .map(|number| format!("<Tag><Key>tag{number}</Key><Value>{}</Value></Tag>", "t".repeat(length)))
            .collect();
        let body = format!("<Tagging><TagSet>{tags}</TagSet></Tagging>");
        served.send("PUT", "/default/a.md?tagging", &[], body)
    };
    tagging(250).is(400, "InvalidTag");
    assert_eq!(served.get("/default/a.md?tagging").all("Value"), vec!["t".repeat(100); 10]);
    assert_eq!(tagging(90).status, 200);
}

#[test]
fn a_bulk_delete_reports_failures_per_key() {
    let served = Served::new();
    served.put("many/a.md", "# A\n");
    served.put("many/empty/", "");
    let keys = ["many/a.md", ".svc/", "many/empty/", "many/none.md"];
    let objects: String = keys.iter().map(|key| format!("<Object><Key>{key}</Key></Object>")).collect();
    let body = format!("<Delete>{objects}</Delete>");
    let reply = served.send("POST", "/default?delete", &[("content-length", &body.len().to_string())], body.clone());
    let told = |tag: &str| -> Vec<String> {
        let keys = reply.all(tag).into_iter().map(|told| told.split("<Key>").nth(1).unwrap().to_owned());
        keys.map(|told| told.split("</Key>").next().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (told("Deleted"), told("Error")),
        (vec![keys[0].into(), keys[2].into(), keys[3].into()], vec![keys[1].into()]),
        "{}",
        reply.text()
    );
    assert_eq!(served.text("many/a.md"), None);
    assert!(!served.folder.path().join("default/many").exists());
}

#[test]
fn the_folder_of_the_server_is_no_object() {
    let served = Served::new();
    assert!(served.folder.path().join("default/.svc").exists());
    assert_eq!(served.keys(""), [""; 0]);
}
