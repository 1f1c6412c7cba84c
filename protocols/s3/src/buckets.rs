//! CreateBucket and DeleteBucket: spaces below `server.space_parents`.

use std::sync::Arc;

use s3s::dto::{CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use svcfs_base::{Caller, Fault, Kind, Scope};
use svcfs_knowledge::spaces::check_name;
use svcfs_work::Lane;

use crate::error::refuse;
use crate::normalize::VerifiedRequest;
use crate::{S3Server, unsupported};

/// `CreateBucket`
pub(crate) async fn create(
    protocol: &Arc<S3Server>,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    const OPERATION: &str = "CreateBucket";
    unsupported::refuse(&request)?;
    let name = request.input.bucket.clone();
    match protocol.authorize(&request, &name, (Scope::Write, OPERATION)) {
        // Clients create a bucket to make sure that it exists.
        Ok(_) => return Err(s3_error!(BucketAlreadyOwnedByYou, "a space of this name exists already")),
        Err(error) if *error.code() == S3ErrorCode::NoSuchBucket => {}
        Err(error) => return Err(error),
    }
    let caller = administrator(protocol, &request, OPERATION)?;
    check_name(&name).map_err(|fault| s3_error!(InvalidBucketName, "{}", fault.message()))?;
    if protocol.server.settings().server.space_parents.is_empty() {
        return Err(s3_error!(
            AccessDenied,
            "to create buckets, set `server.space_parents` to a directory for them; or use `svcfs serve --space` or `POST /api/spaces`"
        ));
    }
    let (server, new_name) = (Arc::clone(&protocol.server), name.clone());
    let create = move || server.spaces().create_empty(&new_name, &caller).map(drop);
    match svcfs_listener::run_blocking(&protocol.lanes, Lane::Slow, create).await {
        Ok(()) => {
            let location = Some(format!("/{name}"));
            Ok(S3Response::new(CreateBucketOutput { location }))
        }
        Err(fault) if fault.kind() == Kind::Exists => Err(s3_error!(BucketAlreadyExists, "{}", fault.message())),
        Err(fault) => Err(refuse(fault, OPERATION)),
    }
}

/// `DeleteBucket`
pub(crate) async fn delete(
    protocol: &Arc<S3Server>,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    const OPERATION: &str = "DeleteBucket";
    let name = request.input.bucket.clone();
    protocol.authorize(&request, &name, (Scope::Write, OPERATION))?;
    let _caller = administrator(protocol, &request, OPERATION)?;
    let (server, old_name) = (Arc::clone(&protocol.server), name);
    let remove = move || server.spaces().remove_empty(&old_name);
    match svcfs_listener::run_blocking(&protocol.lanes, Lane::Slow, remove).await {
        Ok(()) => Ok(S3Response::new(DeleteBucketOutput {})),
        Err(fault) if fault.kind() == Kind::Conflict => Err(s3_error!(AccessDenied, "{}", fault.message())),
        Err(fault) => Err(refuse(fault, OPERATION)),
    }
}

/// The caller, if it may create and remove spaces.
fn administrator<T>(protocol: &S3Server, request: &S3Request<T>, what: &str) -> S3Result<Caller> {
    let identify = || {
        let (identity, actor) =
            protocol.identify(VerifiedRequest::access_key(request.credentials.as_ref(), &request.extensions))?;
        identity.check_server_admin()?;
        identity.permissions.check_scope(Scope::Admin, what)?;
        if identity.permissions.folder.is_some() {
            return Err(Fault::new(Kind::Forbidden, "a key for one folder cannot manage spaces"));
        }
        Ok(identity.apply_to(Caller { actor, ..Caller::new(svcfs_base::Protocol::S3) }))
    };
    identify().map_err(|fault| refuse(fault, what))
}
