//! What of S3 is there; everything else answers `NotImplemented`, which is s3s's default.

use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::*;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use svcfs_base::Scope;

use crate::error::refuse;
use crate::key_walk::{ListQuery, MOST};
use crate::list_objects::ListOptions;
use crate::normalize::VerifiedRequest;
use crate::{
    S3Server, buckets, continuation_token, delete_objects, get_object, list_objects, list_uploads, multipart_upload,
    put_object, tagging, versions,
};

/// What is not encoded where keys are told as URLs have them.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The owner of all buckets and objects.
const OWNER: &str = "svcfs";

/// How keys are told: XML cannot carry all of them.
#[derive(Clone, Copy)]
pub(crate) enum KeyEncoding {
    Plain,
    Url,
}

impl KeyEncoding {
    /// As a request wants it.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn of(asked: Option<&EncodingType>) -> S3Result<Self> {
        match asked.map(EncodingType::as_str) {
            None => Ok(Self::Plain),
            Some(EncodingType::URL) => Ok(Self::Url),
            Some(_) => Err(s3_error!(InvalidArgument, "`encoding-type` can only be `url`")),
        }
    }
    pub(crate) fn text(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Url => utf8_percent_encode(text, PLAIN).to_string(),
        }
    }
    pub(crate) fn prefixes(self, prefixes: Vec<String>) -> Vec<CommonPrefix> {
        prefixes.into_iter().map(|prefix| CommonPrefix { prefix: Some(self.text(&prefix)) }).collect()
    }
}

/// The operations, for every space.
pub(crate) struct S3Operations(pub(crate) Arc<S3Server>);

