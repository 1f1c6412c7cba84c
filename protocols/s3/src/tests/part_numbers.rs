//! Parts of an object, asked for by their number.

use svcfs_base::MAX_FILE_BYTES;
use svcfs_vfs::SetXattrMode;

use super::parts::list_of;
use super::*;
use crate::object_metadata::XATTR_NAME;

/// Bytes of a part that is not the last, at least.
const LEAST: usize = 5 << 20;

impl Served {
    /// Puts an object of these parts, which are sent with these numbers; what completing it is
    /// answered with.
    #[track_caller]
    fn put_in_parts(&self, key: &str, parts: &[(u32, Bytes)]) -> Reply {
        let id = self.begun(key, &[]);
        let etags: Vec<_> = parts
            .iter()
            .map(|(number, part)| {
                (*number, self.part((key, &id), *number, &[], part.clone()).header("etag").to_owned())
            })
            .collect();
        let etags: Vec<_> = etags.iter().map(|(number, etag)| (*number, etag.as_str())).collect();
        let completed = self.send("POST", &format!("/default/{key}?uploadId={id}"), &[], list_of(&etags));
        assert_eq!(completed.status, 200, "{}", completed.text());
        completed
    }

    /// Asks for each part of an object, and for one behind the last.
    #[track_caller]
    fn has_parts(&self, target: &str, parts: &[Bytes]) {
        let whole: Vec<u8> = parts.concat();
        let join = if target.contains('?') { '&' } else { '?' };
        let mut begin = 0;
        for (number, part) in (1..).zip(parts) {
            let [got, head] =
                ["GET", "HEAD"].map(|method| self.send(method, &format!("{target}{join}partNumber={number}"), &[], ""));
            assert!(got.body == *part, "{target} {number}: {} bytes", got.body.len());
            let told = if part.is_empty() {
                (200, String::new())
            } else {
                (206, format!("bytes {begin}-{}/{}", begin + part.len() - 1, whole.len()))
            };
            for reply in [&got, &head] {
                assert_eq!((reply.status, reply.header("content-range").to_owned()), told, "{target} {number}");
                assert_eq!(reply.header("x-amz-mp-parts-count"), parts.len().to_string(), "{target} {number}");
                assert_eq!(reply.header("content-length"), part.len().to_string(), "{target} {number}");
                assert!(reply.header("etag").ends_with(&format!("-{}\"", parts.len())), "{}", reply.header("etag"));
            }
            begin += part.len();
        }
        let behind = format!("{target}{join}partNumber={}", parts.len() + 1);
        self.get(&behind).is(416, "InvalidPartNumber");
        assert_eq!(self.send("HEAD", &behind, &[], "").status, 416);
    }

    /// What is kept of an object beside its file, changed.
    fn rewrite_record(&self, key: &str, change: impl FnOnce(&mut serde_json::Value)) {
        let vfs = &self.server.primary().vfs;
        let caller = Caller::new(Protocol::Internal);
        let (node, _) = vfs.lookup_path(&caller, &TreePath::parse(key).unwrap()).unwrap();
        let mut record = serde_json::from_slice(&vfs.xattr(node, XATTR_NAME).unwrap().unwrap()).unwrap();
        change(&mut record);
        let record = serde_json::to_vec(&record).unwrap();
        vfs.set_xattr(&caller, node, (XATTR_NAME, &record), SetXattrMode::CreateOrReplace).unwrap();
        vfs.forget(node, 1);
    }
}

/// Bytes of which no two thousand are the same.
fn bytes(length: usize, from: usize) -> Bytes {
    (from..from + length).map(|at| (at / 1000) as u8).collect::<Vec<_>>().into()
}

