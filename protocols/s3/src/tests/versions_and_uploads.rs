//! Versions, uploads in parts, and who is let in.

use super::*;

#[test]
fn versions_are_those_of_history() {
    let served = Served::new();
    ["# 1\n", "# 22\n", "# 333\n"].iter().for_each(|text| served.put("v/a.md", text));
    served.put("v/gone.md", "# gone\n");
    served.send("DELETE", "/default/v/gone.md", &[], "");
    let listed = served.get("/default?versions&prefix=v/");
    let told = |block: &str, tag: &str| {
        let inner = block.split(&format!("<{tag}>")).nth(1).unwrap();
        inner.split(&format!("</{tag}>")).next().unwrap().to_owned()
    };
    let versions: Vec<_> =
        listed.all("Version").iter().map(|version| (told(version, "Key"), told(version, "Size"))).collect();
    let expected = [("v/a.md", "6"), ("v/a.md", "5"), ("v/a.md", "4"), ("v/gone.md", "7")];
    assert_eq!(versions, expected.map(|(key, size)| (key.to_owned(), size.to_owned())), "{}", listed.text());
    let markers: Vec<_> =
        listed.all("DeleteMarker").iter().map(|marker| (told(marker, "Key"), told(marker, "IsLatest"))).collect();
    assert_eq!(markers, [("v/gone.md".to_owned(), "true".to_owned())]);
    let ids: Vec<_> = listed.all("Version").iter().map(|version| told(version, "VersionId")).collect();
    assert_eq!(served.get(&format!("/default/v/a.md?versionId={}", ids[2])).text(), "# 1\n");
    assert_eq!(served.get(&format!("/default/v/gone.md?versionId={}", ids[3])).text(), "# gone\n");
    served.get("/default/v/a.md?versionId=00000000").is(404, "NoSuchVersion");
    served.send("DELETE", &format!("/default/v/a.md?versionId={}", ids[2]), &[], "").is(501, "NotImplemented");
    let page = served.get("/default?versions&prefix=v/a&max-keys=2");
    let next = (page.all("NextKeyMarker").concat(), page.all("NextVersionIdMarker").concat());
    let rest = served.get(&format!("/default?versions&prefix=v/a&key-marker={}&version-id-marker={}", next.0, next.1));
    assert_eq!(rest.all("VersionId"), ids[2..3]);
    assert_eq!(served.get("/default?versioning").all("Status"), ["Enabled"]);
}

#[test]
fn writes_return_a_version_and_removed_keys_group_by_delimiter() {
    let served = Served::new();
    let put = |key: &str, text: &'static str| {
        let reply = served.send("PUT", &format!("/default/{key}"), &[], text);
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.header("x-amz-version-id").to_owned()
    };
    let (one, two) = (put("v/a.md", "# 1\n"), put("v/a.md", "# 2\n"));
    let copy = served.send("PUT", "/default/v/b.md", &[("x-amz-copy-source", "/default/v/a.md")], "");
    assert_eq!(copy.header("x-amz-version-id"), served.get("/default?versions&prefix=v/b").all("VersionId").concat());
    assert_eq!(served.get("/default?versions&prefix=v/a").all("VersionId"), [two, one.clone()]);
    assert_eq!(served.get(&format!("/default/v/a.md?versionId={one}")).text(), "# 1\n");
    ["v/gone/c.md", "v/gone.md", "v/kept/d.md", "v/kept/e.md"].iter().for_each(|key| drop(put(key, "# X\n")));
    ["v/gone/c.md", "v/gone.md", "v/kept/e.md"].iter().for_each(|key| {
        assert_eq!(served.send("DELETE", &format!("/default/{key}"), &[], "").status, 204);
    });
    let page = served.get("/default?versions&prefix=v/&delimiter=/");
    assert_eq!(page.all("DeleteMarker").len(), 1, "{}", page.text());
    assert!(page.all("DeleteMarker")[0].contains("<Key>v/gone.md</Key>"), "{}", page.text());
    assert_eq!(page.all("CommonPrefixes"), ["<Prefix>v/gone/</Prefix>", "<Prefix>v/kept/</Prefix>"]);
    let behind = served.get("/default?versions&prefix=v/&delimiter=/&key-marker=v/gone/");
    assert_eq!(behind.all("CommonPrefixes").len(), 1, "{}", behind.text());
}

