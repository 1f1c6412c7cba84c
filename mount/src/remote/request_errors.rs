//! Requests without a response: why, and what that means.

use svcfs_base::{Fault, Kind};

/// Whether the server certainly did not receive the request.
pub(super) fn is_undelivered(error: &ureq::Error) -> bool {
    use ureq::Timeout::{Connect, Resolve};
    matches!(error, ureq::Error::HostNotFound | ureq::Error::ConnectionFailed | ureq::Error::Timeout(Connect | Resolve))
        || matches!(error, ureq::Error::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// Whether the server's certificate was refused, which a retry does not change.
pub(super) fn is_tls_error(error: &ureq::Error) -> bool {
    rustls_error(error).is_some()
}

pub(super) fn rustls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

pub(super) fn tls_error(error: &ureq::Error) -> Fault {
    let help = "install the CA certificate or set SSL_CERT_FILE";
    Fault::new(Kind::Upstream, format!("no secure connection: {error}; {help}"))
}

pub(super) fn unreachable(error: &ureq::Error) -> Fault {
    Fault::new(Kind::Upstream, format!("the server cannot be reached: {error}"))
}

pub(super) fn protocol_error(what: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Upstream, format!("not an svcfs server, or an incompatible version: {what}"))
}
