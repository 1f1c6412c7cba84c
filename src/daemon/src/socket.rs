//! The socket that HTTP is answered on: taken by this process, or handed over by systemd (sd_listen_fds(3)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};

use anyhow::Context;
use listenfd::ListenFd;
use svcfs_config::{CliOverrides, ListenAddress, ServerSettings};

use crate::failure::{CommandFailure, ExitStatus};

/// The socket that was handed over, if one was. Must be called before there is any other thread: the variables that tell of it are
/// taken away, so that no program this one starts believes them meant for itself.
///
/// # Errors
/// `Usage` when it is none that HTTP can be answered on, or there are several.
pub fn inherited() -> Result<Option<TcpListener>, CommandFailure> {
    let mut handed = ListenFd::from_env();
    let wrong = |told: String| CommandFailure::saying(ExitStatus::Usage, told);
    match handed.len() {
        0 => Ok(None),
        1 => handed.take_tcp_listener(0).map_err(|error| {
            wrong(format!("the socket that was handed over is no listening TCP socket ({error}); see `svcfs.socket`"))
        }),
        several => {
            Err(wrong(format!("{several} sockets were handed over, and only one is answered on; see `svcfs.socket`")))
        }
    }
}

/// What the command line says, with the place of a socket that was handed over instead of what it says of one.
///
/// # Errors
/// When the socket's address is not known.
pub fn named(overrides: CliOverrides, inherited: Option<&TcpListener>) -> Result<CliOverrides, CommandFailure> {
    let Some(socket) = inherited else { return Ok(overrides) };
    let bound = socket.local_addr().context("the address of the socket that was handed over is not known")?;
    Ok(CliOverrides { host: Some(bound.ip().to_string()), port: Some(bound.port()), ..overrides })
}

/// Takes the port.
///
/// # Errors
/// `Failed` with what stands in the way.
pub fn bind(server: &ServerSettings) -> Result<TcpListener, CommandFailure> {
    let ServerSettings { host, port, public_url: _, space_parents: _, cors: _, rate_limit: _ } = server;
    let bound = match host {
        ListenAddress::Address(address) => TcpListener::bind((*address, *port)),
        ListenAddress::Name(name) => TcpListener::bind((name.as_str(), *port)),
    };
    bound.map_err(|error| {
        let at = server.authority();
        let told = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("port {port} is in use: something else listens on {at}; stop it, or choose another with --port (0: any)")
            }
            std::io::ErrorKind::PermissionDenied => {
                format!("port {port} is not for you: ports below 1024 need privileges; choose another with --port")
            }
            std::io::ErrorKind::AddrNotAvailable => {
                format!("`{host}` is no address of this machine; choose another with --host")
            }
            _ => format!("cannot listen on {at}: {error}"),
        };
        CommandFailure::new(ExitStatus::Failed, anyhow::Error::new(error).context(told))
    })
}

/// Where a program on this machine finds the server: one that listens on every address is found at the loopback one, and
/// port 0 has become a real one.
///
/// # Errors
/// When its address is not known.
pub fn url(server: &ServerSettings, socket: &TcpListener) -> Result<String, CommandFailure> {
    let bound = socket.local_addr().context("the address of the HTTP server is not known")?;
    let mut reached = ServerSettings { port: bound.port(), ..server.clone() };
    if let ListenAddress::Address(address) = &mut reached.host
        && address.is_unspecified()
    {
        *address = match address {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
    }
    Ok(format!("http://{}", reached.authority()))
}
