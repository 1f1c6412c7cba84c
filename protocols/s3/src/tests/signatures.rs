//! Who signs, how and when, and which part of a request: what nobody signed gives nobody a right.

use std::io::{Read, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::crypto::{Checksum, Sha1, Sha256};
use svcfs_base::Timestamp;

use super::*;
use crate::checksums::hex;

/// The secret of every name where nobody is asked who they are.
const SECRET: &str = "svcfs";
/// What the signature's rules leave as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const MINUTE: i64 = 60;

fn mac<C: Checksum>(key: &[u8], text: &str) -> Vec<u8> {
    let of = |byte: u8, text: &[u8]| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        C::checksum(&[&block[..], text].concat()).as_ref().to_vec()
    };
    of(0x5c, &of(0x36, text.as_bytes()))
}

fn sha256(text: &str) -> String {
    hex(&Sha256::checksum(text.as_bytes()))
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A moment so many seconds ago, and what a signature of that moment is for.
fn before(age: i64) -> (String, String) {
    let then = Timestamp::from_second(Timestamp::now().as_second() - age).unwrap();
    let date = then.strftime("%Y%m%dT%H%M%SZ").to_string();
    let scope = format!("{}/us-east-1/s3/aws4_request", &date[..8]);
    (date, scope)
}

/// A signature of these lines, behind the first of which stand the moment and what it is for.
fn signature(kind: &str, (date, scope): &(String, String), lines: &str) -> String {
    let begin = format!("AWS4{SECRET}").into_bytes();
    let key = scope.split('/').fold(begin, |key, part| mac::<Sha256>(&key, part));
    hex(&mac::<Sha256>(&key, &format!("{kind}\n{date}\n{scope}\n{lines}")))
}

fn of_request(request: [&str; 3], headers: &[(&str, &str)], body: &str, moment: &(String, String)) -> String {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let canonical = format!("{}\n{lines}\n{}\n{body}", request.join("\n"), names(headers));
    signature("AWS4-HMAC-SHA256", moment, &sha256(&canonical))
}

fn names(headers: &[(&str, &str)]) -> String {
    headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
}

impl Served {
    /// An address that was signed so many seconds ago, for so many, with these headers beside the
    /// host.
    fn signed_before(
        &self,
        (method, target): (&str, &str),
        (age, lasts): (i64, &str),
        headers: &[(&str, &str)],
    ) -> String {
        let host = self.address.to_string();
        let headers = [&[("host", host.as_str())], headers].concat();
        let moment = before(age);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let said = format!(
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={}&X-Amz-Date={}&X-Amz-Expires={}&X-Amz-SignedHeaders={}",
            encoded(&format!("ann/{}", moment.1)),
            moment.0,
            encoded(lasts),
            encoded(&names(&headers))
        );
        let query = if query.is_empty() { said } else { format!("{said}&{query}") };
        let signature = of_request([method, path, &query], &headers, "UNSIGNED-PAYLOAD", &moment);
        format!("{path}?{query}&X-Amz-Signature={signature}")
    }

    /// One that is good for a minute.
    fn signed(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> String {
        self.signed_before((method, target), (0, "60"), headers)
    }

    /// The headers of a request that was signed in them so many seconds ago.
    fn headers(
        &self,
        (method, target): (&str, &str),
        age: i64,
        said: &[(&str, &str)],
        body: &str,
    ) -> Vec<(String, String)> {
        let (host, moment) = (self.address.to_string(), before(age));
        let own = [("host", host.as_str()), ("x-amz-content-sha256", body), ("x-amz-date", moment.0.as_str())];
        let mut headers = [&own, said].concat();
        headers.sort_unstable();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let signature = of_request([method, path, query], &headers, body, &moment);
        let names = names(&headers);
        let signed =
            format!("AWS4-HMAC-SHA256 Credential=ann/{}, SignedHeaders={names}, Signature={signature}", moment.1);
        headers.push(("authorization", &signed));
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn with_headers(&self, (method, target): (&str, &str), headers: &[(String, String)], body: &str) -> Reply {
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        self.send(method, target, &headers, body.to_owned())
    }

    /// What is answered to a request as it stands.
    fn raw(&self, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    }
}

/// Shows: S3-10
#[test]
fn an_unsigned_s3_header_is_refused_without_effect() {
    let served = Served::new();
    served.put("private.md", "# Private\n");
    let id = served.send("POST", "/default/up/parts.md?uploads", &[], "").all("UploadId").concat();
    let (put, part) = ("/default/up/x.md", format!("/default/up/parts.md?partNumber=1&uploadId={id}"));
    let added = [
        ("x-amz-copy-source", "/default/private.md"),
        ("x-amz-copy-source-range", "bytes=0-1"),
        ("x-amz-meta-mood", "wild"),
        ("x-amz-tagging", "a=1"),
        ("x-amz-storage-class", "STANDARD"),
        ("x-amz-security-token", "token"),
        ("x-amz-date", "20261126T000000Z"),
    ];
    for header in added {
        for target in [put, &part] {
            let address = served.signed("PUT", target, &[]);
            let refused = served.send("PUT", &address, &[header], "# X\n");
            refused.is(403, "AccessDenied");
            assert!(refused.text().contains("headers present in the request which were not signed"));
            assert!(refused.text().contains(header.0), "{}", refused.text());
            if header.0 == "x-amz-date" {
                continue;
            }
            let mut headers = served.headers(("PUT", target), 0, &[], "UNSIGNED-PAYLOAD");
            headers.push((header.0.to_owned(), header.1.to_owned()));
            served.with_headers(("PUT", target), &headers, "# X\n").is(403, "AccessDenied");
            // s3s looks for no header by a name in capitals, and leaves it out of what it compares.
            for (names, more) in [(";x-amz-date", ";X-Amz-Date"), ("SignedHeaders=", "SignedHeaders=SignedHeaders=")] {
                let mut headers = headers.clone();
                let signed = headers.iter_mut().find(|(name, _)| name == "authorization").unwrap();
                let more = if names.starts_with(';') {
                    format!("{names};{}", header.0.to_ascii_uppercase())
                } else {
                    format!("{more}{};", header.0)
                };
                signed.1 = signed.1.replace(names, &more);
                assert_eq!(served.with_headers(("PUT", target), &headers, "# X\n").status / 100, 4, "{more}");
            }
        }
    }
    assert_eq!(served.text("up/x.md"), None);
    assert_eq!(served.get(&format!("/default/up/parts.md?uploadId={id}")).all("PartNumber"), [""; 0]);
    // Whoever signed it says it, and the body is the business of who sends it.
    let source = ("x-amz-copy-source", "/default/private.md");
    let copied = served.send("PUT", &served.signed("PUT", put, &[source]), &[source], "");
    assert_eq!((copied.status, served.text("up/x.md").as_deref()), (200, Some("# Private\n")), "{}", copied.text());
    for body in ["UNSIGNED-PAYLOAD", &sha256("# X\n")] {
        let address = served.signed("PUT", put, &[]);
        let sent = served.send("PUT", &address, &[("x-amz-content-sha256", body)], "# X\n");
        assert_eq!((sent.status, served.text("up/x.md").as_deref()), (200, Some("# X\n")), "{}", sent.text());
    }
    let other = [("x-amz-content-sha256", &*sha256("# Y\n"))];
    assert_eq!(served.send("PUT", &served.signed("PUT", put, &[]), &other, "# Z\n").status, 400);
    assert_eq!(served.text("up/x.md").as_deref(), Some("# X\n"));
}

/// Shows: S3-10
#[test]
fn a_signature_is_for_one_method_and_one_host() {
    let served = Served::new();
    served.put("a.md", "# A\n");
    let address = served.signed("GET", "/default/a.md", &[]);
    assert_eq!(served.get(&address).text(), "# A\n");
    for method in ["HEAD", "PUT", "DELETE", "POST"] {
        assert_eq!(served.send(method, &address, &[], "").status, 403, "{method}");
    }
    let elsewhere = [("host", "team.localhost:1")];
    assert_eq!(served.send("GET", &address, &elsewhere, "").status, 403);
    // Without the host among what is signed, it would be for any bucket.
    let (moment, path) = (before(0), "/default/a.md");
    let headers = [("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("x-amz-date", moment.0.as_str())];
    let signature = of_request(["GET", path, ""], &headers, "UNSIGNED-PAYLOAD", &moment);
    let names = names(&headers);
    let signed = format!("AWS4-HMAC-SHA256 Credential=ann/{}, SignedHeaders={names}, Signature={signature}", moment.1);
    served.send("GET", path, &[&headers[..], &[("authorization", &signed)]].concat(), "").is(403, "AccessDenied");
    assert_eq!(served.text("a.md").as_deref(), Some("# A\n"));
}

/// Shows: S3-11
#[test]
fn only_signatures_of_version_4_are_taken_and_one_of_them() {
    let served = Served::new();
    let (path, date) = ("/default/a.md", "Fri, 24 Jan 2020 12:00:00 +0000");
    let second = |of: &str| BASE64_STANDARD.encode(mac::<Sha1>(SECRET.as_bytes(), of));
    let signed = format!("AWS ann:{}", second(&format!("PUT\n\n\n{date}\n{path}")));
    let old = [("date", date), ("authorization", &*signed)];
    let refused = served.send("PUT", path, &old, "# A\n");
    refused.is(400, "InvalidRequest");
    assert!(refused.text().contains("Please use AWS4-HMAC-SHA256."), "{}", refused.text());
    for other in ["", "Bearer right", "AWS4-ECDSA-P256-SHA256 Credential=ann", "AWS4-HMAC-SHA2567 Credential=ann"] {
        served.send("PUT", path, &[("authorization", other)], "# A\n").is(400, "InvalidRequest");
    }
    // Two would be looked at as none.
    let headers = served.headers(("PUT", path), 0, &[], "UNSIGNED-PAYLOAD");
    let mut twice = headers.clone();
    twice.extend(headers.iter().find(|(name, _)| name == "authorization").cloned());
    served.with_headers(("PUT", path), &twice, "# A\n").is(400, "InvalidRequest");
    let address = served.signed("PUT", path, &[]);
    served.with_headers(("PUT", &address), &headers, "# A\n").is(400, "InvalidArgument");
    assert_eq!(served.text("a.md"), None);
    assert_eq!(served.with_headers(("PUT", path), &headers, "# A\n").status, 200);
}

/// Shows: S3-11
#[test]
fn a_version_2_presigned_url_is_valid_for_one_object_only() {
    let served = Served::new();
    let second = |of: &str| encoded(&BASE64_STANDARD.encode(mac::<Sha1>(SECRET.as_bytes(), of)));
    let address = |method: &str, path: &str, lasts: i64| {
        let expires = Timestamp::now().as_second() + lasts;
        let signature = second(&format!("{method}\n\n\n{expires}\n{path}"));
        format!("{path}?AWSAccessKeyId=ann&Expires={expires}&Signature={signature}")
    };
    let put = address("PUT", "/default/a.md", MINUTE);
    for more in ["&tagging", "&partNumber=1", "&uploadId=a", "&%74agging", "&x-amz-tagging=a", "&list-type=2"] {
        served.send("PUT", &format!("{put}{more}"), &[], "# B\n").is(400, "InvalidRequest");
    }
    for header in ["x-amz-copy-source", "x-amz-meta-a", "x-amz-content-sha256", "x-amz-decoded-content-length"] {
        served.send("PUT", &put, &[(header, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")], "# B\n").is(400, "InvalidRequest");
    }
    served
        .send("PUT", &address("PUT", "/default/a.md", 8 * 24 * 60 * MINUTE), &[], "# B\n")
        .is(400, "AuthorizationQueryParametersError");
    served.send("PUT", &address("PUT", "/default/a.md", -1), &[], "# B\n").is(403, "AccessDenied");
    served.send("PUT", &address("GET", "/default/a.md", MINUTE), &[], "# B\n").is(403, "SignatureDoesNotMatch");
    let headers = served.headers(("PUT", "/default/a.md"), 0, &[], "UNSIGNED-PAYLOAD");
    served.with_headers(("PUT", &put), &headers, "# B\n").is(400, "InvalidArgument");
    assert_eq!(served.text("a.md"), None);
    assert_eq!(served.send("PUT", &put, &[], "# A\n").status, 200);
    assert_eq!(served.send("GET", &address("GET", "/default/a.md", MINUTE), &[], "").text(), "# A\n");
}

/// Shows: S3-11
#[test]
fn signatures_out_of_time_or_longer_than_a_week_are_refused() {
    let served = Served::new();
    let put = ("PUT", "/default/a.md");
    for age in [20 * MINUTE, -20 * MINUTE] {
        let headers = served.headers(put, age, &[], "UNSIGNED-PAYLOAD");
        served.with_headers(put, &headers, "# A\n").is(403, "RequestTimeTooSkewed");
    }
    let early = served.signed_before(put, (-20 * MINUTE, "60"), &[]);
    served.send("PUT", &early, &[], "# A\n").is(403, "RequestTimeTooSkewed");
    served.send("PUT", &served.signed_before(put, (2 * MINUTE, "60"), &[]), &[], "# A\n").is(403, "AccessDenied");
    for lasts in ["604801", "4294967295", "99999999999", "x"] {
        let address = served.signed_before(put, (0, lasts), &[]);
        served.send("PUT", &address, &[], "# A\n").is(400, "AuthorizationQueryParametersError");
    }
    assert_eq!(served.text("a.md"), None);
    let headers = served.headers(put, 10 * MINUTE, &[], "UNSIGNED-PAYLOAD");
    assert_eq!(served.with_headers(put, &headers, "# A\n").status, 200);
    let week = served.signed_before(put, (20 * MINUTE, "604800"), &[]);
    assert_eq!(served.send("PUT", &week, &[], "# B\n").status, 200);
}

#[test]
fn a_form_of_a_browser_is_refused_however_its_type_is_written() {
    let served = Served::new();
    let field =
        |name: &str, value: &str| format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    let form = format!("{}{}--x--\r\n", field("key", "a.md"), field("file\"; filename=\"a.md", "# A\n"));
    for kind in [
        "multipart/form-data; boundary=x",
        "Multipart/Form-Data;boundary=x",
        "multipart/form-data; a=\"é\"; boundary=x",
    ] {
        served.send("POST", "/default", &[("content-type", kind)], form.clone()).is(501, "NotImplemented");
    }
    assert_eq!(served.text("a.md"), None);
}

/// Shows: S3-3
#[test]
fn a_truncated_body_of_signed_chunks_is_not_written() {
    let served = Served::new();
    let kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let put = |pieces: &[&str], broken: bool| {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let length = length.to_string();
        let headers = served.headers(("PUT", "/default/a.txt"), 0, &[("x-amz-decoded-content-length", &length)], kind);
        let find = |name: &str| headers.iter().find(|(found, _)| found == name).unwrap().1.clone();
        let date = find("x-amz-date");
        let moment = (date.clone(), format!("{}/us-east-1/s3/aws4_request", &date[..8]));
        let mut last = find("authorization").rsplit_once('=').unwrap().1.to_owned();
        let mut body = String::new();
        for piece in [pieces, &[""]].concat() {
            let lines = format!("{last}\n{}\n{}", sha256(""), sha256(piece));
            last = signature("AWS4-HMAC-SHA256-PAYLOAD", &moment, &lines);
            body += &format!("{:x};chunk-signature={last}\r\n{piece}\r\n", piece.len());
            if broken {
                break;
            }
        }
        let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!("PUT /default/a.txt HTTP/1.1\r\n{head}connection: close\r\ntransfer-encoding: chunked\r\n");
        served.raw(&format!("{head}\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()))
    };
    let told = put(&["tide ", "and ebb"], true);
    assert!(told.starts_with("HTTP/1.1 400") && told.contains("<Code>IncompleteBody</Code>"), "{told}");
    assert_eq!(served.text("a.txt"), None);
    let told = put(&["tide ", "and ebb"], false);
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert_eq!(served.text("a.txt").as_deref(), Some("tide and ebb"));
}

#[test]
fn a_signed_unsatisfiable_range_verifies_and_is_ignored() {
    let served = Served::new();
    served.put("a.txt", "0123456789");
    let get = ("GET", "/default/a.txt");
    for range in ["bytes=0-1,4-5", "items=0-1", "bytes=a-b", "bytes=5-2", "bytes=", "bytes=1", "bytes=0-1,"] {
        let headers = served.headers(get, 0, &[("range", range)], "UNSIGNED-PAYLOAD");
        let whole = served.with_headers(get, &headers, "");
        assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"), "{range}");
        let mut forged = headers.clone();
        forged.iter_mut().filter(|(name, _)| name == "range").for_each(|(_, value)| value.push_str(",9-9"));
        served.with_headers(get, &forged, "").is(403, "SignatureDoesNotMatch");
        let address = served.signed("GET", "/default/a.txt?response-content-type=text%2Fx", &[("range", range)]);
        let whole = served.send("GET", &address, &[("range", range)], "");
        assert_eq!((whole.status, whole.text().as_str()), (200, "0123456789"), "{range}");
        assert_eq!(served.send("GET", "/default/a.txt", &[("range", range)], "").status, 200, "{range}");
    }
    for (range, part) in [("bytes=0-1", "01"), ("bytes=-2", "89"), ("Bytes=8-99999999999999999999", "89")] {
        let headers = served.headers(get, 0, &[("range", range)], "UNSIGNED-PAYLOAD");
        let told = served.with_headers(get, &headers, "");
        assert_eq!((told.status, told.text().as_str()), (206, part), "{range}");
    }
}

#[test]
fn what_is_dispatched_again_is_done_by_who_signed_it() {
    let served = Served::with("[auth]\ntype = \"perspace\"\n[[auth.api_keys]]\nkey = \"reader\"\nscope = \"read\"\n");
    for (method, name) in [("GET", "range"), ("PUT", "if-none-match"), ("PUT", "if-match")] {
        served.send(method, "/default/a.md", &[(name, "_ _")], "# A\n").is(403, "AccessDenied");
    }
    assert_eq!(served.text("a.md"), None);
    let served = Served::new();
    let put = ("PUT", "/default/a.md");
    let headers = served.headers(put, 0, &[("if-none-match", "not a tag")], &sha256("# A\n"));
    assert_eq!(served.with_headers(put, &headers, "# B\n").status, 400, "another body than was signed");
    assert_eq!(served.text("a.md"), None);
    assert_eq!(served.with_headers(put, &headers, "# A\n").status, 200);
    let mut seen = 0;
    assert!(served.commits(&mut seen).iter().any(|commit| commit.starts_with("ann: ")), "it is whose key it is");
}

#[test]
fn a_signature_over_date_instead_of_x_amz_date_is_taken() {
    let served = Served::new();
    let signed_at = |age: i64, form: &str, name: &str| {
        let (host, moment) = (served.address.to_string(), before(age));
        let then = Timestamp::from_second(Timestamp::now().as_second() - age).unwrap();
        let date = then.strftime(form).to_string();
        // As the moment of the string that is signed, or it is another signature.
        let moment = (then.strftime("%Y%m%dT%H%M%SZ").to_string(), moment.1);
        let mut headers = vec![("host", host.as_str()), ("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), (name, &*date)];
        headers.sort_unstable();
        let signature = of_request(["PUT", "/default/a.md", ""], &headers, "UNSIGNED-PAYLOAD", &moment);
        let names = names(&headers);
        let signed =
            format!("AWS4-HMAC-SHA256 Credential=ann/{}, SignedHeaders={names}, Signature={signature}", moment.1);
        headers.push(("authorization", &signed));
        served.send("PUT", "/default/a.md", &headers, "# A\n")
    };
    for form in ["%a, %d %b %Y %H:%M:%S GMT", "%Y%m%dT%H%M%SZ"] {
        assert_eq!(signed_at(0, form, "date").status, 200, "{form}");
        signed_at(20 * MINUTE, form, "date").is(403, "RequestTimeTooSkewed");
    }
    signed_at(0, "yesterday", "date").is(403, "AccessDenied");
    signed_at(0, "%Y%m%dT%H%M%SZ", "x-other").is(403, "AccessDenied");
}

#[test]
fn a_signed_trailer_that_was_not_announced_is_compared() {
    let served = Served::new();
    let kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
    let put = |trailer: Option<&str>| {
        let headers = served.headers(("PUT", "/default/a.txt"), 0, &[("x-amz-decoded-content-length", "4")], kind);
        let find = |name: &str| headers.iter().find(|(found, _)| found == name).unwrap().1.clone();
        let date = find("x-amz-date");
        let moment = (date.clone(), format!("{}/us-east-1/s3/aws4_request", &date[..8]));
        let mut last = find("authorization").rsplit_once('=').unwrap().1.to_owned();
        let mut body = String::new();
        for piece in ["tide", ""] {
            let lines = format!("{last}\n{}\n{}", sha256(""), sha256(piece));
            last = signature("AWS4-HMAC-SHA256-PAYLOAD", &moment, &lines);
            let end = if piece.is_empty() { "" } else { "\r\n" };
            body += &format!("{:x};chunk-signature={last}\r\n{piece}{end}", piece.len());
        }
        if let Some(trailer) = trailer {
            let lines = format!("{last}\n{}", sha256(&format!("{trailer}\n")));
            last = signature("AWS4-HMAC-SHA256-TRAILER", &moment, &lines);
            body += &format!("{trailer}\r\nx-amz-trailer-signature:{last}\r\n");
        }
        served.with_headers(("PUT", "/default/a.txt"), &headers, &format!("{body}\r\n"))
    };
    let wrong = put(Some("x-amz-checksum-crc32:AAAAAA=="));
    assert_eq!((wrong.status, served.text("a.txt")), (400, None), "{}", wrong.text());
    let sum = BASE64_STANDARD.encode(s3s::crypto::Crc32::checksum(b"tide"));
    for trailer in [None, Some(format!("x-amz-checksum-crc32:{sum}"))] {
        let told = put(trailer.as_deref());
        assert_eq!((told.status, served.text("a.txt").as_deref()), (200, Some("tide")), "{trailer:?} {}", told.text());
    }
}
