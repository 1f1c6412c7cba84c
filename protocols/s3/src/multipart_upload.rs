//! Multipart uploads, from start to end.

use std::sync::Arc;
use std::time::Duration;

use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES, Scope};
use svcfs_work::Lane;
use tokio_util::sync::CancellationToken;

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums, hex};
use crate::conditions::{ReadConditions, WriteConditions};
use crate::context::{S3RequestContext, S3RequestError};
use crate::error::to_s3_error;
use crate::key::ParsedKey;
use crate::multipart_checksum::MultipartChecksum;
use crate::normalize::VerifiedRequest;
use crate::object_metadata::{ObjectMetadata, metadata_of, tags_of};
use crate::operations::KeyEncoding;
use crate::part_lengths::PartLengths;
use crate::part_store::{CompletedUpload, PendingUpload, StoredPart, UPLOAD_LIFETIME};
use crate::put_object::{SourceObject, prepare_write, source, store_object, stored_headers};
use crate::received_body::{BodyContent, DeclaredBody, ReceivedBody, next, reserve_memory};
use crate::staged_body::StagedBody;
use crate::staged_upload::{StagedUpload, check_parents};
use crate::{S3Server, unsupported};

/// Parts of one upload (S3's own limit).
pub(crate) const MAX_PARTS: i32 = 10_000;
/// Smallest size of a part that is not the last (S3's own limit).
const MIN_PART_BYTES: u64 = 5 << 20;
/// Bytes of one piece when a part is copied.
const COPY_BYTES: usize = 1 << 20;
/// How often expired uploads are removed.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60 * 60);
fn no_such_upload() -> S3Error {
    s3_error!(NoSuchUpload, "no such upload: it was completed, aborted, or is over a week old")
}

/// Converts a fault of a part; its upload may have been aborted.
fn part_fault(fault: Fault) -> S3RequestError {
    if fault.kind() == Kind::NotFound { no_such_upload().into() } else { fault.into() }
}

/// The upload of a request, if it belongs to this key and the caller may write there. Errors:
/// `NoSuchUpload`.
pub(crate) fn find_upload(context: &S3RequestContext, id: &str, key: &str) -> Result<PendingUpload, S3RequestError> {
    context.caller.permissions.check_path(ParsedKey::parse(key)?.path())?;
    let upload = PendingUpload::find(context.space.vfs.root(), id)?;
    let is_found = |upload: &PendingUpload| upload.key == key && !upload.is_expired() && is_accessible(context, upload);
    upload.filter(is_found).ok_or_else(|| no_such_upload().into())
}

/// Whether the caller may see and change an upload: a key that only proposes changes has its own.
pub(crate) fn is_accessible(context: &S3RequestContext, upload: &PendingUpload) -> bool {
    !context.is_proposing() || upload.actor == context.caller.actor().as_str()
}

/// `CreateMultipartUpload`
pub(crate) async fn create(
    protocol: &Arc<S3Server>,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "CreateMultipartUpload"))?;
    unsupported::refuse(&request)?;
    let S3Request { input, headers, .. } = request;
    let checksum = MultipartChecksum::of(input.checksum_algorithm.as_ref(), input.checksum_type.as_ref())?;
    let (checksum_algorithm, checksum_type) = MultipartChecksum::response_fields(checksum.as_ref());
    let key = ParsedKey::parse(&input.key).map_err(|fault| to_s3_error(&fault))?;
    if matches!(key, ParsedKey::Folder(_)) {
        return Err(s3_error!(InvalidArgument, "a key that ends with `/` is a folder and cannot have content"));
    }
    let record = ObjectMetadata {
        headers: stored_headers(&headers, key.path()),
        metadata: metadata_of(input.metadata.clone()),
        tags: tags_of(input.tagging.as_deref())?,
        ..ObjectMetadata::default()
    };
    record.check()?;
    let text = input.key.clone();
    let upload = context
        .run("CreateMultipartUpload", move |context| {
            context.caller.permissions.check_path(key.path())?;
            check_parents(context, key.path())?;
            let actor = context.caller.actor().to_string();
            Ok(PendingUpload::create(context.space.vfs.root(), &text, &actor, record, checksum)?)
        })
        .await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload.id),
        abort_date: Some(Timestamp::from(upload.began + UPLOAD_LIFETIME)),
        checksum_algorithm,
        checksum_type,
        ..CreateMultipartUploadOutput::default()
    }))
}

