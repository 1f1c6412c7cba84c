//! Uploads in parts, from their beginning to their end.

use std::sync::Arc;
use std::time::Duration;

use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Fault, Kind, MAX_FILE_BYTES, Scope};
use svcfs_work::Lane;
use tokio_util::sync::CancellationToken;

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums, hex};
use crate::conditions::{ReadConditions, WriteConditions as Conditions};
use crate::context::{S3RequestContext, S3RequestError};
use crate::error::told;
use crate::key::ParsedKey;
use crate::multipart_checksum::MultipartChecksum;
use crate::normalize::VerifiedRequest;
use crate::object_metadata::{ObjectMetadata, metadata_of, tags_of};
use crate::operations::KeyEncoding;
use crate::part_lengths::PartLengths;
use crate::part_store::{CompletedUpload, LIFETIME, PendingUpload, StoredPart as Kept};
use crate::put_object::{SourceObject, begin as place_of, kept_headers, put_in_place, source};
use crate::received_body::{BodyContent, DeclaredBody, ReceivedBody, next, room_for};
use crate::staged_body::StagedBody;
use crate::staged_upload::{StagedUpload, check_way};
use crate::{S3Server, unsupported};

/// Parts of one upload, at most (S3's own limit).
pub(crate) const MAX_PARTS: i32 = 10_000;
/// How small a part may be that is not the last, in bytes (S3's own limit).
const LEAST: u64 = 5 << 20;
/// Bytes that are copied into a part at once.
const PIECE: usize = 1 << 20;
/// How often is looked for uploads that have taken too long.
const ROUND: Duration = Duration::from_secs(60 * 60);
fn unknown() -> S3Error {
    s3_error!(NoSuchUpload, "there is no such upload, or it was completed, aborted or over a week old")
}

/// What went wrong with a part, where its upload may have been aborted meanwhile.
fn of_part(fault: Fault) -> S3RequestError {
    if fault.kind() == Kind::NotFound { unknown().into() } else { fault.into() }
}

/// The upload of a request, if it is one of this key and within the caller's reach.
pub(crate) fn found(asked: &S3RequestContext, id: &str, key: &str) -> Result<PendingUpload, S3RequestError> {
    asked.caller.permissions.check_path(ParsedKey::parse(key)?.path())?;
    let upload = PendingUpload::find(asked.space.vfs.root(), id)?;
    upload.filter(|upload| upload.key == key && !upload.is_over()).ok_or_else(|| unknown().into())
}

/// `CreateMultipartUpload`
pub(crate) async fn create(
    protocol: &Arc<S3Server>,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "CreateMultipartUpload"))?;
    unsupported::refuse(&request)?;
    let S3Request { input, headers, .. } = request;
    let checksum = MultipartChecksum::of(input.checksum_algorithm.as_ref(), input.checksum_type.as_ref())?;
    let (checksum_algorithm, checksum_type) = MultipartChecksum::named(checksum.as_ref());
    let key = ParsedKey::parse(&input.key).map_err(|fault| told(&fault))?;
    if matches!(key, ParsedKey::Folder(_)) {
        return Err(s3_error!(InvalidArgument, "a key that ends with `/` is a folder, which has no content"));
    }
    let record = ObjectMetadata {
        headers: kept_headers(&headers, key.path()),
        metadata: metadata_of(input.metadata.clone()),
        tags: tags_of(input.tagging.as_deref())?,
        ..ObjectMetadata::default()
    };
    record.check()?;
    let text = input.key.clone();
    let upload = asked
        .run("CreateMultipartUpload", move |asked| {
            asked.caller.permissions.check_path(key.path())?;
            check_way(asked, key.path())?;
            let actor = asked.caller.actor().to_string();
            Ok(PendingUpload::begin(asked.space.vfs.root(), &text, &actor, record, checksum)?)
        })
        .await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload.id),
        abort_date: Some(Timestamp::from(upload.began + LIFETIME)),
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
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "UploadPart"))?;
    let S3Request { input, headers, trailing_headers, extensions, .. } = request;
    let trailing_headers = VerifiedRequest::trailing(trailing_headers, &extensions);
    check_number(input.part_number)?;
    let number = input.part_number;
    let (upload, writing) = asked
        .run("UploadPart", move |asked| {
            let upload = found(asked, &input.upload_id, &input.key)?;
            let writing = upload.part(asked.space.vfs.root(), number).map_err(of_part)?;
            Ok((upload, writing))
        })
        .await?;
    let length = (input.content_length, input.content_md5);
    let announced = DeclaredBody::of(&headers, length, upload.algorithm(), trailing_headers);
    let summing = Box::new(ContentHasher::new(announced.wanted));
    let mut staged = StagedBody::new(&asked, "UploadPart", (writing, summing));
    let (mut body, mut size) = (input.body, 0_u64);
    while let Some(piece) = next(&mut body).await? {
        size += piece.len() as u64;
        if announced.length.is_some_and(|announced| size > announced) {
            return Err(s3_error!(IncompleteBody, "the part has more bytes than were announced; it was not taken"));
        }
        staged.push(&piece).await?;
    }
    let (writing, md5, sums) = staged.finish().await?;
    announced.check(size, &md5, &sums)?;
    let kept = sums.clone();
    asked.run("UploadPart", move |_| writing.finish(number, size, md5, kept).map_err(of_part)).await?;
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

