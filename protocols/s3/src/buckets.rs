//! Buckets that clients make and remove: spaces below `server.space_parents`.

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
    const WHAT: &str = "CreateBucket";
    unsupported::refuse(&request)?;
    let name = request.input.bucket.clone();
    match protocol.asked(&request, &name, (Scope::Write, WHAT)) {
        // Clients make sure that a bucket is there by making it.
        Ok(_) => return Err(s3_error!(BucketAlreadyOwnedByYou, "there is a space of this name already")),
        Err(error) if *error.code() == S3ErrorCode::NoSuchBucket => {}
        Err(error) => return Err(error),
    }
    let caller = administrator(protocol, &request, WHAT)?;
    check_name(&name).map_err(|fault| s3_error!(InvalidBucketName, "{}", fault.message()))?;
    if protocol.server.settings().server.space_parents.is_empty() {
        return Err(s3_error!(
            AccessDenied,
            "buckets are made here only where `server.space_parents` of the settings names a directory for them; else with `svcfs serve --space` or `POST /api/spaces`"
        ));
    }
    let (server, made) = (Arc::clone(&protocol.server), name.clone());
    let made = move || server.spaces().create_empty(&made, &caller).map(drop);
    match svcfs_listener::run_blocking(&protocol.lanes, Lane::Slow, made).await {
        Ok(()) => {
            let location = Some(format!("/{name}"));
            Ok(S3Response::new(CreateBucketOutput { location }))
        }
        Err(fault) if fault.kind() == Kind::Exists => Err(s3_error!(BucketAlreadyExists, "{}", fault.message())),
        Err(fault) => Err(refuse(fault, WHAT)),
    }
}

/// `DeleteBucket`
pub(crate) async fn delete(
    protocol: &Arc<S3Server>,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    const WHAT: &str = "DeleteBucket";
    let name = request.input.bucket.clone();
    protocol.asked(&request, &name, (Scope::Write, WHAT))?;
    let _caller = administrator(protocol, &request, WHAT)?;
    let (server, removed) = (Arc::clone(&protocol.server), name);
    let removed = move || server.spaces().remove_empty(&removed);
    match svcfs_listener::run_blocking(&protocol.lanes, Lane::Slow, removed).await {
        Ok(()) => Ok(S3Response::new(DeleteBucketOutput {})),
        Err(fault) if fault.kind() == Kind::Conflict => Err(s3_error!(AccessDenied, "{}", fault.message())),
        Err(fault) => Err(refuse(fault, WHAT)),
    }
}

/// Who asks, if they may make and remove spaces.
fn administrator<T>(protocol: &S3Server, request: &S3Request<T>, what: &str) -> S3Result<Caller> {
    let identified = || {
        let (identity, actor) =
            protocol.identify(VerifiedRequest::access_key(request.credentials.as_ref(), &request.extensions))?;
        identity.check_server_admin()?;
        identity.permissions.check_scope(Scope::Admin, what)?;
        if identity.permissions.folder.is_some() {
            return Err(Fault::new(Kind::Forbidden, "spaces are not administered with a key for one folder"));
        }
        Ok(identity.apply_to(Caller { actor, ..Caller::new(svcfs_base::Protocol::S3) }))
    };
    identified().map_err(|fault| refuse(fault, what))
}
