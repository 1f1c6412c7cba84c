//! Settings of a service.

use std::fmt;

use svcfs_net::ServiceClient;

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {reason}")]
pub struct OptionError {
    /// The complete key of the setting: `search.vector.embedder.model`.
    pub key: String,
    /// What is wrong with it, and what to write instead.
    pub reason: String,
}

pub(crate) fn option_error(table: &str, key: &str, reason: impl Into<String>) -> OptionError {
    OptionError { key: format!("{table}.{key}"), reason: reason.into() }
}

/// A text that is never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The shortest text that is removed from messages: removing shorter ones would spoil them.
    const MIN_REMOVED_BYTES: usize = 6;

    /// A secret text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// A message without this secret.
    pub(crate) fn remove_from(&self, message: &str) -> String {
        if self.0.len() < Self::MIN_REMOVED_BYTES { message.to_owned() } else { message.replace(&self.0, "***") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("***")
    }
}

/// A URL of the settings, without a final `/`.
pub(crate) fn checked_url(table: &str, key: &str, url: &str) -> Result<String, OptionError> {
    let url = url.trim();
    match ServiceClient::check_url(url) {
        Ok(()) => Ok(url.trim_end_matches('/').to_owned()),
        Err(error) => Err(option_error(table, key, format!("cannot be used: {error}"))),
    }
}

/// Refuses headers that would be no headers: an end of line would begin another one.
pub(crate) fn checked_headers(table: &str, key: &str, headers: &[(String, Secret)]) -> Result<(), OptionError> {
    for (name, value) in headers {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_name) {
            return Err(option_error(table, key, format!("has the name {name:?}, which is no name of a header")));
        }
        if !value.expose().bytes().all(|byte| byte == b'\t' || (b' '..=b'~').contains(&byte)) {
            let reason = format!("has a value for `{name}` with a line break or a character that is not ASCII");
            return Err(option_error(table, key, reason));
        }
    }
    Ok(())
}
