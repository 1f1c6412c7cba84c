//! What clients may ask for an object, and nobody here would do: refused, where it would make somebody believe that an object is protected.

use s3s::{S3Request, S3Result, s3_error};

/// Values that ask for nothing.
const HARMLESS: [(&str, &[&str]); 4] = [
    ("x-amz-acl", &["private", "bucket-owner-full-control"]),
    ("x-amz-object-lock-legal-hold", &["OFF"]),
    ("x-amz-server-side-encryption-bucket-key-enabled", &["false"]),
    ("x-amz-storage-class", &["STANDARD"]),
];
/// How the names begin of what protects, or says who may do what.
const ASKING: [&str; 5] =
    ["x-amz-acl", "x-amz-grant-", "x-amz-object-lock-", "x-amz-server-side-encryption", "x-amz-storage-class"];

/// Refuses a request that asks for locks, encryption, rights of others or another storage, in its headers or, as who signs a URL may have it, there.
///
/// # Errors
/// `NotImplemented`.
pub(crate) fn refuse<T>(request: &S3Request<T>) -> S3Result<()> {
    let headers = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or("?").to_owned()));
    let query = form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes());
    let query = query.map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()));
    for (name, value) in headers.chain(query) {
        let is_harmless = |(harmless, values): &(&str, &[&str])| *harmless == name && values.contains(&value.as_str());
        let is_asking = ASKING.iter().any(|begin| name.starts_with(begin));
        if is_asking && !value.is_empty() && !HARMLESS.iter().any(is_harmless) {
            return Err(s3_error!(
                NotImplemented,
                "`{name}: {}` is not there: objects are neither locked nor encrypted here, and keys say who may do what",
                value.escape_default()
            ));
        }
    }
    Ok(())
}
