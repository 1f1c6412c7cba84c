//! Receives a body: in memory as long as it fits into a version, else into a staged file.

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders, s3_error};
use svcfs_base::{MAX_FILE_BYTES, TreePath};
use svcfs_listener::SpillBuffer;
use tokio::sync::OwnedSemaphorePermit;

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums, check_md5, trailing_names};
use crate::context::S3RequestContext;
use crate::error::refuse;
use crate::hashed_body;
use crate::request_handler::is_chunked;
use crate::staged_body::StagedBody;
use crate::staged_upload::StagedUpload;

/// The declarations of a request about its body.
pub(crate) struct DeclaredBody {
    pub(crate) length: Option<u64>,
    pub(crate) md5: Option<String>,
    pub(crate) sums: ContentChecksums,
    pub(crate) wanted: RequestedChecksums,
    pub(crate) trailing: Option<TrailingHeaders>,
    /// Checksums that shall follow the body.
    pub(crate) trailing_names: Vec<&'static str>,
}

impl DeclaredBody {
    /// Reads headers and fields of the operation.
    pub(crate) fn of(
        headers: &HeaderMap,
        (length, md5): (Option<i64>, Option<String>),
        algorithm: Option<&str>,
        trailing: Option<TrailingHeaders>,
    ) -> Self {
        let length = length.and_then(|length| u64::try_from(length).ok()).or_else(|| decoded_length(headers));
        let (sums, wanted, trailing_names) =
            (ContentChecksums::of(headers), RequestedChecksums::of(headers, algorithm), trailing_names(headers));
        Self { length, md5, sums, wanted, trailing, trailing_names }
    }

    /// Checks length and checksums of the received body. Errors: `IncompleteBody`, `BadDigest`;
    /// `MalformedTrailerError` when a declared checksum is missing.
    pub(crate) fn check(&self, length: u64, md5: &[u8; 16], sums: &ContentChecksums) -> S3Result<()> {
        if let Some(declared) = self.length.filter(|declared| *declared != length) {
            return Err(s3_error!(
                IncompleteBody,
                "the body has {length} bytes, but {declared} were declared; nothing was written"
            ));
        }
        check_md5(self.md5.as_deref(), md5)?;
        self.sums.check(sums)?;
        let trailing =
            self.trailing.as_ref().and_then(|trailing| trailing.read(ContentChecksums::of)).unwrap_or_default();
        // Else a body without the trailer, or cut off before it, would be stored unchecked.
        if let Some(missing) = self.trailing_names.iter().find(|name| trailing.get(name).is_none()) {
            let message =
                format!("`x-amz-checksum-{missing}` was declared in `x-amz-trailer` but not sent; nothing was written");
            let mut error = S3Error::with_message(S3ErrorCode::Custom("MalformedTrailerError".into()), message);
            error.set_status_code(StatusCode::BAD_REQUEST);
            return Err(error);
        }
        trailing.check(sums)
    }
}

/// The length of a chunked body without framing. With a transfer coding, only this shows that the
/// last chunks are missing.
fn decoded_length(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get("x-amz-decoded-content-length").filter(|_| is_chunked(headers))?;
    length.to_str().ok()?.parse().ok()
}

/// A complete body.
pub(crate) struct ReceivedBody {
    pub(crate) content: BodyContent,
    pub(crate) md5: [u8; 16],
    pub(crate) sums: ContentChecksums,
    /// The memory permit of the body, held until it is stored.
    pub(crate) memory: Option<OwnedSemaphorePermit>,
}

/// Where the bytes are.
pub(crate) enum BodyContent {
    InMemory(Bytes),
    // Boxed: it is eight times as large as the other variant.
    Staged(Box<StagedUpload>),
}

