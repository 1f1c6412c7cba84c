//! The protocols beside HTTP: their ports are taken before the root is touched, they open after it and close before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use svcfs_config::{ListenAddress, Settings};
use svcfs_knowledge::kernel::ServerState;
use svcfs_knowledge::metrics::{ProtocolEndpoint, ProtocolServer as Told};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::failure::{CommandFailure, ExitStatus};
use crate::signals::SignalRuntime;

/// What settings and `/readyz` call them.
const NAMES: [&str; 3] = ["s3", "webdav", "nfs"];

/// A protocol whose port is taken.
pub struct BoundProtocol {
    name: &'static str,
    socket: TcpListener,
    address: SocketAddr,
}

/// A protocol that is served.
pub struct ServedProtocol {
    /// As settings and `/readyz` call it.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl BoundProtocol {
    /// Tells `/readyz` of the protocols that are not served (gaps.md 4.2); each of the others tells of itself when it is opened.
    pub fn tell_of_others(served: &[Self], server: &ServerState) {
        let is_served = |name: &&str| served.iter().any(|bound| bound.name == *name);
        for name in NAMES.into_iter().filter(|name| !is_served(name)) {
            server.metrics().add_protocol(Told { name, endpoint: None });
        }
    }

    /// Takes the port of every protocol that is to be served.
    ///
    /// # Errors
    /// `Failed` when one is taken, or not for this user.
    pub fn all(settings: &Settings) -> Result<Vec<Self>, CommandFailure> {
        let s3 = settings.s3.as_ref().map(|s3| s3.port);
        let webdav = settings.webdav.as_ref().map(|webdav| webdav.port);
        let nfs = settings.nfs.as_ref().map(|nfs| nfs.port);
        let served = NAMES.into_iter().zip([s3, webdav, nfs]).filter_map(|(name, port)| Some((name, port?)));
        served.map(|(name, port)| Self::of(name, &settings.server.host, port)).collect()
    }

    fn of(name: &'static str, host: &ListenAddress, port: u16) -> Result<Self, CommandFailure> {
        let bound = match host {
            ListenAddress::Address(address) => TcpListener::bind((*address, port)),
            ListenAddress::Name(host) => TcpListener::bind((host.as_str(), port)),
        };
        let bound = bound.and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = bound.map_err(|error| {
            let told = format!(
                "{name} cannot be served on port {port} of {host}: {error}; free it, or choose another with --{name}-port (0: any)"
            );
            CommandFailure::new(ExitStatus::Failed, anyhow::Error::new(error).context(told))
        })?;
        Ok(Self { name, socket, address })
    }

    /// Begins to serve it.
    ///
    /// # Errors
    /// `Failed` when the socket cannot be used.
    pub fn open(self, server: &Arc<ServerState>, listening: &SignalRuntime) -> Result<ServedProtocol, CommandFailure> {
        let Self { name, socket, address } = self;
        let _inside = listening.runtime.enter();
        let listener = socket.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(socket));
        let listener = listener.with_context(|| format!("the socket of {name} cannot be used"))?;
        server.metrics().add_protocol(Told { name, endpoint: Some(ProtocolEndpoint::from_address(reached(address))) });
        let stop = CancellationToken::new();
        let (server, asked) = (Arc::clone(server), stop.clone());
        let task = match server.settings().nfs.clone() {
            Some(settings) if name == "nfs" => {
                listening.runtime.spawn(svcfs_nfs::serve(listener, server, settings, asked))
            }
            _ if name == "s3" => listening.runtime.spawn(svcfs_s3::serve(listener, server, asked)),
            _ => listening.runtime.spawn(svcfs_webdav::serve(listener, server, asked)),
        };
        Ok(ServedProtocol { name, address, task, stop })
    }
}

/// Where this machine reaches what listens at an address: on all of them, it is the loopback one.
fn reached(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    address
}

impl ServedProtocol {
    /// Where clients find it.
    pub fn url(&self) -> String {
        let scheme = if self.name == "nfs" { "nfs" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Takes no new requests, and lets those in progress end.
    ///
    /// # Errors
    /// When it had died.
    pub fn stop(self, listening: &SignalRuntime) -> Result<(), CommandFailure> {
        self.stop.cancel();
        let name = self.name;
        listening.runtime.block_on(self.task).with_context(|| format!("the server of {name} died"))?;
        Ok(())
    }
}
