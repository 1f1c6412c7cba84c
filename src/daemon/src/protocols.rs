//! The protocols beside HTTP: their ports are taken before the root is touched, they open after it and close before it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Context;
use svcfs_config::{Host, ProtocolSettings, Settings};
use svcfs_knowledge::kernel::Server;
use svcfs_knowledge::vitals::{Protocol as Told, Served};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::failure::{Exit, Failure};
use crate::signals::Listening;

/// A protocol whose port is taken.
pub struct Bound {
    name: &'static str,
    socket: TcpListener,
    address: SocketAddr,
}

/// A protocol that is served.
pub struct Protocol {
    /// As settings and `/readyz` call it.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Bound {
    /// Takes the port of every protocol that is to be served.
    ///
    /// # Errors
    /// `Failed` when one is taken, or not for this user.
    pub fn all(settings: &Settings) -> Result<Vec<Self>, Failure> {
        let protocols = [("webdav", &settings.webdav)];
        let served = protocols.into_iter().filter_map(|(name, settings)| Some((name, settings.as_ref()?)));
        served.map(|(name, protocol)| Self::of(name, &settings.server.host, protocol)).collect()
    }

    fn of(name: &'static str, host: &Host, &ProtocolSettings { port }: &ProtocolSettings) -> Result<Self, Failure> {
        let bound = match host {
            Host::Address(address) => TcpListener::bind((*address, port)),
            Host::Name(host) => TcpListener::bind((host.as_str(), port)),
        };
        let bound = bound.and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, socket) = bound.map_err(|error| {
            let told = format!(
                "{name} cannot be served on port {port} of {host}: {error}; free it, or choose another with --{name}-port (0: any)"
            );
            Failure::new(Exit::Failed, anyhow::Error::new(error).context(told))
        })?;
        Ok(Self { name, socket, address })
    }

    /// Begins to serve it.
    ///
    /// # Errors
    /// `Failed` when the socket cannot be used.
    pub fn open(self, server: &Arc<Server>, listening: &Listening) -> Result<Protocol, Failure> {
        let Self { name, socket, address } = self;
        let _inside = listening.runtime.enter();
        let listener = socket.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(socket));
        let listener = listener.with_context(|| format!("the socket of {name} cannot be used"))?;
        server.vitals().serves(Told { name, served: Some(Served::at(reached(address))) });
        let stop = CancellationToken::new();
        let task = listening.runtime.spawn(svcfs_webdav::serve(listener, Arc::clone(server), stop.clone()));
        Ok(Protocol { name, address, task, stop })
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

impl Protocol {
    /// Takes no new requests, and lets those in progress end.
    ///
    /// # Errors
    /// When it had died.
    pub fn stop(self, listening: &Listening) -> Result<(), Failure> {
        self.stop.cancel();
        let name = self.name;
        listening.runtime.block_on(self.task).with_context(|| format!("the server of {name} died"))?;
        Ok(())
    }
}
