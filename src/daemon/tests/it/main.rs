//! The program as its users run it: the real binary, real directories, git, signals and sockets.
#![expect(clippy::disallowed_methods, reason = "tests put files in roots as a user does")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "the harness, too, fails by panicking")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

mod adoption;
mod agents;
mod backup;
mod bench;
mod call;
mod closed;
mod covering;
mod crowd;
mod documents;
mod drafts;
mod fstab;
mod full_disk;
mod harness;
mod health;
mod idempotency;
mod init;
mod locked;
mod logs;
mod mcp;
mod mcp_install;
mod mounting;
mod oidc;
mod package;
mod page_rules;
mod program;
mod protocol_writes;
mod protocols;
mod proxy;
mod refusals;
mod reindex;
mod remote;
mod remote_vectors;
mod rules;
mod s3;
mod saving;
mod serve;
mod service;
mod sessions;
mod soak;
mod units;
mod vectors;
mod verbs;
mod webdav;