#[test]
fn versions_and_prefixes_are_listed_once_in_order_for_any_limit() {
    let served = Served::new();
    ["# 1\n", "# 2\n", "# 3\n"].iter().for_each(|text| served.put("a.md", text));
    ["b/x.md", "c.md", "d/gone.md"].iter().for_each(|key| served.put(key, "# X\n"));
    assert_eq!(served.send("DELETE", "/default/d/gone.md", &[], "").status, 204);
    for most in 1..=7 {
        let (mut told, mut behind) = (Vec::new(), String::new());
        loop {
            let page = served.get(&format!("/default?versions&delimiter=/&max-keys={most}{behind}"));
            let (keys, prefixes) = (page.all("Key"), page.all("Prefix"));
            assert!(keys.len() + prefixes.len() <= most, "{most}: {}", page.text());
            let mut lines = [keys, prefixes].concat();
            lines.sort();
            told.extend(lines);
            if page.all("IsTruncated") != ["true"] {
                break;
            }
            let version = page.all("NextVersionIdMarker").concat();
            behind = format!("&key-marker={}", page.all("NextKeyMarker").concat());
            if !version.is_empty() {
                behind = format!("{behind}&version-id-marker={version}");
            }
        }
        assert_eq!(told, ["a.md", "a.md", "a.md", "b/", "c.md", "d/"], "{most}");
    }
}

#[test]
fn an_upload_that_took_over_a_week_is_over() {
    let served = Served::new();
    let id = served.send("POST", "/default/big.bin?uploads", &[], "").all("UploadId").concat();
    let part = format!("/default/big.bin?partNumber=1&uploadId={id}");
    assert_eq!(served.send("PUT", &part, &[], "part").status, 200);
    let folder = served.folder.path().join("default/.svc/state/s3").join(&id);
    let mut upload: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("upload.json")).unwrap()).unwrap();
    let began = upload["began"]["secs_since_epoch"].as_u64().unwrap();
    upload["began"]["secs_since_epoch"] = (began - 7 * 24 * 60 * 60 - 1).into();
    rewrite(&folder.join("upload.json"), &upload.to_string());
    served.send("PUT", &part, &[], "part").is(404, "NoSuchUpload");
    assert!(folder.exists());
    // A server looks for such when it starts, and every hour.
    let _served = served.again();
    let begun = std::time::Instant::now();
    while folder.exists() {
        assert!(begun.elapsed().as_secs() < 60, "in vain: its parts are removed");
        std::thread::yield_now();
    }
}

