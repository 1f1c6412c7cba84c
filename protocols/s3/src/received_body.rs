//! A body on its way: gathered in memory as long as a version can hold it, beside its place when it is longer.

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, StatusCode};
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders, s3_error};
use svcfs_base::{MAX_FILE_BYTES, TreePath};
use svcfs_listener::SpillBuffer;
use tokio::sync::OwnedSemaphorePermit;

use crate::checksums::{ContentChecksums, ContentHasher, RequestedChecksums, check_md5, promised};
use crate::context::S3RequestContext;
use crate::error::refuse;
use crate::hashed_body;
use crate::request_handler::is_in_pieces;
use crate::staged_body::StagedBody;
use crate::staged_upload::StagedUpload;

/// What a request says of its body.
pub(crate) struct DeclaredBody {
    pub(crate) length: Option<u64>,
    pub(crate) md5: Option<String>,
    pub(crate) sums: ContentChecksums,
    pub(crate) wanted: RequestedChecksums,
    pub(crate) trailing: Option<TrailingHeaders>,
    /// Checksums that are to come behind the body.
    pub(crate) promised: Vec<&'static str>,
}

impl DeclaredBody {
    /// As headers and fields of the operation say.
    pub(crate) fn of(
        headers: &HeaderMap,
        (length, md5): (Option<i64>, Option<String>),
        algorithm: Option<&str>,
        trailing: Option<TrailingHeaders>,
    ) -> Self {
        let length = length.and_then(|length| u64::try_from(length).ok()).or_else(|| in_pieces(headers));
        let (sums, wanted, promised) =
            (ContentChecksums::of(headers), RequestedChecksums::of(headers, algorithm), promised(headers));
        Self { length, md5, sums, wanted, trailing, promised }
    }

    /// Checks what came.
    ///
    /// # Errors
    /// `IncompleteBody`, `BadDigest`; `MalformedTrailerError` where a checksum was announced and did not come.
    pub(crate) fn check(&self, length: u64, md5: &[u8; 16], sums: &ContentChecksums) -> S3Result<()> {
        if let Some(announced) = self.length.filter(|announced| *announced != length) {
            return Err(s3_error!(
                IncompleteBody,
                "the body has {length} bytes, and {announced} were announced; nothing was written"
            ));
        }
        check_md5(self.md5.as_deref(), md5)?;
        self.sums.check(sums)?;
        let trailing =
            self.trailing.as_ref().and_then(|trailing| trailing.read(ContentChecksums::of)).unwrap_or_default();
        // Whoever leaves it out, or breaks off in front of it, would have the body taken unchecked.
        if let Some(missing) = self.promised.iter().find(|name| trailing.one(name).is_none()) {
            let told = format!(
                "`x-amz-checksum-{missing}` was announced in `x-amz-trailer` and did not come; nothing was written"
            );
            let mut error = S3Error::with_message(S3ErrorCode::Custom("MalformedTrailerError".into()), told);
            error.set_status_code(StatusCode::BAD_REQUEST);
            return Err(error);
        }
        trailing.check(sums)
    }
}

/// How long a body in pieces is without what is around them. Where a transfer coding carries it, nothing else tells that the last of them is missing.
fn in_pieces(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get("x-amz-decoded-content-length").filter(|_| is_in_pieces(headers))?;
    length.to_str().ok()?.parse().ok()
}

