//! The program as its users run it: the real binary, real directories, git, signals and sockets.
#![expect(clippy::disallowed_methods, reason = "tests put files in roots as a user does")]

mod call;
mod harness;
mod init;
mod mcp;
mod mounting;
mod program;
mod refusals;
mod serve;