fn check_number(number: i32) -> S3Result<()> {
    match number {
        1..=MAX_PARTS => Ok(()),
        _ => Err(s3_error!(InvalidArgument, "parts are numbered from 1 to {MAX_PARTS}")),
    }
}

/// `UploadPart`
pub(crate) async fn part(
    protocol: &Arc<S3Server>,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "UploadPart"))?;
    let S3Request { input, headers, trailing_headers, extensions, .. } = request;
    let trailing_headers = VerifiedRequest::trailing(trailing_headers, &extensions);
    check_number(input.part_number)?;
    let number = input.part_number;
    let (upload, writer) = context
        .run("UploadPart", move |context| {
            let upload = find_upload(context, &input.upload_id, &input.key)?;
            let writer = upload.start_part(context.space.vfs.root(), number).map_err(part_fault)?;
            Ok((upload, writer))
        })
        .await?;
    let length = (input.content_length, input.content_md5);
    let declared = DeclaredBody::of(&headers, length, upload.algorithm(), trailing_headers);
    let hasher = Box::new(ContentHasher::new(declared.wanted));
    let mut staged = StagedBody::new(&context, "UploadPart", (writer, hasher));
    let (mut body, mut size) = (input.body, 0_u64);
    while let Some(piece) = next(&mut body).await? {
        size += piece.len() as u64;
        if declared.length.is_some_and(|declared| size > declared) {
            return Err(s3_error!(IncompleteBody, "the part has more bytes than declared; it was not stored"));
        }
        staged.push(&piece).await?;
    }
    let (writer, md5, sums) = staged.finish().await?;
    declared.check(size, &md5, &sums)?;
    let part_sums = sums.clone();
    context.run("UploadPart", move |_| writer.finish(number, size, md5, part_sums).map_err(part_fault)).await?;
    Ok(S3Response::new(UploadPartOutput {
        e_tag: Some(ETag::Strong(hex(&md5))),
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_crc64nvme: sums.crc64nvme,
        ..UploadPartOutput::default()
    }))
}

/// The range of a copy source.
fn source_range(range: Option<Range>, size: u64) -> S3Result<std::ops::Range<u64>> {
    let out_of_range = || s3_error!(InvalidRange, "the source has only {size} bytes");
    // S3 refuses a range that exceeds the source instead of clipping it.
    if matches!(range, Some(Range::Int { last: Some(last), .. }) if last >= size) {
        return Err(out_of_range());
    }
    range.map_or(Ok(0..size), |range| range.check(size)).map_err(|_| out_of_range())
}

