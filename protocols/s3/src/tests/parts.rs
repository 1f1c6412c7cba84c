//! Uploads in parts, large objects, and clients that ask twice or slowly.

use std::io::Write;

use svcfs_base::MAX_FILE_BYTES;

use super::*;

/// What the checks of checksums are made with.
const DIGITS: &str = "123456789";
/// Its CRC64NVME, as the catalogue of CRCs has it (0xAE8B14860A799888).
const CRC64NVME: &str = "rosUhgp5mIg=";

impl Served {
    pub(super) fn begun(&self, key: &str, headers: &[(&str, &str)]) -> String {
        let begun = self.send("POST", &format!("/default/{key}?uploads"), headers, "");
        assert_eq!(begun.status, 200, "{}", begun.text());
        begun.all("UploadId").concat()
    }

    pub(super) fn part(
        &self,
        (key, id): (&str, &str),
        number: u32,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        self.send("PUT", &format!("/default/{key}?partNumber={number}&uploadId={id}"), headers, body)
    }
}

pub(super) fn list_of(parts: &[(u32, &str)]) -> String {
    let parts = parts.iter().map(|(number, etag)| {
        format!("<Part><PartNumber>{number}</PartNumber><ETag>{}</ETag></Part>", etag.replace('"', "&quot;"))
    });
    format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.collect::<String>())
}

#[test]
fn completing_an_upload_twice_returns_the_same_answer() {
    let served = Served::new();
    let id = served.begun("a.md", &[]);
    let etag = served.part(("a.md", &id), 1, &[], "# A\n").header("etag").to_owned();
    let target = format!("/default/a.md?uploadId={id}");
    let complete = |parts: &[(u32, &str)]| served.send("POST", &target, &[], list_of(parts));
    let replies = std::thread::scope(|scope| {
        let complete = &complete;
        let etag = etag.as_str();
        [(); 4].map(|()| scope.spawn(move || complete(&[(1, etag)]))).map(|asked| asked.join().unwrap())
    });
    let told = |reply: &Reply| (reply.status, reply.all("ETag"), reply.header("x-amz-version-id").to_owned());
    assert!(replies.iter().all(|reply| told(reply) == told(&replies[0])), "{}", replies[1].text());
    assert_eq!(replies[0].status, 200, "{}", replies[0].text());
    // Somebody writes it meanwhile: whoever only asks again does not write over that.
    served.put("a.md", "# B\n");
    assert_eq!(told(&complete(&[(1, &etag)])), told(&replies[0]));
    assert_eq!(served.text("a.md").as_deref(), Some("# B\n"));
    complete(&[(2, &etag)]).is(404, "NoSuchUpload");
    served.send("DELETE", &target, &[], "").is(404, "NoSuchUpload");
    served.get(&target).is(404, "NoSuchUpload");
    served.part(("a.md", &id), 1, &[], "x").is(404, "NoSuchUpload");
    assert_eq!(served.get("/default?uploads").all("UploadId"), [""; 0]);
    let served = served.again();
    assert_eq!(served.send("POST", &target, &[], list_of(&[(1, &etag)])).all("ETag"), replies[0].all("ETag"));
    served.send("POST", &format!("/default/b.md?uploadId={id}"), &[], list_of(&[(1, &etag)])).is(404, "NoSuchUpload");
}

#[test]
fn what_is_remembered_of_a_completed_upload_goes_after_a_day() {
    let served = Served::new();
    let id = served.begun("a.md", &[]);
    served.part(("a.md", &id), 1, &[], "# A\n");
    let target = format!("/default/a.md?uploadId={id}");
    let parts = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>";
    assert_eq!(served.send("POST", &target, &[], parts).status, 200);
    let root = served.folder.path().join("default");
    let file = root.join(".svc/state/s3").join(&id).join("completed.json");
    crate::part_store::PendingUpload::expire(&root).unwrap();
    let mut completed: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let when = completed["when"]["secs_since_epoch"].as_u64().unwrap();
    completed["when"]["secs_since_epoch"] = (when - 24 * 60 * 60 - 1).into();
    versions_and_uploads::rewrite(&file, &completed.to_string());
    crate::part_store::PendingUpload::expire(&root).unwrap();
    assert!(!file.parent().unwrap().exists());
    served.send("POST", &target, &[], parts).is(404, "NoSuchUpload");
}

