//! `[net]`

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests to other servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetConfig {
    /// Hosts and networks that requests to URLs of callers (webhooks, clip) may reach although
    /// their addresses are not public, and without TLS: `hooks.example.org`, `10.0.0.5`,
    /// `10.0.0.0/8`.
    pub allow: Vec<String>,
}

/// Addresses that requests to URLs of callers may reach besides public ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetSettings {
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Networks.
    pub networks: Vec<IpNet>,
}

impl NetConfig {
    /// Validates the list; `report` takes a key and a message.
    pub(crate) fn resolve(self, report: &mut impl FnMut(&str, &str)) -> NetSettings {
        let mut settings = NetSettings::default();
        for (index, text) in self.allow.iter().enumerate() {
            let text = text.trim();
            let address = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            if let Some(network) = text.parse().ok().or_else(|| address.ok().map(IpNet::from)) {
                settings.networks.push(network);
            } else if is_host_name(text) {
                settings.hosts.push(text.to_owned());
            } else {
                let message = format!(
                    "is not a host, address or network such as `hooks.example.org`, `10.0.0.5` or `10.0.0.0/8`: \
                     `{text}`; give it without scheme, port and path"
                );
                report(&format!("net.allow[{index}]"), &message);
            }
        }
        settings
    }
}

/// Whether a text is the name of a host. A last label of digits would be an address in disguise.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-' || letter == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_allowed)
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && name.split('.').all(is_label) && !last.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_addresses_and_networks_can_be_listed() {
        let resolve = |text: &str| {
            let mut problems = Vec::new();
            let config = NetConfig { allow: vec![text.to_owned()] };
            let settings = config.resolve(&mut |key, message| problems.push(format!("{key} {message}")));
            (settings, problems)
        };
        for text in ["localhost", "hooks.example.org", "Hooks.example.org.", "a_b.test", " localhost "] {
            let (settings, problems) = resolve(text);
            assert!(settings.hosts == [text.trim()] && problems.is_empty(), "{text}: {problems:?}");
        }
        for text in ["10.0.0.5", "10.0.0.0/8", "::1", "[::1]", "fd00::/8", "0.0.0.0/0"] {
            let (settings, problems) = resolve(text);
            assert!(settings.networks.len() == 1 && problems.is_empty(), "{text}: {problems:?}");
        }
        for text in ["", "http://x.org", "x.org:80", "x.org/a", "*.x.org", "10.0.0", "10.0.0.0/33", "x..org", "ä.org"]
        {
            let (settings, problems) = resolve(text);
            assert!(settings == NetSettings::default() && problems.len() == 1, "{text}: {settings:?}");
            assert!(problems[0].starts_with("net.allow[0] is not a host"), "{problems:?}");
        }
    }
}