/// `UploadPartCopy`
pub(crate) async fn part_copy(
    protocol: &Arc<S3Server>,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "UploadPartCopy"))?;
    let input = &request.input;
    check_number(input.part_number)?;
    let conditions = ReadConditions {
        if_match: input.copy_source_if_match.clone(),
        if_none_match: input.copy_source_if_none_match.clone(),
        if_modified_since: input.copy_source_if_modified_since.clone(),
        if_unmodified_since: input.copy_source_if_unmodified_since.clone(),
    };
    let range = input.copy_source_range.as_deref().map(Range::parse).transpose();
    let range = range.ok().filter(|range| !matches!(range, Some(Range::Suffix { .. })));
    let range =
        range.ok_or_else(|| s3_error!(InvalidArgument, "the range to copy must have the form `bytes=0-1023`"))?;
    let SourceObject { object, version, .. } = source(protocol, &request, &input.copy_source, conditions).await?;
    let range = source_range(range, object.size)?;
    let UploadPartCopyInput { upload_id, key, part_number, .. } = request.input;
    let (md5, sums) = context
        .run_over(range.end - range.start, "UploadPartCopy", move |context| {
            let root = context.space.vfs.root();
            let upload = find_upload(context, &upload_id, &key)?;
            let mut hasher =
                ContentHasher::new(RequestedChecksums::either(upload.algorithm(), &ContentChecksums::default()));
            let mut writer = upload.start_part(root, part_number).map_err(part_fault)?;
            let mut at = range.start;
            while at < range.end {
                let length = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(COPY_BYTES);
                let piece = object.content.read(at, length)?;
                if piece.is_empty() {
                    return Err(Fault::unavailable("the file was truncated while it was copied; try again").into());
                }
                hasher.update(&piece);
                writer.append(&piece)?;
                at += piece.len() as u64;
            }
            let (md5, sums) = hasher.finish();
            writer.finish(part_number, range.end - range.start, md5, sums.clone()).map_err(part_fault)?;
            Ok((md5, sums))
        })
        .await?;
    let result = CopyPartResult {
        e_tag: Some(ETag::Strong(hex(&md5))),
        last_modified: Some(Timestamp::from(std::time::SystemTime::now())),
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_crc64nvme: sums.crc64nvme,
    };
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(result),
        copy_source_version_id: version,
        ..UploadPartCopyOutput::default()
    }))
}

/// Checks the list of parts that a client sends against the stored ones.
fn check_parts(listed: Option<CompletedMultipartUpload>, stored: &[StoredPart]) -> S3Result<Vec<StoredPart>> {
    let listed = listed.and_then(|listed| listed.parts).unwrap_or_default();
    if listed.is_empty() {
        return Err(s3_error!(MalformedXML, "the request must list the parts of the upload"));
    }
    let mut parts: Vec<StoredPart> = Vec::with_capacity(listed.len());
    for part in listed {
        let number = part.part_number.unwrap_or_default();
        if parts.last().is_some_and(|last| last.number >= number) {
            return Err(s3_error!(InvalidPartOrder, "parts must be listed in ascending order, each once"));
        }
        let existing = stored.iter().find(|part| part.number == number);
        let is_same = |stored: &&StoredPart| part.e_tag.as_ref().is_none_or(|tag| tag.value() == hex(&stored.md5));
        let Some(existing) = existing.filter(is_same) else {
            return Err(s3_error!(InvalidPart, "part {number} was not uploaded, or its ETag differs"));
        };
        let declared = ContentChecksums {
            crc32: part.checksum_crc32,
            crc32c: part.checksum_crc32c,
            sha1: part.checksum_sha1,
            sha256: part.checksum_sha256,
            crc64nvme: part.checksum_crc64nvme,
        };
        declared.check(&existing.sums)?;
        parts.push(existing.clone());
    }
    let all_but_last = parts.split_last().map_or(&[][..], |(_, rest)| rest);
    match all_but_last.iter().find(|part| part.size < MIN_PART_BYTES) {
        Some(part) => Err(s3_error!(
            EntityTooSmall,
            "part {} has {} bytes; all but the last need at least {MIN_PART_BYTES}",
            part.number,
            part.size
        )),
        None => Ok(parts),
    }
}

