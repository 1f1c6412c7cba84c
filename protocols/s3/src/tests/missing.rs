//! What is not there, and who is not let in.

use super::*;

/// Every operation of S3 that is not here, as it is asked for: method, target, body.
const MISSING: &[(&str, &str, &str)] = &[
    ("GET", "/default?accelerate", ""),
    ("GET", "/default?acl", ""),
    ("GET", "/default?analytics", ""),
    ("GET", "/default?analytics&id=1", ""),
    ("GET", "/default?cors", ""),
    ("GET", "/default?encryption", ""),
    ("GET", "/default?intelligent-tiering", ""),
    ("GET", "/default?intelligent-tiering&id=1", ""),
    ("GET", "/default?inventory", ""),
    ("GET", "/default?inventory&id=1", ""),
    ("GET", "/default?lifecycle", ""),
    ("GET", "/default?logging", ""),
    ("GET", "/default?metadataTable", ""),
    ("GET", "/default?metrics", ""),
    ("GET", "/default?metrics&id=1", ""),
    ("GET", "/default?notification", ""),
    ("GET", "/default?object-lock", ""),
    ("GET", "/default?ownershipControls", ""),
    ("GET", "/default?policy", ""),
    ("GET", "/default?policyStatus", ""),
    ("GET", "/default?publicAccessBlock", ""),
    ("GET", "/default?replication", ""),
    ("GET", "/default?requestPayment", ""),
    ("GET", "/default?session", ""),
    ("GET", "/default?tagging", ""),
    ("GET", "/default?website", ""),
    ("PUT", "/default?accelerate", "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>"),
    ("PUT", "/default?acl", "<AccessControlPolicy/>"),
    (
        "PUT",
        "/default?cors",
        "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule></CORSConfiguration>",
    ),
    ("PUT", "/default?encryption", "<ServerSideEncryptionConfiguration><Rule/></ServerSideEncryptionConfiguration>"),
    (
        "PUT",
        "/default?lifecycle",
        "<LifecycleConfiguration><Rule><Status>Enabled</Status></Rule></LifecycleConfiguration>",
    ),
    ("PUT", "/default?logging", "<BucketLoggingStatus/>"),
    ("PUT", "/default?notification", "<NotificationConfiguration/>"),
    ("PUT", "/default?object-lock", "<ObjectLockConfiguration/>"),
    (
        "PUT",
        "/default?ownershipControls",
        "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>",
    ),
    ("PUT", "/default?policy", "{}"),
    ("PUT", "/default?publicAccessBlock", "<PublicAccessBlockConfiguration/>"),
    (
        "PUT",
        "/default?replication",
        "<ReplicationConfiguration><Role>r</Role><Rule><Destination><Bucket>b</Bucket></Destination><Status>Enabled</Status></Rule></ReplicationConfiguration>",
    ),
    (
        "PUT",
        "/default?requestPayment",
        "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>",
    ),
    ("PUT", "/default?tagging", "<Tagging><TagSet/></Tagging>"),
    ("PUT", "/default?versioning", "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"),
    ("PUT", "/default?website", "<WebsiteConfiguration/>"),
    ("DELETE", "/default?analytics&id=1", ""),
    ("DELETE", "/default?cors", ""),
    ("DELETE", "/default?encryption", ""),
    ("DELETE", "/default?intelligent-tiering&id=1", ""),
    ("DELETE", "/default?inventory&id=1", ""),
    ("DELETE", "/default?lifecycle", ""),
    ("DELETE", "/default?metadataTable", ""),
    ("DELETE", "/default?metrics&id=1", ""),
    ("DELETE", "/default?ownershipControls", ""),
    ("DELETE", "/default?policy", ""),
    ("DELETE", "/default?publicAccessBlock", ""),
    ("DELETE", "/default?replication", ""),
    ("DELETE", "/default?tagging", ""),
    ("DELETE", "/default?website", ""),
    ("POST", "/default", "x"),
    ("POST", "/", "x"),
    ("PUT", "/", ""),
    ("DELETE", "/", ""),
    ("GET", "/default/a.md?acl", ""),
    ("GET", "/default/a.md?attributes", ""),
    ("GET", "/default/a.md?legal-hold", ""),
    ("GET", "/default/a.md?retention", ""),
    ("GET", "/default/a.md?torrent", ""),
    ("PUT", "/default/a.md?acl", "<AccessControlPolicy/>"),
    ("PUT", "/default/a.md?legal-hold", "<LegalHold><Status>ON</Status></LegalHold>"),
    ("PUT", "/default/a.md?retention", "<Retention><Mode>COMPLIANCE</Mode></Retention>"),
    ("PUT", "/default/b.md?renameObject", ""),
    ("PUT", "/default/a.md?renameObject=", ""),
    ("PUT", "/default/a.md?encryption", "<ObjectEncryption/>"),
    ("PUT", "/default/a.md?later%2Dthan&x-id=Later", "x"),
    ("DELETE", "/default/a.md?later", ""),
    ("GET", "/default?abac", ""),
    ("GET", "/default?metadataConfiguration", ""),
    ("PUT", "/default?metadataInventoryTable", ""),
    ("POST", "/default/a.md?restore", "<RestoreRequest><Days>1</Days></RestoreRequest>"),
    (
        "POST",
        "/default/a.md?select&select-type=2",
        "<SelectObjectContentRequest><Expression>SELECT *</Expression><ExpressionType>SQL</ExpressionType>\
         <InputSerialization/><OutputSerialization/></SelectObjectContentRequest>",
    ),
    ("POST", "/default/a.md", "x"),
];

