//! `[nfs]`: whether the tree is served over NFS, and to which networks.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the tree is served over NFSv3, and to whom. The protocol carries no keys: whoever is in `allow` may read and write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NfsConfig {
    /// Serve every space over NFSv3, on the address of `server.host`.
    pub enabled: bool,
    /// TCP port to listen on, for NFS and MOUNT; 0 lets the system pick a free one.
    pub port: u16,
    /// Addresses and networks of those who are served: `10.0.0.5`, `10.0.0.0/24`, `fd00::/8`. This machine alone when none is named. They have to
    /// be named when `auth.type` is not `none`.
    pub allow: Vec<String>,
    /// Names that changes get in history, by number of user (`1000`) or by address or network (`10.0.0.5`); a number beats an address.
    pub actors: BTreeMap<String, String>,
}

impl Default for NfsConfig {
    fn default() -> Self {
        Self { enabled: false, port: 2049, allow: Vec::new(), actors: BTreeMap::new() }
    }
}

/// How the tree is served over NFS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsSettings {
    /// TCP port; 0 lets the system pick a free one.
    pub port: u16,
    /// Who is served.
    allow: Vec<IpNet>,
    /// The settings name who is served: they may without keys, also where others need them.
    pub has_allow_list: bool,
    /// Names of those who change something.
    pub actors: NfsActors,
}

/// The names of those who change something over NFS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NfsActors {
    users: BTreeMap<u32, String>,
    networks: Vec<(IpNet, String)>,
}

/// What the command line says of NFS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NfsFlags {
    /// It is to be served.
    pub enabled: bool,
    /// On this port.
    pub port: Option<u16>,
    /// To these addresses and networks.
    pub allow: Option<Vec<String>>,
}

impl NfsSettings {
    /// Whether somebody at an address is served.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allow.iter().any(|network| network.contains(&address))
    }
}

impl NfsActors {
    /// The name that the settings have for a user at an address.
    #[must_use]
    pub fn name(&self, user: Option<u32>, address: IpAddr) -> Option<&str> {
        let by_number = user.and_then(|user| self.users.get(&user));
        let address = address.to_canonical();
        // The smallest network has most to say of one who is in it.
        let within = self.networks.iter().filter(|(network, _)| network.contains(&address));
        let by_address = || within.max_by_key(|(network, _)| network.prefix_len()).map(|(_, name)| name);
        by_number.or_else(by_address).map(String::as_str)
    }
}

/// An address or a network.
fn network(text: &str) -> Option<IpNet> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn this_machine() -> Vec<IpNet> {
    let loopback = IpNet::new(Ipv4Addr::LOCALHOST.into(), 8).ok();
    loopback.into_iter().chain([IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))]).collect()
}

impl NfsConfig {
    /// What holds; none when it is not served. Complaints are about a key or flag each; `is_open` tells that nobody needs a key.
    pub(crate) fn resolve(
        self,
        flags: &NfsFlags,
        is_open: bool,
        complain: &mut impl FnMut(&str, &str),
    ) -> Option<NfsSettings> {
        let Self { enabled, port, allow: listed, actors } = self;
        let actors = names(actors, complain);
        let (key, texts) = flags.allow.as_ref().map_or(("nfs.allow", &listed), |told| ("--nfs-allow", told));
        let mut allow = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            match network(text) {
                Some(network) => allow.push(network),
                None => complain(
                    &format!("{key}[{index}]"),
                    &format!("is no address and no network, such as `10.0.0.5` or `10.0.0.0/24`: `{text}`"),
                ),
            }
        }
        if !(enabled || flags.enabled) {
            let without = [("--nfs-port", flags.port.is_some()), ("--nfs-allow", flags.allow.is_some())];
            for (flag, _) in without.into_iter().filter(|(_, is_given)| *is_given) {
                complain(flag, "has no effect unless the protocol is served: add `--nfs`");
            }
            return None;
        }
        if !is_open && texts.is_empty() {
            let told = "must name somebody while `auth.type` is not `none`: NFS carries no keys, and whoever is served may read and write everything. \
                        Name the addresses you trust, or do not serve NFS";
            complain("nfs.allow", told);
        }
        let is_trusting = !texts.is_empty();
        let allow = if is_trusting { allow } else { this_machine() };
        Some(NfsSettings { port: flags.port.unwrap_or(port), allow, has_allow_list: is_trusting, actors })
    }
}

fn names(written: BTreeMap<String, String>, complain: &mut impl FnMut(&str, &str)) -> NfsActors {
    let mut actors = NfsActors::default();
    for (who, name) in written {
        if name.trim().is_empty() {
            complain(&format!("nfs.actors.{who}"), "is empty");
        } else if let Ok(user) = who.parse() {
            actors.users.insert(user, name);
        } else if let Some(network) = network(&who) {
            actors.networks.push((network, name));
        } else {
            complain(&format!("nfs.actors.{who}"), "names no user by number, and no address or network");
        }
    }
    actors
}
