//! S3, as its clients speak it: signed requests, whole objects, and a rename that is a copy and a
//! removal.

use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};
use svcfs_base::{Clock, SystemClock};

use super::{Answer, Door, GUEST};
use crate::space::client::{Client, Reply};
use crate::space::{TestSpace, me};

/// What the signature's rules leave as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
/// The secret of every name where nobody is asked who they are.
const SECRET: &str = "svcfs";

pub struct S3 {
    client: Client,
    host: String,
}

impl S3 {
    pub fn new(space: &TestSpace) -> Self {
        let (client, host) = space.s3_client();
        Self { client, host }
    }

    /// Sends a request that `actor` has signed (AWS Signature Version 4).
    fn send_as(
        &self,
        actor: &str,
        (method, path, query): (&str, &str, &str),
        copied: Option<&str>,
        body: &[u8],
    ) -> Answer<Reply> {
        let now = SystemClock.now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/us-east-1/s3/aws4_request", &now[..8]);
        let mut headers = vec![("host", self.host.clone()), ("x-amz-content-sha256", hex(&Sha256::digest(body)))];
        headers.extend(copied.map(|from| ("x-amz-copy-source", encoded(from))));
        headers.push(("x-amz-date", now.clone()));
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let (names, path) = (names.join(";"), encoded(path));
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{}", headers[1].1);
        let to_sign = format!("AWS4-HMAC-SHA256\n{now}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let key = scope.split('/').fold(format!("AWS4{SECRET}").into_bytes(), |key, part| mac(&key, part));
        let signature = hex(&mac(&key, &to_sign));
        let signed =
            format!("AWS4-HMAC-SHA256 Credential={actor}/{scope}, SignedHeaders={names}, Signature={signature}");
        headers[0] = ("authorization", signed);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        self.client.send(method, &target, &headers, body.to_vec()).success()
    }

    fn send(&self, method: &str, key: &str, body: &[u8]) -> Answer<Reply> {
        self.send_as(&me(), (method, &at(key), ""), None, body)
    }
}

/// The path of an object of the first space.
fn at(key: &str) -> String {
    format!("/default/{key}")
}

fn encoded(path: &str) -> String {
    let parts: Vec<_> = path.split('/').map(|part| utf8_percent_encode(part, ENCODED).to_string()).collect();
    parts.join("/")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// What stands between all the tags of a name.
fn all<'a>(text: &'a str, tag: &str) -> Vec<&'a str> {
    let (begin, end) = (format!("<{tag}>"), format!("</{tag}>"));
    text.split(begin.as_str()).skip(1).filter_map(|rest| rest.split(end.as_str()).next()).collect()
}

impl Door for S3 {
    fn write(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.send("PUT", path, content).map(drop)
    }
    fn write_as_guest(&self, path: &str, content: &[u8]) -> Answer<()> {
        self.send_as(GUEST, ("PUT", &at(path), ""), None, content).map(drop)
    }
    fn append(&self, path: &str, content: &[u8]) -> Answer<()> {
        let whole = [self.read(path)?.as_slice(), content].concat();
        self.write(path, &whole)
    }
    fn read(&self, path: &str) -> Answer<Vec<u8>> {
        self.send("GET", path, b"").map(|reply| reply.body.to_vec())
    }
    fn rename(&self, from: &str, to: &str) -> Answer<()> {
        self.send_as(&me(), ("PUT", &at(to), ""), Some(&at(from)), b"")?;
        self.send("DELETE", from, b"").map(drop)
    }
    fn remove(&self, path: &str) -> Answer<()> {
        // Who removes what is not there is told that it is gone; clients that want to know look
        // first.
        self.send("HEAD", path, b"")?;
        self.send("DELETE", path, b"").map(drop)
    }
    fn list(&self, directory: &str) -> Answer<Vec<String>> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let encoded = utf8_percent_encode(&prefix, ENCODED);
        let query = format!("delimiter=%2F&encoding-type=url&list-type=2&prefix={encoded}");
        let listed = self.send_as(&me(), ("GET", "/default", &query), None, b"")?.text();
        let entries = listed.split("<CommonPrefixes>").skip(1).flat_map(|part| all(part, "Prefix"));
        let keys = all(&listed, "Key").into_iter().chain(entries);
        let names = keys.map(|key| percent_decode_str(key).decode_utf8_lossy().into_owned());
        let names = names.filter_map(|key| Some(key.strip_prefix(&prefix)?.trim_end_matches('/').to_owned()));
        let mut names: Vec<_> = names.filter(|name| !name.is_empty() && !name.starts_with('.')).collect();
        names.sort();
        Ok(names)
    }
    fn make_directory(&self, path: &str) -> Answer<()> {
        // Else it would be gone with the last object in it.
        self.send("PUT", &format!("{path}/"), b"").map(drop)
    }
}
