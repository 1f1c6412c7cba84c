//! Where callers come from.

use std::net::IpAddr;

/// What one caller has: an address of IPv4, and the 2^64 that IPv6 gives to every network.
pub fn network_prefix(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
        address @ IpAddr::V4(_) => address,
    }
}
