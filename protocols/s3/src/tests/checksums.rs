//! Checksums of uploads in parts: of all bytes, and of the checksums of the parts.

use super::*;

/// What the last part has.
const DIGITS: &str = "123456789";
/// Checksums of 5 MiB of `x` and of the digits behind them, as zlib and hashlib make them.
const PARTS: [&str; 2] = ["BwQzxA==", "y/Q5Jg=="];
const WHOLE: &str = "zNcrVw==";
const OF_PARTS: &str = "yttzNw==-2";
const SHA256_OF_PARTS: &str = "/CtPjHwBCKb85QIBILBLhHPLPYsvQorH+3L8VDHJxPY=-2";

/// Headers with which an upload begins.
type Headers<'a> = &'a [(&'a str, &'a str)];

impl Served {
    /// An upload of two parts to `a.bin`: its place, and what completes it.
    fn two_parts(&self, headers: Headers<'_>) -> (String, [Reply; 2], String) {
        let begun = self.send("POST", "/default/a.bin?uploads", headers, "");
        let id = begun.all("UploadId").concat();
        let part = |number: u32, body: Bytes| {
            self.send("PUT", &format!("/default/a.bin?partNumber={number}&uploadId={id}"), &[], body)
        };
        let parts = [part(1, vec![b'x'; 5 << 20].into()), part(2, DIGITS.into())];
        let listed = [1, 2].map(|number| format!("<Part><PartNumber>{number}</PartNumber></Part>")).concat();
        let list = format!("<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>");
        (format!("/default/a.bin?uploadId={id}"), parts, list)
    }

    fn checked(&self, method: &str) -> Reply {
        self.send(method, "/default/a.bin", &[("x-amz-checksum-mode", "ENABLED")], "")
    }
}

/// Shows: S3-3
#[test]
fn a_full_object_checksum_is_verified_stored_and_returned() {
    let served = Served::new();
    let (target, parts, list) =
        served.two_parts(&[("x-amz-checksum-algorithm", "CRC32"), ("x-amz-checksum-type", "FULL_OBJECT")]);
    assert_eq!(parts.each_ref().map(|part| part.header("x-amz-checksum-crc32")), PARTS);
    let listed = served.get(&target);
    assert_eq!(
        (listed.all("ChecksumType"), listed.all("ChecksumAlgorithm")),
        (vec!["FULL_OBJECT".into()], vec!["CRC32".into()])
    );
    let complete = |headers: Headers<'_>| served.send("POST", &target, headers, list.clone());
    complete(&[("x-amz-checksum-crc32", "AAAAAA==")]).is(400, "BadDigest");
    complete(&[("x-amz-checksum-type", "COMPOSITE")]).is(400, "InvalidRequest");
    served.get("/default/a.bin").is(404, "NoSuchKey");
    for time in ["first", "asked again"] {
        let done = complete(&[("x-amz-checksum-crc32", WHOLE), ("x-amz-checksum-type", "FULL_OBJECT")]);
        assert_eq!(
            (done.all("ChecksumCRC32"), done.all("ChecksumType")),
            (vec![WHOLE.into()], vec!["FULL_OBJECT".into()]),
            "{time}: {}",
            done.text()
        );
    }
    for method in ["GET", "HEAD"] {
        let told = served.checked(method);
        assert_eq!((told.header("x-amz-checksum-crc32"), told.header("x-amz-checksum-type")), (WHOLE, "FULL_OBJECT"));
    }
}

/// Shows: S3-3
#[test]
fn a_composite_checksum_ends_with_part_count_and_is_not_copied() {
    let served = Served::new();
    for (algorithm, expected) in [("CRC32", OF_PARTS), ("SHA256", SHA256_OF_PARTS)] {
        let (target, _, list) = served.two_parts(&[("x-amz-checksum-algorithm", algorithm)]);
        let done = served.send("POST", &target, &[], list);
        let told = (done.all(&format!("Checksum{algorithm}")), done.all("ChecksumType"));
        assert_eq!(told, (vec![expected.into()], vec!["COMPOSITE".into()]), "{}", done.text());
        let header = format!("x-amz-checksum-{}", algorithm.to_lowercase());
        assert_eq!(served.checked("HEAD").header(&header), expected);
    }
    served.send("PUT", "/default/b.bin", &[("x-amz-copy-source", "/default/a.bin")], "");
    let copy = served.send("HEAD", "/default/b.bin", &[("x-amz-checksum-mode", "ENABLED")], "");
    assert_eq!((copy.status, copy.header("x-amz-checksum-type")), (200, ""));
}