/// Whose everything is: the server's, as keys own nothing.
pub(crate) fn owner() -> Owner {
    Owner { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

/// As many as a request asks for, and no more than are told at once.
fn most(asked: Option<i32>) -> S3Result<usize> {
    match asked {
        None => Ok(MOST),
        Some(asked) => usize::try_from(asked)
            .map(|asked| asked.min(MOST))
            .map_err(|_| s3_error!(InvalidArgument, "`max-keys` must not be negative")),
    }
}

#[async_trait::async_trait]
impl S3 for S3Operations {
    async fn list_buckets(&self, request: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
        let (identity, _) = self
            .0
            .identify(VerifiedRequest::access_key(request.credentials.as_ref(), &request.extensions))
            .map_err(|fault| refuse(fault, "ListBuckets"))?;
        let spaces =
            self.0.server.spaces().list_open().into_iter().filter(|space| identity.check_space(&space.name).is_ok());
        // Who is limited to a folder is told of the spaces that have it.
        let (spaces, top) = (spaces.collect::<Vec<_>>(), identity.permissions.visible_root());
        let with_folder = move || {
            Ok(spaces
                .into_iter()
                .filter(|space| space.vfs.stat(svcfs_base::Protocol::S3, &top).is_ok())
                .collect::<Vec<_>>())
        };
        let spaces = svcfs_listener::run_blocking(&self.0.lanes, svcfs_work::Lane::Quick, with_folder).await;
        let spaces = spaces.map_err(|fault| refuse(fault, "ListBuckets"))?.into_iter();
        let created = Timestamp::from(std::time::SystemTime::from(self.0.server.started_at()));
        let prefix = request.input.prefix.clone().unwrap_or_default();
        let bucket =
            |name: String| Bucket { name: Some(name), creation_date: Some(created.clone()), bucket_region: None };
        let mut names: Vec<_> =
            spaces.map(|space| space.name.clone()).filter(|name| name.starts_with(&prefix)).collect();
        names.sort();
        let buckets = Some(names.into_iter().map(bucket).collect());
        Ok(S3Response::new(ListBucketsOutput { buckets, owner: Some(owner()), ..ListBucketsOutput::default() }))
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        self.0.asked(&request, &request.input.bucket, (Scope::Read, "HeadBucket"))?;
        Ok(S3Response::new(HeadBucketOutput::default()))
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.0.asked(&request, &request.input.bucket, (Scope::Read, "GetBucketLocation"))?;
        Ok(S3Response::new(GetBucketLocationOutput::default()))
    }

    async fn create_bucket(&self, request: S3Request<CreateBucketInput>) -> S3Result<S3Response<CreateBucketOutput>> {
        buckets::create(&self.0, request).await
    }
    async fn delete_bucket(&self, request: S3Request<DeleteBucketInput>) -> S3Result<S3Response<DeleteBucketOutput>> {
        buckets::delete(&self.0, request).await
    }

    async fn get_bucket_versioning(
        &self,
        request: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<S3Response<GetBucketVersioningOutput>> {
        let asked = self.0.asked(&request, &request.input.bucket, (Scope::Read, "GetBucketVersioning"))?;
        let keeps = asked.space.settings.versioning.strategy != svcfs_config::VersioningStrategy::None;
        let status = keeps.then(|| BucketVersioningStatus::from_static(BucketVersioningStatus::ENABLED));
        Ok(S3Response::new(GetBucketVersioningOutput { mfa_delete: None, status }))
    }

    async fn list_objects(&self, request: S3Request<ListObjectsInput>) -> S3Result<S3Response<ListObjectsOutput>> {
        let asked = self.0.asked(&request, &request.input.bucket, (Scope::Read, "ListObjects"))?;
        let input = request.input;
        let (encoding, most) = (KeyEncoding::of(input.encoding_type.as_ref())?, most(input.max_keys)?);
        let delimiter = input.delimiter.clone().filter(|delimiter| !delimiter.is_empty());
        let listing = ListQuery {
            prefix: input.prefix.clone().unwrap_or_default(),
            after: input.marker.clone().unwrap_or_default(),
            delimiter,
            most,
        };
        let told = list_objects::page(&asked, listing, ListOptions { encoding, owner: Some(owner()) }).await?;
        Ok(S3Response::new(ListObjectsOutput {
            name: Some(input.bucket),
            prefix: Some(encoding.text(&input.prefix.unwrap_or_default())),
            marker: Some(encoding.text(&input.marker.unwrap_or_default())),
            delimiter: input.delimiter.filter(|text| !text.is_empty()).map(|text| encoding.text(&text)),
            max_keys: Some(most as i32),
            is_truncated: Some(told.next.is_some()),
            next_marker: told.next.map(|text| encoding.text(&text)),
            contents: Some(told.objects),
            common_prefixes: Some(told.prefixes),
            encoding_type: input.encoding_type,
            ..ListObjectsOutput::default()
        }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let asked = self.0.asked(&request, &request.input.bucket, (Scope::Read, "ListObjectsV2"))?;
        let input = request.input;
        let (encoding, most) = (KeyEncoding::of(input.encoding_type.as_ref())?, most(input.max_keys)?);
        let told_before = input.continuation_token.as_deref().filter(|token| !token.is_empty());
        let told_before = told_before.map(continuation_token::read).transpose()?;
        let after = told_before.or_else(|| input.start_after.clone()).unwrap_or_default();
        let owner = input.fetch_owner.unwrap_or_default().then(owner);
        let delimiter = input.delimiter.clone().filter(|delimiter| !delimiter.is_empty());
        let prefix = input.prefix.clone().unwrap_or_default();
        let listing = ListQuery { prefix, after, delimiter, most };
        let told = list_objects::page(&asked, listing, ListOptions { encoding, owner }).await?;
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: Some(encoding.text(&input.prefix.unwrap_or_default())),
            delimiter: input.delimiter.filter(|text| !text.is_empty()).map(|text| encoding.text(&text)),
            start_after: input.start_after.map(|text| encoding.text(&text)),
            continuation_token: input.continuation_token,
            max_keys: Some(most as i32),
            key_count: Some((told.objects.len() + told.prefixes.len()) as i32),
            is_truncated: Some(told.next.is_some()),
            next_continuation_token: told.next.as_deref().map(continuation_token::of),
            contents: Some(told.objects),
            common_prefixes: Some(told.prefixes),
            encoding_type: input.encoding_type,
            ..ListObjectsV2Output::default()
        }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        get_object::get(&self.0, request).await
    }
    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        get_object::head(&self.0, request).await
    }
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        put_object::put(&self.0, request).await
    }
    async fn copy_object(&self, request: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        put_object::copy(&self.0, request).await
    }
    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        delete_objects::one(&self.0, request).await
    }
    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        delete_objects::many(&self.0, request).await
    }
    async fn list_object_versions(
        &self,
        request: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<S3Response<ListObjectVersionsOutput>> {
        versions::list(&self.0, request).await
    }
    async fn get_object_tagging(
        &self,
        request: S3Request<GetObjectTaggingInput>,
    ) -> S3Result<S3Response<GetObjectTaggingOutput>> {
        tagging::get(&self.0, request).await
    }
    async fn put_object_tagging(
        &self,
        request: S3Request<PutObjectTaggingInput>,
    ) -> S3Result<S3Response<PutObjectTaggingOutput>> {
        tagging::put(&self.0, request).await
    }
    async fn delete_object_tagging(
        &self,
        request: S3Request<DeleteObjectTaggingInput>,
    ) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
        tagging::delete(&self.0, request).await
    }
    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        multipart_upload::create(&self.0, request).await
    }
    async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        multipart_upload::part(&self.0, request).await
    }
    async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        multipart_upload::part_copy(&self.0, request).await
    }
    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        multipart_upload::complete(&self.0, request).await
    }
    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        multipart_upload::abort(&self.0, request).await
    }
    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        list_uploads::list_parts(&self.0, request).await
    }
    async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        list_uploads::list(&self.0, request).await
    }
}
