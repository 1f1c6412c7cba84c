//! What clients may ask for an object, and nobody here would do: refused, where it would make somebody believe that an object is protected.

use http::Method;
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

/// What s3s finds operations by in a query, or operations find what they are asked in, where it may be empty.
const SUBRESOURCES: &[&str] = &[
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "delete",
    "encryption",
    "id",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "list-type",
    "location",
    "logging",
    "metadataTable",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "select-type",
    "session",
    "tagging",
    "torrent",
    "uploads",
    "versioning",
    "versions",
    "website",
];
/// What else may be empty.
const EMPTY: &[&str] = &[
    "continuation-token",
    "delimiter",
    "encoding-type",
    "fetch-owner",
    "key-marker",
    "marker",
    "max-keys",
    "max-parts",
    "max-uploads",
    "part-number-marker",
    "prefix",
    "start-after",
    "upload-id-marker",
    "uploadId",
    "version-id-marker",
    "versionId",
    "partNumber",
    "x-id",
];

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

/// Refuses an operation that s3s does not know: it takes it for the one without such a name in its query, and what renames an object for what empties
/// it. Whoever reads an object may say anything more.
///
/// # Errors
/// `NotImplemented`.
pub(crate) fn check(method: &Method, query: Option<&str>, is_of_object: bool) -> S3Result<()> {
    if is_of_object && matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_known = |name: &str| {
        // Of objects, `encryption` is another operation.
        (SUBRESOURCES.contains(&name) && !(is_of_object && name == "encryption"))
            || EMPTY.contains(&name)
            || name.is_empty()
            || ["x-amz-", "response-"].iter().any(|begin| name.to_ascii_lowercase().starts_with(begin))
    };
    let mut query = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    match query.find(|(name, value)| value.is_empty() && !is_known(name)) {
        Some((name, _)) => Err(s3_error!(NotImplemented, "`?{}` is not there", name.escape_default())),
        None => Ok(()),
    }
}