/// All of a body.
pub(crate) struct ReceivedBody {
    pub(crate) content: BodyContent,
    pub(crate) md5: [u8; 16],
    pub(crate) sums: ContentChecksums,
    /// What it takes of the memory for bodies, held until it is in place.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

/// Where it is.
pub(crate) enum BodyContent {
    Here(Bytes),
    // Boxed: it is eight times as large as the other.
    Beside(Box<StagedUpload>),
}

/// Gathers the body of a file, and checks it. One that breaks off changes nothing.
///
/// # Errors
/// As [`Announced::check`]; those of the disk.
pub(crate) async fn gather(
    asked: &S3RequestContext,
    path: &TreePath,
    body: Option<StreamingBlob>,
    announced: &DeclaredBody,
) -> S3Result<ReceivedBody> {
    const LIMIT: u64 = MAX_FILE_BYTES as u64;
    let mut summing = hashed_body::HashedBody::new(asked, announced.wanted);
    let mut coming = gathering(asked);
    let mut length = 0_u64;
    let mut body = body;
    while let Some(piece) = next(&mut body).await? {
        length += piece.len() as u64;
        if announced.length.is_some_and(|announced| length > announced) {
            return Err(too_long());
        }
        if length > LIMIT || announced.length.is_some_and(|announced| announced > LIMIT) {
            let begun = (beside_with(asked, path, coming).await?, summing.summed().await?);
            return gather_long(asked, begun, (piece, length, body), announced).await;
        }
        coming.push(&piece);
        summing = summing.update(&piece).await?;
        if coming.is_full() {
            coming = write_out(asked, coming).await?;
        }
    }
    let (md5, sums) = summing.finish().await?;
    announced.check(length, &md5, &sums)?;
    let whole = if coming.is_on_disk() { Some(room_for(asked, length).await?) } else { None };
    let (content, taken) = asked.run("PutObject", move |_| Ok(coming.into_bytes()?)).await?;
    Ok(ReceivedBody { content: BodyContent::Here(content), md5, sums, room: whole.or(taken) })
}

/// The rest of a body that is too long for a version, from a piece on; `length` counts that piece.
async fn gather_long(
    asked: &S3RequestContext,
    begun: (StagedUpload, Box<ContentHasher>),
    (piece, mut length, mut body): (Bytes, u64, Option<StreamingBlob>),
    announced: &DeclaredBody,
) -> S3Result<ReceivedBody> {
    let mut staged = StagedBody::new(asked, "PutObject", begun);
    staged.push(&piece).await?;
    drop(piece);
    while let Some(piece) = next(&mut body).await? {
        length += piece.len() as u64;
        if announced.length.is_some_and(|announced| length > announced) {
            return Err(too_long());
        }
        staged.push(&piece).await?;
    }
    let (beside, md5, sums) = staged.finish().await?;
    announced.check(length, &md5, &sums)?;
    Ok(ReceivedBody { content: BodyContent::Beside(Box::new(beside)), md5, sums, room: None })
}

fn too_long() -> S3Error {
    s3_error!(IncompleteBody, "the body has more bytes than were announced; nothing was written")
}

/// Something that bytes are gathered in.
pub(crate) fn gathering(asked: &S3RequestContext) -> SpillBuffer {
    SpillBuffer::new(&asked.protocol.room, &asked.space.vfs.state_directory())
}

async fn write_out(asked: &S3RequestContext, mut coming: SpillBuffer) -> S3Result<SpillBuffer> {
    asked
        .run("PutObject", move |_| {
            coming.spill()?;
            Ok(coming)
        })
        .await
}

/// The next piece of a body.
///
/// # Errors
/// `IncompleteBody` when it breaks off, and what s3s says of a signature that is wrong.
pub(crate) async fn next(body: &mut Option<StreamingBlob>) -> S3Result<Option<Bytes>> {
    let Some(body) = body else { return Ok(None) };
    let broken = |error: s3s::StdError| match error.downcast::<s3s::S3Error>() {
        Ok(error) => *error,
        // s3s keeps the type of this error to itself.
        Err(error) if error.to_string().ends_with("SignatureMismatch") => {
            s3_error!(
                SignatureDoesNotMatch,
                "the signature of a piece of the body is not that of the key; nothing was written"
            )
        }
        Err(error) => s3_error!(IncompleteBody, "the body broke off: {error}; nothing was written"),
    };
    body.next().await.transpose().map_err(broken)
}

/// A file beside its place, with what has come of it.
async fn beside_with(asked: &S3RequestContext, path: &TreePath, data: SpillBuffer) -> S3Result<StagedUpload> {
    // What is on the disk comes back for this moment.
    let _room = if data.is_on_disk() { Some(room_for(asked, data.length()).await?) } else { None };
    let path = path.clone();
    asked
        .run("PutObject", move |asked| {
            let mut beside = StagedUpload::new(asked, &path)?;
            if data.length() > 0 {
                beside.append(&data.into_bytes()?.0)?;
            }
            Ok(beside)
        })
        .await
}

/// Waits for room for something that is here, in the protocol's words.
///
/// # Errors
/// `ServiceUnavailable`.
pub(crate) async fn room_for(asked: &S3RequestContext, length: u64) -> S3Result<OwnedSemaphorePermit> {
    asked.protocol.room.reserve_buffer(length).await.map_err(|fault| refuse(fault, "PutObject"))
}