#[test]
fn parts_are_made_of_other_objects_and_of_ranges_of_them() {
    let served = Served::new();
    let large: Bytes = (0..6 << 20).map(|at| (at / 1000) as u8).collect::<Vec<_>>().into();
    assert_eq!(served.send("PUT", "/team/from.bin", &[], large.clone()).status, 200);
    served.put("small.txt", "0123456789");
    let id = served.begun("to.bin", &[]);
    let copied = |number: u32, source: &str, others: &[(&str, &str)]| {
        let headers = [&[("x-amz-copy-source", source)], others].concat();
        served.part(("to.bin", &id), number, &headers, "")
    };
    let first = copied(1, "/team/from.bin", &[]);
    let second = copied(2, "/default/small.txt", &[("x-amz-copy-source-range", "bytes=2-4")]);
    assert_eq!((first.status, second.status), (200, 200), "{} {}", first.text(), second.text());
    assert_eq!(second.all("ETag").concat().replace("&quot;", "").replace('"', ""), etag_of(b"234"));
    copied(3, "/default/small.txt", &[("x-amz-copy-source-range", "bytes=2-10")]).is(416, "InvalidRange");
    copied(3, "/default/small.txt", &[("x-amz-copy-source-range", "2-4")]).is(400, "InvalidArgument");
    copied(3, "/default/small.txt", &[("x-amz-copy-source-if-match", "\"x\"")]).is(412, "PreconditionFailed");
    copied(3, "/default/none.txt", &[]).is(404, "NoSuchKey");
    copied(0, "/default/small.txt", &[]).is(400, "InvalidArgument");
    let etags = [&first, &second].map(|part| part.all("ETag").concat());
    let parts = list_of(&[(1, &etags[0]), (2, &etags[1])]);
    let done = served.send("POST", &format!("/default/to.bin?uploadId={id}"), &[], parts);
    assert_eq!(done.status, 200, "{}", done.text());
    let body = served.get("/default/to.bin").body;
    assert!(body[..large.len()] == large && &body[large.len()..] == b"234");
}

