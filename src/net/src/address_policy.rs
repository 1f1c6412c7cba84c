//! Which addresses requests to URLs of callers may reach.
//!
//! Invariant: the decision is made on resolved addresses, and the connection uses exactly those. So
//! neither spelling (`0x7f.1`, `2130706433`) nor a name that resolves differently the second time
//! gets around it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Networks that are not the public internet (IANA special-purpose registries), and the addresses
/// at which clouds serve credentials of the machine.
const SPECIAL_NETWORKS: &[(&str, &str)] = &[
    ("0.0.0.0/8", "an unspecified"),
    ("10.0.0.0/8", "a private"),
    ("100.64.0.0/10", "a private"),
    ("127.0.0.0/8", "a loopback"),
    ("168.63.129.16/32", "a metadata"),
    ("169.254.0.0/16", "a link-local"),
    ("172.16.0.0/12", "a private"),
    ("192.0.0.0/24", "a reserved"),
    ("192.0.2.0/24", "a reserved"),
    ("192.88.99.0/24", "a reserved"),
    ("192.168.0.0/16", "a private"),
    ("198.18.0.0/15", "a reserved"),
    ("198.51.100.0/24", "a reserved"),
    ("203.0.113.0/24", "a reserved"),
    ("224.0.0.0/4", "a multicast"),
    ("240.0.0.0/4", "a reserved"),
    ("::/128", "an unspecified"),
    ("::1/128", "a loopback"),
    ("2001::/23", "a reserved"),
    ("2001:db8::/32", "a reserved"),
    ("2002::/16", "a reserved"),
    ("3fff::/20", "a reserved"),
    ("fc00::/7", "a private"),
    ("fe80::/10", "a link-local"),
    ("fec0::/10", "a private"),
    ("ff00::/8", "a multicast"),
];

static NETWORKS: LazyLock<Vec<(IpNet, &str)>> = LazyLock::new(|| {
    let parse = |(text, class): &(&str, &'static str)| text.parse().ok().map(|network| (network, *class));
    SPECIAL_NETWORKS.iter().filter_map(parse).collect()
});

/// The public addresses, and the others that the operator permits (`net.allow`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    hosts: Vec<String>,
    networks: Vec<IpNet>,
}

/// An address that requests may not reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressRefused {
    /// It is not in the public internet.
    #[error(
        "`{host}` has {class} address, {address}; requests reach it only if the host or the address is in the setting `net.allow`"
    )]
    Special {
        /// The host in the URL.
        host: String,
        /// Its address.
        address: IpAddr,
        /// Its class, with an article.
        class: &'static str,
    },
    /// It would be reached without TLS.
    #[error("`http://{host}` is not encrypted; use https, or add the host to the setting `net.allow`")]
    Unencrypted {
        /// The host in the URL.
        host: String,
    },
}

impl AddressPolicy {
    /// Permits these hosts, whatever their addresses, and these networks.
    #[must_use]
    pub fn new(hosts: &[String], networks: &[IpNet]) -> Self {
        Self { hosts: hosts.iter().map(|host| normalized(host)).collect(), networks: networks.to_vec() }
    }

    /// Checks one address of a host; `requires_listed` refuses the public ones, too.
    ///
    /// # Errors
    /// [`AddressRefused`], which says what to do.
    pub fn check(&self, host: &str, address: IpAddr, requires_listed: bool) -> Result<(), AddressRefused> {
        let canonical = address.to_canonical();
        let is_listed = self.networks.iter().any(|network| network.contains(&canonical) || network.contains(&address))
            || self.hosts.contains(&normalized(host));
        if is_listed {
            return Ok(());
        }
        if let Some(class) = special_class(canonical) {
            return Err(AddressRefused::Special { host: host.to_owned(), address, class });
        }
        if requires_listed { Err(AddressRefused::Unencrypted { host: host.to_owned() }) } else { Ok(()) }
    }

    /// The permitted ones of the addresses of a host.
    ///
    /// # Errors
    /// [`AddressRefused`] of the first one, if none is permitted.
    fn permitted(
        &self,
        host: &str,
        addresses: &[SocketAddr],
        requires_listed: bool,
    ) -> Result<Vec<SocketAddr>, AddressRefused> {
        let check = |address: &SocketAddr| self.check(host, address.ip(), requires_listed).map(|()| *address);
        let (permitted, refused): (Vec<_>, Vec<_>) = addresses.iter().map(check).partition(Result::is_ok);
        match refused.into_iter().next() {
            Some(Err(refusal)) if permitted.is_empty() => Err(refusal),
            _ => Ok(permitted.into_iter().flatten().collect()),
        }
    }
}

