//! One request, as the tree sees it: who asks, and in which space.

use std::sync::Arc;

use s3s::{S3Error, S3Request, S3Result, s3_error};
use svcfs_base::{Actor, Caller, Fault, Kind, MAX_FILE_BYTES, Scope, TreePath};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::Space;
use svcfs_work::Lane;

use crate::S3Server;
use crate::error::refuse;
use crate::hosts;
use crate::normalize::VerifiedRequest;
use crate::object_locks::ObjectLockGuard;

/// Who asks, and in which space.
#[derive(Clone)]
pub(crate) struct S3RequestContext {
    pub(crate) protocol: Arc<S3Server>,
    pub(crate) space: Arc<Space>,
    pub(crate) caller: Caller,
}

impl S3Server {
    /// Who signed a request, by the id of the key.
    pub(crate) fn identify(&self, id: Option<&str>) -> Result<(CallerIdentity, Option<Actor>), Fault> {
        let access = self.server.access();
        if access.is_open() {
            // Where nobody is asked, the id is the caller's own word.
            return Ok((CallerIdentity::UNRESTRICTED, id.map(Actor::new)));
        }
        Ok((access.identify_by_key_id(id.unwrap_or_default())?, None))
    }

    /// Who asks for something in a bucket, and whether they may.
    ///
    /// # Errors
    /// `NoSuchBucket`; `AccessDenied` for a key of another space, or one that does not allow as much.
    pub(crate) fn asked<T>(
        self: &Arc<Self>,
        request: &S3Request<T>,
        bucket: &str,
        (needs, what): (Scope, &str),
    ) -> S3Result<S3RequestContext> {
        let asked = || {
            let (identity, actor) =
                self.identify(VerifiedRequest::access_key(request.credentials.as_ref(), &request.extensions))?;
            // Before it is looked for: who may not enter learns nothing of which spaces there are.
            identity.check_space(bucket)?;
            identity.permissions.check_scope(needs, what)?;
            let caller = identity.apply_to(Caller { actor, ..Caller::new(svcfs_base::Protocol::S3) });
            Ok((self.server.spaces().find(bucket), caller, identity))
        };
        let (space, caller, identity) = asked().map_err(|fault| refuse(fault, what))?;
        hosts::check(self, (&request.uri, &request.headers), |space| identity.check_space(space).is_ok())?;
        let space = space.map_err(|fault| match fault.kind() {
            Kind::NotFound => s3_error!(NoSuchBucket, "there is no space `{}`", svcfs_base::escape_unprintable(bucket)),
            _ => refuse(fault, what),
        })?;
        Ok(S3RequestContext { protocol: Arc::clone(self), space, caller })
    }
}

impl S3RequestContext {
    /// Runs blocking work for this request.
    ///
    /// # Errors
    /// The work's own, in the protocol's words.
    pub(crate) async fn run<T, W>(&self, what: &'static str, work: W) -> S3Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, S3RequestError> + Send + 'static,
    {
        self.run_over(0, what, work).await
    }

    /// The same for work that goes over this many bytes: many GiB take minutes, and no place of what is quick.
    ///
    /// # Errors
    /// As [`Asked::run`].
    pub(crate) async fn run_over<T, W>(&self, bytes: u64, what: &'static str, work: W) -> S3Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, S3RequestError> + Send + 'static,
    {
        let asked = self.clone();
        let lane = if bytes > MAX_FILE_BYTES as u64 { Lane::Slow } else { Lane::Quick };
        // The lane knows faults only: what the protocol refuses by itself passes through it as an outcome.
        let outcome = svcfs_listener::run_blocking(&self.protocol.lanes, lane, move || match work(&asked) {
            Ok(outcome) => {
                asked.space.wait_for_indexed_writes(&asked.caller);
                Ok(Ok(outcome))
            }
            Err(S3RequestError::Told(error)) => Ok(Err(error)),
            Err(S3RequestError::Fault(fault)) => Err(fault),
        });
        outcome.await.map_err(|fault| refuse(fault, what))?
    }

    /// Keeps other requests from writing what stands at a place and what is said of it, until it is dropped. Blocks.
    pub(crate) fn hold(&self, place: &TreePath) -> ObjectLockGuard<'_> {
        self.protocol.keeping.hold(&self.space.name, place)
    }

    /// Checks that a path may be seen.
    ///
    /// # Errors
    /// `Forbidden` beyond the caller's reach.
    pub(crate) fn check(&self, path: &TreePath) -> Result<(), Fault> {
        self.space.check_path_access(&self.caller.permissions, self.caller.protocol, path)
    }
}

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum S3RequestError {
    /// By the tree.
    Fault(Fault),
    /// By a rule of the protocol.
    Told(S3Error),
}

impl S3RequestError {
    /// In the protocol's words; `what` is what was asked.
    pub(crate) fn told(self, what: &str) -> S3Error {
        match self {
            Self::Told(error) => error,
            Self::Fault(fault) => refuse(fault, what),
        }
    }
}

impl From<Fault> for S3RequestError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<S3Error> for S3RequestError {
    fn from(error: S3Error) -> Self {
        Self::Told(error)
    }
}