#[test]
fn a_crc64nvme_is_of_all_bytes_and_a_sha_of_none() {
    let served = Served::new();
    let (target, _, list) = served.two_parts(&[("x-amz-checksum-algorithm", "CRC64NVME")]);
    let done = served.send("POST", &target, &[], list);
    assert_eq!(done.all("ChecksumType"), ["FULL_OBJECT"], "{}", done.text());
    let whole = [&vec![b'x'; 5 << 20][..], DIGITS.as_bytes()].concat();
    let put = served.send("PUT", "/default/b.bin", &[("x-amz-sdk-checksum-algorithm", "CRC64NVME")], whole);
    assert_eq!(done.all("ChecksumCRC64NVME"), [put.header("x-amz-checksum-crc64nvme")]);
    for (algorithm, kind) in
        [("CRC64NVME", "COMPOSITE"), ("SHA1", "FULL_OBJECT"), ("SHA256", "FULL_OBJECT"), ("MD6", "COMPOSITE")]
    {
        let headers = [("x-amz-checksum-algorithm", algorithm), ("x-amz-checksum-type", kind)];
        served.send("POST", "/default/a.bin?uploads", &headers, "").is(400, "InvalidRequest");
    }
    served
        .send("POST", "/default/a.bin?uploads", &[("x-amz-checksum-type", "FULL_OBJECT")], "")
        .is(400, "InvalidRequest");
}

#[test]
fn two_checksums_of_one_body_are_refused() {
    let served = Served::new();
    let (crc32, sha1) = (("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="));
    served.send("PUT", "/default/a.bin", &[crc32, sha1], DIGITS).is(400, "InvalidRequest");
    served
        .send("PUT", "/default/a.bin", &[crc32, ("x-amz-trailer", "x-amz-checksum-sha1")], DIGITS)
        .is(400, "InvalidRequest");
    let id = served.send("POST", "/default/a.bin?uploads", &[], "").all("UploadId").concat();
    let part = format!("/default/a.bin?partNumber=1&uploadId={id}");
    served.send("PUT", &part, &[crc32, sha1], DIGITS).is(400, "InvalidRequest");
    served.get("/default/a.bin").is(404, "NoSuchKey");
    let named = ("x-amz-sdk-checksum-algorithm", "CRC32");
    assert_eq!(served.send("PUT", "/default/a.bin", &[crc32, named], DIGITS).status, 200);
}

#[test]
fn a_copy_gets_the_requested_checksum_or_that_of_its_source() {
    let served = Served::new();
    let put = served.send("PUT", "/default/source.bin", &[("x-amz-checksum-crc32", "y/Q5Jg==")], DIGITS);
    assert_eq!(put.status, 200, "{}", put.text());
    let source = ("x-amz-copy-source", "/default/source.bin");
    let copy = |headers: Headers<'_>| served.send("PUT", "/default/a.bin", &[&[source], headers].concat(), "");
    // The check values of the catalogue of parametrised CRC algorithms.
    for (algorithm, expected) in [("CRC32C", "4waSgw=="), ("CRC64NVME", "rosUhgp5mIg="), ("", "y/Q5Jg==")] {
        let named = [("x-amz-checksum-algorithm", algorithm)];
        let copied = copy(if algorithm.is_empty() { &[] } else { &named });
        let algorithm = if algorithm.is_empty() { "CRC32" } else { algorithm };
        let told = (copied.all(&format!("Checksum{algorithm}")), copied.all("ChecksumType"));
        assert_eq!(told, (vec![expected.to_owned()], vec!["FULL_OBJECT".to_owned()]), "{}", copied.text());
        let head = served.checked("HEAD");
        let sums: Vec<_> = head
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .filter(|name| name.starts_with("x-amz-checksum-c"))
            .collect();
        let header = format!("x-amz-checksum-{}", algorithm.to_lowercase());
        assert_eq!((sums, head.header(&header)), (vec![header.as_str()], expected));
    }
    copy(&[("x-amz-checksum-algorithm", "MD6")]).is(400, "InvalidRequest");
    let large = vec![b'x'; svcfs_base::MAX_FILE_BYTES + 1];
    let sum = ("x-amz-sdk-checksum-algorithm", "CRC32C");
    let put = served.send("PUT", "/default/source.bin", &[sum], large);
    let copied = copy(&[("x-amz-checksum-algorithm", "CRC32C")]);
    assert_eq!(copied.all("ChecksumCRC32C"), [put.header("x-amz-checksum-crc32c")], "{}", copied.text());
}
