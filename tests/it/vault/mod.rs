//! What people bring from other programs: pages whose bytes must survive, and Dataview queries.

mod dataview;
mod pages;
mod unchanged_bytes;
