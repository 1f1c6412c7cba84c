//! Whose signature it is.

use std::sync::Arc;

use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Result, s3_error};
use svcfs_knowledge::access::Signing;

use crate::Door;

/// The secret of every name where nobody is asked who they are: clients sign all the same, most of them cannot but.
const OPEN_SECRET: &str = "svcfs";

/// Who may sign.
pub(crate) struct Signers {
    pub(crate) door: Arc<Door>,
    pub(crate) signing: Signing,
}

#[async_trait::async_trait]
impl S3Auth for Signers {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let access = self.door.server.access();
        if access.is_open() {
            return Ok(SecretKey::from(OPEN_SECRET));
        }
        if access.named(access_key).is_err() {
            return Err(s3_error!(InvalidAccessKeyId, "no key has this id; `svcfs token create --s3` makes one"));
        }
        Ok(SecretKey::from(self.signing.secret(access_key)))
    }
}

/// Who comes without a signature is let in only where nobody is asked who they are.
pub(crate) struct Strangers(pub(crate) Arc<Door>);

#[async_trait::async_trait]
impl S3Access for Strangers {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        if cx.credentials().is_some() || self.0.server.access().is_open() {
            return Ok(());
        }
        Err(s3_error!(AccessDenied, "sign the request with a key of this server; `svcfs token create --s3` makes one"))
    }
}
