//! The socket of the HTTP server: bound by this process, or inherited from systemd
//! (sd_listen_fds(3)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use anyhow::Context;
use listenfd::ListenFd;
use svcfs_config::{CliOverrides, ListenAddress, ServerSettings};

use crate::failure::{CommandFailure, ExitStatus};

/// The inherited socket, if any. Call it before the first thread starts: it removes the variables
/// that announce the socket, so that child processes do not use it.
///
/// # Errors
/// `Usage` when the socket is unsuitable, or there are several.
pub fn inherited() -> Result<Option<TcpListener>, CommandFailure> {
    let mut handed = ListenFd::from_env();
    let usage_error = |message: String| CommandFailure::saying(ExitStatus::Usage, message);
    match handed.len() {
        0 => Ok(None),
        1 => handed.take_tcp_listener(0).map_err(|error| {
            usage_error(format!("the inherited socket is not a listening TCP socket ({error}); see `svcfs.socket`"))
        }),
        several => {
            Err(usage_error(format!("{several} sockets were inherited, but only one is supported; see `svcfs.socket`")))
        }
    }
}

/// The command-line settings, with the address of an inherited socket in place of theirs.
///
/// # Errors
/// When the address of the socket is not known.
pub fn with_inherited_address(
    overrides: CliOverrides,
    inherited: Option<&TcpListener>,
) -> Result<CliOverrides, CommandFailure> {
    let Some(socket) = inherited else { return Ok(overrides) };
    let bound = socket.local_addr().context("the address of the inherited socket is not known")?;
    Ok(CliOverrides { host: Some(bound.ip().to_string()), port: Some(bound.port()), ..overrides })
}

/// Binds the port.
///
/// # Errors
/// `Failed` with the reason.
pub fn bind(server: &ServerSettings) -> Result<TcpListener, CommandFailure> {
    let ServerSettings { host, port, public_url: _, space_parents: _, cors: _, rate_limit: _ } = server;
    let bound = match host {
        ListenAddress::Address(address) => TcpListener::bind((*address, *port)),
        ListenAddress::Name(name) => TcpListener::bind((name.as_str(), *port)),
    };
    bound.map_err(|error| {
        let at = server.authority();
        let message = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("port {port} is in use: something else listens on {at}; stop it, or choose another with --port (0: any)")
            }
            std::io::ErrorKind::PermissionDenied => {
                format!("permission denied for port {port}: ports below 1024 need privileges; choose another with --port")
            }
            std::io::ErrorKind::AddrNotAvailable => {
                format!("`{host}` is not an address of this machine; choose another with --host")
            }
            _ => format!("cannot listen on {at}: {error}"),
        };
        CommandFailure::new(ExitStatus::Failed, anyhow::Error::new(error).context(message))
    })
}

/// The URL for local programs: the loopback address instead of the unspecified one, and the real
/// port instead of 0.
///
/// # Errors
/// When the address is not known.
pub fn url(server: &ServerSettings, socket: &TcpListener) -> Result<String, CommandFailure> {
    let bound = socket.local_addr().context("the address of the HTTP server is not known")?;
    let mut local = ServerSettings { port: bound.port(), ..server.clone() };
    if let ListenAddress::Address(address) = &mut local.host
        && address.is_unspecified()
    {
        *address = match address {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
    }
    Ok(format!("http://{}", local.authority()))
}