/// The class of an address outside the public internet, with an article.
fn special_class(address: IpAddr) -> Option<&'static str> {
    if let Some((_, class)) = NETWORKS.iter().find(|(network, _)| network.contains(&address)) {
        return Some(class);
    }
    match address {
        IpAddr::V4(_) => None,
        // An IPv4 address behind a translator (NAT64) is as public as that address.
        IpAddr::V6(address) => match address.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                special_class(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into())
            }
            // Only 2000::/3 is assigned.
            [first, ..] => (first >> 13 != 1).then_some("a reserved"),
        },
    }
}

fn normalized(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// Resolves names to permitted addresses only.
#[derive(Debug)]
pub(crate) struct CheckedResolver {
    pub policy: Arc<AddressPolicy>,
    /// Whether `http://` needs a listed address.
    pub requires_tls: bool,
    pub inner: DefaultResolver,
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let addresses = self.inner.resolve(uri, config, timeout)?;
        let requires_listed = self.requires_tls && uri.scheme_str() != Some("https");
        let permitted = self
            .policy
            .permitted(uri.host().unwrap_or_default(), &addresses, requires_listed)
            .map_err(|refusal| ureq::Error::Other(Box::new(refusal)))?;
        let mut resolved = self.empty();
        permitted.into_iter().for_each(|address| resolved.push(address));
        Ok(resolved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_of(address: &str) -> Option<&'static str> {
        match AddressPolicy::default().check("host", address.parse().unwrap(), false) {
            Err(AddressRefused::Special { class, .. }) => Some(class),
            Err(AddressRefused::Unencrypted { .. }) => unreachable!("{address}"),
            Ok(()) => None,
        }
    }

    #[test]
    fn only_addresses_of_the_public_internet_are_permitted() {
        assert_eq!(NETWORKS.len(), SPECIAL_NETWORKS.len());
        for (class, addresses) in [
            ("a loopback", &["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"][..]),
            ("an unspecified", &["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"]),
            (
                "a private",
                &["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "100.100.100.200"],
            ),
            ("a private", &["fd00:ec2::254", "fc00::1", "fec0::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]),
            ("a link-local", &["169.254.169.254", "169.254.170.2", "fe80::1", "::ffff:169.254.169.254"]),
            ("a metadata", &["168.63.129.16"]),
            ("a multicast", &["224.0.0.1", "239.1.1.1", "ff02::1"]),
            ("a reserved", &["192.0.0.192", "192.0.2.1", "198.18.0.1", "240.0.0.1", "255.255.255.255"]),
            (
                "a reserved",
                &["2001:db8::1", "2001::1", "2002:7f00:1::", "64:ff9b:1::1", "100::1", "::7f00:1", "4000::"],
            ),
        ] {
            for address in addresses {
                assert_eq!(class_of(address), Some(class), "{address}");
            }
        }
        for address in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert_eq!(class_of(address), None, "{address}");
        }
    }

    #[test]
    fn listed_hosts_and_networks_are_permitted() {
        let networks = ["10.1.0.0/16", "::1/128"].map(|text| text.parse().unwrap());
        let policy = AddressPolicy::new(&["Intranet.example.".to_owned()], &networks);
        for (host, address, requires_listed, is_permitted) in [
            ("x", "10.1.2.3", true, true),
            ("x", "::ffff:10.1.2.3", true, true),
            ("x", "10.2.0.1", false, false),
            ("[::1]", "::1", true, true),
            ("intranet.EXAMPLE", "192.168.0.9", true, true),
            ("intranet.example.", "127.0.0.1", true, true),
            ("sub.intranet.example", "127.0.0.1", false, false),
            ("x", "1.1.1.1", false, true),
            ("x", "1.1.1.1", true, false),
        ] {
            let outcome = policy.check(host, address.parse().unwrap(), requires_listed);
            assert_eq!(outcome.is_ok(), is_permitted, "{host} {address}: {outcome:?}");
        }
    }

    #[test]
    fn of_several_addresses_the_permitted_ones_are_used() {
        let policy = AddressPolicy::default();
        let addresses = ["10.0.0.1:80", "1.1.1.1:80"].map(|text| text.parse().unwrap());
        assert_eq!(policy.permitted("x", &addresses, false).unwrap(), [addresses[1]]);
        let refusal = policy.permitted("x.test", &addresses[..1], false).unwrap_err().to_string();
        for part in ["x.test", "a private address", "10.0.0.1", "net.allow"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
    }
}
