//! Protocol servers beside HTTP, as `/readyz` tells of them (contract 4.2).

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ServerMetrics;

/// How long a protocol server may take to take a connection from this machine.
const PATIENCE: Duration = Duration::from_millis(200);

/// A protocol server that this program has.
pub struct ProtocolServer {
    /// Its name, `nfs`, `s3` or `webdav`: the key in `/readyz`.
    pub name: &'static str,
    /// How it is served; none when the settings leave it off.
    pub endpoint: Option<ProtocolEndpoint>,
}

/// A protocol server that is meant to answer.
pub struct ProtocolEndpoint {
    /// The port it listens on.
    pub port: u16,
    /// What clients are told to connect to; none when the port says it.
    pub client_address: Option<String>,
    /// Whether it answers; else why not.
    pub probe: HealthProbe,
}

type HealthProbe = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl ProtocolEndpoint {
    /// A server that is found to be well when it takes a connection at this address.
    pub fn from_address(address: SocketAddr) -> Self {
        let dial = move || match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("{address} takes no connection: {error}")),
        };
        Self { port: address.port(), client_address: None, probe: Box::new(dial) }
    }
}

/// How a protocol server is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolReport {
    /// Whether the settings have it.
    pub enabled: bool,
    /// Whether it answers; absent when it is not enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// The port it listens on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// What clients connect to, where the port does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Why it is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ServerMetrics {
    /// Asks every protocol server how it is doing, by name; each takes 200 ms at most.
    pub fn protocol_reports(&self) -> BTreeMap<String, ProtocolReport> {
        self.protocols.read().iter().map(|protocol| (protocol.name.to_owned(), asked(protocol))).collect()
    }
}

fn asked(protocol: &ProtocolServer) -> ProtocolReport {
    let Some(ProtocolEndpoint { port, client_address: endpoint, probe }) = &protocol.endpoint else {
        return ProtocolReport { enabled: false, healthy: None, port: None, endpoint: None, error: None };
    };
    let error = probe().err();
    let (healthy, port, endpoint) = (Some(error.is_none()), Some(*port), endpoint.clone());
    ProtocolReport { enabled: true, healthy, port, endpoint, error }
}
