//! Bundles in a bucket of S3.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusty_s3::{Bucket, Credentials, S3Action};
use svcfs_net::{NetError, ObjectClient};

use super::BundleStore;
use crate::error::BackupError;

/// Validity of the URL of a request.
const URL_VALIDITY: Duration = Duration::from_secs(3600);

/// A bucket and the beginning of all names in it.
pub(crate) struct S3Store {
    bucket: Bucket,
    credentials: Credentials,
    /// Empty, or with a final `/`.
    prefix: String,
    client: ObjectClient,
}

impl S3Store {
    pub fn new(bucket: Bucket, credentials: Credentials, prefix: &str) -> Self {
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Self { bucket, credentials, prefix, client: ObjectClient::new() }
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn failure(&self, action: &str, name: &str, error: &NetError) -> BackupError {
        let place = format!("s3://{}/{}", self.bucket.name(), self.key(name));
        match error.status() {
            Some(401 | 403) => BackupError::refused(format!(
                "cannot {action} `{place}`: access denied; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the rights of the key"
            )),
            Some(404) => {
                BackupError::refused(format!("cannot {action} `{place}`: not found; check the bucket and the endpoint"))
            }
            Some(status) => BackupError::failed(format!("cannot {action} `{place}`: the server answers {status}")),
            None => BackupError::failed(format!("cannot {action} `{place}`: {error}")),
        }
    }
}

impl BundleStore for S3Store {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackupError> {
        let url = self.bucket.get_object(Some(&self.credentials), &self.key(name)).sign(URL_VALIDITY);
        let mut content = Vec::new();
        match self.client.get(url.as_str(), &mut content) {
            Ok(()) => Ok(Some(content)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(self.failure("read", name, &error)),
        }
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<(), BackupError> {
        let url = self.bucket.put_object(Some(&self.credentials), &self.key(name)).sign(URL_VALIDITY);
        self.client.put(url.as_str(), content).map_err(|error| self.failure("write", name, &error))
    }

    fn store(&self, name: &str, file: &Path) -> Result<(), BackupError> {
        let url = self.bucket.put_object(Some(&self.credentials), &self.key(name)).sign(URL_VALIDITY);
        let opened = File::open(file).map_err(|error| BackupError::io("read", file, &error))?;
        self.client.put(url.as_str(), &opened).map_err(|error| self.failure("write", name, &error))
    }

    fn fetch(&self, name: &str, to: &Path) -> Result<(), BackupError> {
        let url = self.bucket.get_object(Some(&self.credentials), &self.key(name)).sign(URL_VALIDITY);
        let mut file = File::create(to).map_err(|error| BackupError::io("write", to, &error))?;
        self.client.get(url.as_str(), &mut file).map_err(|error| self.failure("read", name, &error))
    }

    fn size(&self, name: &str) -> Result<Option<u64>, BackupError> {
        let url = self.bucket.head_object(Some(&self.credentials), &self.key(name)).sign(URL_VALIDITY);
        match self.client.size(url.as_str()) {
            Ok(size) => Ok(Some(size)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(self.failure("read", name, &error)),
        }
    }

    fn remove(&self, name: &str) -> Result<(), BackupError> {
        let url = self.bucket.delete_object(Some(&self.credentials), &self.key(name)).sign(URL_VALIDITY);
        match self.client.delete(url.as_str()) {
            Err(error) if error.status() != Some(404) => Err(self.failure("remove", name, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn staging_directory(&self) -> Option<&Path> {
        None
    }
}