/// Receives a body and checks it. An incomplete one changes nothing. Errors: as
/// [`DeclaredBody::check`].
pub(crate) async fn receive(
    context: &S3RequestContext,
    path: &TreePath,
    body: Option<StreamingBlob>,
    declared: &DeclaredBody,
) -> S3Result<ReceivedBody> {
    const LIMIT: u64 = MAX_FILE_BYTES as u64;
    let mut hasher = hashed_body::HashedBody::new(context, declared.wanted);
    let mut buffer = new_buffer(context);
    let mut length = 0_u64;
    let mut body = body;
    while let Some(piece) = next(&mut body).await? {
        length += piece.len() as u64;
        if declared.length.is_some_and(|declared| length > declared) {
            return Err(too_long());
        }
        if length > LIMIT || declared.length.is_some_and(|declared| declared > LIMIT) {
            let staged = (stage(context, path, buffer).await?, hasher.into_hasher().await?);
            return receive_long(context, staged, (piece, length, body), declared).await;
        }
        buffer.push(&piece);
        hasher = hasher.update(&piece).await?;
        if buffer.is_full() {
            buffer = spill(context, buffer).await?;
        }
    }
    let (md5, sums) = hasher.finish().await?;
    declared.check(length, &md5, &sums)?;
    let memory = if buffer.is_on_disk() { Some(reserve_memory(context, length).await?) } else { None };
    let (content, permit) = context.run("PutObject", move |_| Ok(buffer.into_bytes()?)).await?;
    Ok(ReceivedBody { content: BodyContent::InMemory(content), md5, sums, memory: memory.or(permit) })
}

/// Receives the rest of a body that is too long for a version; `length` includes `piece`.
async fn receive_long(
    context: &S3RequestContext,
    start: (StagedUpload, Box<ContentHasher>),
    (piece, mut length, mut body): (Bytes, u64, Option<StreamingBlob>),
    declared: &DeclaredBody,
) -> S3Result<ReceivedBody> {
    let mut staged = StagedBody::new(context, "PutObject", start);
    staged.push(&piece).await?;
    drop(piece);
    while let Some(piece) = next(&mut body).await? {
        length += piece.len() as u64;
        if declared.length.is_some_and(|declared| length > declared) {
            return Err(too_long());
        }
        staged.push(&piece).await?;
    }
    let (staged, md5, sums) = staged.finish().await?;
    declared.check(length, &md5, &sums)?;
    Ok(ReceivedBody { content: BodyContent::Staged(Box::new(staged)), md5, sums, memory: None })
}

fn too_long() -> S3Error {
    s3_error!(IncompleteBody, "the body has more bytes than declared; nothing was written")
}

/// A buffer for a body.
pub(crate) fn new_buffer(context: &S3RequestContext) -> SpillBuffer {
    SpillBuffer::new(&context.protocol.memory, &context.space.vfs.state_directory())
}

async fn spill(context: &S3RequestContext, mut buffer: SpillBuffer) -> S3Result<SpillBuffer> {
    context
        .run("PutObject", move |_| {
            buffer.spill()?;
            Ok(buffer)
        })
        .await
}

/// The next piece of a body. Errors: `IncompleteBody` when the connection breaks, and signature
/// errors of s3s.
pub(crate) async fn next(body: &mut Option<StreamingBlob>) -> S3Result<Option<Bytes>> {
    let Some(body) = body else { return Ok(None) };
    let to_s3_error = |error: s3s::StdError| match error.downcast::<s3s::S3Error>() {
        Ok(error) => *error,
        // The type of this error is private to s3s.
        Err(error) if error.to_string().ends_with("SignatureMismatch") => {
            s3_error!(SignatureDoesNotMatch, "the signature of a chunk does not match; nothing was written")
        }
        Err(error) => s3_error!(IncompleteBody, "the body is incomplete: {error}; nothing was written"),
    };
    body.next().await.transpose().map_err(to_s3_error)
}

/// A staged file with the bytes received so far.
async fn stage(context: &S3RequestContext, path: &TreePath, data: SpillBuffer) -> S3Result<StagedUpload> {
    // Memory for reading them back from disk.
    let _memory = if data.is_on_disk() { Some(reserve_memory(context, data.length()).await?) } else { None };
    let path = path.clone();
    context
        .run("PutObject", move |context| {
            let mut staged = StagedUpload::new(context, &path)?;
            if data.length() > 0 {
                staged.append(&data.into_bytes()?.0)?;
            }
            Ok(staged)
        })
        .await
}

/// Waits for memory for a complete body. Errors: `ServiceUnavailable`.
pub(crate) async fn reserve_memory(context: &S3RequestContext, length: u64) -> S3Result<OwnedSemaphorePermit> {
    context.protocol.memory.reserve_buffer(length).await.map_err(|fault| refuse(fault, "PutObject"))
}
