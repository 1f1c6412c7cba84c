//! Errors of queries.

use crate::page::VaultError;

/// Why a query has no result.
#[derive(Debug, thiserror::Error)]
pub enum DataviewError {
    /// The query is invalid, or cannot be answered; the text says what to do.
    #[error("{0}")]
    Invalid(String),
    /// The vault cannot be read.
    #[error("cannot read the pages of the query")]
    Vault(#[source] VaultError),
}

/// An evaluation that failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This row has no value; the others may.
    Row(String),
    /// The query cannot be answered.
    Query(DataviewError),
}

impl From<VaultError> for Failure {
    fn from(error: VaultError) -> Self {
        Self::Query(DataviewError::Vault(error))
    }
}

impl Failure {
    pub(crate) fn row(message: impl Into<String>) -> Self {
        Self::Row(message.into())
    }

    pub(crate) fn query(message: impl Into<String>) -> Self {
        Self::Query(DataviewError::Invalid(message.into()))
    }
}

pub(crate) type Evaluation<T> = Result<T, Failure>;
