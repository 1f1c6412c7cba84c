//! Which bucket a host names: `team.example.org` is the space `team`, unless it is a name of the server itself.

use std::net::IpAddr;
use std::sync::Arc;

use http::header::HOST;
use http::{HeaderMap, Uri};
use percent_encoding::percent_decode_str;
use s3s::host::{S3Host, VirtualHost};
use s3s::{S3Result, s3_error};

use crate::S3Server;

/// `team.example.org` is the space `team`, unless it is a name of this server itself.
pub(crate) struct BucketHosts(pub(crate) Arc<S3Server>);

impl S3Host for BucketHosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        Ok(match named(&self.0, host) {
            Some(HostBucket { bucket, rest, .. }) => VirtualHost::new(rest).with_bucket(bucket),
            None => VirtualHost::new(host),
        })
    }
}

/// A bucket that a host names.
struct HostBucket<'a> {
    bucket: String,
    rest: &'a str,
    /// Whether what stands behind it is known to be a name of this server.
    is_below_ours: bool,
}

/// The bucket that a host names, if it does.
fn named<'a>(protocol: &S3Server, host: &'a str) -> Option<HostBucket<'a>> {
    let bare = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let settings = &protocol.server.settings().server;
    let is_ours = |host: &str| {
        let is_own = |own: &str| own.eq_ignore_ascii_case(host);
        is_own("localhost")
            || is_own(&settings.host.to_string())
            || settings.public_url.as_ref().is_some_and(|url| is_own(url.host()))
    };
    let is_address = bare.parse::<IpAddr>().is_ok();
    let (first, rest) = bare.split_once('.').filter(|_| !is_address && !is_ours(bare))?;
    let spaces = protocol.server.spaces().list_all();
    // Host names have no case.
    let space =
        spaces.iter().map(svcfs_knowledge::spaces::SpaceStatus::name).find(|name| name.eq_ignore_ascii_case(first));
    // Below a name of ours nobody would look for a bucket in the path: what has no such bucket must not be written into another.
    let is_below_ours = is_ours(rest);
    let bucket = space.map(str::to_owned).or_else(|| is_below_ours.then(|| first.to_owned()))?;
    Some(HostBucket { bucket, rest, is_below_ours })
}

/// Whether a request is about an object, and not about a bucket or none.
pub(crate) fn is_of_object(protocol: &S3Server, uri: &Uri, headers: &HeaderMap) -> bool {
    let path = uri.path().trim_start_matches('/');
    let key =
        if named(protocol, host_of(headers)).is_some() { Some(path) } else { path.split_once('/').map(|(_, key)| key) };
    key.is_some_and(|key| !key.is_empty())
}

fn host_of(headers: &HeaderMap) -> &str {
    headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
}

/// Refuses what may be meant for either of two spaces: one that the host names, below a name that nobody has said is ours, and one that the path
/// names, if whoever asks may enter that. Others learn nothing of it.
///
/// # Errors
/// `InvalidRequest`.
pub(crate) fn check(
    protocol: &S3Server,
    (uri, headers): (&Uri, &HeaderMap),
    may_enter: impl Fn(&str) -> bool,
) -> S3Result<()> {
    let Some(HostBucket { bucket, is_below_ours: false, .. }) = named(protocol, host_of(headers)) else {
        return Ok(());
    };
    let first = uri.path().trim_start_matches('/').split('/').next().unwrap_or_default();
    let first = percent_decode_str(first).decode_utf8_lossy();
    if may_enter(&first) && protocol.server.spaces().list_all().iter().any(|space| space.name() == first) {
        return Err(s3_error!(
            InvalidRequest,
            "the host may name the bucket `{bucket}`, and the path `{}`; say in `server.public_url` under which name this server is reached",
            first
        ));
    }
    Ok(())
}
