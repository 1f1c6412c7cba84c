//! What is told with an object, and what of it is asked for by number.

use super::*;

/// The metadata that tells the hash which every other door calls a content by.
const CONTENT_HASH_KEY: &str = "x-amz-meta-svc-etag";

impl Served {
    /// What GET and HEAD tell of an object under this name, which is the same.
    #[track_caller]
    fn told(&self, target: &str, name: &str) -> String {
        let [got, head] = ["GET", "HEAD"].map(|method| self.send(method, target, &[], ""));
        assert_eq!((got.status, got.header(name)), (head.status, head.header(name)), "{target}");
        got.header(name).to_owned()
    }
}

fn blob_of(content: &str) -> String {
    svcfs_base::ETag::from_content(content.as_bytes()).to_string()
}

#[test]
fn the_content_hash_of_other_protocols_is_returned_as_metadata() {
    let served = Served::new();
    let put = served.send("PUT", "/default/a.md", &[("x-amz-meta-mood", "calm")], "# A\n");
    let version = put.header("x-amz-version-id").to_owned();
    assert_eq!(served.told("/default/a.md", CONTENT_HASH_KEY), blob_of("# A\n"));
    assert_eq!(served.told("/default/a.md", "x-amz-meta-mood"), "calm");
    let path = TreePath::parse("a.md").unwrap();
    served.server.primary().vfs.apply(&Caller::new(Protocol::Http), Change::put(path, "# B\n")).unwrap();
    assert_eq!(served.told("/default/a.md", CONTENT_HASH_KEY), blob_of("# B\n"));
    assert_eq!(served.told(&format!("/default/a.md?versionId={version}"), CONTENT_HASH_KEY), blob_of("# A\n"));
    served.put("folder/", "");
    assert_eq!(served.told("/default/folder/", CONTENT_HASH_KEY), "", "a folder has no content");
    let large = vec![b'x'; svcfs_base::MAX_FILE_BYTES + 1];
    assert_eq!(served.send("PUT", "/default/large.bin", &[], large).status, 200);
    assert_eq!(served.told("/default/large.bin", CONTENT_HASH_KEY), "", "nobody knows the hash of a large file");
}

#[test]
fn a_hash_sent_back_as_client_metadata_is_not_stored() {
    let served = Served::new();
    let said = [("X-Amz-Meta-Svc-Etag", "of another"), ("x-amz-meta-mood", "calm")];
    assert_eq!(served.send("PUT", "/default/a.txt", &said, "one").status, 200);
    let anew = [("x-amz-copy-source", "/default/a.txt"), ("x-amz-metadata-directive", "REPLACE"), said[0]];
    assert_eq!(served.send("PUT", "/default/copy.txt", &anew, "").status, 200);
    let id = served.send("POST", "/default/parts.txt?uploads", &said, "").all("UploadId").concat();
    let part = served.send("PUT", &format!("/default/parts.txt?partNumber=1&uploadId={id}"), &[], "one");
    assert_eq!(part.status, 200);
    let list = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>";
    assert_eq!(served.send("POST", &format!("/default/parts.txt?uploadId={id}"), &[], list).status, 200);
    for key in ["a.txt", "copy.txt", "parts.txt"] {
        assert_eq!(served.told(&format!("/default/{key}"), CONTENT_HASH_KEY), blob_of("one"), "{key}");
        let head = served.send("HEAD", &format!("/default/{key}"), &[], "");
        assert_eq!(head.headers.get_all(CONTENT_HASH_KEY).iter().count(), 1, "{key}");
        let vfs = &served.server.primary().vfs;
        let (node, _) = vfs.lookup_path(&Caller::new(Protocol::Internal), &TreePath::parse(key).unwrap()).unwrap();
        let kept = vfs.xattr(node, crate::object_metadata::XATTR_NAME).unwrap().unwrap_or_default();
        vfs.forget(node, 1);
        assert!(!String::from_utf8_lossy(&kept).contains("of another"), "{key}");
    }
}

#[test]
fn the_first_part_of_what_came_in_one_piece_is_all_of_it() {
    let served = Served::new();
    served.put("a.txt", "0123456789");
    served.put("empty.txt", "");
    let first = served.get("/default/a.txt?partNumber=1");
    assert_eq!((first.status, first.text().as_str()), (206, "0123456789"));
    assert_eq!(first.header("content-range"), "bytes 0-9/10");
    let head = served.send("HEAD", "/default/a.txt?partNumber=1", &[], "");
    assert_eq!((head.status, head.header("content-range")), (206, "bytes 0-9/10"));
    assert_eq!((first.header("x-amz-mp-parts-count"), head.header("x-amz-mp-parts-count")), ("", ""));
    assert_eq!(served.get("/default/empty.txt?partNumber=1").status, 200);
    served.get("/default/a.txt?partNumber=2").is(416, "InvalidPartNumber");
    served.get("/default/a.txt?partNumber=0").is(400, "InvalidArgument");
    served.get("/default/a.txt?partNumber=10001").is(400, "InvalidArgument");
    served.send("GET", "/default/a.txt?partNumber=1", &[("range", "bytes=0-1")], "").is(400, "InvalidRequest");
}