/// Which bytes of a source of this size a range names.
fn bytes_of(range: Option<Range>, size: u64) -> S3Result<std::ops::Range<u64>> {
    let beyond = || s3_error!(InvalidRange, "the source has only {size} bytes");
    // Less than was asked for is no copy of it.
    if matches!(range, Some(Range::Int { last: Some(last), .. }) if last >= size) {
        return Err(beyond());
    }
    range.map_or(Ok(0..size), |range| range.check(size)).map_err(|_| beyond())
}

/// `UploadPartCopy`
pub(crate) async fn part_copy(
    protocol: &Arc<S3Server>,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "UploadPartCopy"))?;
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
    let range = range.ok_or_else(|| s3_error!(InvalidArgument, "write the range to copy like `bytes=0-1023`"))?;
    let SourceObject { object, version, .. } = source(protocol, &request, &input.copy_source, conditions).await?;
    let range = bytes_of(range, object.size)?;
    let UploadPartCopyInput { upload_id, key, part_number, .. } = request.input;
    let (md5, sums) = asked
        .run_over(range.end - range.start, "UploadPartCopy", move |asked| {
            let root = asked.space.vfs.root();
            let upload = found(asked, &upload_id, &key)?;
            let mut summing =
                ContentHasher::new(RequestedChecksums::either(upload.algorithm(), &ContentChecksums::default()));
            let mut writing = upload.part(root, part_number).map_err(of_part)?;
            let mut at = range.start;
            while at < range.end {
                let most = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(PIECE);
                let piece = object.content.read(at, most)?;
                if piece.is_empty() {
                    return Err(Fault::unavailable("the file became shorter while it was copied; try again").into());
                }
                summing.update(&piece);
                writing.append(&piece)?;
                at += piece.len() as u64;
            }
            let (md5, sums) = summing.finish();
            writing.finish(part_number, range.end - range.start, md5, sums.clone()).map_err(of_part)?;
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

/// The parts that a client names, as they are here.
fn named(named: Option<CompletedMultipartUpload>, kept: &[Kept]) -> S3Result<Vec<Kept>> {
    let named = named.and_then(|named| named.parts).unwrap_or_default();
    if named.is_empty() {
        return Err(s3_error!(MalformedXML, "an upload is completed with a list of its parts"));
    }
    let mut parts: Vec<Kept> = Vec::with_capacity(named.len());
    for part in named {
        let number = part.part_number.unwrap_or_default();
        if parts.last().is_some_and(|last| last.number >= number) {
            return Err(s3_error!(InvalidPartOrder, "parts are listed by their numbers, each once"));
        }
        let found = kept.iter().find(|kept| kept.number == number);
        let is_same = |kept: &&Kept| part.e_tag.as_ref().is_none_or(|tag| tag.value() == hex(&kept.md5));
        let Some(found) = found.filter(is_same) else {
            return Err(s3_error!(InvalidPart, "part {number} did not come, or is not the one that came last"));
        };
        let announced = ContentChecksums {
            crc32: part.checksum_crc32,
            crc32c: part.checksum_crc32c,
            sha1: part.checksum_sha1,
            sha256: part.checksum_sha256,
            crc64nvme: part.checksum_crc64nvme,
        };
        announced.check(&found.sums)?;
        parts.push(found.clone());
    }
    let all_but_last = parts.split_last().map_or(&[][..], |(_, others)| others);
    match all_but_last.iter().find(|part| part.size < LEAST) {
        Some(part) => Err(s3_error!(
            EntityTooSmall,
            "part {} has {} bytes; all but the last have at least {LEAST}",
            part.number,
            part.size
        )),
        None => Ok(parts),
    }
}

/// Puts parts together, and compares the checksums of the whole with those that were announced.
fn joined(
    asked: &S3RequestContext,
    upload: &PendingUpload,
    (parts, announced): (&[Kept], &ContentChecksums),
    place: &svcfs_base::TreePath,
) -> Result<ReceivedBody, S3RequestError> {
    let root = asked.space.vfs.root();
    let checksum = upload.checksum.as_ref();
    let mut summing = ContentHasher::new(MultipartChecksum::wanted(checksum, announced));
    let length: u64 = parts.iter().map(|part| part.size).sum();
    let content = if length <= MAX_FILE_BYTES as u64 {
        let mut here = Vec::with_capacity(length as usize);
        let mut take = |piece: &[u8]| {
            summing.update_others(piece);
            here.extend_from_slice(piece);
            Ok(())
        };
        parts.iter().try_for_each(|part| upload.read(root, part, &mut take))?;
        BodyContent::Here(here.into())
    } else {
        let mut beside = StagedUpload::new(asked, place)?;
        let mut take = |piece: &[u8]| {
            summing.update_others(piece);
            beside.append(piece)
        };
        parts.iter().try_for_each(|part| upload.read(root, part, &mut take))?;
        BodyContent::Beside(Box::new(beside))
    };
    let sums = MultipartChecksum::of_parts(checksum, parts)?.unwrap_or_else(|| summing.finish().1);
    announced.check(&sums)?;
    let mut md5s = Md5::new();
    parts.iter().for_each(|part| md5s.update(&part.md5));
    Ok(ReceivedBody { content, md5: md5s.finalize(), sums, room: None })
}

/// `CompleteMultipartUpload`
pub(crate) async fn complete(
    protocol: &Arc<S3Server>,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "CompleteMultipartUpload"))?;
    let input = request.input;
    let key = ParsedKey::parse(&input.key).map_err(|fault| told(&fault))?;
    let conditions = Conditions { if_match: input.if_match, if_none_match: input.if_none_match };
    let announced = ContentChecksums {
        crc32: input.checksum_crc32,
        crc32c: input.checksum_crc32c,
        sha1: input.checksum_sha1,
        sha256: input.checksum_sha256,
        crc64nvme: input.checksum_crc64nvme,
    };
    let (id, text) = (input.upload_id, input.key.clone());
    let held = protocol.completing.hold(&id).await;
    let begun = asked
        .run("CompleteMultipartUpload", move |asked| {
            if let Some(completed) = told_again(asked, &id, &text, input.multipart_upload.as_ref())? {
                return Ok(Err(completed));
            }
            let upload = found(asked, &id, &text)?;
            let parts = named(input.multipart_upload, &upload.parts(asked.space.vfs.root())?)?;
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
    let (upload, parts) = match begun {
        Ok(begun) => begun,
        Err(CompletedUpload { etag, version, sums, .. }) => {
            return Ok(S3Response::new(told_of(output, etag, version, sums)));
        }
    };
    let kind = MultipartChecksum::named(upload.checksum.as_ref()).1;
    if let Some(asked) = input.checksum_type.filter(|asked| kind.as_ref().is_some_and(|kind| kind != asked)) {
        return Err(s3_error!(InvalidRequest, "the checksum of this upload is not of the kind `{}`", asked.as_str()));
    }
    let length: u64 = parts.iter().map(|part| part.size).sum();
    if let Some(announced) = input.mpu_object_size.filter(|announced| u64::try_from(*announced) != Ok(length)) {
        return Err(s3_error!(
            InvalidRequest,
            "the parts have {length} bytes together, and {announced} were announced"
        ));
    }
    let (expected, place) = place_of(&asked, &key, conditions).await?;
    // Of what becomes a large file only a piece is in memory.
    let room = if length <= MAX_FILE_BYTES as u64 { Some(room_for(&asked, length).await?) } else { None };
    let made_of: Vec<_> = parts.iter().map(|part| (part.number, part.md5)).collect();
    let put = move |asked: &S3RequestContext| {
        let gathered = joined(asked, &upload, (&parts, &announced), &place)?;
        let (etag, sums) = (format!("{}-{}", hex(&gathered.md5), made_of.len()), gathered.sums.clone());
        let record = upload.record.clone().in_parts(etag, PartLengths::of(parts.iter().map(|part| part.size)));
        let written = put_in_place(asked, &key, (place, expected), ReceivedBody { room, ..gathered }, record)?;
        // By the same work, which goes on when its client is gone: who asks again then is told so, and nobody's save is written over.
        upload.completed(asked.space.vfs.root(), &made_of, (&written.etag, written.version.as_deref(), &sums))?;
        drop(held);
        Ok((written, sums))
    };
    let (written, sums) = asked.run_over(length, "CompleteMultipartUpload", put).await?;
    Ok(S3Response::new(told_of(output, written.etag, written.version, sums)))
}

/// What became of an upload, as its client is told.
fn told_of(
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

/// What a client is told once more that completes what it has completed, with the same parts: it may not have heard.
fn told_again(
    asked: &S3RequestContext,
    id: &str,
    key: &str,
    named: Option<&CompletedMultipartUpload>,
) -> Result<Option<CompletedUpload>, S3RequestError> {
    asked.caller.permissions.check_path(ParsedKey::parse(key)?.path())?;
    let completed = CompletedUpload::find(asked.space.vfs.root(), id)?.filter(|completed| completed.key == key);
    let named = named.and_then(|named| named.parts.as_deref()).unwrap_or_default();
    let is_same = |(part, (number, md5)): (&CompletedPart, &(i32, [u8; 16]))| {
        part.part_number == Some(*number) && part.e_tag.as_ref().is_none_or(|tag| tag.value() == hex(md5))
    };
    Ok(completed
        .filter(|completed| named.len() == completed.parts.len() && named.iter().zip(&completed.parts).all(is_same)))
}

/// `AbortMultipartUpload`
pub(crate) async fn abort(
    protocol: &Arc<S3Server>,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let asked = protocol.asked(&request, &request.input.bucket, (Scope::Write, "AbortMultipartUpload"))?;
    let AbortMultipartUploadInput { upload_id, key, .. } = request.input;
    // What is being completed is completed first, and then there is nothing to abort.
    let _held = protocol.completing.hold(&upload_id).await;
    asked
        .run("AbortMultipartUpload", move |asked| Ok(found(asked, &upload_id, &key)?.remove(asked.space.vfs.root())?))
        .await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

/// Removes uploads that have taken too long, every hour until the server stops.
pub(crate) async fn expire(protocol: Arc<S3Server>, stop: CancellationToken) {
    let mut round = tokio::time::interval(ROUND);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = round.tick() => {}
        }
        let spaces = protocol.server.spaces().list_open();
        let outcome = svcfs_listener::run_blocking(&protocol.lanes, Lane::Slow, move || {
            for space in spaces {
                for key in PendingUpload::expire(space.vfs.root())? {
                    tracing::info!(space = space.name, key, "an upload that took over a week was removed");
                }
            }
            Ok(())
        });
        if let Err(fault) = outcome.await {
            tracing::warn!(error = ?fault, "what is left of uploads could not be removed");
        }
    }
}