/// Shows: S3-6
#[test]
fn every_operation_that_is_not_here_says_so_and_changes_nothing() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    let attributes = [("x-amz-object-attributes", "ETag"), ("x-amz-rename-source", "/default/a.md")];
    let mut wrong = Vec::new();
    for (method, target, body) in MISSING {
        let reply = served.send(method, target, &attributes, *body);
        if (reply.status, reply.all("Code").concat().as_str()) != (501, "NotImplemented") {
            wrong.push(format!("{method} {target}: {} {}", reply.status, reply.text()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let form = [("content-type", "multipart/form-data; boundary=x")];
    for target in ["/default", "/default/a.md"] {
        served.send("POST", target, &form, "--x\r\n\r\n--x--\r\n").is(501, "NotImplemented");
    }
    assert_eq!((served.text("a.md").as_deref(), served.keys("")), (Some("# A\n"), vec!["a.md".to_owned()]));
}

#[test]
fn with_an_identity_provider_no_signature_is_accepted() {
    let served = Served::with(
        "[auth]\ntype = \"oidc\"\noidc = { issuer = \"https://id.example.org\", client_id = \"svcfs\" }\n",
    );
    served.get("/").is(403, "AccessDenied");
    served.get("/default/a.md").is(403, "AccessDenied");
    served.send("PUT", "/default/a.md", &[], "# A\n").is(403, "AccessDenied");
    let now = svcfs_base::Timestamp::now().to_string();
    let date = format!("{}Z", now.split(['.', 'Z']).next().unwrap().replace(['-', ':'], ""));
    for id in ["ann", "0123456789ab"] {
        let signed = format!(
            "AWS4-HMAC-SHA256 Credential={id}/{}/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={}",
            &date[..8],
            "0".repeat(64)
        );
        let headers =
            [("authorization", &*signed), ("x-amz-date", &date), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
        served.send("PUT", "/default/a.md", &headers, "# A\n").is(403, "InvalidAccessKeyId");
    }
    let bearer = [("authorization", "Bearer token")];
    served.send("PUT", "/default/a.md", &bearer, "# A\n").is(400, "InvalidRequest");
    assert_eq!(served.text("a.md"), None);
}

/// A page that no rule lets through.
const UNCLOSED: &str = "# A\n\n```rust\nfn never_ends() {\n";

#[test]
fn a_page_rejected_by_lint_is_explained_and_set_aside() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    let etag = served.get("/default/a.md").header("etag").to_owned();
    let put = served.send("PUT", "/default/a.md", &[("x-amz-meta-mood", "wild")], UNCLOSED);
    let id = served.send("POST", "/default/parts.md?uploads", &[], "").all("UploadId").concat();
    let part = served.send("PUT", &format!("/default/parts.md?partNumber=1&uploadId={id}"), &[], UNCLOSED);
    assert_eq!(part.status, 200, "a part is no page");
    let list = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>";
    let complete = || served.send("POST", &format!("/default/parts.md?uploadId={id}"), &[], list);
    let copy = served.send("PUT", "/default/copy.md", &[("x-amz-copy-source", "/default/.svc/rejected/a.md")], "");
    for (key, reply) in [("a.md", put), ("parts.md", complete()), ("copy.md", copy)] {
        reply.is(400, "InvalidRequest");
        assert!(reply.all("Message").concat().contains("never closed"), "{}", reply.text());
        assert_eq!(served.get(&format!("/default/.svc/rejected/{key}")).text(), UNCLOSED);
    }
    let there = served.get("/default/a.md");
    assert_eq!((there.text().as_str(), there.header("etag")), ("# A\n", &*etag));
    assert_eq!(there.header("x-amz-meta-mood"), "", "what is said of a refused content is said of no other");
    served.get("/default/parts.md").is(404, "NoSuchKey");
    // What is accepted later takes the refused text away.
    served.put("a.md", "# B\n");
    served.get("/default/.svc/rejected/a.md").is(404, "NoSuchKey");
}

#[test]
fn a_page_that_is_tidied_has_the_etag_of_what_is_there() {
    let served = Served::with("[lint]\nformat_protocols = [\"s3\"]\n");
    let untidy = "# A   \n\n\n\n*  one\n";
    let sum = [("x-amz-checksum-algorithm", "SHA256")];
    let put = served.send("PUT", "/default/a.md", &sum, untidy);
    assert_eq!(put.status, 200, "{}", put.text());
    let there = served.send("GET", "/default/a.md", &[("x-amz-checksum-mode", "ENABLED")], "");
    assert_ne!(there.text(), untidy);
    assert_eq!(there.text(), served.text("a.md").unwrap());
    let etag = format!("\"{}\"", etag_of(&there.body));
    assert_eq!((put.header("etag"), there.header("etag")), (&*etag, &*etag));
    assert_eq!(there.header("x-amz-checksum-sha256"), "", "nothing is said of what came and is not there");
    assert!(served.get("/default?list-type=2").text().contains(etag.trim_matches('"')));
    // As S3 says it to whoever compares.
    assert_eq!(served.send("PUT", "/default/a.md", &[("if-match", &etag)], "# B\n").status, 200);
    let exact = Served::new();
    exact.put("a.md", untidy);
    assert_eq!(exact.get("/default/a.md").text(), untidy);
}

#[test]
fn an_upload_ambiguous_between_two_spaces_is_written_to_neither() {
    let served = Served::with("[server]\nhost = \"0.0.0.0\"\n");
    let put = |host: &str, target: &str| served.send("PUT", target, &[("host", host)], "# A\n");
    // Below a name that nobody said is ours, a host may name a space, or be called like one.
    put("team.example.org", "/default/a.md").is(400, "InvalidRequest");
    put("team.example.org:3334", "/team/a.md").is(400, "InvalidRequest");
    put("TEAM.example.org", "/t%65am/a.md").is(400, "InvalidRequest");
    served.send("GET", "/default", &[("host", "team.example.org")], "").is(400, "InvalidRequest");
    assert_eq!((served.text("a.md"), served.get("/team?list-type=2").all("Key")), (None, vec![]));
    assert_eq!(put("team.example.org", "/notes/a.md").status, 200);
    assert_eq!(served.get("/team/notes/a.md").text(), "# A\n");
    assert_eq!(put("other.example.org", "/team/b.md").status, 200);
    assert_eq!(served.get("/team/b.md").text(), "# A\n");

    let told = Served::with("[server]\nhost = \"0.0.0.0\"\npublic_url = \"https://team.example.org\"\n");
    let put = |host: &str, target: &str| told.send("PUT", target, &[("host", host)], "# A\n").status;
    assert_eq!(put("team.example.org", "/default/a.md"), 200);
    assert_eq!(told.text("a.md").as_deref(), Some("# A\n"));
    assert_eq!(put("default.team.example.org", "/default/b.md"), 200);
    assert_eq!(told.text("default/b.md").as_deref(), Some("# A\n"));
}