#[test]
fn a_content_has_its_crc64nvme() {
    let served = Served::new();
    let put = |sum: &str| served.send("PUT", "/default/a.txt", &[("x-amz-checksum-crc64nvme", sum)], DIGITS);
    put("AAAAAAAAAAA=").is(400, "BadDigest");
    assert_eq!(served.text("a.txt"), None);
    let kept = put(CRC64NVME);
    assert_eq!((kept.status, kept.header("x-amz-checksum-crc64nvme")), (200, CRC64NVME), "{}", kept.text());
    for method in ["GET", "HEAD"] {
        let asked = served.send(method, "/default/a.txt", &[("x-amz-checksum-mode", "ENABLED")], "");
        assert_eq!(asked.header("x-amz-checksum-crc64nvme"), CRC64NVME, "{method}");
    }
    let id = served.begun("c.txt", &[("x-amz-checksum-algorithm", "CRC64NVME")]);
    let part = served.part(("c.txt", &id), 1, &[], DIGITS);
    assert_eq!(part.header("x-amz-checksum-crc64nvme"), CRC64NVME, "{}", part.text());
    served.part(("c.txt", &id), 2, &[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")], DIGITS).is(400, "BadDigest");
}

#[test]
fn a_listing_with_zero_max_keys_is_empty_and_not_truncated() {
    let served = Served::new();
    let id = served.begun("a.md", &[]);
    served.part(("a.md", &id), 1, &[], "# A\n");
    for target in ["/default?uploads&max-uploads=0", &format!("/default/a.md?uploadId={id}&max-parts=0")] {
        let listed = served.get(target);
        assert_eq!(listed.all("IsTruncated"), ["false"], "{}", listed.text());
        assert!(listed.all("Upload").is_empty() && listed.all("Part").is_empty(), "{}", listed.text());
    }
    served.get("/default?uploads&max-uploads=-1").is(400, "InvalidArgument");
    served.get(&format!("/default/a.md?uploadId={id}&max-parts=-1")).is(400, "InvalidArgument");
    assert_eq!(served.get("/default?uploads&max-uploads=1").all("Upload").len(), 1);
}

#[test]
fn a_large_object_is_listed_among_the_versions() {
    let served = Served::new();
    served.put("film.bin", "small\n");
    let etag = served.send("PUT", "/default/film.bin", &[], vec![b'x'; MAX_FILE_BYTES + 1]).header("etag").to_owned();
    let listed = served.get("/default?versions&prefix=film");
    let versions = listed.all("Version");
    assert!(versions[0].contains("<VersionId>null</VersionId>"), "{}", listed.text());
    assert_eq!(versions.len(), 2, "{}", listed.text());
    assert!(versions[0].contains("<IsLatest>true</IsLatest>"), "{}", listed.text());
    assert!(versions[0].contains(&format!("<Size>{}</Size>", MAX_FILE_BYTES + 1)), "{}", listed.text());
    assert!(versions[0].contains(etag.trim_matches('"')), "{}", listed.text());
    assert!(versions[1].contains("<Size>6</Size>") && versions[1].contains("<IsLatest>false</IsLatest>"));
    assert_eq!(listed.all("DeleteMarker").len(), 1, "the page was removed");
    let head = served.send("HEAD", "/default/film.bin?versionId=null", &[], "");
    assert_eq!(head.header("content-length"), (MAX_FILE_BYTES + 1).to_string());
    let first = served.get("/default?versions&prefix=film&max-keys=1");
    assert_eq!(first.all("VersionId"), ["null"]);
    let rest = served.get("/default?versions&prefix=film&key-marker=film.bin&version-id-marker=null");
    assert_eq!(rest.all("VersionId").len(), 2, "{}", rest.text());
}

#[test]
fn an_object_below_a_file_is_refused_before_its_body_comes() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    served.put("b.md", "# B\n");
    served.send("PUT", "/default/a.md/b.md", &[], "# C\n").is(400, "InvalidArgument");
    served.send("PUT", "/default/a.md/b/c.md", &[], "# C\n").is(400, "InvalidArgument");
    served.send("PUT", "/default/a.md/b/", &[], "").is(400, "InvalidArgument");
    served.send("PUT", "/default/a.md/b.md", &[("x-amz-copy-source", "/default/b.md")], "").is(400, "InvalidArgument");
    served.send("POST", "/default/a.md/b.md?uploads", &[], "").is(400, "InvalidArgument");
    served.get("/default/a.md/b.md").is(404, "NoSuchKey");
    assert_eq!(served.send("DELETE", "/default/a.md/b.md", &[], "").status, 204);
    assert_eq!(served.text("a.md").as_deref(), Some("# A\n"));
}

#[test]
fn eighty_slow_objects_and_parts_keep_no_other_upload_out() {
    let served = Served::new();
    let id = served.begun("slow.bin", &[]);
    let slow: Vec<_> = (0..80)
        .map(|number| {
            let target = match number % 2 {
                0 => format!("slow-{number}.bin"),
                _ => format!("slow.bin?partNumber={number}&uploadId={id}"),
            };
            let mut stream = std::net::TcpStream::connect(served.address).unwrap();
            let head = format!(
                "PUT /default/{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_FILE_BYTES}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(b"a few").unwrap();
            stream
        })
        .collect();
    let begun = std::time::Instant::now();
    let large = vec![b'x'; MAX_FILE_BYTES];
    assert_eq!(served.send("PUT", "/default/large.bin", &[], large.clone()).status, 200);
    served.put("quick.md", "# Quick\n");
    assert!(begun.elapsed().as_secs() < 20, "nobody waits for them");
    assert_eq!(served.get("/default/large.bin").body, large);
    drop(slow);
}

/// What a connection tells until it is closed; it is an error when it stays open.
fn told_until_the_end(served: &Served, head: &str) -> String {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn a_connection_closes_when_request_framing_is_ambiguous() {
    let served = Served::new();
    let put = |bucket: &str, length: usize| {
        let head = format!("PUT /{bucket}/a.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
        told_until_the_end(&served, &format!("{head}Expect: 100-continue\r\n\r\n"))
    };
    let refused = put("nowhere", 10);
    assert!(refused.starts_with("HTTP/1.1 404") && refused.contains("connection: close"), "{refused}");
    let empty = put("default", 0);
    assert!(empty.starts_with("HTTP/1.1 200") && empty.contains("connection: close"), "{empty}");
    assert_eq!(served.text("a.txt").as_deref(), Some(""));
    // Who only looks goes on with the same connection.
    let missing = served.get("/default/none.txt");
    assert_eq!((missing.status, missing.header("connection")), (404, ""));
}

#[test]
fn invalid_and_multiple_ranges_return_the_complete_object() {
    let served = Served::new();
    served.put("a.txt", DIGITS);
    for range in ["x=1", "bytes=0-1,4-5", "items=0-1"] {
        let whole = served.send("GET", "/default/a.txt", &[("range", range)], "");
        assert_eq!((whole.status, whole.text().as_str()), (200, DIGITS), "{range}");
    }
    assert_eq!(served.send("GET", "/default/a.txt", &[("range", "bytes=2-4")], "").text(), "345");
}

#[test]
fn who_is_refused_while_sending_hears_why() {
    let served = Served::new();
    served.put("a.bin", "small\n");
    // More than lies in the buffers of a connection.
    let body = vec![b'x'; MAX_FILE_BYTES];
    for _ in 0..5 {
        served.send("PUT", "/default/a.bin", &[("if-match", "\"x\"")], body.clone()).is(412, "PreconditionFailed");
        served.send("PUT", "/nowhere/a.bin", &[], body.clone()).is(404, "NoSuchBucket");
    }
}

#[test]
fn a_removal_is_a_version_that_has_no_content() {
    let served = Served::new();
    served.put("a.txt", "one");
    let removed = served.send("DELETE", "/default/a.txt", &[], "");
    let marker = removed.header("x-amz-version-id").to_owned();
    assert_eq!((removed.status, removed.header("x-amz-delete-marker")), (204, "true"));
    assert!(
        served.get("/default?versions").all("DeleteMarker")[0].contains(&format!("<VersionId>{marker}</VersionId>"))
    );
    for method in ["GET", "HEAD"] {
        let target = format!("/default/a.txt?versionId={marker}");
        assert_eq!(served.send(method, &target, &[], "").status, 405, "{method}");
    }
    served.get("/default/a.txt?versionId=0123456789012345678901234567890123456789").is(404, "NoSuchVersion");
    let again = served.send("DELETE", "/default/a.txt", &[], "");
    assert_eq!((again.status, again.header("x-amz-version-id")), (204, ""), "nothing was removed");
    let keys = (0..1001).map(|number| format!("<Object><Key>{number}</Key></Object>")).collect::<String>();
    served.send("POST", "/default?delete", &[], format!("<Delete>{keys}</Delete>")).is(400, "MalformedXML");
}

#[test]
fn the_newest_version_is_listed_with_the_etag_of_the_object() {
    let served = Served::new();
    let id = served.begun("a.txt", &[]);
    served.part(("a.txt", &id), 1, &[], DIGITS);
    let list = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>";
    assert_eq!(served.send("POST", &format!("/default/a.txt?uploadId={id}"), &[], list).status, 200);
    let etag = served.send("HEAD", "/default/a.txt", &[], "").header("etag").trim_matches('"').to_owned();
    assert!(etag.ends_with("-1"), "{etag}");
    assert!(served.get("/default?versions").text().contains(&etag));
}

#[test]
fn an_unknown_bucket_in_the_host_is_not_looked_up_in_the_path() {
    let served = Served::new();
    let port = served.address.port();
    let send =
        |method: &str, target: &str| served.send(method, target, &[("host", &format!("nope.localhost:{port}"))], "x");
    send("PUT", "/default/a.txt").is(404, "NoSuchBucket");
    send("PUT", "/a.md").is(404, "NoSuchBucket");
    assert_eq!((served.text("a.txt"), served.text("a.md")), (None, None));
    let team = [("host", &*format!("team.localhost:{port}"))];
    assert_eq!(served.send("PUT", "/a.md", &team, "x").status, 200);
}

#[test]
fn remains_of_unknown_uploads_are_removed_after_a_day() {
    let served = Served::new();
    let [old, fresh] = [(); 2].map(|()| served.begun("a.md", &[]));
    served.part(("a.md", &old), 1, &[], "# A\n");
    let root = served.folder.path().join("default");
    let [old, fresh] = [old, fresh].map(|id| root.join(".svc/state/s3").join(id));
    // As a server leaves them that dies before it has said what they are.
    [&old, &fresh].into_iter().for_each(|folder| versions_and_uploads::rewrite(&folder.join("upload.json"), "{"));
    let yesterday = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 60 * 60);
    std::fs::File::open(&old).unwrap().set_modified(yesterday).unwrap();
    crate::part_store::PendingUpload::expire(&root).unwrap();
    assert_eq!((old.exists(), fresh.exists()), (false, true));
}

#[test]
fn a_part_in_flight_during_abort_gets_no_such_upload() {
    use std::io::Read;
    let served = Served::new();
    let id = served.begun("a.md", &[]);
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    let target = format!("/default/a.md?partNumber=1&uploadId={id}");
    write!(stream, "PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n# ").unwrap();
    let folder = served.folder.path().join("default/.svc/state/s3").join(&id);
    while std::fs::read_dir(&folder).unwrap().count() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(served.send("DELETE", &format!("/default/a.md?uploadId={id}"), &[], "").status, 204);
    stream.write_all(b"A\n").unwrap();
    let mut told = String::new();
    stream.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 404") && told.contains("NoSuchUpload"), "{told}");
}
