//! Refuses features that are not implemented, where ignoring them would make a client believe that
//! an object is protected.

use http::Method;
use s3s::{S3Request, S3Result, s3_error};

/// Values that request nothing.
const ACCEPTED_VALUES: [(&str, &[&str]); 4] = [
    ("x-amz-acl", &["private", "bucket-owner-full-control"]),
    ("x-amz-object-lock-legal-hold", &["OFF"]),
    ("x-amz-server-side-encryption-bucket-key-enabled", &["false"]),
    ("x-amz-storage-class", &["STANDARD"]),
];
/// Prefixes of headers that request protection or grant permissions.
const REFUSED_PREFIXES: [&str; 5] =
    ["x-amz-acl", "x-amz-grant-", "x-amz-object-lock-", "x-amz-server-side-encryption", "x-amz-storage-class"];

/// Query parameters that select an operation in s3s or are arguments of one; they may be empty.
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
/// Other parameters that may be empty.
const EMPTY_PARAMETERS: &[&str] = &[
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

/// Refuses a request for locks, encryption, grants or another storage class, in headers or in the
/// query of a presigned URL. Errors: `NotImplemented`.
pub(crate) fn refuse<T>(request: &S3Request<T>) -> S3Result<()> {
    let headers = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.to_str().unwrap_or("?").to_owned()));
    let query = form_urlencoded::parse(request.uri.query().unwrap_or_default().as_bytes());
    let query = query.map(|(name, value)| (name.to_ascii_lowercase(), value.into_owned()));
    for (name, value) in headers.chain(query) {
        let is_accepted = |(header, values): &(&str, &[&str])| *header == name && values.contains(&value.as_str());
        let is_refused = REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        if is_refused && !value.is_empty() && !ACCEPTED_VALUES.iter().any(is_accepted) {
            return Err(s3_error!(
                NotImplemented,
                "`{name}: {}` is not supported: no object locks or encryption, and access depends on keys only",
                value.escape_default()
            ));
        }
    }
    Ok(())
}

/// Refuses operations that s3s does not know: it ignores the parameter that selects them, so a
/// rename would empty the object. For reads of objects, unknown parameters are harmless. Errors:
/// `NotImplemented`.
pub(crate) fn check(method: &Method, query: Option<&str>, is_object_request: bool) -> S3Result<()> {
    if is_object_request && matches!(*method, Method::GET | Method::HEAD) {
        return Ok(());
    }
    let is_known = |name: &str| {
        // For an object, `encryption` selects another operation.
        (SUBRESOURCES.contains(&name) && !(is_object_request && name == "encryption"))
            || EMPTY_PARAMETERS.contains(&name)
            || name.is_empty()
            || ["x-amz-", "response-"].iter().any(|prefix| name.to_ascii_lowercase().starts_with(prefix))
    };
    let mut query = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    match query.find(|(name, value)| value.is_empty() && !is_known(name)) {
        Some((name, _)) => Err(s3_error!(NotImplemented, "`?{}` is not supported", name.escape_default())),
        None => Ok(()),
    }
}
