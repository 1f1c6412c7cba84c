//! svcfs as a whole: every door over one tree, the contract, real programs on the mount, kill -9,
//! lost power, a mixed day of work.
//!
//! One rule: a test here proves that parts are joined up; what a part does by itself is tested
//! where it lives.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the tests stand outside: they use the tree as programs and people do"
)]

mod agents;
mod claims;
mod complete;
mod contract;
mod crash;
mod disk;
mod doctor;
mod drafts;
mod editors;
mod linear;
mod mixed;
mod others;
mod posix;
mod power;
mod protocols;
mod publishing;
mod scenarios;
mod space;
mod vault;
mod webhooks;
