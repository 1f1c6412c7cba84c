//! Lists multipart uploads in progress, and their parts.

use std::sync::Arc;

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use svcfs_base::Scope;

use crate::S3Server;
use crate::checksums::hex;
use crate::key::ParsedKey;
use crate::multipart_checksum::MultipartChecksum;
use crate::multipart_upload::{find_upload, is_accessible};
use crate::operations::KeyEncoding;
use crate::part_store::{PendingUpload, StoredPart, UPLOAD_LIFETIME};

/// Uploads or parts of one page.
const MAX_PAGE_ITEMS: usize = 1000;

/// The page size of a request, limited to [`MAX_PAGE_ITEMS`].
fn page_limit(requested: Option<i32>, name: &str) -> S3Result<usize> {
    match requested.map(usize::try_from) {
        None => Ok(MAX_PAGE_ITEMS),
        Some(Ok(requested)) => Ok(requested.min(MAX_PAGE_ITEMS)),
        Some(Err(_)) => Err(s3_error!(InvalidArgument, "`{name}` must not be negative")),
    }
}

/// `ListParts`
pub(crate) async fn list_parts(
    protocol: &Arc<S3Server>,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "ListParts"))?;
    let input = request.input;
    let after = input.part_number_marker.unwrap_or_default();
    let limit = page_limit(input.max_parts, "max-parts")?;
    let (id, key) = (input.upload_id.clone(), input.key.clone());
    let (upload, mut parts) = context
        .run("ListParts", move |context| {
            let upload = find_upload(context, &id, &key)?;
            let parts = upload.parts(context.space.vfs.root())?;
            Ok((upload, parts))
        })
        .await?;
    parts.retain(|part| part.number > after);
    // A page size of zero must not lead to endless paging.
    let is_truncated = limit > 0 && parts.len() > limit;
    parts.truncate(limit);
    let next = parts.last().map(|part| part.number).filter(|_| is_truncated);
    let to_item = |part: StoredPart| Part {
        e_tag: Some(ETag::Strong(hex(&part.md5))),
        last_modified: Some(Timestamp::from(part.modified)),
        part_number: Some(part.number),
        size: i64::try_from(part.size).ok(),
        checksum_crc32: part.sums.crc32,
        checksum_crc32c: part.sums.crc32c,
        checksum_sha1: part.sums.sha1,
        checksum_sha256: part.sums.sha256,
        checksum_crc64nvme: part.sums.crc64nvme,
    };
    let (checksum_algorithm, checksum_type) = MultipartChecksum::response_fields(upload.checksum.as_ref());
    Ok(S3Response::new(ListPartsOutput {
        checksum_algorithm,
        checksum_type,
        abort_date: Some(Timestamp::from(upload.began + UPLOAD_LIFETIME)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        is_truncated: Some(is_truncated),
        max_parts: Some(limit as i32),
        next_part_number_marker: next,
        part_number_marker: input.part_number_marker,
        parts: Some(parts.into_iter().map(to_item).collect()),
        initiator: Some(Initiator { display_name: Some(upload.actor.clone()), id: Some(upload.actor) }),
        ..ListPartsOutput::default()
    }))
}

/// `ListMultipartUploads`
pub(crate) async fn list(
    protocol: &Arc<S3Server>,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "ListMultipartUploads"))?;
    let input = request.input;
    if input.delimiter.as_ref().is_some_and(|delimiter| !delimiter.is_empty()) {
        return Err(s3_error!(NotImplemented, "a delimiter is not supported for uploads"));
    }
    let encoding = KeyEncoding::of(input.encoding_type.as_ref())?;
    let limit = page_limit(input.max_uploads, "max-uploads")?;
    let mut all =
        context.run("ListMultipartUploads", |context| Ok(PendingUpload::all(context.space.vfs.root())?)).await?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let marker = (input.key_marker.clone().unwrap_or_default(), input.upload_id_marker.clone());
    let is_after_marker = |upload: &PendingUpload| match &marker {
        (key, Some(id)) => (&upload.key, &upload.id) > (key, id),
        (key, None) => upload.key > *key,
    };
    all.retain(|upload| {
        let is_visible = ParsedKey::parse(&upload.key).is_ok_and(|key| context.caller.permissions.covers(key.path()));
        let is_visible = is_visible && is_accessible(&context, upload);
        is_visible && !upload.is_expired() && upload.key.starts_with(&prefix) && is_after_marker(upload)
    });
    let is_truncated = limit > 0 && all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| is_truncated).map(|upload| (upload.key.clone(), upload.id.clone()));
    let (next_key, next_id) = next.unzip();
    let to_item = |upload: PendingUpload| {
        let (checksum_algorithm, checksum_type) = MultipartChecksum::response_fields(upload.checksum.as_ref());
        MultipartUpload {
            checksum_algorithm,
            checksum_type,
            initiated: Some(Timestamp::from(upload.began)),
            initiator: Some(Initiator { display_name: Some(upload.actor.clone()), id: Some(upload.actor) }),
            key: Some(encoding.text(&upload.key)),
            upload_id: Some(upload.id),
            ..MultipartUpload::default()
        }
    };
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        prefix: input.prefix.map(|text| encoding.text(&text)),
        encoding_type: input.encoding_type,
        is_truncated: Some(is_truncated),
        key_marker: input.key_marker.map(|text| encoding.text(&text)),
        upload_id_marker: input.upload_id_marker,
        max_uploads: Some(limit as i32),
        next_key_marker: next_key.map(|text| encoding.text(&text)),
        next_upload_id_marker: next_id,
        uploads: Some(all.into_iter().map(to_item).collect()),
        ..ListMultipartUploadsOutput::default()
    }))
}
