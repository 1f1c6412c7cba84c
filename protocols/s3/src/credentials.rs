//! Whose signature it is.

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

/// The secret of every name where nobody is asked who they are: clients sign all the same, most of them cannot but.
const OPEN_SECRET: &str = "svcfs";

/// Who may sign.
pub(crate) struct SignatureKeys {
    pub(crate) protocol: Arc<S3Server>,
    pub(crate) signing: SigningKey,
}

#[async_trait::async_trait]
impl S3Auth for SignatureKeys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let access = self.protocol.server.access();
        if access.is_open() {
            return Ok(SecretKey::from(OPEN_SECRET));
        }
        if access.identify_by_key_id(access_key).is_err() {
            return Err(s3_error!(InvalidAccessKeyId, "no key has this id; `svcfs token create --s3` makes one"));
        }
        Ok(SecretKey::from(self.signing.derive_secret(access_key)))
    }
}

/// Who comes without a signature is let in only where nobody is asked who they are.
pub(crate) struct RequestAuthorizer(pub(crate) Arc<S3Server>);

impl RequestAuthorizer {
    /// Notes what a request asks for: an operation, of a bucket, and of what in it.
    fn note(&self, visit: &Visit, operation: &str, named: Option<(String, Option<String>)>) {
        let notes = visit.notes();
        notes.set_operation(operation);
        let Some((bucket, key)) = named else { return };
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
        let named = match cx.s3_path() {
            S3Path::Root => None,
            S3Path::Bucket { bucket } => Some((bucket.to_string(), None)),
            S3Path::Object { bucket, key } => Some((bucket.to_string(), Some(key.to_string()))),
        };
        let visit = cx.extensions_mut().get::<Arc<Visit>>().cloned();
        let credentials = cx.credentials().cloned();
        let id = VerifiedRequest::access_key(credentials.as_ref(), cx.extensions_mut()).map(str::to_owned);
        let identity = self.0.identify(id.as_deref());
        if let Some(visit) = visit {
            self.note(&visit, &operation, named);
            if let Ok((_, actor)) = &identity {
                actor.iter().for_each(|actor| visit.notes().set_actor(actor.clone()));
            }
            let identity = identity.as_ref().ok().map(|(identity, _)| identity);
            visit.admit(identity, None).map_err(|fault| refuse(fault, &operation))?;
        }
        if id.is_some() || self.0.server.access().is_open() {
            return Ok(());
        }
        Err(s3_error!(AccessDenied, "sign the request with a key of this server; `svcfs token create --s3` makes one"))
    }
}
