//! A real kernel mount over a real space: what programs see, and what stays when they are done.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the tests use the mount as programs do"
)]

mod attributes;
mod authors;
mod coherence;
mod drafts;
mod fidelity;
mod lifecycle;
mod mounted;
mod passthrough;
mod programs;
mod rare_operations;
mod syscalls;
mod views;