#[expect(clippy::disallowed_methods, reason = "as if it had been written a week ago")]
pub(super) fn rewrite(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

#[test]
fn parts_are_copied_from_ranges_of_other_objects() {
    let served = Served::new();
    let content: String = (0..400_000).map(|number| format!("{number:015}\n")).collect();
    assert_eq!(served.send("PUT", "/team/source.txt", &[], content.clone()).status, 200);
    let id = served.send("POST", "/default/copy.txt?uploads", &[], "").all("UploadId").concat();
    let copy = |number: u32, range: &str| {
        let target = format!("/default/copy.txt?partNumber={number}&uploadId={id}");
        let headers = [("x-amz-copy-source", "/team/source.txt"), ("x-amz-copy-source-range", range)];
        served.send("PUT", &target, &headers, "")
    };
    let first = 5 << 20;
    copy(1, "bytes=6400000-6400001").is(416, "InvalidRange");
    copy(1, "lines=1-2").is(400, "InvalidArgument");
    for (number, range) in [(1, format!("bytes=0-{}", first - 1)), (2, format!("bytes={first}-6399999"))] {
        let reply = copy(number, &range);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(number == 2 || reply.text().contains(&etag_of(&content.as_bytes()[..first])), "{}", reply.text());
    }
    let parts = "<Part><PartNumber>1</PartNumber></Part><Part><PartNumber>2</PartNumber></Part>";
    let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
    let done = served.send("POST", &format!("/default/copy.txt?uploadId={id}"), &[], body);
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(served.get("/default/copy.txt").text() == content);
}

/// Shows: S3-9
#[test]
fn an_upload_in_parts_survives_the_server_and_is_put_together() {
    let served = Served::new();
    let begun = served.send("POST", "/default/big.bin?uploads", &[("x-amz-meta-mood", "calm")], "");
    let id = begun.all("UploadId").concat();
    let first = vec![7_u8; 5 << 20];
    let part = |served: &Served, number: u32, body: Vec<u8>| {
        served.send("PUT", &format!("/default/big.bin?partNumber={number}&uploadId={id}"), &[], body)
    };
    part(&served, 0, vec![]).is(400, "InvalidArgument");
    let one = part(&served, 1, first.clone()).header("etag").to_owned();
    let old = part(&served, 2, b"not this".to_vec()).header("etag").to_owned();
    let served = served.again();
    let two = part(&served, 2, b"but this".to_vec()).header("etag").to_owned();
    let served = served.again();
    assert_eq!(served.get(&format!("/default/big.bin?uploadId={id}")).all("PartNumber"), ["1", "2"]);
    assert_eq!(served.get("/default?uploads").all("UploadId"), std::slice::from_ref(&id));
    served.get("/default/big.bin").is(404, "NoSuchKey");
    let complete = |etags: &[(u32, &str)]| {
        let parts: String = etags
            .iter()
            .map(|(number, etag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"))
            .collect();
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        served.send("POST", &format!("/default/big.bin?uploadId={id}"), &[], body)
    };
    complete(&[(1, &one), (2, &old)]).is(400, "InvalidPart");
    complete(&[(2, &two), (1, &one)]).is(400, "InvalidPartOrder");
    let done = complete(&[(1, &one), (2, &two)]);
    assert_eq!(done.status, 200, "{}", done.text());
    let head = served.send("HEAD", "/default/big.bin", &[], "");
    assert!(head.header("etag").ends_with("-2\""), "{}", head.header("etag"));
    assert_eq!((head.header("content-length"), head.header("x-amz-meta-mood")), ("5242888", "calm"));
    assert_eq!(&served.get("/default/big.bin").body[5 << 20..], b"but this");
    complete(&[(1, &one)]).is(404, "NoSuchUpload");
    let other = served.send("POST", "/default/b.bin?uploads", &[], "").all("UploadId").concat();
    assert_eq!(served.send("DELETE", &format!("/default/b.bin?uploadId={other}"), &[], "").status, 204);
    served.send("PUT", &format!("/default/b.bin?partNumber=1&uploadId={other}"), &[], "x").is(404, "NoSuchUpload");
    served.send("PUT", "/default/b.bin?partNumber=1&uploadId=../../../etc", &[], "x").is(404, "NoSuchUpload");
}

#[test]
fn an_unsigned_request_is_refused_where_keys_exist() {
    let served = Served::with("auth = { type = \"apikey\", api_key = \"right\" }");
    served.get("/").is(403, "AccessDenied");
    served.get("/default/a.md").is(403, "AccessDenied");
    served.send("PUT", "/default/a.md", &[("authorization", "Bearer right")], "x").is(400, "InvalidRequest");
    let signed = "AWS4-HMAC-SHA256 Credential=ffffffffffff/20261123/us-east-1/s3/aws4_request, \
                  SignedHeaders=host;x-amz-date, Signature=00";
    let headers =
        [("authorization", signed), ("x-amz-date", "20261123T000000Z"), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD")];
    let refused = served.send("GET", "/default/a.md", &headers, "");
    assert!(refused.status >= 400 && served.text("a.md").is_none(), "{}", refused.text());
}

#[test]
fn a_head_and_a_copy_tell_which_version_it_is() {
    let served = Served::new();
    let put =
        |text: &'static str| served.send("PUT", "/default/h/a.md", &[], text).header("x-amz-version-id").to_owned();
    let (one, two) = (put("# 1\n"), put("# 2\n"));
    let head = |target: &str| served.send("HEAD", target, &[], "").header("x-amz-version-id").to_owned();
    assert_eq!(head("/default/h/a.md"), two);
    assert_eq!(head(&format!("/default/h/a.md?versionId={one}")), one);
    assert_eq!(served.get(&format!("/default/h/a.md?versionId={one}")).header("x-amz-version-id"), one);
    // Another door writes it, and again.
    let path = TreePath::parse("h/a.md").unwrap();
    served.server.primary().vfs.apply(&Caller::new(Protocol::Http), Change::put(path.clone(), "# 3\n")).unwrap();
    let third = served.server.primary().vfs.versions(&path).unwrap()[0].hash.to_string();
    assert_eq!(head("/default/h/a.md"), third);
    for (source, version) in
        [(format!("/default/h/a.md?versionId={one}"), one.as_str()), ("/default/h/a.md".to_owned(), third.as_str())]
    {
        let copy = served.send("PUT", "/default/h/b.md", &[("x-amz-copy-source", &source)], "");
        assert_eq!(copy.header("x-amz-copy-source-version-id"), version, "{}", copy.text());
    }
    // A folder has none.
    served.put("h/made/", "");
    assert_eq!(head("/default/h/made/"), "");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "as a disk does that takes nothing more")]
fn old_versions_of_long_objects_are_readable_on_a_full_disk() {
    let served = Served::new();
    let long = "x".repeat(300_000);
    let put = |text: &str| served.send("PUT", "/default/a.txt", &[], text.to_owned());
    let version = put(&long).header("x-amz-version-id").to_owned();
    put("short\n");
    let target = format!("/default/a.txt?versionId={version}");
    assert_eq!(served.get(&target).text(), long);
    let copy = served.send("PUT", "/default/copy.txt", &[("x-amz-copy-source", &target)], "");
    assert_eq!(copy.status, 200, "{}", copy.text());
    // Files without a place are made there.
    std::fs::remove_dir_all(served.server.primary().vfs.state_directory().join("tmp")).unwrap();
    assert_eq!(served.send("HEAD", &target, &[], "").status, 200, "it has no content");
    assert_eq!(served.get(&target).text(), long);
}
