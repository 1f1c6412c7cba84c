//! The header parameters of operations.

use serde_json::{Value, json};

use crate::routes::SPACE;
use crate::schema_patterns;

/// Header parameters, by their key under `components`.
pub(super) const HEADERS: [(&str, &str, &str); 9] = [
    ("Space", SPACE, "Name of the space; takes precedence over the path. 404 when there is none of that name"),
    ("Actor", "X-Actor", "Author of the change and of its commit. `anonymous` when absent"),
    ("Provenance", "X-Provenance", "Where the content comes from, as `type:id`"),
    (
        "ClaimFence",
        "X-Claim-Fence",
        "Number `fence` of your claim on the page; 409 when it is not the newest, or the lease has ended",
    ),
    (
        "IdempotencyKey",
        "Idempotency-Key",
        "Id of the request, such as a UUID: a repeat within 24 h is not done again and gets the same answer, with \
         `Idempotency-Replayed`; 422 when the id was used for another request",
    ),
    (
        "IfMatch",
        "If-Match",
        "ETag the page was read with, or `*`; 409 when the page has changed since; 412 beside `If-None-Match`",
    ),
    (
        "IfNoneMatch",
        "If-None-Match",
        "`*`: create only; 412 when the path exists. A value that is not an ETag is ignored",
    ),
    ("IfNoneMatchRead", "If-None-Match", "ETag of a cached copy; 304 when it is still current"),
    (
        "IfModifiedSince",
        "If-Modified-Since",
        "Date of a cached copy, for callers without its ETag; 304 when it is still current",
    ),
];

/// One of [`HEADERS`] as a component.
pub(super) fn header((key, name, description): (&str, &str, &str)) -> (String, Value) {
    let schema = match key {
        "IfMatch" => json!({ "type": "string", "pattern": schema_patterns::IF_MATCH }),
        "IfNoneMatch" => json!({ "type": "string", "examples": ["*"] }),
        "IdempotencyKey" => json!({ "type": "string", "pattern": "^[!-~]{1,128}$" }),
        "ClaimFence" => json!({ "type": "string", "pattern": "^[0-9]{1,18}$" }),
        _ => json!({ "type": "string" }),
    };
    (key.to_owned(), json!({ "name": name, "in": "header", "description": description, "schema": schema }))
}