/// Joins the parts, and checks the checksums of the result.
fn join_parts(
    context: &S3RequestContext,
    upload: &PendingUpload,
    (parts, declared): (&[StoredPart], &ContentChecksums),
    target: &svcfs_base::TreePath,
) -> Result<ReceivedBody, S3RequestError> {
    let root = context.space.vfs.root();
    let checksum = upload.checksum.as_ref();
    let mut hasher = ContentHasher::new(MultipartChecksum::to_compute(checksum, declared));
    let length: u64 = parts.iter().map(|part| part.size).sum();
    let content = if length <= MAX_FILE_BYTES as u64 {
        let mut content = Vec::with_capacity(length as usize);
        let mut consume = |piece: &[u8]| {
            hasher.update_without_md5(piece);
            content.extend_from_slice(piece);
            Ok(())
        };
        parts.iter().try_for_each(|part| upload.read(root, part, &mut consume))?;
        BodyContent::InMemory(content.into())
    } else {
        let mut staged = StagedUpload::new(context, target)?;
        let mut consume = |piece: &[u8]| {
            hasher.update_without_md5(piece);
            staged.append(piece)
        };
        parts.iter().try_for_each(|part| upload.read(root, part, &mut consume))?;
        BodyContent::Staged(Box::new(staged))
    };
    let sums = MultipartChecksum::composite(checksum, parts)?.unwrap_or_else(|| hasher.finish().1);
    declared.check(&sums)?;
    let mut md5s = Md5::new();
    parts.iter().for_each(|part| md5s.update(&part.md5));
    Ok(ReceivedBody { content, md5: md5s.finalize(), sums, memory: None })
}

/// `CompleteMultipartUpload`
pub(crate) async fn complete(
    protocol: &Arc<S3Server>,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "CompleteMultipartUpload"))?;
    let input = request.input;
    let key = ParsedKey::parse(&input.key).map_err(|fault| to_s3_error(&fault))?;
    let conditions = WriteConditions { if_match: input.if_match, if_none_match: input.if_none_match };
    let declared = ContentChecksums {
        crc32: input.checksum_crc32,
        crc32c: input.checksum_crc32c,
        sha1: input.checksum_sha1,
        sha256: input.checksum_sha256,
        crc64nvme: input.checksum_crc64nvme,
    };
    let (id, text) = (input.upload_id, input.key.clone());
    let guard = protocol.completions.lock(&id).await;
    let lookup = context
        .run("CompleteMultipartUpload", move |context| {
            if let Some(completed) = find_completed(context, &id, &text, input.multipart_upload.as_ref())? {
                return Ok(Err(completed));
            }
            let upload = find_upload(context, &id, &text)?;
            let parts = check_parts(input.multipart_upload, &upload.parts(context.space.vfs.root())?)?;
            Ok(Ok((upload, parts)))
        })
        .await?;
    let location = Some(format!("/{}/{}", input.bucket, KeyEncoding::Url.text(&input.key)));
    let output = CompleteMultipartUploadOutput {
        location,
        bucket: Some(input.bucket),
        key: Some(input.key),
        ..CompleteMultipartUploadOutput::default()
    };
    let (upload, parts) = match lookup {
        Ok(upload) => upload,
        Err(CompletedUpload { etag, version, sums, .. }) => {
            return Ok(S3Response::new(with_result(output, etag, version, sums)));
        }
    };
    let kind = MultipartChecksum::response_fields(upload.checksum.as_ref()).1;
    if let Some(requested) = input.checksum_type.filter(|requested| kind.as_ref().is_some_and(|kind| kind != requested))
    {
        return Err(s3_error!(
            InvalidRequest,
            "the checksum of this upload is not of the kind `{}`",
            requested.as_str()
        ));
    }
    let length: u64 = parts.iter().map(|part| part.size).sum();
    if let Some(declared) = input.mpu_object_size.filter(|declared| u64::try_from(*declared) != Ok(length)) {
        return Err(s3_error!(InvalidRequest, "the parts have {length} bytes in total, but {declared} were declared"));
    }
    let (expected, target) = prepare_write(&context, &key, conditions).await?;
    // A large file is not in memory.
    let memory = if length <= MAX_FILE_BYTES as u64 { Some(reserve_memory(&context, length).await?) } else { None };
    let part_md5s: Vec<_> = parts.iter().map(|part| (part.number, part.md5)).collect();
    let put = move |context: &S3RequestContext| {
        let received = join_parts(context, &upload, (&parts, &declared), &target)?;
        let (etag, sums) = (format!("{}-{}", hex(&received.md5), part_md5s.len()), received.sums.clone());
        let record = upload.record.clone().with_parts(etag, PartLengths::of(parts.iter().map(|part| part.size)));
        let written = store_object(context, &key, (target, expected), ReceivedBody { memory, ..received }, record)?;
        // In the same job, which also completes when the client disconnects: a retry gets the same
        // answer and does not overwrite later writes.
        upload.complete(context.space.vfs.root(), &part_md5s, (&written.etag, written.version.as_deref(), &sums))?;
        drop(guard);
        Ok((written, sums))
    };
    let (written, sums) = context.run_over(length, "CompleteMultipartUpload", put).await?;
    Ok(S3Response::new(with_result(output, written.etag, written.version, sums)))
}

