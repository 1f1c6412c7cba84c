//! The context of a request: caller and space.

use std::collections::BTreeSet;
use std::sync::Arc;

use s3s::{S3Error, S3Request, S3Result, s3_error};
use svcfs_base::{Actor, Caller, Fault, Kind, MAX_FILE_BYTES, Scope, TreePath};
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::Space;
use svcfs_vfs::CallerTree;
use svcfs_work::{KeyedLockGuard, Lane};

use crate::error::refuse;
use crate::hosts;
use crate::normalize::VerifiedRequest;
use crate::{ObjectPath, S3Server};

/// Caller and space of a request.
#[derive(Clone)]
pub(crate) struct S3RequestContext {
    pub(crate) protocol: Arc<S3Server>,
    pub(crate) space: Arc<Space>,
    pub(crate) caller: Caller,
}

impl S3Server {
    /// Identifies the caller by the id of the key that signed the request.
    pub(crate) fn identify(&self, id: Option<&str>) -> Result<(CallerIdentity, Option<Actor>), Fault> {
        let access = self.server.access();
        if access.is_open() {
            // Without authentication, the id is only the name that the client gives itself.
            return Ok((CallerIdentity::UNRESTRICTED, id.map(Actor::new)));
        }
        Ok((access.identify_by_key_id(id.unwrap_or_default())?, None))
    }

    /// Identifies the caller of a request for a bucket and checks the permissions. Errors:
    /// `NoSuchBucket`; `AccessDenied` for a key of another space, or without the needed scope.
    pub(crate) fn authorize<T>(
        self: &Arc<Self>,
        request: &S3Request<T>,
        bucket: &str,
        (needs, what): (Scope, &str),
    ) -> S3Result<S3RequestContext> {
        let identify = || {
            let (identity, actor) =
                self.identify(VerifiedRequest::access_key(request.credentials.as_ref(), &request.extensions))?;
            // Before the space is looked up, so that a stranger does not learn which spaces exist.
            identity.check_space(bucket)?;
            identity.permissions.check_scope(needs, what)?;
            let caller = identity.apply_to(Caller { actor, ..Caller::new(svcfs_base::Protocol::S3) });
            Ok((self.server.spaces().find(bucket), caller, identity))
        };
        let (space, caller, identity) = identify().map_err(|fault| refuse(fault, what))?;
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
    pub(crate) async fn run<T, W>(&self, what: &'static str, work: W) -> S3Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, S3RequestError> + Send + 'static,
    {
        self.run_over(0, what, work).await
    }

    /// Runs work over this many bytes. Work over many GiB takes minutes, so it runs in the slow
    /// lane.
    pub(crate) async fn run_over<T, W>(&self, bytes: u64, what: &'static str, work: W) -> S3Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, S3RequestError> + Send + 'static,
    {
        let context = self.clone();
        let lane = if bytes > MAX_FILE_BYTES as u64 { Lane::Slow } else { Lane::Quick };
        // A lane returns faults only: an S3 error passes through it as an outcome.
        let outcome = svcfs_listener::run_blocking(&self.protocol.lanes, lane, move || match work(&context) {
            Ok(outcome) => {
                context.space.wait_for_indexed_writes(&context.caller);
                Ok(Ok(outcome))
            }
            Err(S3RequestError::S3(error)) => Ok(Err(error)),
            Err(S3RequestError::Fault(fault)) => Err(fault),
        });
        outcome.await.map_err(|fault| refuse(fault, what))?
    }

    /// Locks an object and its metadata against other requests, until the guard is dropped. Blocks.
    pub(crate) fn lock(&self, target: &TreePath) -> KeyedLockGuard<'_, ObjectPath> {
        self.protocol.object_locks.lock(BTreeSet::from([(self.space.name.clone(), target.clone())]))
    }

    /// The tree as the caller sees it: with its draft over it, if it may only propose changes.
    pub(crate) fn tree(&self) -> CallerTree<'_> {
        self.space.vfs.tree_of(&self.caller)
    }
    /// Whether the caller's changes go into a draft.
    pub(crate) fn is_proposing(&self) -> bool {
        self.caller.permissions.is_proposing()
    }

    /// Checks that the caller may see a path. Errors: `Forbidden` outside the caller's permissions.
    pub(crate) fn check(&self, path: &TreePath) -> Result<(), Fault> {
        self.space.check_path_access(&self.caller.permissions, self.caller.protocol, path)
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum S3RequestError {
    /// A fault of the server.
    Fault(Fault),
    /// An error that only S3 has.
    S3(S3Error),
}

impl S3RequestError {
    /// Converts to an S3 error; `what` names the request in the log.
    pub(crate) fn into_s3_error(self, what: &str) -> S3Error {
        match self {
            Self::S3(error) => error,
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
        Self::S3(error)
    }
}
