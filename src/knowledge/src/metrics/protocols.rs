//! Status of protocol servers other than HTTP, for `/readyz`.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ServerMetrics;

/// Timeout of the test connection to a local server.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);

/// A protocol server of this program.
pub struct ProtocolServer {
    /// Its name, `nfs`, `s3` or `webdav`: the key in `/readyz`.
    pub name: &'static str,
    /// Where it listens; none if it is disabled.
    pub endpoint: Option<ProtocolEndpoint>,
}

/// An enabled protocol server.
pub struct ProtocolEndpoint {
    /// Its port.
    pub port: u16,
    /// The address for clients; none if the port is enough.
    pub client_address: Option<String>,
    /// Checks whether it answers; returns the reason if not.
    pub probe: HealthProbe,
}

type HealthProbe = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl ProtocolEndpoint {
    /// A server that is healthy if it accepts a connection at this address.
    pub fn from_address(address: SocketAddr) -> Self {
        let probe = move || match TcpStream::connect_timeout(&address, PROBE_TIMEOUT) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("cannot connect to {address}: {error}")),
        };
        Self { port: address.port(), client_address: None, probe: Box::new(probe) }
    }
}

/// The status of a protocol server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolReport {
    /// Whether the settings enable it.
    pub enabled: bool,
    /// Whether it answers; absent if disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The address for clients, if the port is not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Why it is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl ServerMetrics {
    /// Checks all protocol servers; each takes at most 200 ms.
    pub fn protocol_reports(&self) -> BTreeMap<String, ProtocolReport> {
        self.protocols.read().iter().map(|protocol| (protocol.name.to_owned(), report(protocol))).collect()
    }
}

fn report(protocol: &ProtocolServer) -> ProtocolReport {
    let Some(ProtocolEndpoint { port, client_address: endpoint, probe }) = &protocol.endpoint else {
        return ProtocolReport { enabled: false, healthy: None, port: None, endpoint: None, error: None };
    };
    let error = probe().err();
    let (healthy, port, endpoint) = (Some(error.is_none()), Some(*port), endpoint.clone());
    ProtocolReport { enabled: true, healthy, port, endpoint, error }
}
