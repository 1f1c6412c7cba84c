//! `[nfs]`

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Access over NFSv3. The protocol has no keys: every client in `allow` can read and write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NfsConfig {
    /// Serve every space over NFSv3, on the address of `server.host`.
    pub enabled: bool,
    /// TCP port for NFS and MOUNT; 0 lets the system choose a free one.
    pub port: u16,
    /// Addresses and networks of the allowed clients: `10.0.0.5`, `10.0.0.0/24`, `fd00::/8`. If
    /// empty: this machine only. Required when `auth.type` is not `none`.
    pub allow: Vec<String>,
    /// Authors of changes, by user id (`1000`), or by address or network (`10.0.0.5`); a user id
    /// takes precedence.
    pub actors: BTreeMap<String, String>,
}

impl Default for NfsConfig {
    fn default() -> Self {
        Self { enabled: false, port: 2049, allow: Vec::new(), actors: BTreeMap::new() }
    }
}

/// Validated settings of the NFS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsSettings {
    /// TCP port; 0 lets the system choose a free one.
    pub port: u16,
    allow: Vec<IpNet>,
    /// Whether the settings name the allowed clients. They need no keys then, even with
    /// authentication.
    pub has_allow_list: bool,
    /// Names of authors.
    pub actors: NfsActors,
}

/// Names of the authors of changes over NFS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NfsActors {
    users: BTreeMap<u32, String>,
    networks: Vec<(IpNet, String)>,
}

/// Flags of the command line for NFS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NfsFlags {
    /// Whether to serve NFS.
    pub enabled: bool,
    /// TCP port.
    pub port: Option<u16>,
    /// Allowed addresses and networks.
    pub allow: Option<Vec<String>>,
}

impl NfsSettings {
    /// Whether a client at this address is allowed.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allow.iter().any(|network| network.contains(&address))
    }
}

impl NfsActors {
    /// The configured name of a user at an address.
    #[must_use]
    pub fn name(&self, user: Option<u32>, address: IpAddr) -> Option<&str> {
        let by_number = user.and_then(|user| self.users.get(&user));
        let address = address.to_canonical();
        // The smallest network is the most specific one.
        let within = self.networks.iter().filter(|(network, _)| network.contains(&address));
        let by_address = || within.max_by_key(|(network, _)| network.prefix_len()).map(|(_, name)| name);
        by_number.or_else(by_address).map(String::as_str)
    }
}

fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn loopback_networks() -> Vec<IpNet> {
    let loopback = IpNet::new(Ipv4Addr::LOCALHOST.into(), 8).ok();
    loopback.into_iter().chain([IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))]).collect()
}

impl NfsConfig {
    /// Validates the settings; none when NFS is off. `report` takes a key or flag and a message;
    /// `auth_is_off` means that no caller needs a key.
    pub(crate) fn resolve(
        self,
        flags: &NfsFlags,
        auth_is_off: bool,
        report: &mut impl FnMut(&str, &str),
    ) -> Option<NfsSettings> {
        let Self { enabled, port, allow: allow_texts, actors } = self;
        let actors = resolve_actors(actors, report);
        let (key, texts) = flags.allow.as_ref().map_or(("nfs.allow", &allow_texts), |texts| ("--nfs-allow", texts));
        let mut allow = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match network(text) {
                Some(network) => allow.push(network),
                None => report(
                    &format!("{key}[{index}]"),
                    &format!("is not an address or network such as `10.0.0.5` or `10.0.0.0/24`: `{text}`"),
                ),
            }
        }
        if !(enabled || flags.enabled) {
            let unused = [("--nfs-port", flags.port.is_some()), ("--nfs-allow", flags.allow.is_some())];
            for (flag, _) in unused.into_iter().filter(|(_, is_set)| *is_set) {
                report(flag, "has no effect while the protocol is off; add `--nfs`");
            }
            return None;
        }
        if !auth_is_off && texts.is_empty() {
            let message = "must list trusted addresses while `auth.type` is not `none`: NFS has no keys, and these \
                           clients can read and write everything";
            report("nfs.allow", message);
        }
        let has_allow_list = !texts.is_empty();
        let allow = if has_allow_list { allow } else { loopback_networks() };
        Some(NfsSettings { port: flags.port.unwrap_or(port), allow, has_allow_list, actors })
    }
}

fn resolve_actors(entries: BTreeMap<String, String>, report: &mut impl FnMut(&str, &str)) -> NfsActors {
    let mut actors = NfsActors::default();
    for (client, name) in entries {
        if name.trim().is_empty() {
            report(&format!("nfs.actors.{client}"), "is empty; set a name");
        } else if let Ok(user) = client.parse() {
            actors.users.insert(user, name);
        } else if let Some(network) = network(&client) {
            actors.networks.push((network, name));
        } else {
            report(&format!("nfs.actors.{client}"), "must be a user id, an address or a network");
        }
    }
    actors
}
