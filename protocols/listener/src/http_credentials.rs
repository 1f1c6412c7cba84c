//! What a client says of itself: `Authorization`, as Basic or Bearer (RFC 7617, RFC 6750).

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use svcfs_base::{Fault, Kind};

/// Who a client says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HttpCredentials {
    /// The name before the password; none with Bearer, and when it is empty.
    pub user: Option<String>,
    /// The key: the bearer token, or the password.
    pub key: Option<String>,
}

impl HttpCredentials {
    /// Reads the header; nothing when there is none.
    ///
    /// # Errors
    /// `Unauthenticated` for a header that is neither Basic nor Bearer, or sent twice.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, Fault> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (value, second) = (values.next(), values.next());
        let Some(value) = value else { return Ok(Self::default()) };
        let understood = || {
            let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
            let rest = rest.trim();
            if scheme.eq_ignore_ascii_case("bearer") {
                return Some(Self { user: None, key: Some(rest.to_owned()) });
            }
            if !scheme.eq_ignore_ascii_case("basic") {
                return None;
            }
            let pair = String::from_utf8(BASE64_STANDARD.decode(rest).ok()?).ok()?;
            let (user, key) = pair.split_once(':')?;
            Some(Self { user: Some(user.to_owned()).filter(|user| !user.is_empty()), key: Some(key.to_owned()) })
        };
        let refused = || {
            let told =
                "`Authorization` must be `Basic` (any user, the key as password) or `Bearer`, and stand there once";
            Fault::new(Kind::Unauthenticated, told)
        };
        if second.is_some() { Err(refused()) } else { understood().ok_or_else(refused) }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn login(text: &'static str) -> Result<HttpCredentials, Fault> {
        HttpCredentials::from_headers(&HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(text))]))
    }

    #[test]
    fn a_password_and_a_bearer_token_are_the_same_key() {
        let key = Some("k:1".to_owned());
        assert_eq!(
            login("Basic YW5uOms6MQ==").unwrap(),
            HttpCredentials { user: Some("ann".to_owned()), key: key.clone() }
        );
        assert_eq!(login("basic Oms6MQ==").unwrap(), HttpCredentials { user: None, key: key.clone() });
        assert_eq!(login("BEARER k:1").unwrap(), HttpCredentials { user: None, key });
        assert_eq!(HttpCredentials::from_headers(&HeaderMap::new()).unwrap(), HttpCredentials::default());
    }

    #[test]
    fn what_cannot_be_understood_is_no_login() {
        for text in ["Basic", "Basic !!", "Basic YW5u", "Basic /zo=", "Digest a=b", ""] {
            assert_eq!(login(text).unwrap_err().kind(), Kind::Unauthenticated, "{text:?}");
        }
        let mut twice = HeaderMap::new();
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer a"));
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer b"));
        assert_eq!(HttpCredentials::from_headers(&twice).unwrap_err().kind(), Kind::Unauthenticated);
    }
}
