//! Virtual-hosted buckets: `team.example.org` is the space `team`, unless it is a name of the
//! server itself.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use s3s::host::{S3Host, VirtualHost};
use s3s::{S3Result, s3_error};

use crate::S3Server;

/// Resolves the bucket of a host name for s3s.
pub(crate) struct BucketHosts(pub(crate) Arc<S3Server>);

impl S3Host for BucketHosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        Ok(match bucket_of_host(&self.0, host) {
            Some(HostBucket { bucket, rest, .. }) => VirtualHost::new(rest).with_bucket(bucket),
            None => VirtualHost::new(host),
        })
    }
}

/// The bucket in a host name.
struct HostBucket<'a> {
    bucket: String,
    rest: &'a str,
    /// Whether the rest is known to be a name of this server.
    is_server_subdomain: bool,
}

/// Finds the bucket that a host names.
fn bucket_of_host<'a>(protocol: &S3Server, host: &'a str) -> Option<HostBucket<'a>> {
    let bare = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let settings = &protocol.server.settings().server;
    let is_server_name = |host: &str| {
        let is_equal = |name: &str| name.eq_ignore_ascii_case(host);
        is_equal("localhost")
            || is_equal(&settings.host.to_string())
            || settings.public_url.as_ref().is_some_and(|url| is_equal(url.host()))
    };
    let is_address = bare.parse::<IpAddr>().is_ok();
    let (first, rest) = bare.split_once('.').filter(|_| !is_address && !is_server_name(bare))?;
    let spaces = protocol.server.spaces().list_all();
    // Host names are case-insensitive.
    let space =
        spaces.iter().map(svcfs_knowledge::spaces::SpaceStatus::name).find(|name| name.eq_ignore_ascii_case(first));
    // Below a server name, the first label is a bucket even if it does not exist: the request must
    // not go to a bucket in the path.
    let is_server_subdomain = is_server_name(rest);
    let bucket = space.map(str::to_owned).or_else(|| is_server_subdomain.then(|| first.to_owned()))?;
    Some(HostBucket { bucket, rest, is_server_subdomain })
}

/// Whether a request is about an object, not about a bucket or the service.
pub(crate) fn is_object_request(protocol: &S3Server, uri: &Uri, headers: &HeaderMap) -> bool {
    let path = uri.path().trim_start_matches('/');
    let key = if bucket_of_host(protocol, host_of(headers)).is_some() {
        Some(path)
    } else {
        path.split_once('/').map(|(_, key)| key)
    };
    key.is_some_and(|key| !key.is_empty())
}

fn host_of(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// Refuses an ambiguous request: its host names one space, below a name that is not configured as
/// the server's, and its path names another that the caller may enter. Other callers learn nothing.
/// Errors: `InvalidRequest`.
pub(crate) fn check(
    protocol: &S3Server,
    (uri, headers): (&Uri, &HeaderMap),
    may_enter: impl Fn(&str) -> bool,
) -> S3Result<()> {
    let Some(HostBucket { bucket, is_server_subdomain: false, .. }) = bucket_of_host(protocol, host_of(headers)) else {
        return Ok(());
    };
    let first = uri.path().trim_start_matches('/').split('/').next().unwrap_or_default();
    let first = percent_decode_str(first).decode_utf8_lossy();
    if may_enter(&first) && protocol.server.spaces().list_all().iter().any(|space| space.name() == first) {
        return Err(s3_error!(
            InvalidRequest,
            "the host names the bucket `{bucket}`, but the path names `{}`; set `server.public_url` to the name of this server",
            first
        ));
    }
    Ok(())
}
