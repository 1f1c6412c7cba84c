//! Network addresses of callers.

use std::net::IpAddr;

/// The prefix that identifies one caller: an IPv4 address, or the /64 of an IPv6 address.
pub fn network_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}