/// Adds the result to an answer.
fn with_result(
    output: CompleteMultipartUploadOutput,
    etag: String,
    version_id: Option<String>,
    sums: ContentChecksums,
) -> CompleteMultipartUploadOutput {
    CompleteMultipartUploadOutput {
        e_tag: Some(ETag::Strong(etag)),
        version_id,
        checksum_type: sums.kind(),
        checksum_crc32: sums.crc32,
        checksum_crc32c: sums.crc32c,
        checksum_sha1: sums.sha1,
        checksum_sha256: sums.sha256,
        checksum_crc64nvme: sums.crc64nvme,
        ..output
    }
}

/// The result of an earlier completion with the same parts: the client retries because it got no
/// answer.
fn find_completed(
    context: &S3RequestContext,
    id: &str,
    key: &str,
    listed: Option<&CompletedMultipartUpload>,
) -> Result<Option<CompletedUpload>, S3RequestError> {
    context.caller.permissions.check_path(ParsedKey::parse(key)?.path())?;
    let completed = CompletedUpload::find(context.space.vfs.root(), id)?.filter(|completed| completed.key == key);
    let listed = listed.and_then(|listed| listed.parts.as_deref()).unwrap_or_default();
    let is_same = |(part, (number, md5)): (&CompletedPart, &(i32, [u8; 16]))| {
        part.part_number == Some(*number) && part.e_tag.as_ref().is_none_or(|tag| tag.value() == hex(md5))
    };
    Ok(completed
        .filter(|completed| listed.len() == completed.parts.len() && listed.iter().zip(&completed.parts).all(is_same)))
}

/// `AbortMultipartUpload`
pub(crate) async fn abort(
    protocol: &Arc<S3Server>,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let context = protocol.authorize(&request, &request.input.bucket, (Scope::Propose, "AbortMultipartUpload"))?;
    let AbortMultipartUploadInput { upload_id, key, .. } = request.input;
    // A completion in progress ends first; then there is nothing to abort.
    let _guard = protocol.completions.lock(&upload_id).await;
    context
        .run("AbortMultipartUpload", move |context| {
            Ok(find_upload(context, &upload_id, &key)?.remove(context.space.vfs.root())?)
        })
        .await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

/// Removes expired uploads every hour until the server stops.
pub(crate) async fn expire(protocol: Arc<S3Server>, stop: CancellationToken) {
    let mut interval = tokio::time::interval(EXPIRY_INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = interval.tick() => {}
        }
        let spaces = protocol.server.spaces().list_open();
        let outcome = svcfs_listener::run_blocking(&protocol.lanes, Lane::Slow, move || {
            for space in spaces {
                for key in PendingUpload::expire(space.vfs.root())? {
                    tracing::info!(space = space.name, key, "removed an upload that is over a week old");
                }
            }
            Ok(())
        });
        if let Err(fault) = outcome.await {
            tracing::warn!(error = ?fault, "could not remove expired uploads");
        }
    }
}