/// Shows: S3-8
#[test]
fn parts_of_the_newest_version_are_readable_after_restart() {
    let served = Served::new();
    let parts = [bytes(LEAST, 0), bytes(LEAST, 7), bytes(LEAST + 3, 11), "end".into()];
    // As the object has them, not as they were numbered.
    let sent: Vec<_> = [2, 3, 7, 9].into_iter().zip(parts.clone()).collect();
    let version = served.put_in_parts("a.bin", &sent).header("x-amz-version-id").to_owned();
    served.has_parts("/default/a.bin", &parts);
    let by_version = format!("/default/a.bin?versionId={version}");
    served.has_parts(&by_version, &parts);
    let empty = [bytes(LEAST, 0), Bytes::new()];
    served.put_in_parts("empty.bin", &[(1, empty[0].clone()), (2, empty[1].clone())]);
    served.has_parts("/default/empty.bin", &empty);
    served.put_in_parts("one.bin", &[(5, "0123456789".into())]);
    served.has_parts("/default/one.bin", &["0123456789".into()]);

    let served = served.again();
    served.has_parts("/default/a.bin", &parts);
    let tag = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
    assert_eq!(served.send("PUT", "/default/a.bin?tagging", &[], tag).status, 200);
    let anew = [("x-amz-copy-source", "/default/a.bin"), ("x-amz-metadata-directive", "REPLACE")];
    assert_eq!(served.send("PUT", "/default/a.bin", &anew, "").status, 200);
    served.has_parts("/default/a.bin", &parts);
    // A copy comes in one piece.
    assert_eq!(served.send("PUT", "/default/copy.bin", &[("x-amz-copy-source", "/default/a.bin")], "").status, 200);
    served.get("/default/copy.bin?partNumber=2").is(416, "InvalidPartNumber");
    assert_eq!(served.get("/default/copy.bin?partNumber=1").body, parts.concat());
    // And so does what another door writes there.
    let path = TreePath::parse("a.bin").unwrap();
    served.server.primary().vfs.apply(&Caller::new(Protocol::Http), Change::put(path, "else")).unwrap();
    assert_eq!(served.get("/default/a.bin?partNumber=1").text(), "else");
    served.get(&format!("{by_version}&partNumber=2")).is(416, "InvalidPartNumber");
    assert_eq!(served.get(&by_version).body, parts.concat());
}

#[test]
fn the_newest_version_has_the_etag_and_checksum_of_the_object() {
    let served = Served::new();
    let of_parts = served.put_in_parts("a.txt", &[(1, "123456789".into())]);
    let version = of_parts.header("x-amz-version-id").to_owned();
    let told = |target: &str| {
        let told = ["GET", "HEAD"].map(|method| served.send(method, target, &[("x-amz-checksum-mode", "ENABLED")], ""));
        told.map(|told| [told.header("etag").to_owned(), told.header("x-amz-checksum-crc32c").to_owned()])
    };
    assert_eq!(told(&format!("/default/a.txt?versionId={version}")), told("/default/a.txt"));
    let put = served.send("PUT", "/default/a.txt", &[("x-amz-checksum-crc32c", "4waSgw==")], "123456789");
    let again = format!("/default/a.txt?versionId={}", put.header("x-amz-version-id"));
    assert_eq!(told(&again)[0][1], "4waSgw==");
    assert_eq!(told(&again), told("/default/a.txt"));
}

#[test]
fn the_parts_of_a_large_object_are_listed_too() {
    let served = Served::new();
    let parts = [bytes(MAX_FILE_BYTES, 0), bytes(LEAST, 3), "end".into()];
    let sent: Vec<_> = (1..).zip(parts.clone()).collect();
    served.put_in_parts("large.bin", &sent);
    served.has_parts("/default/large.bin", &parts);
    served.has_parts("/default/large.bin?versionId=null", &parts);
}

#[test]
fn parts_of_unknown_length_are_not_listed() {
    let served = Served::new();
    served.put_in_parts("a.bin", &[(1, bytes(LEAST, 0)), (2, "end".into())]);
    let unknown = |why: &str| {
        for part in 1..=2 {
            served.get(&format!("/default/a.bin?partNumber={part}")).is(501, "NotImplemented");
            let head = served.send("HEAD", &format!("/default/a.bin?partNumber={part}"), &[], "");
            assert_eq!(head.status, 501, "{why}");
        }
        served.get("/default/a.bin?partNumber=3").is(416, "InvalidPartNumber");
        assert_eq!(served.get("/default/a.bin").body.len(), LEAST + 3);
    };
    for (odd, why) in [("[[1,1],[2,1]]", "of another object"), ("[[18446744073709551615,2]]", "of none")] {
        served.rewrite_record("a.bin", |record| record["parts"] = serde_json::from_str(odd).unwrap());
        unknown(why);
    }
    served.rewrite_record("a.bin", |record| drop(record.as_object_mut().unwrap().remove("parts")));
    unknown("it was put before they were kept");
    served.put("a.bin", "in one piece");
    assert_eq!(served.get("/default/a.bin?partNumber=1").text(), "in one piece");
}

#[test]
fn an_object_with_too_many_part_lengths_is_stored_without_them() {
    let record = |count: u64| {
        let lengths = crate::part_lengths::PartLengths::of((0..count).map(|number| (5 << 20) + number));
        let said = [("mood".to_owned(), "x".repeat(2000))].into();
        crate::object_metadata::ObjectMetadata { metadata: said, ..Default::default() }
            .with_parts("0-1".to_owned(), lengths)
    };
    let [few, many] = [100, 200].map(record);
    assert_eq!([few.parts.is_empty(), many.parts.is_empty()], [false, true]);
    assert_eq!((many.etag.as_deref(), many.metadata.len()), (Some("0-1"), 1));
    assert!(serde_json::to_vec(&few).unwrap().len() < 3600);
}
