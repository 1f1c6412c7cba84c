//! Signature keys and admission.

use std::sync::Arc;

use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::path::S3Path;
use s3s::{S3Result, s3_error};
use svcfs_knowledge::access::SigningKey;
use svcfs_knowledge::audit::TrackedRequest as Visit;

use crate::S3Server;
use crate::error::refuse;
use crate::normalize::VerifiedRequest;

/// The secret for every key id without authentication: most clients cannot send unsigned requests.
const OPEN_SECRET: &str = "svcfs";

/// Derives the secret of a key for s3s.
pub(crate) struct SignatureKeys {
    pub(crate) protocol: Arc<S3Server>,
    pub(crate) signing_key: SigningKey,
}

#[async_trait::async_trait]
impl S3Auth for SignatureKeys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let access = self.protocol.server.access();
        if access.is_open() {
            return Ok(SecretKey::from(OPEN_SECRET));
        }
        if access.identify_by_key_id(access_key).is_err() {
            return Err(s3_error!(InvalidAccessKeyId, "unknown key id; create a key with `svcfs token create --s3`"));
        }
        Ok(SecretKey::from(self.signing_key.derive_secret(access_key)))
    }
}

/// Admits unsigned requests only without authentication.
pub(crate) struct RequestAuthorizer(pub(crate) Arc<S3Server>);

impl RequestAuthorizer {
    /// Records operation, bucket and key of a request for the audit log.
    fn record_target(&self, visit: &Visit, operation: &str, target: Option<(String, Option<String>)>) {
        let notes = visit.notes();
        notes.set_operation(operation);
        let Some((bucket, key)) = target else { return };
        if let Ok(space) = self.0.server.spaces().find(&bucket) {
            notes.set_space(&space);
        }
        key.iter().for_each(|key| notes.set_file(key));
    }
}

#[async_trait::async_trait]
impl S3Access for RequestAuthorizer {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let operation = cx.s3_op().name().to_owned();
        let target = match cx.s3_path() {
            S3Path::Root => None,
            S3Path::Bucket { bucket } => Some((bucket.to_string(), None)),
            S3Path::Object { bucket, key } => Some((bucket.to_string(), Some(key.to_string()))),
        };
        let visit = cx.extensions_mut().get::<Arc<Visit>>().cloned();
        let credentials = cx.credentials().cloned();
        let id = VerifiedRequest::access_key(credentials.as_ref(), cx.extensions_mut()).map(str::to_owned);
        let identity = self.0.identify(id.as_deref());
        if let Some(visit) = visit {
            self.record_target(&visit, &operation, target);
            if let Ok((_, actor)) = &identity {
                actor.iter().for_each(|actor| visit.notes().set_actor(actor.clone()));
            }
            let identity = identity.as_ref().ok().map(|(identity, _)| identity);
            visit.admit(identity, None).map_err(|fault| refuse(fault, &operation))?;
        }
        if id.is_some() || self.0.server.access().is_open() {
            return Ok(());
        }
        Err(s3_error!(
            AccessDenied,
            "sign the request with a key of this server; create one with `svcfs token create --s3`"
        ))
    }
}
